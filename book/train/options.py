"""What `python -m train` can be told: the options, their defaults, and what excludes what."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lib.layers import ACTIVATIONS, PLACEMENTS
from lib.positions import SCHEMES

# "small" has the size of the best-known tutorial models; "base" and "big" are the paper's.
SIZES = {
    "tiny": {"layers": 2, "d_model": 64, "heads": 4, "d_ff": 128, "dropout": 0.0}
    | {"max_tokens": 512, "epochs": 5},
    "small": {"layers": 3, "d_model": 256, "heads": 8, "d_ff": 512, "dropout": 0.1}
    | {"max_tokens": 4096, "epochs": 15},
    "base": {"layers": 6, "d_model": 512, "heads": 8, "d_ff": 2048, "dropout": 0.1}
    | {"max_tokens": 8192, "epochs": 20},
    "big": {"layers": 6, "d_model": 1024, "heads": 16, "d_ff": 4096, "dropout": 0.3}
    | {"max_tokens": 8192, "epochs": 20},
}
DEFAULTS: dict[str, Any] = {
    "size": None,
    "data": None,
    "source": None,
    "target": None,
    "train": None,
    "valid": None,
    "test": None,
    "lower_case": True,
    "min_count": 1,
    "subword": None,
    "share": False,
    "max_length": 256,
    "norm": "pre",
    "positions": "rotary",
    "activation": "relu",
    "tied": True,
    "smoothing": 0.1,
    "schedule": "cosine",
    "lr": None,
    "warmup": None,
    "clip": 1.0,
    "batch_size": None,
    "accumulate": 1,
    "steps": None,
    "seed": 0,
    "precision": "auto",
    "device": "auto",
    "threads": None,
    "beam": 4,
    "alpha": 0.6,
    "out": "runs/translation",
    "save_every": 60.0,
    "resume": False,
}
# A resumed run is the same run: only what does not change its weights may be told again.
FREE = {"resume", "out", "device", "threads", "save_every", "beam", "alpha"}


def _number(
    kind: type, least: int | float, below: int | float = float("inf")
) -> Callable[[str], Any]:
    """A reader of numbers from `least` to just under `below`, for argparse."""

    def read(text: str) -> Any:
        try:
            number = kind(text)
        except ValueError:
            number = None
        if number is None or not least <= number < below:
            what = "a whole number" if kind is int else "a number"
            bound = f" and below {below}" if below < float("inf") else ""
            raise argparse.ArgumentTypeError(
                f"expected {what} of at least {least}{bound}, got {text!r}"
            )
        return number

    return read


_COUNT, _RATE = _number(int, 1), _number(float, 0.0)
_SHARE = _number(float, 0.0, 1)
_FILES = {"nargs": "+", "metavar": "FILE"}
_OPTIONS: dict[str, dict[str, dict[str, Any]]] = {
    "data (without it: the book's own translation task)": {
        "data": {
            "metavar": "DIR",
            "help": "folder of train.SOURCE, train.TARGET, val.* (or .gz)",
        },
        "source": {"metavar": "SOURCE", "help": "ending of the source's files in DIR, e.g. de"},
        "target": {"metavar": "TARGET", "help": "ending of the target's files in DIR, e.g. en"},
        "train": _FILES | {"help": "instead of DIR: two files, or one with a tab in each line"},
        "valid": _FILES | {"help": "the same for validation; default: part of the training data"},
        "test": _FILES | {"help": "the same for the final score; default: the validation data"},
        "lower_case": {"action": argparse.BooleanOptionalAction, "help": "turn text to lower case"},
        "min_count": {"type": _COUNT, "help": "rarer words are unknown"},
        "subword": {"type": _COUNT, "metavar": "N", "help": "cut words into N sub-words instead"},
        "share": {"action": "store_true", "help": "one vocabulary for both languages"},
        "max_length": {"type": _COUNT, "help": "leave longer sentences out of training"},
    },
    "model": {
        "size": {"choices": SIZES, "help": "sets what this help gives no default for (see below)"},
        "layers": {"type": _COUNT, "help": "in the encoder, and as many in the decoder"},
        "d_model": {"type": _COUNT, "help": "width of the vector at a position"},
        "heads": {"type": _COUNT, "help": "attention heads"},
        "d_ff": {"type": _COUNT, "help": "width inside the feed-forward networks"},
        "dropout": {"type": _SHARE, "help": "share of entries set to 0 in training"},
        "norm": {"choices": PLACEMENTS, "help": "normalise before or after a sub-layer"},
        "positions": {"choices": SCHEMES, "help": "how positions are marked"},
        "activation": {"choices": tuple(ACTIVATIONS), "help": "of the feed-forward networks"},
        "tied": {"action": argparse.BooleanOptionalAction, "help": "embedding is projection too"},
    },
    "training": {
        "smoothing": {"type": _SHARE, "help": "label smoothing"},
        "schedule": {"choices": ("cosine", "paper", "constant"), "help": "of the learning rate"},
        "lr": {
            "type": _RATE,
            "help": "highest rate (default 0.256 / d_model; paper: a factor, 1)",
        },
        "warmup": {
            "type": _number(int, 0),
            "help": "updates (default 1/20 of all; paper: 4000)",
        },
        "clip": {"type": _RATE, "help": "longest gradient"},
        "max_tokens": {"type": _COUNT, "help": "in a batch, on either side, padding included"},
        "batch_size": {"type": _COUNT, "help": "sentences in a batch, instead of max-tokens"},
        "accumulate": {"type": _COUNT, "help": "batches that make one update"},
        "epochs": {"type": _COUNT, "help": "times through the data"},
        "steps": {"type": _COUNT, "help": "updates, instead of epochs"},
        "seed": {"type": _number(int, 0), "help": "of weights, dropout and order"},
    },
    "machine": {
        "precision": {
            "choices": ("auto", "float32", "bfloat16"),
            "help": "auto: bfloat16 on GPU",
        },
        "device": {"help": "auto, cpu, cuda, cuda:1"},
        "threads": {"type": _COUNT, "help": "of the processor; default: what torch chooses"},
    },
    "result": {
        "out": {"metavar": "DIR", "help": "where checkpoints, losses and the summary go"},
        "save_every": {"type": _RATE, "metavar": "SECONDS", "help": "0: after each update"},
        "resume": {
            "action": "store_true",
            "help": "go on with the run in --out",
        },
        "beam": {"type": _COUNT, "help": "of the final translations; 1 is greedy"},
        "alpha": {"type": _RATE, "help": "length penalty of the beam"},
    },
}


def _epilog() -> str:
    """Examples, and what each size stands for."""
    sizes = [
        f"  {name:<6}" + ", ".join(f"{option.replace('_', '-')} {n}" for option, n in size.items())
        for name, size in SIZES.items()
    ]
    examples = (
        "  python -m train",
        "  python -m train --data multi30k --source de --target en --min-count 2 --out runs/de",
        "  python -m train --train mine.tsv --subword 4000 --size tiny --out runs/mine",
        "  python -m train --resume --out runs/de",
    )
    return "\n".join(
        ["sizes; tiny is the default, with files it is small:", *sizes, "", "examples:", *examples]
    )


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line; what was not given is absent.

    Errors: SystemExit with a message for an unknown option, a bad value, or two that exclude
    each other.
    """
    parser = argparse.ArgumentParser(
        prog="python -m train",
        description="Train a Transformer to translate: on the book's task, or on your own files.",
        argument_default=argparse.SUPPRESS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_epilog(),
    )
    for title, options in _OPTIONS.items():
        group = parser.add_argument_group(title)
        for name, settings in options.items():
            default = DEFAULTS.get(name)
            shown = f" (default {default})" if default is not None and default is not False else ""
            flag = "--" + name.replace("_", "-")
            if "type" in settings:
                settings = {"metavar": "N"} | settings
            group.add_argument(flag, **settings | {"help": settings["help"] + shown})
    given = parser.parse_args(arguments)
    problem = _conflict(vars(given))
    if problem:
        parser.error(problem)
    return given


