"""What `python -m train` can be told: the options, their defaults, and what excludes what."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any

from lib.layers import ACTIVATIONS, PLACEMENTS
from lib.positions import SCHEMES

# "small" has the size of the best-known tutorial models; "base" and "big" are the paper's.
_SIZED = ("layers", "d_model", "heads", "d_ff", "dropout", "max_tokens", "epochs")
SIZES = {
    "tiny": dict(zip(_SIZED, (2, 64, 4, 128, 0.0, 512, 5), strict=True)),
    "small": dict(zip(_SIZED, (3, 256, 8, 512, 0.1, 4096, 15), strict=True)),
    "base": dict(zip(_SIZED, (6, 512, 8, 2048, 0.1, 8192, 20), strict=True)),
    "big": dict(zip(_SIZED, (6, 1024, 16, 4096, 0.3, 8192, 20), strict=True)),
}
HUGE = 2**63  # what torch counts to
# A resumed run is the same run: only what does not change its weights may be told again.
FREE = {"resume", "out", "device", "threads", "save_every", "beam", "alpha", "tensorboard"}
# Where the sentences are. A run is fixed by the sentences themselves.
PLACES = {"data", "source", "target", "train", "valid", "test"}


def number(
    kind: type, least: int | float, below: int | float | None = None, *, above: bool = False
) -> Callable[[str], Any]:
    """A reader of numbers from `least`, or above it, to just under `below`, for argparse."""
    wanted = f"{'a whole number' if kind is int else 'a number'} "
    wanted += f"above {least}" if above else f"of at least {least}"
    if below:
        wanted += f" and below {below}"
    end = below or (HUGE if kind is int else inf)

    def read(text: str) -> Any:
        fault = ""
        with suppress(ValueError):
            number = kind(text)
            if least <= number < end and not (above and number == least):
                return number
            fault = ", which is too large" if number >= end else ""
        raise argparse.ArgumentTypeError(f"expected {wanted}, got {text!r}{fault}")

    return read


def _option(text: str, default: Any = None, **settings: Any) -> tuple[Any, dict[str, Any]]:
    """An option's default, and what argparse is to know: its help, which names the default."""
    if default is not None and default is not False:
        text += f" (default {default})"
    if "type" in settings:
        settings.setdefault("metavar", "N")
    return default, settings | {"help": text}


