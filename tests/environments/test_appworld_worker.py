"""The AppWorld worker: its texts are AppWorld's, its sessions know nothing of one another, its
limits are the parent's."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest
from environments.appworld_cells import CELLS
from environments.appworld_worker import BASE, DONE, LOGIN, act, call, graded, opened, own

from coevolve.environments import appworld_root, install
from coevolve.environments.client import Fault, Pool
from coevolve.errors import UsageError
from coevolve.records import Call, Start

pytestmark = pytest.mark.appworld

OUR_WORDS = {
    "print([set()])": "the frame of AppWorld's own print is not shown",
    "input('?')": "the frame of AppWorld's own input is not shown",
    "await f()": "a cell is a module: there is no await outside a function",
    "print(sorted(apis.keys())); print(len(apis.spotify))": "the administrative app is not there",
}
"""Cells whose text differs from AppWorld's, and why."""


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """What AppWorld itself answers to the cells, in a process of its own, on the same data."""
    root = tmp_path_factory.mktemp("root")
    (root / "data").symlink_to(appworld_root.chosen() / "data")
    script = Path(__file__).with_name("appworld_cells.py")
    done = subprocess.run(
        [install.python("appworld"), script, root, BASE],
        capture_output=True,
        env={**os.environ, **install.caches("appworld")},
        cwd=root,
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_texts_are_appworlds(appworld: Pool, theirs: list[list[str]]):
    """Each cell of a corpus shows what AppWorld's own shell shows, but for the listed ones."""
    session = opened(appworld)
    ours = [[cell, act(appworld, session, cell).observation] for cell in CELLS]
    differ = {cell for (cell, said), (_, text) in zip(ours, theirs, strict=True) if said != text}
    assert differ == set(OUR_WORDS)
    appworld.close([session])


def test_the_data_describe_themselves(appworld: Pool):
    """All documented APIs are tools, without tokens; the test split is held out; actions are code
    and calls."""
    description = appworld.description
    assert len(description.tools) == 457 and description.actions == "code" and description.query
    assert not [
        tool.name for tool in description.tools if "access_token" in tool.parameters["properties"]
    ]
    assert "demo_test" in description.held_out and "demo_train" not in description.held_out
    assert description.version.startswith(install.RECIPES["appworld"].version + "+")
    assert "canary" not in json.dumps([tool.document for tool in description.tools])


def test_own_tasks_and_their_verdicts(appworld: Pool):
    """The reference solution of every task of the data succeeds officially, and doing nothing or
    only completing fails."""
    tasks = [task for split in appworld.description.splits for task in appworld.tasks(split)]
    scenarios = {tag for task in tasks for tag in task.tags if tag.startswith("scenario:")}
    assert len(tasks) >= 12 and len(scenarios) >= 4
    for task in tasks[::3]:
        done, idle, hollow = (opened(appworld, task.start.name) for _ in range(3))
        result = act(appworld, done, *task.solution[0])
        assert result.done and graded(appworld, done, task).score == 1.0, task.start.name
        assert graded(appworld, idle, task).score == 0.0
        act(appworld, hollow, DONE)
        verdict = graded(appworld, hollow, task)
        assert (verdict.success, verdict.progress < 1.0) == (False, True)
        appworld.close([done, idle, hollow])


def test_the_world_tells_the_task_of_the_record(appworld: Pool):
    """A synthetic task's query stands in the world instead of the seed task's; without one nothing
    of the seed is told."""
    told = opened(appworld, query=["Buy\nmilk.", "And bread."], config=True)
    assert (
        json.loads(call(appworld, told, "supervisor.show_active_task").observation)["instruction"]
        == "Buy\nmilk.\n\nAnd bread."
    )
    untold, named = opened(appworld, config=True), opened(appworld)
    seed = json.loads(call(appworld, named, "supervisor.show_active_task").observation)[
        "instruction"
    ]
    assert seed == own(appworld, BASE).query[0]
    assert seed not in call(appworld, untold, "supervisor.show_active_task").observation
    assert told.opened.state == untold.opened.state == named.opened.state
    assert named.opened.observation.startswith("Your supervisor is ")
    appworld.close([told, untold, named])


def test_calls_log_in_by_themselves(appworld: Pool):
    """A call action needs no token; its observation is the response as JSON; effects and state
    follow what it changed."""
    session = opened(appworld)
    before = session.opened.state
    read = call(appworld, session, "venmo.show_venmo_balance")
    assert (
        json.loads(read.observation)["venmo_balance"] > 0
        and not read.effects
        and read.state == before
    )
    made = call(appworld, session, "spotify.create_playlist", title="Porch")
    (effect,) = made.effects
    assert (effect.entity, effect.op, effect.value["title"]) == ("spotify.Playlist", "add", "Porch")
    assert made.state != before and not made.done
    call(appworld, session, "spotify.logout")
    assert not call(appworld, session, "spotify.show_playlist_library").error
    appworld.close([session])


@pytest.mark.parametrize(
    ("tool", "arguments", "kind"),
    [
        ("spotify.nope", {}, "unknown_tool"),
        ("admin.show_users", {}, "unknown_tool"),
        ("spotify.show_song", {"song_id": "x"}, "bad_argument"),
        ("spotify.show_song", {"song_id": 10**6}, "conflict"),
        ("spotify.show_playlist_library", {"access_token": "forged"}, "denied"),
    ],
)
def test_errors_of_calls_have_kinds(appworld: Pool, tool: str, arguments: dict, kind: str):
    """A call that fails is a readable result with the kind of its error."""
    session = opened(appworld)
    result = call(appworld, session, tool, **arguments)
    assert result.error == kind and result.observation and not result.fatal
    appworld.close([session])


def test_the_same_actions_give_the_same_results(appworld: Pool):
    """Two sessions that do the same see the same, tokens included, whatever else was asked in
    between."""
    cell = (
        LOGIN + "print(login('venmo'))\ntoken = login('splitwise')\n"
        "print(apis.splitwise.create_group(name='Trip', access_token=token))"
    )
    first, second = opened(appworld), opened(appworld)
    results = []
    for session, extra in (
        (first, []),
        (second, [Call("amazon.show_cart", {}), Call("phone.show_contacts", {})]),
    ):
        results.append(act(appworld, session, *extra, cell))
    assert results[0].observation == results[1].observation and results[0].state == results[1].state
    assert results[0].effects == results[1].effects
    appworld.close([first, second])


@pytest.fixture(scope="module")
def two():
    """A pool of two workers."""
    with Pool("appworld", workers=2) as pool:
        yield pool


def test_sixteen_episodes_at_once(two: Pool):
    """Sixteen sessions on two workers, stepped together, each find their own instruction and their
    own changes only."""
    queries = [[f"Make the playlist number {n}."] for n in range(16)]
    sessions = two.open([Start(config={"base": BASE})] * 16, queries)
    assert not [s for s in sessions if isinstance(s, Fault)]
    title = "title = apis.supervisor.show_active_task()['instruction']"
    make = (
        f"{LOGIN}{title}\ntoken = login('spotify')\n"
        "apis.spotify.create_playlist(title=title, access_token=token)"
    )
    look = (
        "rows = apis.spotify.show_playlist_library(access_token=token, page_limit=20)\n"
        "print([row['title'] for row in rows], title)"
    )
    for cell in (make, look):
        answers = two.step([(session, 0, [cell]) for session in sessions])
    for (query,), (result,) in zip(queries, answers, strict=True):
        assert result.observation.count("number") == 2 and result.observation.count(query) == 2
    two.close(sessions)


@pytest.fixture(scope="module")
def impatient():
    """A pool whose calls have three seconds, cells less, and that shows what a cell printed before
    its error."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COEVOLVE_APPWORLD_KEEP_OUTPUT", "1")
        pool = Pool("appworld", call_timeout=3, memory_mb=256)
    with pool:
        yield pool


CHANNEL = """
modules = re.enum.sys.modules
channel = next(o for o in modules["gc"].get_objects() if type(o).__name__ == "Channel")
"""
"""The policy's own line to the worker, which its code can take and say anything on."""
FILE = """
token = login("file_system")
apis.file_system.create_file(file_path="~/long.txt", content="x" * (2 << 20), access_token=token)
"""
SWALLOWS = """import time
while True:
    try:
        while True:
            x = 1
    except BaseException:
        pass"""


@pytest.mark.parametrize(
    ("cell", "fatal"),
    [
        (SWALLOWS, "timeout"),
        ("__import__('signal').signal(14, 1)\nx = 7 ** (7 ** 10)", "timeout"),
        ("__import__('posix')._exit(0)", "died"),
        ("__import__('ctypes').string_at(0)", "died"),
    ],
)
def test_a_cell_that_breaks_its_limits_ends_its_episode(impatient: Pool, cell: str, fatal: str):
    """Such a cell is the policy's failure, told as such and graded 0; the worker serves the other
    sessions on."""
    victim, bystander = opened(impatient), opened(impatient)
    act(impatient, bystander, "x = 41")
    result = act(impatient, victim, cell)
    assert result.fatal == fatal and result.error == fatal
    assert graded(impatient, victim, own(impatient, BASE)).score == 0.0
    assert act(impatient, bystander, "print(x + 1)").observation == "42\n"
    impatient.close([victim, bystander])


@pytest.mark.parametrize(
    ("cell", "error", "text"),
    [
        ("x = 'a' * (8 * 10**9)", "memory", "MemoryError"),
        ("x = []\nwhile True:\n    x.append(bytes(100 << 20))", "memory", "MemoryError"),
        ("while True: pass", "timeout", "Exception: Execution timed out after 1 seconds."),
        (
            "while True: print('x' * 1000)",
            "timeout",
            "Exception: Execution timed out after 1 seconds.",
        ),
    ],
)
def test_a_cell_within_reach_of_its_limits_is_told(
    impatient: Pool, cell: str, error: str, text: str
):
    """What the interpreter can survive is an error observation, and the episode goes on."""
    session = opened(impatient)
    result = act(impatient, session, cell)
    assert (result.error, result.fatal, result.observation.splitlines()[-1]) == (error, None, text)
    assert act(impatient, session, "print(6 * 7)").observation == "42\n"
    impatient.close([session])


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("'E' * (20 << 20)", "exception"),
        ("['E']", "exception"),
        ("{}", "exception"),
        ("'died'", "exception"),
    ]
    + [("'api_error'", "api_error"), ("None", None)],
)
def test_an_error_that_the_policys_process_says_has_a_known_kind(
    appworld: Pool, error: str, kind: str | None
):
    """Nothing of any other type, length or name reaches a record."""
    session = opened(appworld)
    result = act(
        appworld, session, f"{CHANNEL}channel.send({{'text': 'x', 'error': {error}}}, 1e6)"
    )
    assert (result.error, result.observation, result.fatal) == (kind, "x", None)
    appworld.close([session])


