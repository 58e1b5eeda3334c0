"""Installation into virtual environments, with a real pip and a wheel made here, so that no network
is needed."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from coevolve.environments import install
from coevolve.errors import MissingDependency, Unreachable, UsageError

PROGRAM = """
from coevolve.environments import install
install.RECIPES["tiny"] = install.InstallRecipe("tiny", "1", ("tiny-thing==1.0",))
print(install.install("tiny"))
"""


def wheel(folder: Path) -> None:
    """A wheel with one module, as its specification says: RECORD with a digest a file."""
    info = "tiny_thing-1.0.dist-info"
    files = {
        "tiny_thing.py": b"VALUE = 1\n",
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: tiny-thing\nVersion: 1.0\n",
        f"{info}/WHEEL": (
            b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        ),
    }
    digests = {
        n: base64.urlsafe_b64encode(hashlib.sha256(b).digest()).rstrip(b"=").decode()
        for n, b in files.items()
    }
    record = (
        "".join(f"{n},sha256={digests[n]},{len(b)}\n" for n, b in files.items())
        + f"{info}/RECORD,,\n"
    )
    with zipfile.ZipFile(folder / "tiny_thing-1.0-py3-none-any.whl", "w") as archive:
        for name, content in {**files, f"{info}/RECORD": record.encode()}.items():
            archive.writestr(name, content)


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """A home of the test's own, the recipe of the wheel, and pip without an index."""
    wheel(tmp_path)
    monkeypatch.setenv("COEVOLVE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path))
    monkeypatch.setitem(
        install.RECIPES, "tiny", install.InstallRecipe("tiny", "1", ("tiny-thing==1.0",))
    )
    return tmp_path / "home"


def test_two_installations_at_once_then_again_then_repair(home):
    """Of two at once one builds; a third changes nothing; without its marker the environment is
    built anew; damage is found."""
    with pytest.raises(MissingDependency, match="Try: coevolve env install tiny$"):
        install.python("tiny")
    both = [
        subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=-1, stderr=-1, text=True)
        for _ in range(2)
    ]
    ends = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0], ends
    where = home / "envs" / "tiny-1"
    assert [out.strip() for out, _ in ends] == [str(where)] * 2
    assert (
        sum("installing tiny 1 into" in err for _, err in ends) == 1
        and sum("is installed in" in err for _, err in ends) == 1
    )
    value = subprocess.run(
        [install.python("tiny"), "-c", "import tiny_thing; print(tiny_thing.VALUE)"],
        capture_output=True,
        check=True,
    )
    assert value.stdout == b"1\n"

    said: list[str] = []
    inode = where.stat().st_ino
    assert install.install("tiny", said.append) == where and where.stat().st_ino == inode
    assert said == [f"tiny 1 is installed in {where}"] and install.verify("tiny") == []

    module = next(where.glob("lib/*/site-packages/tiny_thing.py"))
    module.write_text("VALUE = 2\n")
    assert install.verify("tiny") == ["tiny_thing.py is not the file of the wheel"]
    (where / "coevolve-installed.json").unlink()
    assert not install.installed("tiny")
    said.clear()
    install.install("tiny", said.append)
    assert (
        "is incomplete; building it anew" in said[0]
        and install.verify("tiny") == []
        and install.installed("tiny")
    )


def test_a_failed_installation_leaves_nothing_that_looks_installed(home, tmp_path):
    """What pip cannot find is one clear error, and the next run starts over."""
    os.unlink(tmp_path / "tiny_thing-1.0-py3-none-any.whl")
    with pytest.raises(Unreachable, match="pip could not install tiny-thing==1.0"):
        install.install("tiny", lambda _: None)
    assert not install.installed("tiny")
    with pytest.raises(UsageError, match="nothing to install for 'webarena'"):
        install.install("webarena")


def test_another_recipe_is_another_installation(home, monkeypatch):
    """An environment whose marker states other pins counts as missing."""
    where = home / "envs" / "tiny-1"
    (where / "bin").mkdir(parents=True)
    (where / "bin" / "python").touch()
    (where / "coevolve-installed.json").write_text(
        '{"version":"1","requirements":["tiny-thing==1.0"]}'
    )
    assert install.installed("tiny")
    monkeypatch.setitem(
        install.RECIPES, "tiny", install.InstallRecipe("tiny", "1", ("tiny-thing==1.1",))
    )
    assert not install.installed("tiny")
