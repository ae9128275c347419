"""Show a run that has come to its end: `python -m show RUN`, in `book`; two runs are compared.

It writes one folder with one page, which opens from a file and needs no network: the losses, BLEU,
the options, the data in numbers, translations beside their references, and the book's tracer with
the model itself: the reader types a sentence and sees how it is translated. `--help` lists the
options. Nothing in the folder of a run is changed; the page's own folder stands in it.
"""

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from show.measured import Finished, measure, read
from show.page import PAGE, Shown, is_page, size, write_page
from show.tracer import make_tracer, why_not
from train.checkpoints import whole_folder
from train.machine import device, use_threads
from train.options import number
from widgets.rounding import BITS

MOST_RUNS = 2
FOLDER = "show"  # in that of the run


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line. Errors: SystemExit with a message for what it does not know."""
    parser = argparse.ArgumentParser(
        prog="python -m show",
        description="Make a page of a run that python -m train has finished, with its model in it.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n  python -m show runs/de\n  python -m show runs/de runs/two --out both",
    )
    count = number(int, 1)
    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN", help="folder of a finished run; two are compared")
    add("--out", metavar="DIR", help=f"where the page goes (default: {FOLDER} in that of the run)")
    add("--bits", type=int, choices=BITS, default=8, help="of a parameter in the page (default 8)")
    add(
        "--sentences",
        type=count,
        metavar="N",
        default=1000,
        help="of the test, at most, that are translated (default 1000)",
    )
    add("--device", default="auto", help="auto, cpu, cuda, cuda:1 (default auto)")
    add("--threads", type=count, metavar="N", help="of the processor; default: what torch chooses")
    given = parser.parse_args(arguments)
    if len(given.runs) > MOST_RUNS:
        parser.error(f"expected one run or two, got {len(given.runs)}")
    if len({Path(run).resolve() for run in given.runs}) < len(given.runs):
        parser.error("expected two different runs, got the same twice")
    return given


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, or 1 after an error and 130 after Ctrl-C."""
    given = parse(arguments)
    try:
        _show(given)
        return 0
    except KeyboardInterrupt:
        print("\nStopped; nothing is written.", file=sys.stderr)
        return 130
    except (MemoryError, torch.OutOfMemoryError):
        message = "the memory is too small; lower --sentences"
    except (ValueError, OSError, ModuleNotFoundError) as error:
        message = str(error)
    print(f"error: {message}", file=sys.stderr)
    return 1


def _show(given: argparse.Namespace) -> None:
    if given.threads:
        use_threads(given.threads)
    out = _place(given)
    where = device(given.device)
    shown = [_shown(run, given) for run in [read(Path(name), where) for name in given.runs]]
    written = _write(shown, out)
    print(
        f"Open {out / PAGE} in a browser: {written / 1e6:.1f} MB in its folder, and no network is "
        "needed."
    )


def _place(given: argparse.Namespace) -> Path:
    """Where the page goes, checked before anything is computed."""
    first, *others = map(Path, given.runs)
    name = "-".join([FOLDER, *(other.resolve().name for other in others)])
    out = Path(given.out) if given.out else first / name
    if given.out and not out.resolve().parent.is_dir():
        raise ValueError(f"expected a folder that is there for --out, got {out.resolve().parent}")
    if out.exists() and not is_page(out) and not (out.is_dir() and not any(out.iterdir())):
        raise ValueError(
            f"expected a new folder for the page, or that of an earlier page, got {out}; name "
            "another one with --out"
        )
    return out


def _shown(run: Finished, given: argparse.Namespace) -> Shown:
    """Measure a run, and tell what its page's model loses."""
    reason, tracer = why_not(run, given.bits), None
    measured = measure(run, None if reason else given.bits, given.sentences)
    count = len(measured.translated)
    told = f"{run.name}: BLEU {measured.exact_bleu:.2f}, greedy, on {count:,} sentences."
    if not reason:
        try:
            tracer = make_tracer(run, given.bits)
        except ValueError as error:
            reason = f"The page cannot show this model: {error}."
    if tracer and given.bits < 32:
        told += (
            f"\nWith {given.bits} bits a parameter: {measured.bleu:.2f}; {measured.alike:,} "
            "translations are the same."
        )
    print(told)
    if reason:
        print(f"{run.name}: the page is without the model. {reason}")
    return Shown(run, measured, given.bits, tracer, reason)


def _write(shown: Sequence[Shown], out: Path) -> int:
    """Write the page beside its place, and put it there when it is whole; its size in bytes."""
    with whole_folder(out, clear=shutil.rmtree) as part:
        write_page(shown, part)
        written = size(part)
    return written


if __name__ == "__main__":
    sys.exit(main())
