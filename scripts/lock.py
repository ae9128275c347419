"""Write the lock files: what pip installs, each package with its version and its hashes.

    make lock                     after a change of a requirements file; what is locked stays
    make lock ARGS=--upgrade      the newest versions that the requirements allow

The requirements files say what the book needs, and these files, in `requirements/locks`, what that
brings with it on Python 3.11 to 3.13, under Linux, macOS and Windows. uv resolves all layers at
once, so a package has one version in all of them. A lock holds what its layer adds to the one it
reads: tests read what the PDF needs, which reads what the build needs, and so does JupyterLab.

torch for Linux has two builds under one version. The package index has the one with CUDA, whose
libraries stand in `cuda.txt` there. The one without, in `cpu.txt`, is offered by torch's own index
and by some mirrors. scripts/install_locked.py takes the smaller where pip finds it.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ROOT / "requirements" / "locks"
LAYERS = {
    "book": "requirements/book.txt",
    "pdf": "requirements/pdf.txt",
    "test": "requirements.txt",
    "lab": "requirements/lab.txt",
}
READS = {"pdf": "book", "test": "pdf", "lab": "book"}  # each layer and the one that it adds to
TOOLS = {"tools": "requirements/tools.txt"}
PYTHONS = ("3.11", "3.12", "3.13")
# sys_platform, platform_system and os_name; and the processors there.
SYSTEMS = {
    ("linux", "Linux", "posix"): ("x86_64", "aarch64"),
    ("darwin", "Darwin", "posix"): ("arm64",),
    ("win32", "Windows", "nt"): ("AMD64", "ARM64"),
}
CUDA = re.compile(r"(nvidia|cuda|triton)\b")
# Of torch's builds for Linux without CUDA: they are not in the package index, from which uv reads
# all other hashes, so these stand here. A new torch drops them until somebody adds its own.
CPU_BUILDS = {
    "torch==2.13.0": {
        "cp311-x86_64": "6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b",
        "cp311-aarch64": "84453b69508ec79902f899c5ed9495acb9e2bbe9fda5f1d5d6f19e3c3842e1a7",
        "cp312-x86_64": "4ca4a9394b0c771238a4f73590fdbbc4debad85ed0fa63d026ae1b085da7d6e2",
        "cp312-aarch64": "6f307c2c32d764ffc6ff6893b801fad6d4752f3e67966cb8abf1843427c02604",
        "cp313-x86_64": "3fbf9c9d1f3c10c2d59d04aca426dee9ccc6ceb32d255c61e93acc3b4f75fae6",
        "cp313-aarch64": "0b8f7d0423027ae8b90c7977c627f3379f325363a08224dffad9b4b2d684a83d",
    }
}
# It comes as source alone: its set-up runs when it is installed, with the setuptools locked before.
SOURCE_ONLY = ("docopt",)
HEAD = "# Written by scripts/lock.py from {source}: change that, then run `make lock`.\n"


def read_lock(text: str) -> dict[str, str]:
    """Each package of a lock and its lines, from its name to its last hash."""
    blocks = re.findall(r"^(?=[a-z0-9])(?:.*\\\n)*.*\n", text, re.MULTILINE)
    return {re.split(r"[=\[ ]", block, maxsplit=1)[0]: block for block in blocks}


def is_wanted(lines: str) -> bool:
    """Whether the marker of a package's first line holds on one of the systems we know."""
    marker = Requirement(lines.splitlines()[0].rstrip("\\")).marker
    return marker is None or any(
        marker.evaluate(
            {
                "implementation_name": "cpython",
                "platform_python_implementation": "CPython",
                "python_version": python,
                "python_full_version": f"{python}.{patch}",
                **dict(zip(("sys_platform", "platform_system", "os_name"), system, strict=True)),
                "platform_machine": machine,
            }
        )
        for python in PYTHONS
        for patch in ("0", "99")
        for system, machines in SYSTEMS.items()
        for machine in machines
    )