_COUNT, _SHARE = number(int, 1), number(float, 0.0, 1)
_RATE, _SPAN = number(float, 0, above=True), number(float, 0.0)
_FILES: dict[str, Any] = {"nargs": "+", "metavar": "FILE"}
_YES_OR_NO = argparse.BooleanOptionalAction
_SCHEDULES, _PRECISIONS = ("cosine", "paper", "constant"), ("auto", "float32", "bfloat16")
_OPTIONS = {
    "data (without it: the book's own translation task)": {
        "data": _option("folder of train.SOURCE, train.TARGET, val.* (or .gz)", metavar="DIR"),
        "source": _option("ending of the source's files in DIR, e.g. de"),
        "target": _option("ending of the target's files in DIR, e.g. en"),
        "train": _option("instead of DIR: two files, or one with a tab in each line", **_FILES),
        "valid": _option("the same for validation; default: part of the training data", **_FILES),
        "test": _option("the same for the final score; default: the validation data", **_FILES),
        "lower_case": _option("turn text to lower case", True, action=_YES_OR_NO),
        "min_count": _option("rarer words are unknown", 1, type=_COUNT),
        "subword": _option("split words into N sub-words instead", type=_COUNT),
        "share": _option("one vocabulary for both languages", False, action="store_true"),
        "max_length": _option("leave longer sentences out of training", 256, type=_COUNT),
    },
    "model": {
        "size": _option("sets what this help gives no default for (see below)", choices=SIZES),
        "layers": _option("in the encoder, and as many in the decoder", type=_COUNT),
        "d_model": _option("dimension of the vector at a position", type=_COUNT),
        "heads": _option("attention heads", type=_COUNT),
        "d_ff": _option("inner dimension of the feed-forward networks", type=_COUNT),
        "dropout": _option("fraction of entries set to 0 in training", type=_SHARE),
        "norm": _option("normalise before or after a sub-layer", "pre", choices=PLACEMENTS),
        "positions": _option("how positions are marked", "rotary", choices=SCHEMES),
        "activation": _option("of the feed-forward networks", "relu", choices=tuple(ACTIVATIONS)),
        "tied": _option("embedding is projection too", True, action=_YES_OR_NO),
    },
    "training": {
        "smoothing": _option("label smoothing", 0.1, type=_SHARE),
        "schedule": _option("of the learning rate", "cosine", choices=_SCHEDULES),
        "lr": _option("highest rate (default 0.256 / d_model; paper: a factor, 1)", type=_RATE),
        "warmup": _option("updates (default 1/20 of all; paper: 4000)", type=number(int, 0)),
        "clip": _option("longest gradient", 1.0, type=_RATE),
        "max_tokens": _option("in a batch, on either side, padding included", type=_COUNT),
        "batch_size": _option("sentences in a batch, instead of max-tokens", type=_COUNT),
        "accumulate": _option("batches that make one update", 1, type=_COUNT),
        "epochs": _option("times through the data", type=_COUNT),
        "steps": _option("updates, instead of epochs", type=_COUNT),
        "seed": _option("of parameters, dropout and order", 0, type=number(int, 0, 2**32)),
    },
    "machine": {
        "precision": _option("auto: bfloat16 on GPU", "auto", choices=_PRECISIONS),
        "device": _option("auto, cpu, cuda, cuda:1", "auto"),
        "threads": _option("of the processor; default: what torch chooses", type=_COUNT),
    },
    "result": {
        "out": _option(
            "where checkpoints, losses and the summary go", "runs/translation", metavar="DIR"
        ),
        "save_every": _option("0: after each update", 60.0, type=_SPAN, metavar="SECONDS"),
        "resume": _option("go on with the run in --out", False, action="store_true"),
        "tensorboard": _option(
            "losses for TensorBoard too, in OUT/tensorboard; needs the package tensorboard",
            False,
            action=_YES_OR_NO,
        ),
        "beam": _option("of the final translations; 1 is greedy", 4, type=_COUNT),
        "alpha": _option("length penalty of the beam", 0.6, type=number(float, 0.0, 100)),
    },
}
DEFAULTS = {name: default for group in _OPTIONS.values() for name, (default, _) in group.items()}
_EXAMPLES = """
examples:
  python -m train
  python -m train --data multi30k --source de --target en --min-count 2 --out runs/de
  python -m train --train mine.tsv --subword 4000 --size tiny --out runs/mine
  python -m train --resume --out runs/de"""


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line; what was not given is absent.

    Errors: SystemExit with a message for an unknown option, a bad value, or two that exclude
    each other.
    """
    sizes = "\n".join(
        f"  {size:<6}" + ", ".join(f"{_flag(name)[2:]} {n}" for name, n in settings.items())
        for size, settings in SIZES.items()
    )
    parser = argparse.ArgumentParser(
        prog="python -m train",
        description="Train a Transformer to translate: on the book's task, or on your own files.",
        argument_default=argparse.SUPPRESS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="with files: what is not said of size, dropout, sub-words, batches, epochs and\n"
        "threads is chosen by them, and printed with the reason\n\n"
        f"sizes; without files tiny is the default:\n{sizes}\n{_EXAMPLES}",
    )
    for title, options in _OPTIONS.items():
        group = parser.add_argument_group(title)
        for name, (_, settings) in options.items():
            group.add_argument(_flag(name), **settings)
    given = parser.parse_args(arguments)
    if problem := _conflict(vars(given)):
        parser.error(problem)
    return given


def _flag(name: str) -> str:
    """How an option is called on the command line: d_model -> --d-model."""
    return "--" + name.replace("_", "-")


def _conflict(given: dict[str, Any]) -> str | None:
    """What is wrong with these options together."""
    told = sorted(set(given) - FREE)
    if given.get("resume") and told:
        names = ", ".join(map(_flag, told))
        return f"--resume goes on with the options of the run; leave out {names}"
    for one, other in (("data", "train"), ("epochs", "steps"), ("subword", "min_count")):
        if one in given and other in given:
            return f"expected {_flag(one)} or {_flag(other)}, got both"
    if "\0" in given.get("data", ""):
        return "expected the name of a folder after --data, got one with a zero byte"
    named = [name for name in ("data", "source", "target") if name in given]
    if 0 < len(named) < 3:
        names = " and ".join(map(_flag, named))
        return f"expected --data DIR --source ENDING --target ENDING together, got only {names}"
    for name in ("train", "valid", "test"):
        if name in given and len(given[name]) > 2:
            return f"expected one or two files after --{name}, got {len(given[name])}"
        if any("\0" in file for file in given.get(name, ())):
            return f"expected names of files after --{name}, got one with a zero byte"
        if name in given and "train" not in given:
            return f"expected --train FILE FILE together with --{name}"
    return None


def reads_files(given: argparse.Namespace) -> bool:
    """Whether the sentences are the reader's own: then what is not said is chosen by them."""
    return bool({"data", "train"} & vars(given).keys())


def settle(
    given: argparse.Namespace, chosen: Mapping[str, Any] | None = None
) -> argparse.Namespace:
    """Fill in the defaults: those of the size, what was chosen by the data, then the others."""
    told = vars(given)
    of_data = dict(chosen or {})
    size = told.get("size") or of_data.get("size") or ("small" if reads_files(given) else "tiny")
    filled = DEFAULTS | SIZES[size] | of_data | told | {"size": size}
    for instead, usual in (("batch_size", "max_tokens"), ("steps", "epochs")):
        if instead in told and usual not in told:
            filled[usual] = None
    if filled["lr"] is None:
        # 0.004 at the width 64 of the book's own task, and lower for wider models
        filled["lr"] = 1.0 if filled["schedule"] == "paper" else 0.256 / filled["d_model"]
    if filled["data"]:  # a run is resumed from any folder
        filled["data"] = str(Path(filled["data"]).resolve())
    for name in ("train", "valid", "test"):
        filled[name] = [str(Path(file).resolve()) for file in filled[name] or []]
    return argparse.Namespace(**filled)
