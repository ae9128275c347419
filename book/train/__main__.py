"""Train a Transformer to translate: `python -m train`, in the folder `book`.

Without files it learns the book's own task in a minute or two. With `--data DIR --source de
--target en` it learns from parallel text. `--help` lists all options; `--resume` goes on where a
run was stopped, whether by Ctrl-C or by a power cut.

`torchrun --standalone --nproc-per-node=2 -m train`, with the same options, splits every batch among
two processes. With `--max-restarts=3` they go on by themselves after one of them was killed.

`train.options` reads the command line, `train.corpus` the sentences; `train.run` trains on what
`train.machine` offers, beside the other processes of `train.ranks`, and `train.report` says how
well. `train.folder` locks the folder where all is kept, `train.losses` writes the losses. The model
and its loop are those of `lib`.
"""

import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import torch
from tqdm import tqdm

from train.checkpoints import write_whole
from train.folder import STATE, SUMMARY, locked
from train.options import parse, settle
from train.ranks import Ranks, joined
from train.report import facts, summarise, table
from train.run import prepare

PATIENCE = 10.0  # seconds that a run, started again by torchrun, waits for itself to end
PORT = 29400  # torchrun's own, where the torchruns of several machines meet
TOO_LITTLE_MEMORY = (
    "the memory is too small; begin again with a lower --max-tokens and a higher --accumulate, "
    "or with a smaller model"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, or 1 after an error and 130 after Ctrl-C."""
    try:
        with joined() as ranks:
            with ranks.only_first_speaks():
                status, message = _run(arguments, ranks)
            if message:
                ranks.report(message)
            return status
    except (ConnectionError, ValueError) as error:  # they have not met
        if os.environ.get("LOCAL_RANK", "0") == "0":  # once on each machine
            tqdm.write(f"error: {error}", file=sys.stderr)
        return 1


def _run(arguments: Sequence[str] | None, ranks: Ranks) -> tuple[int, str]:
    """Train and score; return what `main` does, and what is to be told of an end before the end."""
    given = parse(arguments)
    folder = Path(settle(given).out)
    run = None
    try:
        with ExitStack() as stack:

            def lock() -> None:  # until the stack ends
                if ranks.rank == 0:
                    stack.enter_context(locked(folder, PATIENCE if ranks.restarted else 0.0))

            ranks.agree(lock)
            run = prepare(given, ranks)
            tqdm.write(table(facts(run)))
            for notice in run.notices:
                tqdm.write(notice)
            if run.step:
                tqdm.write(f"Going on after update {run.step:,}.")
            if run.ranks_before != ranks.world:
                tqdm.write(
                    f"Processes: {ranks.world}, before {run.ranks_before}. The batches stay the "
                    "same; dropout draws other random numbers."
                )
            if run.step < run.steps:
                run.learn()
            if ranks.rank == 0:
                text = summarise(run)
                write_whole(run.out / SUMMARY, lambda part: part.write_text(text, encoding="utf-8"))
                tqdm.write(f"\n{text}\nTranslate with it: {_translate(run.out)}")
            ranks.end_together()
        return 0, ""
    except KeyboardInterrupt:
        if run is None or not (run.out / STATE).exists():
            return 130, "Stopped before the first update; nothing is kept."
        return 130, (
            f"Stopped after {run.kept:,} of {run.steps:,} updates; all is kept in "
            f"{run.out / STATE}.\n{_again(run.out, ranks)}"
        )
    except (MemoryError, torch.OutOfMemoryError):
        message = TOO_LITTLE_MEMORY
    except (ValueError, OSError, FloatingPointError, ModuleNotFoundError) as error:
        message = str(error)
        if isinstance(error, OSError) and run is not None and (run.out / STATE).exists():
            message += f"; {run.kept:,} of {run.steps:,} updates are kept: go on with --resume"
        if run is not None and ranks.rank:
            message = f"process {ranks.rank}: {message}"
    except RuntimeError as error:
        if "can't allocate memory" in str(error):  # so torch says it of the processor's memory
            message = TOO_LITTLE_MEMORY
        elif ranks.lost(error):
            message = (
                f"process {ranks.rank} lost its connection to another process, which has ended or "
                "does not answer; torchrun's report names the one that failed first"
            )
            if run is not None and (run.out / STATE).exists():
                message += f". What was saved last is kept in {run.out / STATE}.\n"
                message += _again(run.out, ranks)
        else:
            raise
    return 1, f"error: {message}"


def _translate(out: Path) -> str:
    """The command that uses a finished run: by make where there is the book's, else as _again."""
    book = Path(__file__).resolve().parents[1]
    if Path.cwd() == book.parent and (book.parent / "Makefile").exists():
        return f"make translate RUN={shlex.quote(str(out))}"
    return _from_book([str(Path(sys.executable)), "-m", "train.translate", str(out.absolute())])


def _again(out: Path, ranks: Ranks) -> str:
    """The command that goes on with a run, from whatever folder it is pasted in."""
    python, on = [str(Path(sys.executable)), "-m"], ""
    if ranks.world > 1:
        where = ["--standalone"]
        if ranks.machines > 1:
            on = ", on each machine,"
            where = [f"--nnodes={ranks.machines}", "--rdzv-backend=c10d"]
            where.append(f"--rdzv-endpoint={ranks.first}:{PORT}")
        python += ["torch.distributed.run", *where, f"--nproc-per-node={ranks.here}", "-m"]
    command = _from_book([*python, "train", "--resume", "--out", str(out.absolute())])
    if ranks.restarts:  # after a signal to one process it does, after Ctrl-C it does not
        return f"If torchrun does not start it again, go on{on} with: {command}"
    return f"Go on{on} with: {command}"


def _from_book(command: Sequence[str]) -> str:
    return f"(cd {shlex.quote(str(Path(__file__).parents[1]))} && {shlex.join(command)})"


if __name__ == "__main__":
    sys.exit(main())
