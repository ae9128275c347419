"""Multi30k, German to English: train by `python -m train`, translate greedily and with a beam.

    python benchmarks/multi30k.py DIR [--out runs/multi30k] [--epochs 10]

DIR holds the task's files, raw, as its authors publish them: train.de, train.en, val.*,
test_2016_flickr.* (plain or .gz). Called again, it goes on with a run that was stopped.
Two scores for each decoder: BLEU on the lower-cased tokens that the model reads and writes, as
tutorials count it; and sacreBLEU's own, of joined translations against the raw references, with
both in lower case too. Recorded in results/multi30k.json.
"""

import gzip
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import sacrebleu
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "book"))

from lib.data import read_parallel
from lib.decoding import translate
from lib.metrics import bleu
from lib.notebook import best_device
from measure.experiments import command_line
from measure.records import write_results
from train.__main__ import main as train
from train.checkpoints import load_model

OPTIONS = {
    "source": "de",
    "target": "en",
    "subword": 6000,
    "layers": 3,
    "d-model": 256,
    "heads": 4,
    "d-ff": 1024,
    "dropout": 0.3,
    "batch-size": 64,
    "lr": 1.5e-3,
    "warmup": 400,
    "precision": "bfloat16",
    "threads": 1,
}
LONGEST = 80  # tokens of a translation


def find(folder: Path, name: str) -> Path:
    return next(path for path in (folder / name, folder / f"{name}.gz") if path.exists())


def lines(path: Path) -> list[str]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as stream:
        return [line.strip() for line in stream]


def joined(words: Sequence[str]) -> str:
    """Text again: the tokens stand apart, but for hyphens and apostrophes inside a word."""
    return re.sub(r"(?<=\w) (['’-]) (?=\w)", r"\1", " ".join(words))


def main(arguments: list[str] | None = None) -> int:
    options = {"corpus": Path, "out": Path("runs/multi30k"), "epochs": 10}
    experiment = command_line(__file__, __doc__, arguments=arguments, **options)
    given = experiment.options
    if (given.out / "last.pt").exists():
        told = ["--resume"]
    else:
        settings = OPTIONS | {"epochs": given.epochs, "data": given.corpus}
        told = ["--share", *(f"--{name}={value}" for name, value in settings.items())]
    if failed := train([*told, "--out", str(given.out)]):
        return failed
    model, source_vocab, target_vocab = load_model(given.out / "best.safetensors", best_device())
    torch.set_num_threads(1)
    files = [find(given.corpus, f"test_2016_flickr.{side}") for side in ("de", "en")]
    pairs = read_parallel(*files, lowercase=True)
    references = [pair.target for pair in pairs]
    raw = lines(files[1])
    decoders = {}
    for beam in (None, 4):
        start = time.process_time()
        said = translate(
            model, pairs, source_vocab, target_vocab, max_length=LONGEST, beam=beam, alpha=0.6
        )
        seconds = time.process_time() - start
        tokens = bleu(said, references)
        whole = sacrebleu.metrics.BLEU(lowercase=True, force=True)
        score = whole.corpus_score([joined(words) for words in said], [raw])
        decoders["greedy" if beam is None else f"beam {beam}"] = {
            "seconds": round(seconds),
            "tokens": {"bleu": round(tokens.score, 2), "signature": tokens.signature},
            "joined": {"bleu": round(score.score, 2), "signature": str(whole.get_signature())},
        }
    results = {
        "options": {
            name: str(value) for name, value in (OPTIONS | {"epochs": given.epochs}).items()
        },
        "parameters": sum(p.numel() for p in model.parameters()),
        "device": str(best_device()),
        "decoders": decoders,
    }
    print(results)
    write_results(experiment.path, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
