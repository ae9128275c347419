"""The engine of the laboratories as a page or a notebook's front end gets it: one text, one binary.

`worker.js` and what it imports are the text of a worker. The build makes a script of it for the
pages (`_static/widgets/engine.js`), which none loads before a reader asks; a kernel sends the same
text. Only Python's own library is used here, since building needs no other.
"""

from pathlib import Path

from widgets import joiner

QUOTES = ('"', "`")
# The widgets whose pages train
LABORATORIES = ("laboratory", "take_out", "bottleneck", "train_now", "language")
FOLDER = Path(__file__).parent
WORKER = FOLDER / "worker.js"
WRITING = FOLDER / "writing.js"  # the language model's task, which its panel alone loads


def scripts() -> dict[str, Path]:
    """The files of the worker's scripts by their names, each after those that it imports."""
    return {module.path.stem: module.path for module in joiner.modules(WORKER)}


def worker_text() -> str:
    """The scripts of the worker as one: a classic script without imports, made lean."""
    return lean(joiner.join(WORKER))


def writing_text() -> str:
    """What stands behind the worker's text where a language model trains, made lean too."""
    given = {module.path: module.name for module in joiner.modules(WORKER)}
    return lean(joiner.join(WRITING, given=given))


def lean(script: str) -> str:
    """A script without indents and comments, but for those between other words: it loads faster.

    Errors: ValueError for text that goes on in another line, whose indent would be lost.
    """
    found, comment = [], False
    for line in map(str.strip, script.splitlines()):
        comment = comment or line.startswith("/*")
        if not comment:
            code, _, _ = line.partition(" // ")
            line = line if any(code.count(quote) % 2 for quote in QUOTES) else code.rstrip()
            if line.count("`") % 2:
                raise ValueError(f"expected texts that end in their line, got {line!r}")
            if line and not line.startswith("//"):
                found.append(f"{line}\n")
        comment = comment and not line.endswith("*/")
    return "".join(found)


def kernels() -> bytes:
    """The WebAssembly module that the worker computes with where a browser has SIMD."""
    return (FOLDER / "kernels.wasm").read_bytes()


def engine_script() -> str:
    """A classic script that leaves the engine in the page: what a page from a file loads too.

    The bytes are hexadecimal: packed by a server they take less than as base64, whose letters do
    not begin where a byte does.
    """
    text, wasm = _template(worker_text()), kernels().hex()
    return f'window.bookEngine = {{ text: {text}, wasm: "{wasm}" }};\n'


def writing_script() -> str:
    """The same of the language model's task."""
    return f"window.bookWriting = {_template(writing_text())};\n"


def _template(text: str) -> str:
    """A text as JavaScript writes it with few signs that others stand before: it packs better."""
    for sign in ("\\", "`", "${"):
        text = text.replace(sign, f"\\{sign}")
    return f"`{text}`"
