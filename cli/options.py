"""From a function with classes of settings as parameters to a command: flags, environment, TOML,
--set, help, dry run.

    def command(files: Files, settings: ExploreSettings, io: Streams, call: Invocation) -> None:

Every field of a class of settings that has an `Option` (coevolve.options) is an option of the
command. Its value is the flag's or that of --set KEY=VALUE, else that of
COEVOLVE_<COMMAND>_<OPTION>, else that of the command's table in the file of --config, else the
field's default. A class with a method `resolved` is asked for what it comes to.

The first page of the help shows what is not `advanced`, in panels; --help-all shows everything.
"""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Annotated, Any, ClassVar, NamedTuple, get_type_hints

import typer
from typer.core import TyperCommand

from coevolve.errors import CoevolveError, PipeClosed, UsageError
from coevolve.options import Field, Option, Settings, fields, nearest
from coevolve_cli import config_file
from coevolve_cli.base_command import BaseCommand
from coevolve_cli.paths import check_paths

Files = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FILE]...",
        help="Records as JSON lines (.gz and .zst too); none or - is standard input.",
        show_default=False,
    ),
]
COLUMN = 28  # Width of the help's left column, in characters


class Source(Settings, frozen=True, kw_only=True):
    """Where settings come from, beside their flags: options of every stage."""

    PANEL: ClassVar[str] = "Settings"

    config: Annotated[str | None, Option(file="in")] = None
    """Read settings from the table of this command in a TOML file; a flag counts more."""
    set: Annotated[list[str], Option(metavar="KEY=VALUE")] = []
    """Set any option by its name, shown here or by --help-all; may be repeated."""
    dry_run: Annotated[bool, Option()] = False
    """Print all settings and the estimated work on stderr, and do nothing."""
    help_all: Annotated[bool, Option()] = False
    """Show all options."""


class Invocation(NamedTuple):
    """How the command was called: for one that wants to know more than its settings."""

    command: str
    settings: tuple[Settings, ...]
    given: dict[str, Any]  # Values that somebody chose, by the names of their fields
    rest: list[str]  # Words after --

    @property
    def dry_run(self) -> bool:
        return self.given.get("dry_run", False)

    def plan(self, **work: object) -> None:
        """Prints the settings and the estimated work as JSON on stderr."""
        import orjson

        from coevolve.models.redaction import public_address

        values = {
            name: getattr(group, name) for group in self.settings for name in fields(type(group))
        }
        if values.get("base_url"):
            values["base_url"] = ",".join(map(public_address, values["base_url"].split(",")))
        for name in fields(Source):
            values.pop(name, None)
        plan = {"command": self.command, "settings": values, "work": work}
        print(orjson.dumps(plan, option=orjson.OPT_INDENT_2).decode(), file=sys.stderr)


class SettingsCommand(BaseCommand, TyperCommand):
    """A command whose options are classes of settings (`groups`)."""

    groups: tuple[type[Settings], ...] = ()
    read: Callable[[typer.Context, dict[str, Any]], tuple[dict, dict, Invocation]]
    keeps_rest = False  # Whether words after -- are no files but the command's to understand

    def options(self) -> dict[str, Field]:
        return {name: field for group in self.groups for name, field in fields(group).items()}

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:
        here = args.index("--") if self.keeps_rest and "--" in args else len(args)
        ctx.meta["rest"] = args[here + 1 :]
        if "--help-all" in args[:here]:
            ctx.meta["all"] = True
            print(ctx.get_help())
            raise typer.Exit
        return super().parse_args(ctx, args[:here])

    def format_options(self, ctx: typer.Context, formatter) -> None:  # noqa: ANN001
        """Panels in the order in which the groups bring them, then how the rest is set."""
        everything = ctx.meta.get("all", False)
        panels: dict[str, list[tuple[int, str, list[str]]]] = {}
        for parameter in self.params:
            if parameter.param_type_name == "argument" and parameter.help:
                row = 0, parameter.metavar, [parameter.help]
                panels.setdefault("Arguments", []).append(row)
        hidden = 0
        for field in self.options().values():
            if field.option.advanced and not everything:
                hidden += 1
            elif not (everything and field.name == "help_all"):
                # A command's own options stand before those that it shares with others.
                row = -len(field.owner.__mro__), _flags(field), list(_help(field))
                panels.setdefault(field.panel, []).append(row)
        for panel, rows in panels.items():
            formatter.write(f"\n{panel}:\n")
            for _, left, paragraphs in sorted(rows, key=itemgetter(0)):
                formatter.write(_row(left, paragraphs, formatter.width))
        if "help_all" in self.options():
            name = ctx.command_path.partition(" ")[2]
            more = f"{hidden} more options: {ctx.command_path} --help-all. " if hidden else ""
            told = (
                f"{more}Each option may also be a key of the table [{name}] in the file of "
                f"--config, or the variable COEVOLVE_{_variable(name)}_<OPTION>."
            )
            formatter.write("\n" + textwrap.fill(told, formatter.width) + "\n")