def _conflict(given: dict[str, Any]) -> str | None:
    """What is wrong with these options together."""
    told = sorted(set(given) - FREE)
    if given.get("resume") and told:
        names = ", ".join("--" + name.replace("_", "-") for name in told)
        return f"--resume goes on with the options of the run; leave out {names}"
    pairs = (("data", "train"), ("epochs", "steps"), ("subword", "min_count"))
    for one, other in pairs:
        if one in given and other in given:
            return f"expected --{one} or --{other.replace('_', '-')}, got both"
    named = [name for name in ("data", "source", "target") if name in given]
    if 0 < len(named) < 3:
        return "expected --data DIR --source ENDING --target ENDING together, got only --" + (
            " and --".join(named)
        )
    for name in ("train", "valid", "test"):
        if name in given and len(given[name]) > 2:
            return f"expected one or two files after --{name}, got {len(given[name])}"
        if name in given and "train" not in given:
            return f"expected --train FILE FILE together with --{name}"
    return None


def settle(given: argparse.Namespace) -> argparse.Namespace:
    """Fill in the defaults: those of the size, then the others."""
    told = vars(given)
    own_files = "data" in told or "train" in told
    size = told.get("size", "small" if own_files else "tiny")
    filled = {**DEFAULTS, **SIZES[size], **told, "size": size}
    if "batch_size" in told and "max_tokens" not in told:
        filled["max_tokens"] = None
    if "steps" in told:
        filled["epochs"] = None
    if filled["lr"] is None:
        # 0.004 at the width 64 of the book's own task, and lower for wider models
        filled["lr"] = 1.0 if filled["schedule"] == "paper" else 0.256 / filled["d_model"]
    if filled["data"]:  # a run is resumed from any folder
        filled["data"] = str(Path(filled["data"]).resolve())
    for name in ("train", "valid", "test"):
        filled[name] = [str(Path(file).resolve()) for file in filled[name] or []]
    return argparse.Namespace(**filled)
