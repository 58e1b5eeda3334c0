"""Prompts: readable jinja2 files of the package folder ``coevolve/prompts``, each versioned by the hash of what it says.

`load("explore")` is ``coevolve/prompts/explore.jinja``, or the file of that name in the user's folder (`--prompts DIR`), which
need not hold them all. A file may include others of the folder; the version covers those too. Undefined variables are
errors. A name in the user's folder that the package has not is refused: it would change nothing.

``{{ text | data }}`` fences what an environment said, so that the model can tell it from instructions: the fence's name is a
hash of the text, and no text can hold the hash of itself.
"""

from __future__ import annotations

import hashlib
import re
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from coevolve.errors import MissingDependency, UsageError
from coevolve.records import content_id

if TYPE_CHECKING:
    from jinja2 import Environment

SUFFIX = ".jinja"
_PARTS = re.compile(r"\{%-?\s*(?:include|extends|import|from)\s+[\"']([^\"']+)[\"']")


class Prompt(NamedTuple):
    name: str
    version: str
    """16 hex digits: the hash of the file and of those it includes."""
    environment: Environment

    def render(self, **values: Any) -> str:
        """The text, without white space at its ends. Raises UsageError for a variable that the stage doesn't give."""
        from jinja2 import TemplateError

        try:
            return self.environment.get_template(self.name + SUFFIX).render(values).strip()
        except TemplateError as error:
            raise UsageError(f"prompt {self.name}: {error}") from error


def load(name: str, directory: str | None = None) -> Prompt:
    """Raises UsageError for a wrong folder or a template that cannot be read, MissingDependency without jinja2."""
    sources = _sources(directory)
    environment = _environment(sources)
    return Prompt(name, content_id(*_closure(name + SUFFIX, sources)), environment)


def fence(text: Any) -> str:
    """The text between marks that it cannot imitate; what is no text is shown as JSON."""
    if not isinstance(text, str):
        try:
            text = msgspec.json.encode(text).decode()
        except TypeError:
            text = str(text)  # of an undefined variable: jinja's own error
    mark = f"data-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    return f"<{mark}>\n{text}\n</{mark}>"


def _sources(directory: str | None) -> dict[str, str]:
    """File name → text; the user's win."""
    own = {f.name: f.read_text() for f in (files("coevolve") / "prompts").iterdir() if f.name.endswith(SUFFIX)}
    if directory is None:
        return own
    if not Path(directory).is_dir():
        raise UsageError(f"--prompts {directory}: no such folder")
    theirs = {path.name: path.read_text() for path in sorted(Path(directory).glob("*" + SUFFIX))}
    if unknown := sorted(theirs.keys() - own.keys()):
        raise UsageError(f"--prompts {directory}: unknown {', '.join(unknown)}; there are {', '.join(sorted(own))}")
    return own | theirs


def _closure(name: str, sources: dict[str, str]) -> list[tuple[str, str]]:
    """The template and all it includes, with their texts."""
    found: dict[str, str] = {}
    waiting = [name]
    while waiting:
        part = waiting.pop()
        if part in found:
            continue
        if part not in sources:
            raise UsageError(f"prompt {name}: there is no {part}; there are {', '.join(sorted(sources))}")
        found[part] = sources[part]
        waiting += _PARTS.findall(sources[part])
    return sorted(found.items())


def _environment(sources: dict[str, str]) -> Environment:
    try:
        import jinja2
    except ImportError as error:
        raise MissingDependency("jinja2 (needed for prompts)", "pip install 'coevolve[models]'") from error
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        loader=jinja2.DictLoader(sources), undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["data"] = fence
    return environment
