"""One run of `python -m train`: what it is made of, and what happens after each update."""

import argparse
import hashlib
import json
import math
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from lib.checkpoints import load_checkpoint, peek, save_checkpoint, save_model, write_whole
from lib.data import BatchStream, batches
from lib.notebook import best_device, seed_everything
from lib.subword import vocabulary_from_json, vocabulary_to_json
from lib.training import (
    Schedule,
    cosine,
    label_smoothed_loss,
    paper_adam,
    paper_schedule,
    teacher_forcing,
    train,
    validation_loss,
    warm_up,
)
from lib.transformer import Config, Transformer
from train.corpus import make_vocabularies, read_corpus
from train.options import FREE, settle
from train.ranks import Ranks

STATE, BEST, LOSSES, SUMMARY = "last.pt", "best.safetensors", "losses.jsonl", "summary.txt"
VALIDATION_BATCH = 100  # sentences
FLUSH_EVERY = 100  # updates
ALONE = Ranks()


@dataclass
class Progress:
    """What a run knows of itself beyond parameters and generators; each checkpoint holds it."""

    seconds: float = 0.0
    epochs: int = 0  # validated
    best_loss: float = math.inf
    best_step: int = 0


class LossLog:
    """The losses of a run in a file, one JSON object a line; a resumed run goes on writing it.

    Args: `keep`, the updates that the run has behind it; lines of later ones are dropped, and so
    is a last line that a killed process left half written. Without a path nothing is written.
    """

    def __init__(self, path: Path | None, keep: int = 0):
        self._path = path or Path(os.devnull)
        self._waiting: list[tuple[int, dict[str, float | Tensor]]] = []
        if path is None:
            return
        lines = path.read_text(encoding="utf-8").splitlines() if keep and path.exists() else []
        kept = [line for line in lines if line.endswith("}") and json.loads(line)["step"] <= keep]
        text = "".join(line + "\n" for line in kept)
        write_whole(path, lambda part: part.write_text(text, encoding="utf-8"))

    def add(self, step: int, **values: float | Tensor) -> None:
        """Remember some values; a tensor is not read yet."""
        self._waiting.append((step, values))

    def flush(self) -> None:
        """Write what is remembered: only here the processor waits for the GPU's numbers.

        Errors: FloatingPointError for a loss that is not finite.
        """
        with self._path.open("a", encoding="utf-8") as stream:
            for step, values in self._waiting:
                entry = {"step": step} | {name: float(value) for name, value in values.items()}
                if not math.isfinite(entry.get("loss", 0.0)):
                    raise FloatingPointError(
                        f"expected a finite loss, got {entry['loss']} in update {step}: "
                        "lower --lr, or warm up longer"
                    )
                stream.write(json.dumps(entry) + "\n")
        self._waiting = []