def test_no_canary_leaves_the_policys_process(appworld: Pool):
    """Whatever it prints, raises or says on its line, AppWorld's mark is taken out."""
    mark = '"appworld:" + "0123abc:" + "01234567-89ab-cdef-0123-" + "456789abcdef"'
    session = opened(appworld)
    said = [
        f"print({mark})",
        f"raise ValueError({mark})",
        f"{CHANNEL}channel.send({{'text': {mark}, 'error': {mark}}}, 1e6)",
    ]
    for cell in said:
        result = act(appworld, session, cell)
        assert "456789abcdef" not in f"{result.observation.replace(mark, '')}{result.error}"
    appworld.close([session])


@pytest.mark.parametrize(
    "body",
    [
        "class E(Exception):\n  def __str__(self): raise RuntimeError('no')",
        "class E(Exception):\n  def __repr__(self): raise SystemExit\n  __str__ = __repr__",
        "class E(Exception):\n  def __getattribute__(self, name): raise RuntimeError(name)",
        "class M(type):\n  def __getattribute__(c, name): raise RuntimeError(name)\n"
        "class E(Exception, metaclass=M): pass",
        "class S(str):\n  def startswith(self, *_): raise RuntimeError\n"
        "class E(Exception):\n  def __str__(self): return S('x')",
    ],
)
def test_an_error_whose_class_is_broken_is_an_ordinary_error(appworld: Pool, body: str):
    """Its traceback names it and its line; the episode goes on."""
    session = opened(appworld)
    result = act(appworld, session, f"{body}\nraise E()")
    assert (result.error, result.fatal) == ("exception", None)
    assert f"line {body.count(chr(10)) + 2}, in <module>" in result.observation
    assert result.observation.splitlines()[-1].partition(":")[0].endswith("E")
    assert act(appworld, session, "print(6 * 7)").observation == "42\n"
    appworld.close([session])


