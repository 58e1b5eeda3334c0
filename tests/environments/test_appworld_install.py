"""AppWorld's data: the demo root, official data from a folder or a bundle, and what is refused.
Nothing is ever deleted."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from coevolve.environments import appworld_root, install
from coevolve.environments.workers import launch
from coevolve.errors import MissingDependency, Unreachable, UsageError
from coevolve.runs import home

pytestmark = pytest.mark.appworld
DEMO = appworld_root.folder() / appworld_root.DEMO

PACK = """
import os, sys
from appworld.common.constants import PASSWORD, SALT
from appworld.common.utils import pack_bundle
pack_bundle(
    bundle_file_path=sys.argv[2],
    base_directory=sys.argv[1],
    include_directories=["data"],
    password=PASSWORD,
    salt=SALT,
)
"""


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with the installed environment and no data."""
    envs = home() / "envs"
    monkeypatch.setenv("COEVOLVE_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "envs").symlink_to(envs)
    return tmp_path / "home" / "appworld"


@pytest.fixture
def official(tmp_path: Path) -> Path:
    """A folder of data such as a user may have; it is the demo's, under an official name of a
    split."""
    folder = tmp_path / "mine"
    shutil.copytree(DEMO / "data", folder / "data")
    (folder / "data" / "datasets" / "demo_train.txt").rename(
        folder / "data" / "datasets" / "train.txt"
    )
    return folder


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def silent(_: str) -> None:
    """Says nothing."""


def test_a_folder_is_taken_over_whole_and_becomes_the_chosen_root(empty, official):
    """With or without `data/` in the path; a second time nothing changes; the source stays as it
    is."""
    with pytest.raises(MissingDependency, match="coevolve env install appworld"):
        appworld_root.chosen()
    before = files(official)
    where = appworld_root.add_data(official / "data", say=silent)
    assert where == empty / "root" == appworld_root.chosen() and files(where / "data") == files(
        official / "data"
    )
    inode = where.stat().st_ino
    said: list[str] = []
    appworld_root.add_data(official, say=said.append)
    assert (
        said == [f"this data is in {where}"]
        and where.stat().st_ino == inode
        and files(official) == before
    )
    assert appworld_root.missing(where) == []


def test_other_data_is_never_replaced(empty, official):
    """What is there stays, byte for byte, and the message says what to do."""
    where = appworld_root.add_data(official, say=silent)
    before = files(where)
    (official / "data" / "version.txt").write_text("9.9")
    with pytest.raises(UsageError, match="move it away first"):
        appworld_root.add_data(official, say=silent)
    assert files(where) == before


def test_the_digest_has_to_be_the_one_that_is_asked_for(empty, official):
    """A wrong sha256 refuses the data and leaves nothing."""
    with pytest.raises(UsageError, match=r"its sha256 is [0-9a-f]{64}, not 00ff"):
        appworld_root.add_data(official, "00ff", say=silent)
    assert not empty.exists()


@pytest.mark.parametrize("digest", ["00", ""])
def test_a_digest_without_data_is_refused(empty, coevolve, digest):
    """Nothing is installed under a promise that nobody checks."""
    result = coevolve("env", "install", "appworld", "--sha256", digest, check=False)
    assert (
        result.returncode == 2
        and b"--sha256" in result.stderr
        and b"--data or --download" in result.stderr
    )
    assert not empty.exists()


@pytest.mark.parametrize(
    ("gone", "said"),
    [
        ("data/base_dbs/venmo.db", "base_dbs/venmo.db is not there"),
        ("data/api_docs/standard/phone.json", "api_docs/standard/phone.json is not there"),
        ("data/tasks/payback_1/specs.json", "tasks/payback_1/specs.json is not there"),
        ("data/datasets", "no list of tasks"),
        ("data/base_dbs", "neither a bundle nor a folder"),
    ],
)
def test_what_is_missing_is_named_with_its_place(gone, said, empty, official):
    """Incomplete data is refused, and nothing is left of it."""
    path = official / gone
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(UsageError, match=said):
        appworld_root.add_data(official, say=silent)
    assert not list(empty.glob("root*"))


def test_a_bundle_is_unpacked_by_its_own_format(empty, official, tmp_path):
    """A bundle that the package packed; half of one is refused in one line."""
    bundle = tmp_path / "data-0.1.0.bundle"
    environment = {**os.environ, **install.caches("appworld")}
    python = install.python("appworld")
    subprocess.run(
        [python, "-c", PACK, official, bundle],
        check=True,
        capture_output=True,
        env=environment,
        cwd=tmp_path,
    )
    half = tmp_path / "half.bundle"
    half.write_bytes(bundle.read_bytes()[: bundle.stat().st_size // 2])
    with pytest.raises(Unreachable, match="half.bundle is no whole bundle"):
        appworld_root.add_data(half, say=silent)
    assert not list(empty.glob("root*"))
    digest = hashlib.sha256(bundle.read_bytes()).hexdigest()
    where = appworld_root.add_data(bundle, digest.upper(), say=silent)
    expected, got = files(official / "data"), files(where / "data")
    assert {name: got[name] for name in expected} == expected and appworld_root.chosen() == where


def test_a_download_that_fails_says_what_to_do_and_deletes_nothing(empty, tmp_path, monkeypatch):
    """Without the network: one line with the way by hand; a bundle that is there is used and
    kept."""
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    with pytest.raises(Unreachable, match="coevolve env install appworld --data BUNDLE"):
        appworld_root.download(say=silent)
    assert not list(empty.glob("data.bundle*"))
    (empty / "data.bundle").write_bytes(b"no bundle at all, only bytes")
    with pytest.raises(Unreachable, match="no whole bundle"):
        appworld_root.download(say=silent)
    assert (empty / "data.bundle").exists()


def test_a_root_by_name_and_roots_in_forbidden_places(empty, official, tmp_path, monkeypatch):
    """The variable wins and is checked; a path that AppWorld would misread is refused early."""
    monkeypatch.setenv(appworld_root.VARIABLE, str(official))
    assert appworld_root.chosen() == official
    monkeypatch.setenv(appworld_root.VARIABLE, str(tmp_path))
    with pytest.raises(UsageError, match=rf"{tmp_path / 'data'} is not there"):
        appworld_root.chosen()
    monkeypatch.setenv("COEVOLVE_HOME", str(tmp_path / "memory"))
    with pytest.raises(UsageError, match="set COEVOLVE_HOME to another folder"):
        appworld_root.add_data(official, say=silent)
    assert "memory" in appworld_root.missing(tmp_path / "in-memory")[0]


def test_check_lists_all_that_is_missing_and_where_it_belongs(
    empty, official, coevolve, monkeypatch
):
    """One line of JSON with every gap of a root and its place, also for no root at all; the worker
    isn't asked, exit 69."""
    data = official / "data"
    gone = [data / "base_dbs" / f"{app}.db" for app in ("phone", "spotify", "venmo", "todoist")]
    gone += [
        data / "api_docs" / "standard" / "gmail.json",
        data / "tasks" / "payback_1" / "specs.json",
    ]
    for path in gone:
        path.unlink()
    absent = official.parent / "absent"
    for named, places in (
        (official, gone),
        (absent, [absent / "data"]),
        (None, [empty / "demo" / "data"]),
    ):
        if named:
            monkeypatch.setenv(appworld_root.VARIABLE, str(named))
        else:
            monkeypatch.delenv(appworld_root.VARIABLE)
        result = coevolve("env", "check", "appworld", check=False)
        (last,) = [
            entry
            for entry in map(json.loads, result.stdout.splitlines())
            if entry["check"] == "data"
        ]
        assert result.returncode == 69 and last["result"] == "failed"
        assert json.loads(result.stdout.splitlines()[-1]) == last
        assert all(f"{path} is not there" in last["detail"] for path in places)
        assert (
            last["detail"].count("is not there") == len(places)
            and "coevolve env install appworld" in last["detail"]
        )


def test_the_demo_root_is_rebuilt_only_for_another_builder(empty, monkeypatch):
    """A root that is there and whole is left alone; one that coevolve did not make is not
    touched."""
    shutil.copytree(DEMO, empty / "demo", ignore=shutil.ignore_patterns("experiments"))
    inode, said = (empty / "demo").stat().st_ino, []
    appworld_root.build_demo(said.append)
    assert (
        (empty / "demo").stat().st_ino == inode
        and "is in" in said[0]
        and appworld_root.chosen() == empty / "demo"
    )
    (empty / "demo" / "coevolve-root.json").unlink()
    with pytest.raises(UsageError, match="was not made by coevolve"):
        appworld_root.build_demo(silent)
    assert (empty / "demo").stat().st_ino == inode


def test_the_tasks_of_a_scenario_have_different_answers():
    """No number is right for two of the three, and none is so small that a blind guess would hit
    it."""
    answers = [
        int(
            (
                DEMO / "data" / "tasks" / f"songcount_{number}" / "ground_truth" / "answer.json"
            ).read_text()
        )
        for number in (1, 2, 3)
    ]
    assert len(set(answers)) == 3 and all(5 <= answer <= 12 for answer in answers)


def test_the_environment_is_its_wheels_and_keeps_its_cache_to_itself():
    """Every file of the 79 packages is its wheel's, although the apps are unpacked beside them."""
    assert install.verify("appworld") == [] and len(install.RECIPES["appworld"].requirements) == 79
    (cache,) = install.caches("appworld").values()
    assert (
        Path(cache).is_relative_to(install.directory(install.RECIPES["appworld"]))
        and Path(cache).is_dir()
    )


@pytest.mark.slow
def test_two_builds_are_the_same_bytes(tmp_path):
    """The demo root is a pure function of the builder."""
    built = []
    for name, seed in (("one", "0"), ("two", "7")):
        environment = {
            **os.environ,
            **install.caches("appworld"),
            "PYTHONHASHSEED": seed,
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        command = launch.command(
            install.python("appworld"), "appworld.demo.builder", str(tmp_path / name)
        )
        subprocess.run(command, check=True, capture_output=True, env=environment)
        built.append(files(tmp_path / name))
    assert built[0] == built[1] and len(built[0]) > 300
