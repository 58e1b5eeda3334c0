"""Settings that describe themselves: name, type, default, bounds, choices and help of an option
stand at its field.

    class ExploreSettings(Settings, frozen=True, kw_only=True):
        PANEL: ClassVar[str] = "Exploration"
        episodes: Annotated[int, Option(ge=1)] = 48
        "Episodes in all."

The field `max_actions` is the option `--max-actions` of a command, the key `max-actions` of its
TOML table and the word before the = of `--set`. A field without an `Option` is no option. Every
Settings object checks its values when it is made and raises UsageError, whoever makes it: a
command, a file of presets, or Python.
"""

from __future__ import annotations

import ast
import difflib
import functools
import inspect
import itertools
import math
import sys
import tomllib
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, NamedTuple, get_args, get_origin

import msgspec

from coevolve.errors import UsageError


class Option(msgspec.Struct, frozen=True):
    """What a user is told of a setting, and what it may be."""

    help: str = ""
    """One or two sentences; empty: the docstring of the field."""
    panel: str = ""
    """Heading in the help; empty: the `PANEL` of the class."""
    choices: dict[str, str] = {}
    """The only values that are allowed (None beside them), and what each means."""
    metavar: str = ""
    default: str = ""
    """What happens without the option, where the help cannot say it by the default value."""
    short: str = ""
    """A second flag, as -o."""
    file: str = ""
    """`in`: a file that is read; `main`: the output; `out`: a file that is written beside it."""
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    advanced: bool = False


class Advanced(Option, frozen=True):
    """An option that only --help-all shows."""

    advanced: bool = True


