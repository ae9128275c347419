"""The whole way of a reader's own translator: train, stop, go on, translate a file, show, export.

The sentences are those of a small grammar, which `benchmarks/own_data.py` makes. With MULTI30K, the
folder of that task's files, 3,000 pairs of it are learnt as well. Other stops are in
`test_kills.py`. Firefox and WebKit open the page too, where they are installed.
"""

import json
import os
import signal
import warnings
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from benchmarks.own_data import grammar, multi30k
from lib.data import EOS, pad_batch, tokenise
from lib.decoding import greedy
from lib.masks import padding_mask
from show.__main__ import main as show
from show.page import PAGE
from tests.browser.asking import ask, ask_in
from train.__main__ import main as train
from train.export import main as export
from train.folder import LOSSES, SUMMARY
from train.run import Run
from train.subword import labels
from train.translate import main as translate
from train.translator import Translator, read_run
from widgets.rounding import rounded

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from transformers import AutoModelForSeq2SeqLM

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.usefixtures("one_thread"),
]
UPDATES, STOP = 300, 130
SENTENCES = 200  # that are typed into the page, if the test has so many
DESIGN = ["--size", "tiny", "--positions", "sinusoidal", "--share", "--threads", "1"]


class Made(NamedTuple):
    """A finished run, the lines of its test, and the pages made of it, by their bits."""

    run: Path
    lines: list[str]
    pages: dict[int, Path]


def stop_and_go_on(given: list[str], out: Path) -> None:
    """Train; press Ctrl-C in the update STOP; resume."""
    update = Run.after_update

    def pressed(self, step, loss):
        if step == STOP:
            os.kill(os.getpid(), signal.SIGINT)
        update(self, step, loss)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "after_update", pressed)
        assert train([*given, "--out", str(out)]) == 130
    assert not (out / SUMMARY).exists()
    assert train(["--resume", "--out", str(out)]) == 0


@pytest.fixture(scope="session", params=["grammar", "multi30k"])
def made(request, tmp_path_factory):
    if request.param == "grammar":
        corpus = grammar()
    elif "MULTI30K" in os.environ:
        corpus = multi30k(Path(os.environ["MULTI30K"]), 3000)
    else:
        pytest.skip("MULTI30K does not name the folder of the task's files")
    folder = tmp_path_factory.mktemp(request.param)
    for name, pairs in corpus.items():
        for at, side in enumerate(("de", "en")):
            text = "".join(pair[at] + "\n" for pair in pairs)
            (folder / f"{name}.{side}").write_text(text, encoding="utf-8")
    out = folder / "run"
    given = ["--data", str(folder), "--source", "de", "--target", "en", *DESIGN]
    stop_and_go_on([*given, "--steps", str(UPDATES)], out)
    pages = {bits: folder / f"page{bits}" for bits in (8, 32)}
    for bits, page in pages.items():
        assert show([str(out), "--sentences", "20", f"--bits={bits}", f"--out={page}"]) == 0
    return Made(out, [pair[0] for pair in corpus["test"]], pages)


def test_each_update_is_done_once(made):
    told = [json.loads(line) for line in (made.run / LOSSES).read_text().splitlines()]
    updates = [one["step"] for one in told if "loss" in one]
    assert updates == list(range(1, UPDATES + 1))
    assert f"{UPDATES} updates" in (made.run / SUMMARY).read_text(encoding="utf-8")


def test_a_file_is_translated(made, tmp_path):
    source, written = tmp_path / "test.de", tmp_path / "test.en"
    source.write_text("".join(line + "\n" for line in made.lines), encoding="utf-8")
    assert translate([str(made.run), "--in", str(source), "--out", str(written)]) == 0
    assert len(written.read_text(encoding="utf-8").splitlines()) == len(made.lines)


def said_by_python(made: Made, bits: int) -> list[list[str]]:
    """The tokens of each greedy translation with parameters of so many bits, as the page has them.

    Not those of 32 bits for 8: after 300 updates the two likeliest words are often as good as
    equal, and 19 of Multi30k's 200 sentences get others. A model that has learned its task hardly
    changes with 8 bits: tests/browser/test_show.py.
    """
    (model, *vocabs), _ = read_run(made.run)
    found = Translator(rounded(model, bits), *vocabs, beam=1, alpha=0.0).translate(
        [tokenise(line) for line in made.lines[:SENTENCES]]
    )
    shown = labels(vocabs[1])
    return [[shown[token] for token in best.tokens] for (best,) in found]


def require_alike(made: Made, bits: int, found: list[list[str]]) -> None:
    expected = said_by_python(made, bits)
    alike = sum(a == b for a, b in zip(found, expected, strict=True))
    assert alike >= {32: 1.0, 8: 0.98}[bits] * len(expected)
    assert len({tuple(words) for words in found}) > 0.2 * len(found), "else it has learned nothing"


@pytest.mark.parametrize("bits", [32, 8])
def test_chromium_answers_as_python_does(made, bits, page):
    page.goto((made.pages[bits] / PAGE).as_uri())
    require_alike(made, bits, ask(page, made.lines[:SENTENCES]))


@pytest.mark.parametrize("bits", [32, 8])
def test_firefox_and_webkit_answer_as_python_does(made, bits, engine):
    engine.open((made.pages[bits] / PAGE).as_uri())
    require_alike(made, bits, ask_in(engine, made.lines[:SENTENCES]))


def test_transformers_writes_the_same(made, tmp_path, capsys):
    assert export([str(made.run), "--out", str(tmp_path / "theirs")]) == 0
    assert "logits differ by at most" in capsys.readouterr().out
    theirs = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "theirs").eval()
    (model, source_vocab, _), _ = read_run(made.run)
    numbered = [[*source_vocab.encode(tokenise(line)), EOS] for line in made.lines[:20]]
    batch = pad_batch(numbered, [[] for _ in numbered])
    ours, _ = greedy(model, batch.source, batch.source_lengths, 20)
    keys = padding_mask(batch.source_lengths, batch.source.shape[1])[:, 0]
    with torch.inference_mode():
        found = theirs.generate(
            batch.source, attention_mask=keys, num_beams=1, do_sample=False, max_new_tokens=20
        )
    for row, own in zip(found[:, 1:].tolist(), ours.tolist(), strict=True):
        n = own.index(EOS) + 1 if EOS in own else len(own)
        assert row[:n] == own[:n]