class Run:
    """One training run: data, model, optimiser and place, new or taken from a checkpoint.

    Args: options as `settle` fills them; `kept`, what the checkpoint to resume from tells; `ranks`,
    the processes that train together. What is done in step with them says so below.
    Errors: ValueError for files, sizes or options that do not fit.
    """

    def __init__(
        self,
        options: argparse.Namespace,
        kept: dict[str, Any] | None = None,
        ranks: Ranks = ALONE,
    ):
        o = self.options = options
        self.ranks = ranks
        self.out = Path(o.out)
        seed_everything(o.seed)
        torch.set_num_threads(o.threads)
        ranks.agree(partial(self._read, kept))
        # The package that learns sub-words numbers them in another order each time.
        self.vocabs = ranks.gather(self.vocabs)[0]
        ranks.agree(partial(self._build, kept))
        ranks.expect_same(self._digest())

    def _read(self, kept: dict[str, Any] | None) -> None:
        """The device, the sentences and what their words are numbered by."""
        o = self.options
        self.device = _device(self.ranks.device(o.device))
        bf16 = {"auto": self.device.type == "cuda", "bfloat16": True, "float32": False}
        self.autocast = torch.bfloat16 if bf16[o.precision] else None
        self.loss = partial(teacher_forcing, autocast=self.autocast)
        self.corpus = read_corpus(o)
        self.fingerprint = self.corpus.fingerprint()
        if kept and kept["fingerprint"] != self.fingerprint:
            raise ValueError(
                "expected the training sentences that the run began with, got others; "
                "put the old files back, or begin a new run"
            )
        if kept:
            self.vocabs = tuple(map(vocabulary_from_json, kept["vocabularies"]))
        else:
            self.vocabs = make_vocabularies(self.corpus.train, o)

    def _build(self, kept: dict[str, Any] | None) -> None:
        """The model and all that is needed to train it, in the state of the checkpoint."""
        o, ranks = self.options, self.ranks
        self.model = Transformer(self._config()).to(self.device)
        self.optimizer = paper_adam(self.model)
        self.state = (self.out / STATE, self.model, self.optimizer)  # a file, and what it keeps
        bounds = {"max_tokens": o.max_tokens, "batch_size": o.batch_size}
        self.stream = BatchStream(self.corpus.train, *self.vocabs, **bounds, seed=o.seed)
        self.steps = o.steps or math.ceil(o.epochs * self.stream.per_epoch / o.accumulate)
        self.schedule = self._schedule()
        self.step, self.progress, self.stopping = 0, Progress(), False
        if kept:
            self.step, _ = load_checkpoint(*self.state, stream=self.stream)
            self.progress = Progress(**kept["progress"])
        states = kept.get("ranks", []) if kept else []
        self.ranks_before = (len(states) or 1) if kept else ranks.world
        ranks.set_generators(o.seed, self.step, states, self.device)
        self.kept, self.saved = self.step, time.monotonic()  # updates in the checkpoint, and when
        self.log = LossLog(None if ranks.rank else self.out / LOSSES, keep=self.step)

    def _digest(self) -> str:
        """A short text that is another one for another run, or another place in it."""
        vocabularies = [vocab.tokens for vocab in self.vocabs]
        told = (_fixed(self.options), self.fingerprint, vocabularies, self.step, self.progress)
        return hashlib.sha256(repr(told).encode()).hexdigest()

    def _config(self) -> Config:
        o, (source, target) = self.options, self.vocabs
        same = ("d_model", "d_ff", "dropout", "norm", "positions", "activation", "tied")
        sizes = {"n_heads": o.heads, "n_layers": o.layers} | {name: vars(o)[name] for name in same}
        return Config(len(source), None if o.share else len(target), **sizes)

    def _schedule(self) -> Schedule:
        o = self.options
        if o.schedule == "paper":
            return paper_schedule(o.d_model, 4000 if o.warmup is None else o.warmup)
        warmup = self.steps // 20 if o.warmup is None else o.warmup
        return cosine(self.steps, warmup) if o.schedule == "cosine" else warm_up(warmup)

    def save(self) -> None:
        """Keep the whole state, of all ranks; the log first, so that it is never behind."""
        self.log.flush()
        generators = self.ranks.generators(self.device) if self.ranks.world > 1 else []
        now = time.monotonic()
        self.progress.seconds += now - self.saved
        self.saved = now
        told = {
            "options": vars(self.options),
            "fingerprint": self.fingerprint,
            "vocabularies": [vocabulary_to_json(vocab) for vocab in self.vocabs],
            "progress": asdict(self.progress),
            "launch": self.ranks.launch,
            "ranks": generators,
        }
        if self.ranks.rank == 0:
            save_checkpoint(*self.state, step=self.step, stream=self.stream, extra=told)
        self.kept = self.step

    def validate(self) -> None:
        """Measure the loss on held-out sentences; the best parameters so far are kept.

        Each rank reads its part of them; all get the same loss.
        """
        held = batches(self.corpus.valid, *self.vocabs, VALIDATION_BATCH, seed=0)
        of_all = self.ranks.loss_of_all(self.loss)
        loss = validation_loss(self.model, map(self.ranks.part, held), loss=of_all)
        self.progress.epochs = self.stream.position.epoch
        self.log.add(self.step, validation_loss=loss)
        best = loss < self.progress.best_loss
        if best:
            self.progress.best_loss, self.progress.best_step = loss, self.step
            about = {"step": self.step, "validation_loss": loss}
            if self.ranks.rank == 0:
                save_model(self.out / BEST, self.model, *self.vocabs, about)
        tqdm.write(
            f"update {self.step:,} of {self.steps:,}: validation loss {loss:.3f}, "
            f"{perplexity(loss)}{', the best so far' if best else ''}"
        )

    def after_update(self, step: int, loss: Tensor) -> None:
        """Log, validate at the end of an epoch, save in time, and stop if asked to."""
        self.step, done = step, step == self.steps
        self.log.add(step, loss=loss, lr=self.optimizer.param_groups[0]["lr"])
        if done or self.stream.position.epoch > self.progress.epochs:
            self.validate()
        elif step % FLUSH_EVERY == 0:
            self.log.flush()
        overdue = time.monotonic() - self.saved >= self.options.save_every
        asked = self.stopping or self.ranks.abandoned()
        overdue, stopping = self.ranks.any(overdue, asked)  # all save, or none
        if done or overdue or stopping:
            self.save()
        if stopping and not done:
            raise KeyboardInterrupt

    def learn(self) -> None:
        """Train from where the run stands to its last update."""
        self.saved = time.monotonic()  # what came before is no training time
        if self.step == 0:
            self.save()  # from the first moment on there is something to resume from
        loss, o = self.loss, self.options
        if o.smoothing:
            loss = partial(loss, criterion=partial(label_smoothed_loss, smoothing=o.smoothing))
        with _asked_to_stop(self):
            train(
                self.ranks.replicate(self.model),
                map(self.ranks.part, self.stream),
                self.steps,
                o.lr,
                schedule=self.schedule,
                clip=o.clip,
                loss=self.ranks.loss_of_all(loss, o.accumulate),
                optimizer=self.optimizer,
                accumulate=o.accumulate,
                start=self.step,
                after_update=self.after_update,
            )