def pins(packages: Iterable[str]) -> str:
    """Their names and versions alone: uv would keep a hash that is given, and not look it up."""
    return "".join(f"{lines.split()[0]}\n" for lines in packages)


def resolve(
    sources: Iterable[str], locked: str, *, uv: str = "uv", upgrade: bool = False
) -> dict[str, str]:
    """What requirements files bring with them on every system; `locked` is kept where it may be."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "lock.txt")
        output.write_text(locked, encoding="utf-8")
        command = [uv, "pip", "compile", *(str(ROOT / source) for source in sources)]
        command += ["--output-file", str(output), "--quiet", "--no-header"]
        command += ["--universal", "--python-version", PYTHONS[0], "--fork-strategy", "fewest"]
        command += ["--generate-hashes", "--no-annotate"] + ["--upgrade"] * upgrade
        subprocess.run(command, check=True, cwd=ROOT)
        found = read_lock(output.read_text(encoding="utf-8"))
        return {name: lines for name, lines in found.items() if is_wanted(lines)}


def cpu_build(torch: str) -> dict[str, str]:
    """The lines of torch's build without CUDA, given those of the other; none if none is known."""
    pin = torch.split(" ")[0]
    hashes = CPU_BUILDS.get(pin, {}).values()
    lines = "".join(f" \\\n    --hash=sha256:{sha256}" for sha256 in hashes)
    return {"torch": f"{pin}+cpu ; sys_platform == 'linux'{lines}\n"} if lines else {}


def lock_text(source: str, packages: dict[str, str], before: str = "") -> str:
    """A lock file: the lock that it reads, or that packages come as wheels; then the packages."""
    lines = [HEAD.format(source=source)]
    lines += [f"-r {before}.txt\n" if before else "--only-binary :all:\n"]
    lines += [f"--no-binary {name}\n" for name in SOURCE_ONLY if name in packages]
    return "".join(lines) + "".join(packages[name] for name in sorted(packages))


def layered(
    resolved: dict[str, dict[str, str]], all_packages: dict[str, str]
) -> dict[str, dict[str, str]]:
    """What each layer adds to those that it reads; CUDA's libraries stand apart.

    The lines are those of `all_packages`, whose markers hold for every layer.
    """
    adds: dict[str, dict[str, str]] = {}
    for layer, packages in resolved.items():
        new = packages.keys() - resolved.get(READS.get(layer, ""), {}).keys()
        adds[layer] = {name: all_packages[name] for name in new if not CUDA.match(name)}
    adds["cuda"] = {name: lines for name, lines in all_packages.items() if CUDA.match(name)}
    return adds


def write_locks(folder: Path, *, uv: str = "uv", upgrade: bool = False) -> None:
    """Resolve the requirements and write every lock of the folder anew."""
    files = [folder / f"{name}.txt" for name in (*LAYERS, "cuda", *TOOLS)]
    before = [path.read_text(encoding="utf-8") for path in files if path.exists()]
    locked = pins(lines for text in before for lines in read_lock(text).values())
    all_packages = resolve(LAYERS.values(), locked, uv=uv, upgrade=upgrade)
    chosen = pins(all_packages.values())
    resolved = {layer: resolve([source], chosen, uv=uv) for layer, source in LAYERS.items()}
    texts: dict[str, str] = {}
    for layer, packages in layered(resolved, all_packages).items():
        source = LAYERS.get(layer, "the torch in requirements/chapters.txt")
        texts[layer] = lock_text(source, packages, READS.get(layer, ""))
    texts["cpu"] = lock_text("CPU_BUILDS in it", cpu_build(all_packages["torch"]))
    for name, source in TOOLS.items():
        texts[name] = lock_text(source, resolve([source], locked, uv=uv, upgrade=upgrade))
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions")
    options = parser.parse_args(arguments)
    uv = str(Path(sys.executable).with_name("uv"))
    write_locks(LOCKS, uv=uv, upgrade=options.upgrade)
    return 0


if __name__ == "__main__":
    sys.exit(main())
