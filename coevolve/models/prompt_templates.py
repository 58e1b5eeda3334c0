"""Loads the prompts: jinja2 files of the folder ``coevolve/prompts``, versioned by what they say.

`load("explore")` is ``coevolve/prompts/explore.jinja``, or the file of that name in the user's
folder (`--prompt-files DIR`), which need not hold them all. A file may include others of the
folder; the version covers those too. A name in the user's folder that the package has not is
refused: it would change nothing. `load` renders examples, so that a file that cannot be read or
rendered, that uses a variable which no stage gives, includes itself or says nothing is refused
before anything is begun.

``{{ text | data }}`` fences what an environment said, so that the model can tell it from
instructions.
"""

from __future__ import annotations

import hashlib
import json
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from coevolve.errors import MissingDependency, UsageError, installation
from coevolve.records import content_id

if TYPE_CHECKING:
    from jinja2 import Environment

SUFFIX = ".jinja"
FOLDER = files("coevolve") / "prompts"
EXAMPLES: dict[str, dict[str, Any]] = json.loads((FOLDER / "examples.json").read_text("utf-8"))
"""Variables that the stages give to each prompt, by example."""
_NEVER_EMPTY = ("explorations",)


class PromptTemplate(NamedTuple):
    """A prompt to be filled in."""

    name: str
    version: str  # 16 hex digits: the hash of the file and of those it includes
    environment: Environment

    def render(self, **values: Any) -> str:
        """The text, stripped. Raises UsageError for a variable that the stage doesn't give."""
        try:
            return self.environment.get_template(self.name + SUFFIX).render(values).strip()
        except Exception as error:  # a template is a program of the user's, and may fail in any way
            raise UsageError(f"prompt {self.name}: {error or type(error).__name__}") from error


def load(name: str, directory: str | None = None) -> PromptTemplate:
    """Raises UsageError for a wrong folder or a prompt that does not work."""
    sources = _sources(directory)
    environment = _environment(sources)
    included = _included(name + SUFFIX, sources, environment)
    prompt = PromptTemplate(name, content_id(*sorted(included.items())), environment)
    for example in _examples(name):
        if not prompt.render(**example) and example == EXAMPLES[name]:
            raise UsageError(f"prompt {name}: it says nothing")
    return prompt


def _examples(name: str) -> list[dict[str, Any]]:
    """The example, and one as code in which nothing is there that may be missing."""
    full = EXAMPLES[name]
    bare = dict(full)
    for key, value in full.items():
        if isinstance(value, str | list | dict) and key not in _NEVER_EMPTY:
            bare[key] = type(value)()
    return [full, bare | ({"code": True, "mode": "curious"} if "code" in full else {})]


def fence(text: Any) -> str:
    """The text between marks that it cannot imitate; what is no text is shown as JSON."""
    if not isinstance(text, str):
        try:
            text = msgspec.json.encode(text).decode()
        except TypeError:
            text = str(text)  # an undefined variable: jinja's own error
    # The mark's name is a hash of the text, and no text can hold the hash of itself.
    mark = f"data-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    return f"<{mark}>\n{text}\n</{mark}>"


def _sources(directory: str | None) -> dict[str, str]:
    """File name → text; the user's win."""
    own = {f.name: f.read_text("utf-8") for f in FOLDER.iterdir() if f.name.endswith(SUFFIX)}
    if directory is None:
        return own
    if not Path(directory).is_dir():
        raise UsageError(f"--prompt-files {directory}: no such folder")
    theirs = {path.name: _text(path) for path in sorted(Path(directory).glob("*" + SUFFIX))}
    if unknown := ", ".join(sorted(theirs.keys() - own.keys())):
        there = ", ".join(sorted(own))
        raise UsageError(f"--prompt-files {directory}: unknown {unknown}; there are {there}")
    return own | theirs


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise UsageError(f"--prompt-files: {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"--prompt-files: {path}: it is no UTF-8 text") from error


def _included(
    name: str, sources: dict[str, str], environment: Environment, above: tuple[str, ...] = ()
) -> dict[str, str]:
    """The template and all it includes, with their texts."""
    from jinja2 import TemplateSyntaxError, meta

    what = f"prompt {(above or (name,))[0].removesuffix(SUFFIX)}"
    if name not in sources:
        raise UsageError(f"{what}: there is no {name}; there are {', '.join(sorted(sources))}")
    if name in above:
        raise UsageError(f"{what}: {name} includes itself")
    try:
        parts = list(meta.find_referenced_templates(environment.parse(sources[name])))
    except (TemplateSyntaxError, RecursionError) as error:
        raise UsageError(f"{what}: {name}: {error}") from error
    found = {name: sources[name]}
    for part in parts:
        if part is None:
            raise UsageError(f"{what}: {name}: what it includes has to be written out")
        found |= _included(part, sources, environment, (*above, name))
    return found


def _environment(sources: dict[str, str]) -> Environment:
    try:
        import jinja2
    except ImportError as error:
        raise MissingDependency("jinja2 (needed for prompts)", installation("models")) from error
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        loader=jinja2.DictLoader(sources),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["data"] = fence
    return environment
