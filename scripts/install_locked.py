"""Install a lock into the environment whose Python runs this: every file is held against its hash.

    .venv/bin/python scripts/install_locked.py test

Nothing is resolved: a lock is complete. What pip finds decides between torch's builds for Linux.
Where an index or a folder of its configuration offers the one without CUDA (`cpu.txt` among the
locks), it is taken; otherwise the package index has the other, and its libraries (`cuda.txt`, 3 GB)
follow. The builds for macOS and Windows ask for none.
"""

import subprocess
import sys
from importlib import metadata
from pathlib import Path

LOCKS = Path(__file__).resolve().parent.parent / "requirements" / "locks"
WHAT = {
    "book": "what builds the book",
    "pdf": "what prints it",
    "test": "what runs and tests the chapters",
    "lab": "JupyterLab and what runs the chapters",
    "cpu": "PyTorch without CUDA, where pip finds it",
    "cuda": "the CUDA libraries that this PyTorch asks for (3 GB)",
}
# No build isolation: it would fetch what it builds with from the index, without a hash.
PIP = ("-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps", "--no-build-isolation")


def install(lock: str, *, if_offered: bool = False) -> None:
    """Have pip install one lock of the folder LOCKS; with `if_offered`, only what pip finds."""
    command = [sys.executable, *PIP, "-r", str(LOCKS / f"{lock}.txt")]
    done = subprocess.run(command, stderr=subprocess.PIPE if if_offered else None, text=True)
    if done.returncode and not (if_offered and "No matching distribution" in done.stderr):
        sys.exit(f"{done.stderr or ''}pip could not install requirements/locks/{lock}.txt")


def asks_for_cuda() -> bool:
    """Whether the installed torch asks for CUDA's libraries on this system; False without torch."""
    from packaging.requirements import Requirement  # the lock brings it

    try:
        needs = [Requirement(line) for line in metadata.requires("torch") or ()]
    except metadata.PackageNotFoundError:
        return False
    return any(
        need.name.startswith(("nvidia-", "cuda-"))
        and (need.marker is None or need.marker.evaluate({"extra": ""}))
        for need in needs
    )


def steps(lock: str) -> list[str]:
    """The locks to install for this one, in their order, before torch is asked about CUDA."""
    if lock == "book":
        return ["book"]
    known = "torch==" in (LOCKS / "cpu.txt").read_text(encoding="utf-8")
    cpu = ["cpu"] if known and lock in ("test", "lab") else []
    return ["book", *cpu, lock]  # the first brings the setuptools that builds what comes as source


def main(lock: str) -> None:
    """Install the lock, and the build of torch that this machine is offered; say each step."""
    todo = steps(lock)
    for number, step in enumerate(todo, start=1):
        print(f"{number}/{len(todo)} installing {WHAT[step]}", flush=True)
        install(step, if_offered=step == "cpu")
    if asks_for_cuda():
        print(f"and {WHAT['cuda']}", flush=True)
        install("cuda")


if __name__ == "__main__":
    main(*sys.argv[1:])