@pytest.mark.parametrize(
    "cell",
    [
        f"print({'+'.join(['1'] * 600)})",
        f"x = 1{'.real' * 3000}",
        "if 0: pass\n" + "elif 0: pass\n" * 600,
    ],
)
def test_a_cell_too_deep_for_the_parser_is_told(appworld: Pool, cell: str):
    """It does not run, which is no refusal of what it does, and the episode goes on."""
    session = opened(appworld)
    result = act(appworld, session, cell)
    assert (result.error, result.fatal) == ("syntax_error", None)
    assert act(appworld, session, "print(6 * 7)").observation == "42\n"
    appworld.close([session])


@pytest.mark.parametrize("name", ["self", "_app_name", "_api_name"])
def test_names_of_the_requesters_own_parameters_are_unexpected(appworld: Pool, name: str):
    """An ordinary error that names the parameter and nothing of the machinery, in cells and in
    calls."""
    session = opened(appworld)
    cell = act(appworld, session, f"apis.spotify.show_genres({name}=1)")
    told = call(appworld, session, "spotify.show_genres", **{name: 1})
    text = f"Unexpected parameter '{name}' passed to apis.spotify.show_genres."
    assert (cell.error, told.error) == ("exception", "bad_argument")
    assert cell.observation.endswith(text) and told.observation == f"Exception: {text}"
    appworld.close([session])


