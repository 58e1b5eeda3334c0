"""Verdicts on AppWorld: the official one by AppWorld's own tests, the state one by the reference's
canonical difference."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
from environments.appworld_worker import (
    BASE,
    DONE,
    LOGIN,
    act,
    call,
    graded,
    opened,
    own,
    synthetic,
    verdict,
)

from coevolve.environments import appworld_root, install
from coevolve.environments.client import Fault, Pool
from coevolve.records import Call, Start

pytestmark = pytest.mark.appworld

TITLE, SONGS = "Porch", (1, 2, 3)
PLAYLIST = f"""{LOGIN}
token = login("spotify")
made = apis.spotify.create_playlist(title="{TITLE}", access_token=token)["playlist_id"]
"""


def add(*songs: int) -> str:
    return "".join(
        f"apis.spotify.add_song_to_playlist(playlist_id=made, song_id={song}, access_token=token)\n"
        for song in songs
    )


REFERENCE = PLAYLIST + add(*SONGS) + DONE
RIGHT = {
    "the same": [REFERENCE],
    "cell by cell": [PLAYLIST, add(1), add(2), add(3), DONE],
    "another order": [PLAYLIST + add(3, 1, 2) + DONE],
    "extra reads": [
        Call("spotify.show_playlist_library", {}),
        PLAYLIST,
        "print(apis.spotify.show_song_library(access_token=token))\n"
        "print(apis.venmo.show_venmo_balance(access_token=login('venmo')))",
        add(2, 3, 1) + DONE,
    ],
    "a wrong row made and deleted first": [
        PLAYLIST.replace(TITLE, "Oops"),
        "apis.spotify.delete_playlist(playlist_id=made, access_token=token)",
        REFERENCE,
    ],
    "a song taken out and put back": [
        PLAYLIST + add(*SONGS),
        "apis.spotify.remove_song_from_playlist(playlist_id=made, song_id=2, access_token=token)\n"
        + add(2)
        + DONE,
    ],
    "completed twice": [REFERENCE, DONE],
    "with an error on the way": [
        "1/0",
        PLAYLIST,
        "apis.spotify.add_song_to_playlist(playlist_id=made)",
        add(*SONGS) + DONE,
    ],
}
WRONG = {
    "nothing": [],
    "only completed": [DONE],
    "an item missing": [PLAYLIST + add(1, 2) + DONE],
    "an item too many": [PLAYLIST + add(1, 2, 3, 4) + DONE],
    "another item": [PLAYLIST + add(1, 2, 4) + DONE],
    "another title": [REFERENCE.replace(TITLE, "Attic")],
    "collateral damage": [
        PLAYLIST + add(*SONGS) + "apis.spotify.like_song(song_id=5, access_token=token)\n" + DONE
    ],
    "collateral damage in another app": [
        Call("simple_note.create_note", {"title": "a", "content": "b"}),
        REFERENCE,
    ],
    "not completed": [PLAYLIST + add(*SONGS)],
    "given up": [PLAYLIST + add(*SONGS) + "apis.supervisor.complete_task(status='fail')"],
    "an answer where none is asked": [
        PLAYLIST + add(*SONGS) + "apis.supervisor.complete_task(answer='yes')"
    ],
    "twice": [REFERENCE, REFERENCE.replace(TITLE, f"{TITLE} 2")],
}


@pytest.mark.parametrize("name", RIGHT)
def test_the_state_verifier_accepts_every_way_to_the_same_end(appworld: Pool, name: str):
    """Order, reads, ids, errors and what was undone do not matter."""
    judged = verdict(appworld, synthetic(appworld, [REFERENCE]), RIGHT[name])
    assert (judged.success, judged.score, judged.progress, judged.reason) == (True, 1.0, 1.0, "")


@pytest.mark.parametrize("name", WRONG)
def test_the_state_verifier_rejects_another_end(appworld: Pool, name: str):
    """What is missing, wrong, too much or not completed is a failure, and the details tell no
    expected value."""
    judged = verdict(appworld, synthetic(appworld, [REFERENCE]), WRONG[name])
    assert (judged.success, judged.score) == (False, 0.0) and judged.progress < 1 and judged.reason
    assert TITLE not in json.dumps([judged.reason, judged.details])
    damage = ("an item too many", "collateral damage", "collateral damage in another app", "twice")
    assert judged.details["collateral"] == (name in damage)
    nothing_counts = name in damage or name in (
        "nothing",
        "only completed",
        "not completed",
        "given up",
        "another title",
    )
    assert nothing_counts == (judged.progress == 0)


def test_changes_agree_with_appworlds_own_comparison(tmp_path: Path):
    """After dozens of writes in all apps, the worker's difference counts the rows that AppWorld's
    own comparison counts."""
    program = Path(__file__).with_name("appworld_changes.py")
    command = [install.python("appworld"), "-P", program, appworld_root.chosen(), BASE]
    done = subprocess.run(
        command, capture_output=True, env={**os.environ, **install.caches("appworld")}, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    found = json.loads(done.stdout)
    assert found["errors"] == [] and found["ours"] == found["theirs"]
    assert len(found["ours"]) >= 25 and len({name.partition(".")[0] for name in found["ours"]}) >= 9
    assert all(found["steps"])


def test_calls_and_cells_reach_the_same_end(appworld: Pool):
    """A solution of calls accepts a program that does the same, and the other way round."""
    cells = [
        f"{LOGIN}token = login('simple_note')\n"
        f"apis.simple_note.create_note(title='t', content='c', access_token=token)\n{DONE}"
    ]
    calls = [
        Call("simple_note.create_note", {"title": "t", "content": "c"}),
        Call("supervisor.complete_task", {}),
    ]
    for reference, tried in ((cells, calls), (calls, cells)):
        assert verdict(appworld, synthetic(appworld, reference), tried).success


def test_every_order_of_independent_calls_is_accepted(appworld: Pool):
    """Tasks, notes, messages and payments made in any order have one canonical difference, although
    ids and balances shift."""
    calls = [
        Call(
            "venmo.create_transaction",
            {"receiver_email": _friend(appworld), "amount": 1.1, "description": "one"},
        ),
        Call(
            "venmo.create_transaction",
            {"receiver_email": _friend(appworld), "amount": 2.2, "description": "two"},
        ),
        Call("splitwise.create_group", {"name": "Trip"}),
        Call("simple_note.create_note", {"title": "t", "content": "c", "tags": ["b", "a"]}),
    ]
    end = Call("supervisor.complete_task", {})
    task = synthetic(appworld, [*calls, end])
    for order in itertools.islice(itertools.permutations(calls), 0, 24, 5):
        judged = verdict(appworld, task, [*order, end])
        assert judged.success, judged


def test_numbers_of_own_receipts_do_not_matter(appworld: Pool):
    """Two transfers in either order: receipts by email with their files name the transfers by
    numbers that change places, the amounts still count."""
    cards = "card = apis.venmo.show_payment_cards(access_token=token)[0]['payment_card_id']\n"
    parts = [
        f"apis.venmo.{api}(amount={amount}, payment_card_id=card, access_token=token)\n"
        for api, amount in (("withdraw_from_venmo_balance", 14), ("add_to_venmo_balance", 31))
    ]
    head = f"{LOGIN}token = login('venmo')\n{cards}"
    task = synthetic(appworld, [head + "".join(parts) + DONE])
    assert verdict(appworld, task, [head + "".join(parts[::-1]) + DONE]).success
    assert not verdict(
        appworld, task, [head + "".join(parts[::-1]).replace("31", "32") + DONE]
    ).success


def _friend(pool: Pool) -> str:
    session = opened(pool)
    found = json.loads(call(pool, session, "venmo.search_friends").observation)
    pool.close([session])
    return found[0]["email"]


def test_answers_are_compared_as_appworld_does(appworld: Pool):
    """The answer is part of the end; its way of writing is not; progress needs it."""
    task = synthetic(appworld, ["apis.supervisor.complete_task(answer=3)"], "How many?")
    right = [
        verdict(appworld, task, [f"apis.supervisor.complete_task(answer={a})"])
        for a in ("3", "'3'", "'3.0'", "3.0")
    ]
    assert [judged.success for judged in right] == [True] * 4
    for tried in ("apis.supervisor.complete_task(answer=4)", DONE):
        judged = verdict(appworld, task, [tried])
        assert (judged.success, judged.progress) == (False, 0.0)


def test_a_reference_that_never_completes_is_no_reference(appworld: Pool):
    """Nothing succeeds at a task whose own solution leaves the task open."""
    task = synthetic(appworld, [PLAYLIST])
    assert not verdict(appworld, task, [PLAYLIST]).success
    assert not verdict(appworld, task, [PLAYLIST, DONE]).success


def test_long_texts_are_judged_like_short_ones(appworld: Pool):
    """Dozens of long notes that nobody asked for are collateral damage of a payment, whatever
    letters they are written in."""
    notes = f"{LOGIN}token = login('simple_note')\n" + (
        "for n in range(40):\n"
        "    text = 'é' * 99000 + str(n)\n"
        "    apis.simple_note.create_note(title=str(n), content=text, access_token=token)"
    )
    task = own(appworld, BASE)
    session = opened(appworld)
    for round_ in range(2):
        assert (
            act(appworld, session, notes.replace("title=", f"title='{round_}, ' + ")).error is None
        )
    act(appworld, session, *task.solution[0])
    judged = graded(appworld, session, task)
    assert (judged.score, judged.progress, judged.details["collateral"]) == (0.0, 0.0, True)
    appworld.close([session])
    long = [notes.replace("range(40)", "range(20)") + "\n" + DONE]
    assert verdict(appworld, synthetic(appworld, long), long).success
    other = [long[0].replace("+ str(n)\n", "+ 'x'\n")]
    assert other != long and not verdict(appworld, synthetic(appworld, long), other).success


@pytest.mark.parametrize("kind", ["official", "state"])
def test_an_end_that_cannot_be_read_is_the_policys_own(appworld: Pool, kind: str):
    """Where an episode's process is gone when its outcome is asked for, and an untouched one's is
    not, the verdict is 0, and stays; the worker serves the others on."""
    task = own(appworld, BASE) if kind == "official" else synthetic(appworld, [DONE])
    bystander, others = opened(appworld), set(_worlds(appworld))
    (session,) = appworld.open([task.start], [task.query])
    (world,) = set(_worlds(appworld)) - others
    act(appworld, session, DONE)
    os.kill(world, signal.SIGKILL)
    for _ in range(2):
        judged = graded(appworld, session, task)
        assert (judged.success, judged.score, judged.progress) == (False, 0.0, 0.0)
        assert judged.reason == "ended by memory" and judged.details == {"policy_fault": "memory"}
    assert act(appworld, bystander, "print(6 * 7)").observation == "42\n"
    appworld.close([session, bystander])


def _worlds(pool: Pool) -> list[int]:
    """Process ids that hold the databases of the pool's episodes."""
    found = []
    for server in _children(pool._slots[0]._worker._process.pid):
        if b"episode" in Path(f"/proc/{server}/cmdline").read_bytes().split(b"\0"):
            found += _children(server)
    return found


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_an_end_that_nobody_could_grade_is_the_machines_fault(tmp_path: Path):
    """Where an untouched episode cannot be graded either, because a file is gone, there is no
    verdict, however often it is asked for."""
    root = tmp_path / "root"
    shutil.copytree(appworld_root.chosen() / "data", root / "data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(appworld_root.VARIABLE, str(root))
        with Pool("appworld") as pool:
            session, task = opened(pool), own(pool, BASE)
            act(pool, session, DONE)
            (root / "data" / "tasks" / BASE / "ground_truth" / "test_data.json").unlink()
            answers = [pool.evaluate([(session, task)])[0] for _ in range(2)]
    assert all(isinstance(answer, Fault) and answer.kind == "internal" for answer in answers)


def test_doing_nothing_is_no_collateral_damage(appworld: Pool):
    """On every task of the demo data, with and without completion; nor is an answer that nobody
    asked for."""
    tasks = [
        task for split in sorted(appworld.description.splits) for task in appworld.tasks(split)
    ]
    assert len(tasks) == 18
    for place, task in enumerate(tasks):
        ends = [[DONE], ["apis.supervisor.complete_task(answer='x')"]] if place % 3 == 0 else []
        for cells in ([], *ends):
            session = opened(appworld, task.start.name)
            if cells:
                act(appworld, session, *cells)
            judged = graded(appworld, session, task)
            assert (judged.success, judged.details["collateral"]) == (False, False), (
                task.start,
                cells,
            )
            appworld.close([session])


GROUP = "{login}token = login('splitwise')\n{rest}" + DONE
WITH = (
    "made = apis.splitwise.create_group(name='Trip', member_emails={emails}, access_token=token)\n"
    "group = made['group_id']\n"
)
ADD = (
    "apis.splitwise.add_member_to_group(group_id=group, user_email='{email}', access_token=token)\n"
)
DELETE = "apis.splitwise.delete_group(group_id=group, access_token=token)\n"


def test_which_notices_an_app_sends_is_its_routes_affair(appworld: Pool):
    """A group made with its members equals one to which they are added, in either direction;
    somebody too many is found, a group of strangers that is deleted again too, for they were
    told."""
    first, second, third = _contacts(appworld)[:3]
    together = GROUP.format(login=LOGIN, rest=WITH.format(emails=[first, second]))
    added = GROUP.format(
        login=LOGIN,
        rest=WITH.format(emails=[]) + ADD.format(email=second) + ADD.format(email=first),
    )
    for reference, tried in ((together, added), (added, together)):
        assert verdict(appworld, synthetic(appworld, [reference]), [tried]).success
        more = tried.replace(DONE, ADD.format(email=third) + DONE)
        judged = verdict(appworld, synthetic(appworld, [reference]), [more])
        assert (judged.success, judged.details["collateral"]) == (False, True)
        undone = GROUP.format(
            login=LOGIN, rest=WITH.format(emails=[third]).replace("Trip", "Oops") + DELETE
        )
        judged = verdict(
            appworld, synthetic(appworld, [reference]), [undone.replace(DONE, ""), tried]
        )
        assert (judged.success, judged.details["collateral"]) == (False, True)


def test_a_notice_that_is_all_a_call_does_counts(appworld: Pool):
    """A reminder is asked for, or is damage."""
    session = opened(appworld)
    sent = json.loads(call(appworld, session, "venmo.show_sent_payment_requests").observation)
    appworld.close([session])
    remind = Call(
        "venmo.remind_payment_request", {"payment_request_id": sent[0]["payment_request_id"]}
    )
    end = Call("supervisor.complete_task", {})
    task = synthetic(appworld, [remind, end])
    assert verdict(appworld, task, [remind, end]).success
    assert not verdict(appworld, task, [end]).success
    judged = verdict(appworld, synthetic(appworld, [end]), [remind, end])
    assert (judged.success, judged.details["collateral"]) == (False, True)


def _contacts(pool: Pool) -> list[str]:
    """Email addresses of people whom the supervisor knows."""
    session = opened(pool)
    found = json.loads(call(pool, session, "phone.search_contacts", query="").observation)
    pool.close([session])
    return [row["email"] for row in found]


def test_two_worlds_interleaved_are_judged_apart(appworld: Pool):
    """Step by step in turns, the right one scores 1 and the wrong one 0, officially."""
    task = own(appworld, BASE)
    code = task.solution[0][0]
    right, wrong = opened(appworld), opened(appworld)
    lines = [code, code.replace("amount=12.5", "amount=99")]
    assert lines[0] != lines[1]
    for cells in (("x = 1", "x = 2"), lines, ("print(x)", "print(x)")):
        answers = appworld.step(
            [(session, 0, [cell]) for session, cell in zip((right, wrong), cells, strict=True)]
        )
    assert [results[0].observation for results in answers] == ["1\n", "2\n"]
    verdicts = appworld.evaluate([(right, task), (wrong, task)])
    assert [(judged.success, judged.score) for judged in verdicts] == [(True, 1.0), (False, 0.0)]
    assert 0 < verdicts[1].progress < 1 or verdicts[1].details["collateral"]
    assert "99" not in json.dumps([v.details for v in verdicts]) and "12.5" not in json.dumps(
        [v.details for v in verdicts]
    )
    appworld.close([right, wrong])


@pytest.mark.parametrize("wrong", [False, True])
@pytest.mark.parametrize(
    "beside",
    [
        "apis.spotify.like_song(song_id=5, access_token=login('spotify'))\n",
        "apis.simple_note.create_note(title='t', content='c', access_token=login('simple_note'))\n",
    ],
)
def test_official_progress_is_zero_with_collateral_damage(appworld: Pool, beside: str, wrong: bool):
    """A right or a wrong payment earns something alone, and nothing with a change of another model
    beside it."""
    task = own(appworld, BASE)
    code = task.solution[0][0].replace("amount=12.5", "amount=99" if wrong else "amount=12.5")
    alone, damaging = opened(appworld), opened(appworld)
    act(appworld, alone, code)
    act(appworld, damaging, LOGIN + beside, code)
    only, both = (graded(appworld, session, task) for session in (alone, damaging))
    assert only.success != wrong and (0 < only.progress < 1 if wrong else only.progress == 1)
    assert (both.success, both.progress, both.details["collateral"]) == (False, 0.0, True)
    appworld.close([alone, damaging])


def test_a_missing_goal_is_not_collateral_damage(appworld: Pool):
    """One of two payments leaves another balance than both, which is wrong and no damage; a third
    payment and a like are."""
    friend = _friend(appworld)
    pay = [
        Call(
            "venmo.create_transaction",
            {"receiver_email": friend, "amount": n, "description": str(n)},
        )
        for n in (1, 2, 4)
    ]
    end = Call("supervisor.complete_task", {})
    task = synthetic(appworld, [*pay[:2], end])
    half = [verdict(appworld, task, [one, end]) for one in pay[:2]]
    assert all(not v.success and 0 < v.progress < 1 and not v.details["collateral"] for v in half)
    swapped = verdict(appworld, task, [pay[0], pay[2], end])
    assert 0 < swapped.progress < 1 and not swapped.details["collateral"]
    for beside in (pay[2], Call("spotify.like_song", {"song_id": 5})):
        damaged = verdict(appworld, task, [*pay[:2], beside, end])
        assert (damaged.progress, damaged.details["collateral"]) == (0.0, True)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        (BASE, "create_transaction(", "create_transaction(private=True, "),
        (BASE, "complete_task()", "complete_task(answer='done')"),
        (BASE, "complete_task()", "complete_task(status='fail')"),
        ("genrelist_1", "create_playlist(", "create_playlist(is_public=True, "),
        ("genrelist_1", "complete_task()", "complete_task(answer=3)"),
        ("notetodo_1", "complete_task()", "complete_task(status='fail')"),
        ("songcount_1", "complete_task(", "complete_task(status='fail', "),
    ],
)
def test_the_demo_tasks_are_judged_as_strictly_as_official_ones(
    appworld: Pool, name: str, old: str, new: str
):
    """Privacy that nobody asked for, an answer where none is wanted, and a reference that declares
    failure are no success."""
    task = own(appworld, name)
    (code,) = task.solution[0]
    assert old in code
    for cell, success in ((code, True), (code.replace(old, new), False)):
        session = opened(appworld, name)
        assert act(appworld, session, cell).error is None
        assert graded(appworld, session, task).success == success
        appworld.close([session])


def test_grading_needs_the_tasks_own_start(appworld: Pool):
    """A session of another start state, an official verdict on a synthetic task, an unknown base:
    bad requests, no verdicts."""
    session, task = opened(appworld), own(appworld, "payback_2")
    (answer,) = appworld.evaluate([(session, task)])
    assert isinstance(answer, Fault) and answer.kind == "bad_request"
    appworld.close([session])
    for start in (Start(name="no_such"), Start(config={"base": "../payback_1"}), Start(config={})):
        (fault,) = appworld.open([start])
        assert isinstance(fault, Fault) and fault.kind == "bad_request"


def test_nothing_is_left_on_disk(appworld: Pool, tmp_path_factory: pytest.TempPathFactory):
    """Grading leaves no output directory behind."""
    session, task = opened(appworld), own(appworld, BASE)
    graded(appworld, session, task)
    assert not list(Path(tempfile.gettempdir()).glob("coevolve-appworld-*"))
    appworld.close([session])
