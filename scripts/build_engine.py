"""Build the kernels of the page's engine: kernels.wasm from kernels.c, by a pinned compiler.

    make engine                   after a change of kernels.c
    make engine ARGS=--check      says whether the committed file is what the source gives

The compiler is clang, as the package ziglang brings it; requirements/tools.txt has its version.
The same version writes the same bytes on every machine. Behind them stands a section that browsers
skip, with a hash of what they were made from: a test without the compiler sees that they are old.
"""

import argparse
import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

ENGINE = Path(__file__).resolve().parent.parent / "book" / "engine"
SOURCE, BUILT = ENGINE / "kernels.c", ENGINE / "kernels.wasm"
COMPILER = [sys.executable, "-m", "ziglang", "cc"]
FLAGS = [
    "-target",
    "wasm32-freestanding",
    "-O3",
    "-msimd128",  # four floats at once
    "-mnontrapping-fptoint",  # a NaN made a whole number gives 0 and does not stop the program
    "-fno-math-errno",
    "-ffp-contract=off",  # the same rounding everywhere
    "-ffreestanding",
    "-nostdlib",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wl,--no-entry",
    "-Wl,--strip-all",
    "-Wl,--export=__heap_base",  # the engine's own numbers begin there
    "-Wl,-z,stack-size=4096",
]


def mark(source: Path) -> bytes:
    """The section "source" of a WebAssembly module: the hash of a source and of the flags."""
    name = b"\x06source"
    text = source.read_text(encoding="utf-8")  # with the same line ends on every system
    digest = hashlib.sha256((text + " ".join(FLAGS)).encode()).digest()
    return bytes([0, len(name) + len(digest)]) + name + digest


def build(source: Path, output: Path) -> bytes:
    """Compile a source of kernels; return the bytes of the module, with its mark."""
    subprocess.run([*COMPILER, *FLAGS, "-o", output, source], check=True)
    return output.read_bytes() + mark(source)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as folder:
        built = build(SOURCE, Path(folder, BUILT.name))
    if not check:
        BUILT.write_bytes(built)
    elif built != BUILT.read_bytes():
        raise SystemExit(f"expected {BUILT.name} to be what {SOURCE.name} gives: run `make engine`")
    print(f"{BUILT.name}: {len(built):,} bytes")


if __name__ == "__main__":
    main()