def build(name: str, function: Callable[..., None], *, keeps_rest: bool = False):  # noqa: ANN201
    """The command `name`, as `env list` or `merge`."""
    hints = get_type_hints(function, include_extras=True)
    hints.pop("return", None)
    groups = {n: hint for n, hint in hints.items() if _is_settings(hint)}
    sources = () if name in PLAIN or name.startswith(("env ", "loop ")) else (Source,)
    own = {n: hint for n, hint in hints.items() if n not in groups and hint is not Invocation}
    all_groups = (*groups.values(), *sources)
    prefix = f"COEVOLVE_{_variable(name)}_"
    parameters = {"ctx": (typer.Context, inspect.Parameter.empty)} | {
        n: (hint, None if _optional(hint) else inspect.Parameter.empty) for n, hint in own.items()
    }
    for group in all_groups:
        for field in fields(group).values():
            parameters[field.name] = _parameter(field, prefix)

    def read(ctx: typer.Context, raw: dict[str, Any]) -> tuple[dict, dict, Invocation]:
        """The arguments and the settings that the words, the environment and the files say."""
        arguments = {n: _argument(ctx, n, raw.pop(n)) for n in own}
        given = _given(ctx, name, command.options(), raw)
        made = {n: _made(group, given) for n, group in groups.items()}
        call = Invocation(name, tuple(made.values()), given, ctx.meta.get("rest", []))
        check_paths(arguments, [*made.values(), *(_made(group, given) for group in sources)])
        return arguments, made, call

    def run(ctx: typer.Context, **raw: Any) -> None:
        arguments, made, call = read(ctx, raw)
        wants = [n for n, hint in hints.items() if hint is Invocation]
        if call.dry_run and not wants:
            call.plan()
            return
        try:
            function(**arguments, **made, **dict.fromkeys(wants, call))
        except EOFError as error:  # Typer would take it for Ctrl-D
            raise CoevolveError(f"a file ends too early: {error}") from error
        except BrokenPipeError as error:  # Typer would exit with 1
            raise PipeClosed("output closed") from error

    run.__doc__ = function.__doc__
    run.__annotations__ = {n: hint for n, (hint, _) in parameters.items()}
    run.__signature__ = inspect.Signature(
        [
            inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)
            for n, (hint, default) in parameters.items()
        ]
    )
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command(
        name.rpartition(" ")[2],
        cls=SettingsCommand,
        context_settings={"help_option_names": ["-h", "--help"]},
    )(run)
    command = typer.main.get_command(single)
    command.groups, command.keeps_rest, command.read = all_groups, keeps_rest, read
    return command


PLAIN = ("doctor", "report", "schema")  # Commands without settings of their own


def _is_settings(hint: object) -> bool:
    return isinstance(hint, type) and issubclass(hint, Settings)


def _optional(hint: Any) -> bool:
    return type(None) in getattr(getattr(hint, "__origin__", hint), "__args__", ())


