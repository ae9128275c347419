"""Install a lock into the environment whose Python runs this: every file is held against its hash.

    .venv/bin/python scripts/install_locked.py test

Nothing is resolved: a lock is complete. What pip finds decides between torch's builds for Linux.
Where an index or a folder of its configuration offers the one without CUDA (locks/cpu.txt), it is
taken; otherwise the package index has the other, and its libraries (locks/cuda.txt, 3 GB) follow.
The builds for macOS and Windows ask for none.
"""

import subprocess
import sys
from importlib import metadata
from pathlib import Path

LOCKS = Path(__file__).resolve().parent.parent / "locks"
# No build isolation: it would fetch what it builds with from the index, without a hash.
PIP = ("-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps", "--no-build-isolation")


def install(lock: str, *, if_offered: bool = False) -> None:
    """Have pip install one lock of the folder `locks`; with `if_offered`, only what pip finds."""
    command = [sys.executable, *PIP, "-r", str(LOCKS / f"{lock}.txt")]
    done = subprocess.run(command, stderr=subprocess.PIPE if if_offered else None, text=True)
    if done.returncode and not (if_offered and "No matching distribution" in done.stderr):
        sys.exit(f"{done.stderr or ''}pip could not install locks/{lock}.txt")


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


def main(lock: str) -> None:
    """Install the lock, and the build of torch that this machine is offered."""
    install("book")  # it brings the setuptools that builds what comes as source
    if lock == "test" and "torch==" in (LOCKS / "cpu.txt").read_text(encoding="utf-8"):
        install("cpu", if_offered=True)
    if lock != "book":
        install(lock)
    if asks_for_cuda():
        install("cuda")


if __name__ == "__main__":
    main(*sys.argv[1:])
