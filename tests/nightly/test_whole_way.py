"""The whole way of a reader's own translator: train, translate a file, show, export.

The sentences are those of a small grammar, which `benchmarks/own_data.py` makes. With MULTI30K, the
folder of that task's files, 3,000 pairs of it are learnt as well. Stops are in `test_kills.py`.
"""

import os
import warnings
from pathlib import Path

import pytest
import torch

from benchmarks.own_data import grammar, multi30k
from lib.data import EOS, pad_batch, tokenise
from lib.decoding import greedy
from lib.masks import padding_mask
from show.__main__ import main as show
from train.__main__ import main as train
from train.export import main as export
from train.translate import main as translate
from train.translator import read_run

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from transformers import AutoModelForSeq2SeqLM

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
UPDATES = 300
DESIGN = ["--size", "tiny", "--positions", "sinusoidal", "--share", "--threads", "1"]


@pytest.fixture(params=["grammar", "multi30k"])
def files(request, tmp_path):
    """The task's files in a folder, and how many sentences are for the test."""
    if request.param == "grammar":
        corpus = grammar()
    elif "MULTI30K" in os.environ:
        corpus = multi30k(Path(os.environ["MULTI30K"]), 3000)
    else:
        pytest.skip("MULTI30K does not name the folder of the task's files")
    for name, pairs in corpus.items():
        for at, side in enumerate(("de", "en")):
            text = "".join(pair[at] + "\n" for pair in pairs)
            (tmp_path / f"{name}.{side}").write_text(text, encoding="utf-8")
    return tmp_path, len(corpus["test"])


def test_from_the_sentences_to_the_model_elsewhere(files, capsys):
    folder, n_test = files
    out, written = folder / "run", folder / "translated.en"
    given = ["--data", str(folder), "--source", "de", "--target", "en", *DESIGN]
    assert train([*given, "--steps", str(UPDATES), "--out", str(out)]) == 0
    assert f"{UPDATES} updates" in (out / "summary.txt").read_text(encoding="utf-8")

    source = folder / "test.de"
    assert translate([str(out), "--in", str(source), "--out", str(written), "--beam", "1"]) == 0
    assert len(written.read_text(encoding="utf-8").splitlines()) == n_test

    assert show([str(out), "--sentences", "20"]) == 0
    assert (out / "show" / "index.html").is_file()

    capsys.readouterr()
    assert export([str(out)]) == 0
    assert "logits differ by at most" in capsys.readouterr().out
    theirs = AutoModelForSeq2SeqLM.from_pretrained(out / "huggingface").eval()
    (model, source_vocab, _), _ = read_run(out)
    lines = source.read_text(encoding="utf-8").splitlines()[:20]
    numbered = [[*source_vocab.encode(tokenise(line)), EOS] for line in lines]
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