def _variable(name: str) -> str:
    return name.upper().replace("-", "_").replace(" ", "_")


def _parameter(field: Field, prefix: str) -> tuple[Any, Any]:
    names = [field.flag, *([field.option.short] if field.option.short else [])]
    option = typer.Option(*names, envvar=prefix + field.name.upper(), show_default=False)
    if field.is_switch:
        return Annotated[bool, option], False
    return Annotated[list[str] | None if field.repeats else str | None, option], None


def _argument(ctx: typer.Context, name: str, value: Any) -> Any:
    parameter = next(p for p in ctx.command.params if p.name == name)
    if parameter.nargs != 1:
        return list(value or ()) or None
    if value is None and parameter.required:
        raise UsageError(f"{parameter.metavar} is missing. Try: {ctx.command_path} --help")
    return value


def _given(ctx: typer.Context, name: str, options: dict[str, Field], raw: dict) -> dict[str, Any]:
    """The values that somebody chose, from wherever. Raises UsageError."""
    source = {n: ctx.get_parameter_source(n).name for n in raw}
    flags = {n: options[n].parse(raw[n]) for n in raw if source[n] == "COMMANDLINE"}
    environment = {
        n: options[n].parse(raw[n], f"COEVOLVE_{_variable(name)}_{n.upper()}")
        for n in raw
        if source[n] == "ENVIRONMENT"
    }
    lower = {**environment, **flags}
    if "help_all" not in options:  # no `Source`: the command reads its own files
        return lower
    keys = {field.key: field for n, field in options.items() if n not in fields(Source)}
    table = config_file.read(lower["config"], name, keys) if lower.get("config") else {}
    return {**table, **environment, **_set(lower.get("set", []), keys, flags), **flags}


def _set(pairs: list[str], keys: dict[str, Field], flags: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"--set takes KEY=VALUE, not {pair!r}")
        if key not in keys:
            raise UsageError(f"--set: no option {key!r}{nearest(key, keys)}")
        if keys[key].name in flags:
            raise UsageError(f"--set {key} and --{key} say the same thing: give one of them")
        found[keys[key].name] = keys[key].parse(value, f"--set {key}")
    return found


def _made(group: type[Settings], given: dict[str, Any]) -> Settings:
    own = fields(group)
    for field in own.values():
        if field.is_required and field.name not in given:
            raise UsageError(f"{field.flag} is missing: {field.help}")
    made = group(**{name: value for name, value in given.items() if name in own})
    return made.resolved() if hasattr(made, "resolved") else made


def _flags(field: Field) -> str:
    o = field.option
    names = ", ".join(([o.short] if o.short else []) + [field.flag])
    if field.is_switch:
        return names
    return f"{names} {o.metavar or field.kind}"


def _help(field: Field) -> Iterator[str]:
    """The sentence with the default; a line for each choice."""
    o, default = field.option, field.default
    told = "" if field.is_required else o.default
    if not field.is_required and default not in (None, False, [], {}):
        told = ",".join(map(str, default)) if isinstance(default, tuple) else str(default)
    needed = " [required]" if field.is_required else ""
    first, *more = field.help.split("\n")
    yield first + (f" [default: {told}]" if told else needed)
    yield from more
    for choice, meaning in o.choices.items():
        yield f"  {choice}: {meaning}"


def _row(left: str, paragraphs: list[str], width: int) -> str:
    lines = []
    for paragraph in paragraphs:
        indent = " " * (len(paragraph) - len(paragraph.lstrip()))
        lines += textwrap.wrap(
            paragraph,
            width - COLUMN,
            subsequent_indent=indent and indent + "  ",
            break_on_hyphens=False,
            break_long_words=False,
        )
    first = f"  {left}"
    if len(first) > COLUMN - 2:
        return "\n".join([first, *(" " * COLUMN + line for line in lines)]) + "\n"
    head, *tail = lines
    return "\n".join([first.ljust(COLUMN) + head, *(" " * COLUMN + line for line in tail)]) + "\n"
