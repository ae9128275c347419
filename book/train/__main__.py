"""Train a Transformer to translate: `python -m train`, in the folder `book`.

Without files it learns the book's own task in a minute or two. With `--data DIR --source de
--target en` it learns from parallel text. `--help` lists all options; `--resume` goes on where a
run was stopped, whether by Ctrl-C or by a power cut.

What it does is told by the modules that it puts together: `train.options`, `train.corpus`,
`train.run`, `lib.data`, `lib.training`, `lib.checkpoints` and `lib.decoding`.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from tqdm import tqdm

from lib.checkpoints import peek, write_whole
from train.options import FREE, parse, settle
from train.report import duration, number, perplexity, scores, table
from train.run import BEST, LOSSES, STATE, Run

SUMMARY = "summary.txt"


def facts(run: Run) -> list[tuple[str, str]]:
    """What is trained, on what, with how much: rows of a table."""
    o, c = run.options, run.corpus
    parameters = number(sum(p.numel() for p in run.model.parameters()))
    left = f", {number(c.left_out)} too long ones left out" if c.left_out else ""
    sizes = [number(len(vocab)) for vocab in run.vocabs]
    cut = "sub-words" if o.subword else "words"
    vocabularies = (
        f"one vocabulary of {sizes[0]}" if o.share else f"vocabularies of {' and '.join(sizes)}"
    )
    layers = f"{o.layers}+{o.layers} layers, d_model {o.d_model}, {o.heads} heads, d_ff {o.d_ff}"
    return [
        ("model", f"{layers}, {parameters} parameters"),
        ("", f"norm {o.norm}, positions {o.positions}, dropout {o.dropout}"),
        ("data", f"{number(len(c.train))} pairs{left}; {number(len(c.valid))} for validation"),
        ("", f"{vocabularies} {cut}"),
        (
            "training",
            f"{number(run.steps)} updates, {number(run.stream.per_epoch)} batches an epoch",
        ),
        ("", f"schedule {o.schedule}, rate {o.lr:.2g}, smoothing {o.smoothing}, seed {o.seed}"),
        ("", f"{run.device}, {'bfloat16' if run.autocast else 'float32'}"),
    ]


def summarise(run: Run) -> str:
    """Score the best weights on the test sentences, and tell all in one piece."""
    p = run.progress
    epochs = run.steps * run.options.accumulate / run.stream.per_epoch
    tokens = epochs * sum(len(run.vocabs[1].encode(x.target)) + 1 for x in run.corpus.train)
    rows, examples = scores(run.out / BEST, run.corpus.tests, run.options, run.device)
    speed = f"{number(tokens / max(p.seconds, 1e-9))} target tokens a second"
    lines = [
        *facts(run),
        ("took", f"{duration(p.seconds)} for {epochs:.1f} epochs, validation included: {speed}"),
        ("validation", f"loss {p.best_loss:.3f}, {perplexity(p.best_loss)}"),
        ("", f"the best, after update {number(p.best_step)}: these weights are scored"),
        *rows,
        ("weights", str(run.out / BEST)),
        ("losses", str(run.out / LOSSES)),
    ]
    return "\n".join([table(lines), "", *examples]).rstrip() + "\n"


def prepare(given: argparse.Namespace) -> Run:
    """Make the run that the command line asks for, or the one that is to go on.

    Errors: ValueError when there is nothing to resume, or a run that must not be overwritten.
    """
    options = settle(given)
    state = Path(options.out) / STATE
    if options.resume:
        if not state.exists():
            raise ValueError(
                f"expected a run to resume in {options.out}, there is no {STATE}; "
                "name its folder with --out, or begin one without --resume"
            )
        kept = peek(state)
        told = {name: value for name, value in vars(given).items() if name in FREE}
        return Run(argparse.Namespace(**kept["options"] | told), kept)
    if state.exists():
        raise ValueError(
            f"expected a new folder for a new run, but {options.out} holds one; "
            "go on with it by --resume, or name another folder with --out"
        )
    Path(options.out).mkdir(parents=True, exist_ok=True)
    options.threads = options.threads or torch.get_num_threads()
    return Run(options)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, or 1 after an error and 130 after Ctrl-C."""
    given = parse(arguments)
    run = None
    try:
        run = prepare(given)
        tqdm.write(table(facts(run)))
        if run.step:
            tqdm.write(f"Going on after update {number(run.step)}.")
        if run.step < run.steps:
            run.learn()
        text = summarise(run)
        write_whole(run.out / SUMMARY, lambda part: part.write_text(text, encoding="utf-8"))
        tqdm.write("\n" + text)
    except KeyboardInterrupt:
        tqdm.write(_farewell(run), file=sys.stderr)
        return 130
    except torch.OutOfMemoryError:
        fix = "begin again with a lower --max-tokens and a higher --accumulate"
        tqdm.write(f"error: the memory of the GPU is too small; {fix}", file=sys.stderr)
        return 1
    except (ValueError, OSError, FloatingPointError, ModuleNotFoundError) as error:
        tqdm.write(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _farewell(run: Run | None) -> str:
    if run is None or not (run.out / STATE).exists():
        return "Stopped before the first update; nothing is kept."
    return (
        f"Stopped after {number(run.kept)} of {number(run.steps)} updates; all is kept in "
        f"{run.out / STATE}.\nGo on with: python -m train --resume --out {run.out}"
    )


if __name__ == "__main__":
    sys.exit(main())
