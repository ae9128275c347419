"""Install a lock into the environment whose Python runs this: every file is held against its hash.

    .venv/bin/python scripts/install_locked.py test

Nothing is resolved: a lock is complete. Where the torch that was installed asks for CUDA's
libraries (the package index has such builds for Linux), locks/cuda.txt follows; a build without
CUDA, as some mirrors and all builds for macOS and Windows are, goes without those 3 GB.
"""

import subprocess
import sys
from importlib import metadata
from pathlib import Path

LOCKS = Path(__file__).resolve().parent.parent / "locks"
# No build isolation: it would fetch what it builds with from the index, without a hash.
PIP = ("-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps", "--no-build-isolation")


def install(lock: str) -> None:
    """Have pip install one lock of the folder `locks`."""
    subprocess.run([sys.executable, *PIP, "-r", str(LOCKS / f"{lock}.txt")], check=True)


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
    """Install the lock, and CUDA's libraries if torch asks for them."""
    if lock != "book":
        install("book")  # it brings the setuptools that builds what comes as source
    install(lock)
    if asks_for_cuda():
        install("cuda")


if __name__ == "__main__":
    main(*sys.argv[1:])
