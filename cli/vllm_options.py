"""`--backend vllm` of the commands that run a policy: the policy behind a vLLM server of this command's own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Annotated

import typer

from coevolve.errors import UsageError
from coevolve.models.vllm_server import ARGUMENTS
from coevolve_cli.model_options import ModelOptions

Backend = Annotated[str, typer.Option("--backend", metavar="local|vllm", help="What runs a Hugging Face policy: this process, or a vLLM server that is started and ended.")]  # fmt: skip
VllmArgs = Annotated[str, typer.Option("--vllm-args", metavar="ARGUMENTS", help="With --backend vllm: of vllm serve.")]


@contextlib.contextmanager
def serving(backend: str, policy: str | None, arguments: str, models: ModelOptions) -> Iterator[tuple[str | None, ModelOptions]]:  # fmt: skip
    """The policy's name and the options of models as the rest of the command is to see them.

    The served name holds a digest of the weights, so that the journal never answers for another policy.
    """
    if backend not in ("local", "vllm"):
        raise UsageError(f"--backend takes local or vllm, not {backend!r}")
    if backend == "local":
        yield policy, models
        return
    if policy is None or models.base_url is not None or models.offline:
        raise UsageError("--backend vllm needs a --policy (a Hugging Face directory or id), and no other server")
    from coevolve.agents.policies import PROGRAMS
    from coevolve.models.transformers_lm import identity
    from coevolve.models.vllm_server import serve

    if policy in PROGRAMS:
        raise UsageError(f"--backend vllm: the policy {policy} is a program, not a model")
    name = identity(policy)
    with serve(policy, name, arguments) as url:
        yield name, models._replace(base_url=url)


__all__ = ["ARGUMENTS", "Backend", "VllmArgs", "serving"]
