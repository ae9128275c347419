"""The folder of a run: one process at a time, no trace of a start that came to nothing."""

import os
import platform
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.paths import BOOK
from train.folder import BEST, LOCK, STATE, locked

HOLDS = """
import sys
from pathlib import Path
from train.folder import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that has the folder `out`, until it reads a line."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(tmp_path / "out")],
        env=os.environ | {"PYTHONPATH": str(BOOK)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def take(folder):
    with locked(folder):
        pass


def test_the_process_that_has_the_folder_is_named(tmp_path, holder):
    out = tmp_path / "out"
    message = f"in which no run is going on, got {out}, where process {holder.pid} on "
    with pytest.raises(ValueError, match=message + platform.node()):
        take(out)
    (out / LOCK).write_bytes(b"\xff")
    with pytest.raises(ValueError, match="where another process trains; wait for it, or name"):
        take(out)
    holder.communicate("\n")
    take(out)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system knows no SIGKILL")
def test_a_killed_process_leaves_no_lock_and_nothing_half_written(tmp_path, holder):
    out = tmp_path / "out"
    for name in (f"{STATE}.0123456789abcdef.part", f"{BEST}.part", "of the reader.part"):
        (out / name).touch()
    (out / STATE).write_bytes(b"kept")
    holder.kill()
    holder.wait()
    assert (out / LOCK).exists()
    take(out)
    assert {path.name for path in out.iterdir()} == {STATE, "of the reader.part"}


def test_a_wait_for_the_other_process(tmp_path, holder):
    holder.stdin.write("\n")
    holder.stdin.flush()
    with locked(tmp_path / "out", patience=60.0):
        assert str(os.getpid()) in (tmp_path / "out" / LOCK).read_text().split()


def test_a_start_that_came_to_nothing_leaves_nothing(tmp_path):
    (tmp_path / "before").mkdir()
    with pytest.raises(ZeroDivisionError), locked(tmp_path / "before" / "a" / "b"):
        raise ZeroDivisionError
    assert list((tmp_path / "before").iterdir()) == []
    with locked(tmp_path / "c"):
        (tmp_path / "c" / STATE).touch()
    assert [path.name for path in (tmp_path / "c").iterdir()] == [STATE]


def test_a_lock_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "mine").write_text("precious")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / LOCK).symlink_to(tmp_path / "mine")
    with pytest.raises(OSError, match=r"expected a folder that can be written, got .*out: "):
        take(tmp_path / "out")
    assert (tmp_path / "mine").read_text() == "precious"


@pytest.fixture
def an_ordinary_user():
    """A folder of its own, and no more rights than others have, should root run the tests."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        if root := os.geteuid() == 0:
            os.seteuid(65534)  # nobody
        yield Path(folder)
        if root:
            os.seteuid(0)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system has no such users")
def test_a_folder_that_must_not_be_written(an_ordinary_user):
    out = an_ordinary_user / "out"
    out.mkdir(mode=0o555)
    for folder in (out, out / "inner"):
        with pytest.raises(OSError, match=rf"got {folder}: Permission denied; name another one"):
            take(folder)
    assert list(out.iterdir()) == []


@pytest.mark.parametrize("name", ["file", "file/out", "x" * 300])
def test_what_can_be_no_folder(tmp_path, name):
    (tmp_path / "file").touch()
    with pytest.raises(
        OSError, match=r"expected a folder that can be written, got .*; name another"
    ):
        take(tmp_path / name)
