"""`--backend vllm` of the commands that run a policy: the policy behind a vLLM server of this
command's own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from coevolve.errors import UsageError

if TYPE_CHECKING:
    from coevolve_cli.model_options import PlayerOptions

CONFIGURATIONS = ("config.json", "params.json")
"""One of these is in a directory that vLLM can serve: Hugging Face's way, Mistral's."""


@contextlib.contextmanager
def serving(options: PlayerOptions) -> Iterator[PlayerOptions]:
    """The options as the rest of the command is to see them: with --backend vllm, name and address
    of a server that runs.

    The served name holds a digest of the weights, so that the journal never answers for another
    policy.
    """
    model = options.model
    if options.backend == "local":
        if options.vllm_args is not None:
            raise UsageError("--vllm-args needs --backend vllm")
        yield options
        return
    if model is None or options.base_url is not None or options.offline:
        raise UsageError(
            "--backend vllm needs a --model (a Hugging Face directory or id), and no other server"
        )
    from coevolve.agents.policies import PROGRAMS
    from coevolve.models.transformers_lm import identity
    from coevolve.models.vllm_server import serve

    if model in PROGRAMS:
        raise UsageError(f"--backend vllm: the policy {model} is a program, not a model")
    if _is_path(model) and not any((Path(model) / name).is_file() for name in CONFIGURATIONS):
        names = " or ".join(CONFIGURATIONS)
        raise UsageError(f"--backend vllm: {model} is no model directory (no {names} in it)")
    name = identity(model)
    with serve(model, name, options.vllm_args or "") as url:
        yield replace(options, model=name, base_url=url)


def _is_path(model: str) -> bool:
    """Whether it is no model's id, which is `name`, `owner/name` or an address (`s3://…`)."""
    many = model.count("/") > 1 and "://" not in model
    return model.startswith(("/", ".", "~")) or many or Path(model).exists()
