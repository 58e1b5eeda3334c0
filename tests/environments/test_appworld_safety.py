"""Policy code on AppWorld cannot leave its place: no attempt of a corpus succeeds, knows a secret,
or leaves a trace."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path

import pytest
from environments.appworld_escapes import HELPERS, KINDS
from environments.appworld_worker import BASE, DONE, LOGIN, act, call, graded, opened, own

from coevolve.environments import appworld_root, install
from coevolve.environments.client import Pool

pytestmark = pytest.mark.appworld
TOOLKIT = Path(__file__).parents[2]

SECRET = "the-content-of-a-file"


def _fingerprint(*folders: Path) -> dict[str, str]:
    """Every file's content below the folders."""
    files = [
        path
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.is_file() or path.is_symlink()
    ]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _others(pool: Pool) -> list[str]:
    """Email addresses of people who are not the supervisor."""
    session = opened(pool)
    contacts = json.loads(call(pool, session, "phone.search_contacts", query="").observation)
    pool.close([session])
    return [contact["email"] for contact in contacts][:2]


def test_the_corpus_is_large():
    """At least forty attempts, of every kind."""
    assert sum(map(len, KINDS.values())) >= 60 and len(KINDS) == 6


UNLOCKED = """
import json, sys
sys.path.append(sys.argv[1])
from coevolve.environments.workers.appworld.cell import Interpreter, api_namespace
from coevolve.environments.workers.appworld.policy import load
guard, _ = load()
interpreter = Interpreter(guard, api_namespace({}, print))
print(json.dumps([interpreter.run(cell, 10, 10**6, False).text for cell in json.load(sys.stdin)]))
"""


def test_the_corpus_bites_where_nothing_is_locked(tmp_path: Path):
    """The same interpreter without its walls gives a file's content to attempts that read it."""
    mark = tmp_path / "mark"
    mark.write_text(SECRET)
    harmful = ("unlink", "rmtree", "chmod", "'w'")
    cells = [
        HELPERS + cell.replace("MARK", str(mark))
        for cell in KINDS["files"]
        if not any(word in cell for word in harmful)
    ]
    command = [install.python("appworld"), "-P", "-c", UNLOCKED, TOOLKIT]
    done = subprocess.run(
        command, input=json.dumps(cells).encode(), capture_output=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    assert sum(SECRET in text for text in json.loads(done.stdout)) >= 3


@pytest.mark.parametrize("kind", KINDS)
def test_no_attempt_gets_out(appworld: Pool, kind: str, tmp_path: Path):
    """After all attempts of a kind: no success, no secret seen, no file touched, nobody else's
    session changed."""
    mark = tmp_path / "mark"
    mark.write_text(SECRET)
    root, task, worker = (
        appworld_root.chosen(),
        own(appworld, BASE),
        appworld._slots[0]._worker._process.pid,
    )
    before = _fingerprint(root, tmp_path)
    bystander, others = opened(appworld), _others(appworld)
    act(appworld, bystander, "x = 41")
    assert others
    session, said, fates = opened(appworld), [], []
    for cell in KINDS[kind]:
        cell = (
            cell.replace("MARK", str(mark))
            .replace("ROOT", str(root))
            .replace("PARENT", str(worker))
        )
        result = act(appworld, session, f"{HELPERS}{LOGIN}OTHERS = {others}\n{cell}")
        said.append(result.observation)
        fates.append(result.fatal)
        act(appworld, session, DONE)
        verdict = graded(appworld, session, task)
        assert not verdict.success and verdict.score == 0.0 and verdict.progress < 1.0, cell
        if result.fatal or kind == "wires":
            appworld.close([session])
            session = opened(appworld)
    text = "\n".join(said)
    assert SECRET not in text and "def evaluate(" not in text and "root:x:0" not in text
    assert kind == "answers" or str(root) not in text
    assert "stolen" not in text and "venmo_balance" not in text.replace(
        "apis.venmo.show_venmo_balance", ""
    )
    assert kind == "wires" or not any(fates)
    assert _fingerprint(root, tmp_path) == before
    assert appworld._slots[0]._worker._process.pid == worker and os.path.exists(f"/proc/{worker}")
    assert act(appworld, bystander, "print(x + 1)").observation == "42\n"
    now = json.loads(call(appworld, bystander, "phone.get_current_date_and_time").observation)
    mine = json.loads(call(appworld, session, "phone.get_current_date_and_time").observation)
    assert now == mine
    act(appworld, bystander, *task.solution[0])
    assert graded(appworld, bystander, task).success
    appworld.close([session, bystander])
