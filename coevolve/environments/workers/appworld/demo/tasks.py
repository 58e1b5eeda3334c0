"""The tasks of the demo world (`tasks.toml`), filled with the values of the people's records."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from textwrap import indent
from types import SimpleNamespace
from typing import Any, NamedTuple

from ...data_files import read_data
from .content import CONTENT, DemoPerson

PEOPLE = {person.first: person for person in CONTENT.people}
_FUNCTION = (
    "def evaluate(test, public_data, private_data, main_user, models, ground_truth_answer):\n"
)
_TASK = "models.end.supervisor.Task.all()[0].to_dict(humanize=True)"


class Check(NamedTuple):
    """One test of an evaluation."""

    requirement: str
    body: str
    label: str = "no_op_fail"  # no_op_pass where doing nothing passes it


class Scenario(NamedTuple):
    """The fields of a scenario in `tasks.toml`, which says what they mean."""

    split: str
    difficulty: int
    apps: list[str]
    logins: list[str]
    instruction: str
    solution: str
    checks: list[Check]
    tasks: list[dict[str, Any]]
    changed: list[str] = []  # Models that the task changes
    public: dict[str, str] = {}
    private: dict[str, str] = {}
    answer: str = ""


class TaskFile(NamedTuple):
    library: str
    scenarios: dict[str, Scenario]


class DemoTask(NamedTuple):
    id: str
    scenario: Scenario
    supervisor: DemoPerson
    instruction: str
    solution: str  # Code that completes the task in one block
    checks: list[Check]
    public: dict[str, Any]
    private: dict[str, Any]
    answer: Any
    files: dict[str, str]
    """Path → content of the supervisor's files that are there in this task's state alone."""

    @property
    def evaluation(self) -> str:
        tests = [
            f"with test({check.requirement!r}):\n{indent(check.body, '    ')}"
            for check in self.checks
        ]
        return _FUNCTION + indent("\n".join(tests), "    ") + "\n"


def tasks(libraries: list[list[dict[str, Any]]]) -> Iterator[DemoTask]:
    """Yields all tasks; `libraries` are the songs {title, genre, rating} of each person."""
    file: TaskFile = read_data(Path(__file__).with_name("tasks.toml"), TaskFile)
    songs = dict(zip(PEOPLE, libraries, strict=True))
    for name, scenario in file.scenarios.items():
        code = {"login": _login(scenario.logins), "library": file.library.strip()}
        for number, task in enumerate(scenario.tasks, 1):
            values = SimpleNamespace(**task | code | _derived(task, songs[task["supervisor"]]))
            yield _task(f"{name}_{number}", scenario, values)


def _task(id_: str, scenario: Scenario, values: SimpleNamespace) -> DemoTask:
    def data(names: dict[str, str]) -> dict[str, Any]:
        return {name: attrgetter(value)(values) for name, value in names.items()}

    filled = [text.format(**vars(values)) for text in (scenario.instruction, scenario.solution)]
    return DemoTask(
        id_,
        scenario,
        PEOPLE[values.supervisor],
        filled[0].strip(),
        filled[1],
        list(_checks(scenario)),
        data(scenario.public),
        data(scenario.private),
        getattr(values, scenario.answer) if scenario.answer else None,
        {values.path: values.content} if hasattr(values, "path") else {},
    )


def _derived(task: dict[str, Any], library: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the values of a task that follow from the people's records."""
    titles = [song["title"] for song in library if song["genre"] == task.get("genre")]
    notes = {title: content for title, content, _ in CONTENT.notes}
    lines = notes.get(task.get("title"), "").splitlines()
    return {
        "friend": PEOPLE.get(task.get("friend")),
        "songs": titles,
        "count": len(titles),
        "best": max(library, key=lambda song: song["rating"])["title"],
        "items": [line.removeprefix("- ") for line in lines],
    }


def _login(apps: list[str]) -> str:
    rows = "apis.supervisor.show_account_passwords()"
    lines = [
        f'passwords = {{row["account_name"]: row["password"] for row in {rows}}}',
        "profile = apis.supervisor.show_profile()",
    ]
    for app in apps:
        name = 'profile["phone_number"]' if app == "phone" else 'profile["email"]'
        login = f'apis.{app}.login(username={name}, password=passwords["{app}"])'
        lines.append(f'{app} = {login}["access_token"]')
    return "\n".join(lines)


def _checks(scenario: Scenario) -> Iterator[Check]:
    """Yields that nothing but the named models changed, the scenario's own checks, and that no
    answer was given where none is asked for."""
    names = scenario.changed
    wanted = "{" + ", ".join(repr(name) for name in names) + "}" if names else "set()"
    only = f'test.case(models.changed_model_names(), "==", {wanted})\n'
    done = f'test.case({_TASK}["status"], "==", "success")\n' if names else ""
    requirement = f"assert that exactly these models changed: {', '.join(names) or 'none'}"
    # doing nothing fails it where something has to change
    yield Check(requirement, only + done, "no_op_fail" if names else "no_op_pass")
    yield from scenario.checks
    if not scenario.answer:
        no_answer = f'test.answer({_TASK}["answer"], ground_truth_answer)\n'
        requirement = "assert that no answer was given, as none was asked for"
        yield Check(requirement, no_answer, "no_op_pass")
