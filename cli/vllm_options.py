"""`--backend vllm` of the commands that run a policy: the policy behind a vLLM server of this command's own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from coevolve.errors import UsageError
from coevolve.models.vllm_server import DEFAULTS
from coevolve_cli.model_options import ModelOptions

Backend = Annotated[str, typer.Option("--backend", metavar="local|vllm", help="What runs a Hugging Face policy: this process, or a vLLM server that is started and ended.")]  # fmt: skip
VllmArgs = Annotated[str | None, typer.Option("--vllm-args", metavar="ARGUMENTS", help=f"With --backend vllm: of vllm serve, added to {DEFAULTS}; what is given here counts.", show_default=False)]  # fmt: skip
CONFIGURATIONS = ("config.json", "params.json")
"""One of these is in a directory that vLLM can serve: Hugging Face's way, Mistral's."""


@contextlib.contextmanager
def serving(backend: str, policy: str | None, arguments: str | None, models: ModelOptions) -> Iterator[tuple[str | None, ModelOptions]]:  # fmt: skip
    """The policy's name and the options of models as the rest of the command is to see them.

    The served name holds a digest of the weights, so that the journal never answers for another policy.
    """
    if backend not in ("local", "vllm"):
        raise UsageError(f"--backend takes local or vllm, not {backend!r}")
    if backend == "local":
        if arguments is not None:
            raise UsageError("--vllm-args needs --backend vllm")
        yield policy, models
        return
    if policy is None or models.base_url is not None or models.offline:
        raise UsageError(
            "--backend vllm needs a --policy (a Hugging Face directory or id), and no other server"
        )
    from coevolve.agents.policies import PROGRAMS
    from coevolve.models.transformers_lm import identity
    from coevolve.models.vllm_server import serve

    if policy in PROGRAMS:
        raise UsageError(f"--backend vllm: the policy {policy} is a program, not a model")
    if _is_path(policy) and not any((Path(policy) / name).is_file() for name in CONFIGURATIONS):
        raise UsageError(
            f"--backend vllm: {policy} is no model directory (no {' or '.join(CONFIGURATIONS)} in it)"
        )
    name = identity(policy)
    with serve(policy, name, arguments or "") as url:
        yield name, models._replace(base_url=url)


def _is_path(policy: str) -> bool:
    """Whether it is no model's id, which is `name`, `owner/name` or an address (`s3://…`)."""
    many = policy.count("/") > 1 and "://" not in policy
    return policy.startswith(("/", ".", "~")) or many or Path(policy).exists()


__all__ = ["Backend", "VllmArgs", "serving"]
