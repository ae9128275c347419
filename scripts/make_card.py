"""Draw the picture that stands beside a shared link: book/static/card.png, 1200 x 630.

    python scripts/make_card.py

The map is real: the first cross-attention of the book's own published model on one sentence.
"""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "book"))

import matplotlib as mpl
import matplotlib.pyplot as plt

from lib.attention import attention_maps
from lib.data import Pair, make_batch
from lib.decoding import translate
from train.checkpoints import load_published

CARD = Path(__file__).resolve().parent.parent / "book" / "static" / "card.png"
PAPER, INK, SOFT = "#fbfaf7", "#1d2433", "#5b6472"
SENTENCE = "forty two canadian dollars and three weeks ago"


def main() -> None:
    mpl.use("agg")
    model, source_vocab, target_vocab = load_published()
    source = tuple(SENTENCE.split())
    (target,) = translate(model, [Pair(source, ())], source_vocab, target_vocab)
    batch = make_batch([Pair(source, tuple(target))], source_vocab, target_vocab)
    inputs = (batch.source, batch.source_lengths, batch.target_in)
    maps = attention_maps(model, *inputs)["decoder.layers.1.cross_attention"]
    weights = maps[0].mean(dim=0)[: len(target), : len(source)]

    figure = plt.figure(figsize=(12, 6.3), dpi=100, facecolor=PAPER)
    axes = figure.add_axes((0.63, 0.27, 0.33, 0.62))
    axes.imshow(weights, cmap="Blues", vmin=0, aspect="auto")
    axes.set_yticks(range(len(target)), target, fontsize=13, color=INK)
    axes.set_xticks(range(len(source)), source, fontsize=13, color=INK, rotation=60, ha="right")
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    serif: dict[str, Any] = {"family": "serif", "color": INK}
    figure.text(
        0.06, 0.52, "The Transformer,\nPiece by Piece", fontsize=44, linespacing=1.2, **serif
    )
    figure.text(
        0.06,
        0.28,
        "An interactive textbook.\nEvery claim is executed, every widget\nis live in the page.",
        fontsize=20,
        linespacing=1.5,
        color=SOFT,
    )
    figure.savefig(CARD, facecolor=PAPER)


if __name__ == "__main__":
    main()
