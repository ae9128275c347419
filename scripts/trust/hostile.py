"""Type hostile texts, into tokenisers and vocabularies here, into pages by the browser's test."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lib.data import Pair, Vocabulary, read_parallel, tokenise
from lib.decoding import translate
from scripts.trust.draw import TEXTS
from scripts.trust.faults import Tried
from scripts.trust.fuzz import judge_error
from train.checkpoints import load_published
from train.subword import SubwordVocabulary, vocabulary_from_json, vocabulary_to_json

ROOT = Path(__file__).resolve().parents[2]
IN_BROWSER = ROOT / "tests" / "browser" / "test_hostile.py"


def typed(text: str, folder: Path, model: Any) -> None:
    """Send one text through all that reads text; what must hold afterwards is asserted."""
    tokens = tokenise(text)
    assert all(token and not token.isspace() for token in tokens)
    assert tokenise(" ".join(tokens)) == tokens, "tokens are not tokens again"
    words = Vocabulary.from_sentences([tokens, ("a", "b")])
    assert tuple(words.decode(words.encode(tokens))) == tokens, "a token was lost"
    assert vocabulary_from_json(vocabulary_to_json(words)).tokens == words.tokens
    translate(model[0], [Pair(tokens, ())], *model[1:], max_length=5)
    pieces = SubwordVocabulary.from_sentences([tokens, ("a", "b")], 600)
    again = vocabulary_from_json(vocabulary_to_json(pieces))
    assert again.encode(tokens) == pieces.encode(tokens), "another numbering"
    path = folder / "typed.tsv"
    path.write_bytes(f"{text}\t{text}\n".encode("utf-8", "surrogatepass"))
    read_parallel(path)


def texts(folder: Path, send: Callable[..., None] = typed) -> Tried:
    """Every text of `draw.TEXTS`; one may be refused by a documented error."""
    tried, model = Tried("typed texts"), load_published()
    for text in TEXTS:
        try:
            send(text, folder, model)
            tried.add("as undisturbed")
        except BaseException as error:  # a package in Rust panics with one of its own
            kind, said = judge_error(error)
            kind = "refused" if kind.startswith("refused") else "unclear"
            tried.add(kind, repr(text[:40]), said)
    return tried


def pages(path: Path = IN_BROWSER) -> Tried:
    """The browser's test of hostile links and texts."""
    tried = Tried("pages in the browser")
    if not path.exists() or not (ROOT / "_build" / "html" / "index.html").exists():
        tried.add("left out", "", f"{path.name} or the built book is not there; run make book")
        return tried
    command = [sys.executable, "-m", "pytest", "-q", "-o", "addopts=", "-p", "no:cacheprovider"]
    command += ["--import-mode=importlib", str(path)]
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True)
    last = done.stdout.strip().split("\n")[-1]
    passed = int((re.search(r"(\d+) passed", last) or [0, 0])[1])
    for _ in range(passed):
        tried.add("as undisturbed")
    if done.returncode or not passed:
        tried.add("left out" if done.returncode in (0, 5) else "unclear", path.name, last)
    return tried
