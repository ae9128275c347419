"""Train a Transformer to translate: `python -m train`, in the folder `book`.

Without files it learns the book's own task in a minute or two. With `--data DIR --source de
--target en` it learns from parallel text. `--help` lists all options; `--resume` goes on where a
run was stopped, whether by Ctrl-C or by a power cut.

`train.options` reads the command line, `train.corpus` the sentences; `train.run` trains, and
`train.report` says how well. The model and its loop are those of `lib`.
"""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from tqdm import tqdm

from lib.checkpoints import write_whole
from train.options import parse
from train.report import facts, summarise, table
from train.run import STATE, SUMMARY, prepare


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, or 1 after an error and 130 after Ctrl-C."""
    given = parse(arguments)
    run = None
    try:
        run = prepare(given)
        tqdm.write(table(facts(run)))
        if run.step:
            tqdm.write(f"Going on after update {run.step:,}.")
        if run.step < run.steps:
            run.learn()
        text = summarise(run)
        write_whole(run.out / SUMMARY, lambda part: part.write_text(text, encoding="utf-8"))
        tqdm.write("\n" + text)
        return 0
    except KeyboardInterrupt:
        message = "Stopped before the first update; nothing is kept."
        if run is not None and (run.out / STATE).exists():
            message = (
                f"Stopped after {run.kept:,} of {run.steps:,} updates; all is kept in "
                f"{run.out / STATE}.\nGo on with: {_again(run.out)}"
            )
        tqdm.write(message, file=sys.stderr)
        return 130
    except torch.OutOfMemoryError:
        message = (
            "the memory of the GPU is too small; "
            "begin again with a lower --max-tokens and a higher --accumulate"
        )
    except (ValueError, OSError, FloatingPointError, ModuleNotFoundError) as error:
        message = str(error)
    tqdm.write(f"error: {message}", file=sys.stderr)
    return 1


def _again(out: Path) -> str:
    """The command that goes on with a run, from whatever folder it is pasted in."""
    book, python = Path(__file__).parents[1], Path(sys.executable)
    resume = shlex.join([str(python), "-m", "train", "--resume", "--out", str(out.absolute())])
    return f"(cd {shlex.quote(str(book))} && {resume})"


if __name__ == "__main__":
    sys.exit(main())