def test_a_long_text_stands_in_an_effect_by_its_hash(appworld: Pool):
    """Two megabytes in a file are one short effect, the same for the same text only."""
    effects = []
    for content in ("'x' * (2 << 20)", "'x' * (2 << 20)", "'x' * ((2 << 20) - 1) + 'y'"):
        session = opened(appworld)
        cell = FILE.replace('"x" * (2 << 20)', content)
        effects.append(act(appworld, session, LOGIN + cell).effects)
        appworld.close([session])
    assert effects[0] == effects[1] != effects[2]
    assert 0 < len(json.dumps([effect.value for effect in effects[0]])) < 10_000


def test_arguments_too_long_for_any_app_are_refused(appworld: Pool):
    """In cells and in calls, the message says how long they may be, and nothing of them is kept."""
    session = opened(appworld)
    cell = act(appworld, session, "apis.supervisor.complete_task(answer='İ' * 5300000)")
    told = call(appworld, session, "supervisor.complete_task", answer="x" * (5 << 20))
    assert (cell.error, told.error) == ("exception", "bad_argument")
    for result in (cell, told):
        assert "arguments of apis.supervisor.complete_task are too long" in result.observation
        assert not result.done and not result.effects and result.state == session.opened.state
    appworld.close([session])


RAN = """
import functools
for app in ["spotify", "phone"]:
    if app == "spotify":
        apis[app].show_genres()
search = functools.partial(apis.spotify.search_artists, query="x")
search(), search()
if False:
    apis.amazon.show_cart()
def never():
    apis.todoist.show_projects()
try:
    apis.spotify.show_song(song_id=10**6)
except Exception:
    pass
try:
    apis.spotify.no_such_api()
except Exception:
    pass
"""


def test_the_tools_of_a_cell_are_those_that_ran(appworld: Pool):
    """A call through a name or a partial counts each time, one that failed too; code that never ran
    calls nothing."""
    session = opened(appworld)
    assert act(appworld, session, RAN).tools == [
        "spotify.show_genres",
        "spotify.search_artists",
        "spotify.search_artists",
        "spotify.show_song",
    ]
    assert (
        act(appworld, session, "never = 1").tools
        == act(appworld, session, "apis.spotify.show_genres(").tools
        == []
    )
    assert call(appworld, session, "spotify.show_genres").tools is None
    appworld.close([session])


@pytest.mark.parametrize(
    "value", ["1", "0", "-5", "499", "1e9", "abc", "", "1000001", "9" * 5000, "²"]
)
def test_an_observation_length_that_makes_no_sense_is_refused(
    monkeypatch: pytest.MonkeyPatch, value: str
):
    """By the variable's name, before anything starts."""
    monkeypatch.setenv("COEVOLVE_APPWORLD_OBSERVATION", value)
    with pytest.raises(UsageError, match="COEVOLVE_APPWORLD_OBSERVATION is .* 500 to 1000000"):
        Pool("appworld")


FLOOD = """
held = [cell.cell_contents for cell in apis.spotify.login.__closure__]
request = next(one for one in held if hasattr(one, "_episode"))
arguments = {"song_id": ["ab"] * 3700000}
request._episode.send({"id": 1, "app": "spotify", "api": "show_song", "arguments": arguments}, 1e6)
request._episode.receive(1e6)
"""
"""A request of 22 MB that takes ten times as much of the process that is asked."""