def prepare(given: argparse.Namespace, ranks: Ranks = ALONE) -> Run:
    """Make the run that the command line asks for, or the one that is to go on.

    A run that torchrun has restarted goes on by itself.
    Errors: ValueError when there is nothing to resume, or a run that must not be overwritten.
    """
    options, kept = ranks.agree(partial(_what_is_asked, given, ranks))
    return Run(options, kept, ranks)


def _what_is_asked(
    given: argparse.Namespace, ranks: Ranks
) -> tuple[argparse.Namespace, dict[str, Any] | None]:
    """The options of the run, and what the checkpoint tells from which it goes on."""
    options = settle(given)
    state = Path(options.out) / STATE
    if options.resume or _was_begun_by(ranks, options, state):
        if not state.exists():
            raise ValueError(
                f"expected a run to resume in {options.out}, there is no {STATE}; "
                "name its folder with --out, or begin one without --resume"
            )
        kept = peek(state)
        told = {name: value for name, value in vars(given).items() if name in FREE}
        # `out` even if it was not told: the folder may have been copied or renamed since.
        return argparse.Namespace(**kept["options"] | told | {"out": options.out}), kept
    if state.exists():
        raise ValueError(
            f"expected a new folder for a new run, but {options.out} holds one; "
            "go on with it by --resume, or name another folder with --out"
        )
    Path(options.out).mkdir(parents=True, exist_ok=True)
    options.threads = options.threads or torch.get_num_threads()
    return options, None


def _was_begun_by(ranks: Ranks, options: argparse.Namespace, state: Path) -> bool:
    """Whether this state is that of the same start by torchrun, before it restarted the run."""
    if not (ranks.restarted and state.exists()):
        return False
    kept = peek(state)
    same = all(kept["options"].get(name) == value for name, value in _fixed(options).items())
    return same and kept.get("launch") == ranks.launch


def _fixed(options: argparse.Namespace) -> dict[str, Any]:
    """The options that may not be told again when a run goes on."""
    return {name: value for name, value in vars(options).items() if name not in FREE}


def perplexity(loss: float) -> str:
    """Say exp(loss): how many equally likely tokens leave as much doubt."""
    return f"perplexity {math.exp(min(loss, 99.0)):.2f}"


@contextmanager
def _asked_to_stop(run: Run) -> Iterator[None]:
    """Turn Ctrl-C into a wish that is granted after the update, so that no half of one is kept.

    A second Ctrl-C stops at once.
    """

    def ask(which: int, frame: Any) -> None:
        run.stopping = True
        if run.ranks.rank == 0:
            os.write(2, b"\nStopping after this update. Ctrl-C again stops at once.\n")
        signal.signal(which, before[which])

    before = {which: signal.getsignal(which) for which in (signal.SIGINT, signal.SIGTERM)}
    for which in before:
        signal.signal(which, ask)
    try:
        yield
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)


def _device(name: str) -> torch.device:
    try:
        device = best_device() if name == "auto" else torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"expected a device such as cpu or cuda, got {name!r}") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"expected a device that is there, got {name!r}, but torch sees no GPU")
    return device
