"""A process that is shut in: Python refuses what the system would, memory ends, rights are gone."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

from tests.paths import BOOK

BEGIN = "import json, os, pathlib, sys\nfrom checks.grading.confined import *\nfound = {}\n"
ASK = """
def ask(name, act):
    try:
        act()
    except BaseException as error:
        found[name] = f"{type(error).__name__}: {error}"
"""


def told(code, scratch, **environment):
    """What a process finds that runs the code, as the dictionary `found`."""
    scratch.mkdir(exist_ok=True)
    text = f"{BEGIN}{ASK}scratch = pathlib.Path({str(scratch)!r})\n{textwrap.dedent(code)}"
    done = subprocess.run(
        [sys.executable, "-c", f"{text}\nprint(json.dumps(found))"],
        cwd=BOOK,
        env={"OMP_NUM_THREADS": "1"} | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_python_refuses_what_leaves_the_folder(tmp_path):
    found = told(
        """
        import shutil, socket, subprocess
        out = scratch.parent / "new.txt"
        watch(scratch)
        os.chdir(scratch)
        ask("write", lambda: out.write_text("x"))
        ask("append", lambda: open(out, "a"))
        ask("open", lambda: os.open("../new.txt", os.O_RDWR | os.O_CREAT))
        ask("make", lambda: os.mkdir(out))
        ask("delete", lambda: shutil.rmtree(scratch.parent))
        ask("move", lambda: os.rename(scratch, out))
        ask("link", lambda: os.symlink(scratch, out))
        ask("run", lambda: subprocess.run(["true"]))
        ask("system", lambda: os.system("true"))
        ask("fork", os.fork)
        ask("call", lambda: socket.create_connection(("127.0.0.1", 9)))
        ask("look up", lambda: socket.gethostbyname("localhost"))
        ask("write inside", lambda: pathlib.Path("mine.txt").write_text("x"))
        os.makedirs("some/more")
        scratch.mkdir(exist_ok=True)
        ask("delete inside", lambda: shutil.rmtree("some"))
        ask("move inside", lambda: os.rename("mine.txt", "yours.txt"))
        ask("nothing", lambda: open(os.devnull, "w").write("x"))
        ask("read", lambda: open(json.__file__).read())
        """,
        tmp_path / "scratch",
    )
    refused = {"write", "append", "open", "make", "delete", "move", "link"}
    programs, network = {"run", "system", "fork"}, {"call", "look up"}
    assert found.keys() == refused | programs | network
    for name in refused:
        assert "may not write" in found[name] or "may not change" in found[name]
    assert {found[name] for name in programs} == {
        "PermissionError: an answer that is graded may not start or end another program"
    }
    assert all(found[name].endswith("may not use the network") for name in network)
    assert [path.name for path in tmp_path.rglob("*")] == ["scratch", "yours.txt"]


def test_the_environment_is_small_and_the_home_is_the_scratch_folder(tmp_path):
    found = told(
        """
        import tempfile
        tempfile.gettempdir()
        confine(scratch)
        found = dict(os.environ) | {"here": os.getcwd(), "home": str(pathlib.Path.home())}
        found["temporary"] = tempfile.gettempdir()
        """,
        tmp_path / "scratch",
        API_TOKEN="secret",
        HOME=str(tmp_path),
    )
    assert "API_TOKEN" not in found
    assert found["here"] == found["home"] == found["temporary"] == str(tmp_path / "scratch")


def test_memory_ends(tmp_path):
    found = told(
        """
        if lack := limit_memory(100 * 2**20):
            found["lack"] = lack
        else:
            ask("little", lambda: bytes(50 * 2**20))
            ask("much", lambda: bytes(200 * 2**20))
            ask("file", lambda: (scratch / "large").write_bytes(bytes(70 * 2**20)))
        """,
        tmp_path / "scratch",
    )
    if "lack" in found:
        pytest.skip(found["lack"])
    assert found.keys() == {"much", "file"}
    assert found["much"].startswith("MemoryError")
    assert "too large" in found["file"]


def test_linux_makes_all_but_the_scratch_folder_read_only(tmp_path):
    """Past Python's events: `watch` is not called here."""
    (tmp_path / "old.txt").write_text("x", encoding="utf-8")
    found = told(
        """
        import signal, socket
        inside = scratch / "mine.txt"
        found["lack"] = confine(scratch)
        if not found["lack"]:
            ask("write", lambda: (scratch.parent / "new.txt").write_text("x"))
            ask("delete", lambda: (scratch.parent / "old.txt").unlink())
            ask("temporary", lambda: pathlib.Path("/tmp/new.txt").write_text("x"))
            ask("call", lambda: socket.create_connection(("127.0.0.1", 9), timeout=2))
            ask("mount again", lambda: set_mount(b"/", AT_RECURSIVE, clear=READ_ONLY))
            ask("unmount", lambda: system("umount2", os.fsencode(scratch), 0))
            ask("other process", lambda: os.kill(PARENT, signal.SIGTERM))
            ask("inside", lambda: inside.write_text("x"))
            large = bytes(2**26)
            ask("too much", lambda: [(scratch / str(i)).write_bytes(large) for i in range(9)])
            found["process"] = os.getpid()
        """.replace("PARENT", str(os.getpid())),
        tmp_path / "scratch",
    )
    if found.pop("lack"):
        assert found == {}
        pytest.skip("this system gives no namespaces")
    assert found.pop("process") == 1
    assert "inside" not in found
    for name in ("write", "delete", "temporary"):
        assert "Read-only file system" in found.pop(name)
    assert "unreachable" in found.pop("call")
    assert all("Operation not permitted" in found.pop(n) for n in ("mount again", "unmount"))
    assert found.pop("other process").startswith("ProcessLookupError")
    assert "No space left" in found.pop("too much")
    assert found == {}
    assert {path.name for path in tmp_path.rglob("*")} == {"scratch", "old.txt"}


def test_a_system_without_namespaces_says_so(tmp_path):
    found = told(
        """
        import checks.grading.confined as confined
        def refused(scratch):
            raise OSError(1, "unshare: Operation not permitted")
        confined.enter_namespaces = refused
        found["linux"] = confine(scratch)
        sys.platform = "other"
        found["other"] = confine(scratch)
        """,
        tmp_path / "scratch",
    )
    assert "by Python alone" in found["other"]
    if sys.platform == "linux":
        assert "Operation not permitted" in found["linux"]
        assert "by Python alone" in found["linux"]