class Field(NamedTuple):
    """One setting of a class."""

    owner: type  # The class that declares it
    name: str
    type: Any
    option: Option
    default: Any
    panel: str

    @property
    def help(self) -> str:
        return self.option.help or " ".join(_docstrings(self.owner)[self.name].split())

    @property
    def key(self) -> str:
        return self.name.replace("_", "-")

    @property
    def flag(self) -> str:
        return f"--{self.key}"

    @property
    def repeats(self) -> bool:
        """The flag may stand several times."""
        return list in map(get_origin, _members(self.type))

    @property
    def is_switch(self) -> bool:
        return self.type is bool

    @property
    def is_required(self) -> bool:
        return self.default is msgspec.NODEFAULT

    @property
    def kind(self) -> str:
        """The type in one word, for the help."""
        if self.option.choices:
            return "CHOICE"
        if self.option.file:
            return "FILE"
        kinds = {int: "N", float: "X"}
        return next((kinds[member] for member in _members(self.type) if member in kinds), "TEXT")

    def parse(self, value: Any, named: str = "") -> Any:
        """The value of a text, or of what TOML gives. Raises UsageError that begins with `named`
        (default: the flag)."""
        kinds = [get_origin(member) or member for member in _members(self.type)]
        try:
            if isinstance(value, int | float) and not isinstance(value, bool) and str in kinds:
                value = str(value)
            elif isinstance(value, str) and (number := {int, float} & {*kinds}):
                value = number.pop()(value)  # msgspec takes neither "01" nor ".5"
            elif isinstance(value, str) and dict in kinds:
                value = _table(value)
            elif isinstance(value, str) and {tuple, list} & {*kinds}:
                value = [value] if list in kinds else [part.strip() for part in value.split(",")]
            parsed = msgspec.convert(value, self.type, strict=False)
        except (msgspec.MsgspecError, ValueError):
            raise self._refusal(value, named) from None
        return self.check(parsed, named)

    def check(self, value: Any, named: str = "") -> Any:
        """The value itself. Raises UsageError for what is out of bounds or no choice."""
        if value is None and type(None) in _members(self.type):
            return value
        numbers = [value] if isinstance(value, int | float) else []
        o = self.option
        for one in value if isinstance(value, tuple) else [value]:
            if o.choices and one not in o.choices:
                raise self._refusal(one, named)
        if (
            not all(map(math.isfinite, numbers))
            or any(o.ge is not None and n < o.ge for n in numbers)
            or any(o.gt is not None and n <= o.gt for n in numbers)
            or any(o.le is not None and n > o.le for n in numbers)
        ):
            raise self._refusal(value, named)
        return value

    def _refusal(self, value: Any, named: str) -> UsageError:
        return UsageError(f"{named or self.flag} takes {self.takes()}, not {value!r}")

    def takes(self) -> str:
        """What the value has to be, in words."""
        o = self.option
        if o.choices:
            *most, last = o.choices
            some = "some of " if tuple in map(get_origin, _members(self.type)) else ""
            return some + (f"{', '.join(most)} or {last}" if most else last)
        names = {bool: "true or false", int: "a whole number", float: "a finite number"}
        kinds = [member for member in _members(self.type) if member in names]
        text = names[kinds[0]] if kinds else o.metavar or "a text"
        if o.ge is not None and o.le is not None:
            return f"{text} from {o.ge:g} to {o.le:g}"
        if o.ge is not None:
            return f"{text} of at least {o.ge:g}"
        return f"{text} above {o.gt:g}" if o.gt is not None else text


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Base of every class of settings: checks all values that have an `Option`."""

    PANEL: ClassVar[str] = "Options"

    def __post_init__(self) -> None:
        for field in fields(type(self)).values():
            field.check(getattr(self, field.name))


@functools.cache
def fields(cls: type[Settings]) -> dict[str, Field]:
    """The options of a class of settings, by the names of their fields, in their order."""
    found = {}
    for info in msgspec.structs.fields(cls):
        if get_origin(info.type) is not Annotated:
            continue
        type_, *notes = get_args(info.type)
        for option in notes:
            if isinstance(option, Option):
                default = info.default
                if info.default_factory is not msgspec.NODEFAULT:
                    default = info.default_factory()
                owner = next(c for c in cls.__mro__ if info.name in c.__dict__["__annotations__"])
                panel = option.panel or cls.PANEL
                found[info.name] = Field(owner, info.name, type_, option, default, panel)
    return found


@functools.cache
def _docstrings(cls: type) -> dict[str, str]:
    """The strings that stand below the fields of a class, from its source."""
    tree = ast.parse(inspect.getsource(sys.modules[cls.__module__]))
    body = next(n.body for n in tree.body if isinstance(n, ast.ClassDef) and n.name == cls.__name__)
    return {
        node.target.id: text.value.value
        for node, text in itertools.pairwise(body)
        if isinstance(node, ast.AnnAssign) and isinstance(text, ast.Expr)
    }


def read_toml(path: str) -> dict[str, Any]:
    """The tables of a file of settings. Raises UsageError for what cannot be read or is no TOML."""
    try:
        with open(path, "rb") as stream:
            return tomllib.load(stream)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from error


def nearest(word: str, words: Iterable[str]) -> str:
    """A suggestion to be put behind an error message; empty where nothing is near."""
    near = difflib.get_close_matches(word.replace("_", "-"), list(words), 1)
    return f". Did you mean {near[0]!r}?" if near else ""


def _members(type_: Any) -> tuple[Any, ...]:
    """The types of a union; the one type where it is none."""
    return get_args(type_) if type(None) in get_args(type_) else (type_,)


def _table(text: str) -> dict[str, Any]:
    """`{"a": 1}` as JSON, or `a=1,b=2`."""
    if not text or text.lstrip().startswith(("{", "[")):
        return msgspec.json.decode(text or "{}")
    pairs = (part.partition("=") for part in text.split(","))
    return {key.strip(): value.strip() for key, _, value in pairs}


# Options that several classes of settings share: one name, one meaning, one text.
Seed = Annotated[
    int, Advanced("Number that all random draws start from: same input, same seed, same bytes.")
]
Samples = Annotated[int, Option("How many rollouts (attempts) each task gets.", short="-k", ge=1)]
MaxActions = Annotated[
    int | None,
    Advanced(
        "Actions (tool calls) that an episode may take.", default="as the environment says", ge=1
    ),
]
EpisodeTokens = Annotated[
    int | None,
    Advanced(
        "Tokens that an episode may hold in all, prompt and replies together.",
        panel="Lengths",
        default="what the model was made for",
        ge=1,
    ),
]
ReplyTokens = Annotated[
    int | None,
    Advanced(
        "Tokens that one reply of the model may have.",
        panel="Lengths",
        default="as many as the episode has left",
        ge=1,
    ),
]
KeepTokens = Annotated[
    bool, Advanced("Keep token ids, their mask and log-probabilities in the rollouts.")
]
PromptStyle = Annotated[
    str,
    Advanced(
        "How a model is told its tools.",
        choices={
            "tools": "as its server or its chat template does it",
            "openai": "BFCL's way for models with tool calls of OpenAI's form",
            "prompting": "BFCL's way for other models: functions in the prompt, calls as text",
            "qwen-fc": "BFCL's way for Qwen models",
        },
    ),
]
Iteration = Annotated[
    int, Advanced("Iteration of the loop that this belongs to; noted in the records.", ge=0)
]