@pytest.fixture(scope="module")
def small():
    """A pool with little memory and the shortest observations."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COEVOLVE_APPWORLD_OBSERVATION", "500")
        with Pool("appworld", memory_mb=256) as pool:
            yield pool


def test_the_shortest_observation_is_kept_to(small: Pool):
    """Its text is no longer than what was asked for, but for the note of what is left out."""
    session = opened(small)
    shown = act(small, session, "print('x' * 300000)").observation
    assert 500 <= len(shown) <= 600 and "\n[… 299501 characters …]\n" in shown
    small.close([session])


def test_a_request_too_large_to_be_read_ends_its_episode(small: Pool):
    """The process that holds the databases runs out of memory, as the policy's failure; the worker
    serves the others on."""
    victim, bystander = opened(small), opened(small)
    assert act(small, victim, FLOOD).fatal == "memory"
    assert graded(small, victim, own(small, BASE)).score == 0.0
    assert act(small, bystander, "print(6 * 7)").observation == "42\n"
    small.close([victim, bystander])


@pytest.mark.slow
def test_a_cell_has_a_thousand_requests():
    """The request beyond them is an error with AppWorld's text; the next cell has as many again."""
    with Pool("appworld", call_timeout=600) as pool:
        session = opened(pool)
        result = act(pool, session, "for n in range(1001): apis.supervisor.show_addresses()")
        assert result.error == "exception"
        assert result.observation.splitlines()[-1].startswith(
            "Exception: Number of requests exceeded the limit of 1000. "
        )
        assert (
            act(pool, session, "print(len(apis.supervisor.show_addresses()) >= 0)").observation
            == "True\n"
        )


def test_long_output_is_trimmed_in_the_middle(appworld: Pool):
    """An observation has a greatest length; its beginning and end stay, with a note of what is left
    out."""
    session = opened(appworld)
    result = act(
        appworld, session, "print('first')\nfor i in range(20000): print(i)\nprint('last')"
    )
    assert len(result.observation) < 20100
    assert result.observation.startswith("first\n0\n") and result.observation.endswith(
        "19999\nlast\n"
    )
    assert "characters …]" in result.observation
    long = act(appworld, session, "raise ValueError('y' * 10**6)").observation
    assert len(long) < 20100 and long.endswith("yyy")
    appworld.close([session])


def test_output_before_an_error_can_be_kept(impatient: Pool, appworld: Pool):
    """AppWorld drops what a cell printed before its error; the option shows it."""
    kept, dropped = (
        act(pool, opened(pool), "print('seen')\n1/0").observation for pool in (impatient, appworld)
    )
    assert kept == f"seen\n{dropped}" and dropped.startswith("Execution failed. Traceback:\n")


def _tree(pool: Pool) -> list[int]:
    """Process ids of a pool's workers and all that descend from them."""
    found = [slot._worker._process.pid for slot in pool._slots]
    for pid in found:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found += [int(child) for child in (thread / "children").read_text().split()]
    return found


def _memory(pids: list[int]) -> float:
    """Proportional set size of processes, in MB."""
    lines = [
        line for pid in pids for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    ]
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def _episodes(pool: Pool, count: int) -> None:
    task = own(pool, BASE)
    for _ in range(count):
        session = opened(pool)
        act(pool, session, *task.solution[0])
        assert graded(pool, session, task).success
        pool.close([session])


@pytest.mark.parametrize("rounds", [10, pytest.param(300, marks=pytest.mark.slow)])
def test_memory_does_not_grow(two: Pool, rounds: int):
    """After many episodes the workers' processes hold no more memory than after a tenth of them,
    but for a few MB of noise."""
    first = max(4, rounds // 10)
    _episodes(two, first)
    early, tree = _memory(_tree(two)), len(_tree(two))
    _episodes(two, rounds - first)
    assert len(_tree(two)) == tree
    assert _memory(_tree(two)) <= early + 8


def test_nothing_outlives_the_pool(two: Pool):
    """Closing the pool ends the warm processes and every episode's."""
    session = opened(two)
    act(two, session, "x = 1")
    pids = _tree(two)
    assert len(pids) >= 8
    two.__exit__(None, None, None)
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
