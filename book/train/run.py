"""One run of `python -m train`: what it is made of, and what happens after each update."""

import argparse
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

from lib.checkpoints import load_checkpoint, save_checkpoint, save_model
from lib.data import BatchStream, batches
from lib.notebook import best_device, seed_everything
from lib.subword import vocabulary_from_json, vocabulary_to_json
from lib.training import (
    Schedule,
    cosine,
    label_smoothed_loss,
    paper_adam,
    paper_schedule,
    token_loss,
    train,
    validation_loss,
    warm_up,
)
from lib.transformer import Config, Transformer
from train.corpus import make_vocabularies, read_corpus
from train.report import LossLog, number, perplexity

STATE, BEST, LOSSES = "last.pt", "best.safetensors", "losses.jsonl"
VALIDATION_BATCH = 100  # sentences
FLUSH_EVERY = 100  # updates


@dataclass
class Progress:
    """What a run knows of itself beyond weights and generators; each checkpoint holds it."""

    seconds: float = 0.0
    epochs: int = 0  # validated
    best_loss: float = math.inf
    best_step: int = 0


class Run:
    """One training run: data, model, optimiser and place, new or taken from a checkpoint.

    Args: options as `settle` fills them; `kept`, what the checkpoint to resume from tells.
    Errors: ValueError for files, sizes or options that do not fit.
    """

    def __init__(self, options: argparse.Namespace, kept: dict[str, Any] | None = None):
        self.options, self.out = options, Path(options.out)
        seed_everything(options.seed)
        torch.set_num_threads(options.threads)
        self.device = _device(options.device)
        bf16 = {"auto": self.device.type == "cuda", "bfloat16": True, "float32": False}
        self.autocast = torch.bfloat16 if bf16[options.precision] else None
        self.corpus = read_corpus(options)
        self.fingerprint = self.corpus.fingerprint()
        if kept is None:
            self.vocabs = make_vocabularies(self.corpus.train, options)
        elif kept["fingerprint"] == self.fingerprint:
            self.vocabs = tuple(map(vocabulary_from_json, kept["vocabularies"]))
        else:
            raise ValueError(
                "expected the training sentences that the run began with, got others; "
                "put the old files back, or begin a new run"
            )
        self.model = Transformer(self._config()).to(self.device)
        self.optimizer = paper_adam(self.model)
        bounds = {"max_tokens": options.max_tokens, "batch_size": options.batch_size}
        self.stream = BatchStream(self.corpus.train, *self.vocabs, **bounds, seed=options.seed)
        self.steps = options.steps or math.ceil(
            options.epochs * self.stream.per_epoch / options.accumulate
        )
        self.schedule = self._schedule()
        self.step, self.progress, self.stopping = 0, Progress(), False
        if kept is not None:
            place = self.out / STATE
            self.step, _ = load_checkpoint(place, self.model, self.optimizer, stream=self.stream)
            self.progress = Progress(**kept["progress"])
        self.kept, self.saved = self.step, time.monotonic()  # updates in the checkpoint, and when
        self.log = LossLog(self.out / LOSSES, keep=self.step)

    def _config(self) -> Config:
        o, (source, target) = self.options, self.vocabs
        return Config(
            len(source),
            None if o.share else len(target),
            d_model=o.d_model,
            n_heads=o.heads,
            d_ff=o.d_ff,
            n_layers=o.layers,
            dropout=o.dropout,
            norm=o.norm,
            positions=o.positions,
            activation=o.activation,
            tied=o.tied,
        )

    def _schedule(self) -> Schedule:
        o = self.options
        if o.schedule == "paper":
            return paper_schedule(o.d_model, 4000 if o.warmup is None else o.warmup)
        warmup = self.steps // 20 if o.warmup is None else o.warmup
        return cosine(self.steps, warmup) if o.schedule == "cosine" else warm_up(warmup)

    def save(self) -> None:
        """Keep the whole state; the log first, so that it is never behind."""
        self.log.flush()
        now = time.monotonic()
        self.progress.seconds += now - self.saved
        self.saved = now
        told = {
            "options": vars(self.options),
            "fingerprint": self.fingerprint,
            "vocabularies": [vocabulary_to_json(vocab) for vocab in self.vocabs],
            "progress": asdict(self.progress),
        }
        save_checkpoint(
            self.out / STATE,
            self.model,
            self.optimizer,
            step=self.step,
            stream=self.stream,
            extra=told,
        )
        self.kept = self.step

    def validate(self) -> None:
        """Measure the loss on held-out sentences; the best weights so far are kept."""
        held = batches(self.corpus.valid, *self.vocabs, VALIDATION_BATCH, seed=0)
        loss = validation_loss(self.model, held, autocast=self.autocast)
        self.progress.epochs = self.stream.position.epoch
        self.log.add(self.step, validation_loss=loss)
        best = loss < self.progress.best_loss
        if best:
            self.progress.best_loss, self.progress.best_step = loss, self.step
            about = {"step": self.step, "validation_loss": loss}
            save_model(self.out / BEST, self.model, *self.vocabs, about)
        tqdm.write(
            f"update {number(self.step)} of {number(self.steps)}: validation loss {loss:.3f}, "
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
        if done or overdue or self.stopping:
            self.save()
        if self.stopping and not done:
            raise KeyboardInterrupt

    def learn(self) -> None:
        """Train from where the run stands to its last update."""
        self.saved = time.monotonic()  # what came before is no training time
        if self.step == 0:
            self.save()  # from the first moment on there is something to resume from
        smoothed = partial(label_smoothed_loss, smoothing=self.options.smoothing)
        with _asked_to_stop(self):
            train(
                self.model,
                self.stream,
                self.steps,
                self.options.lr,
                schedule=self.schedule,
                clip=self.options.clip,
                loss_function=smoothed if self.options.smoothing else token_loss,
                optimizer=self.optimizer,
                accumulate=self.options.accumulate,
                autocast=self.autocast,
                start=self.step,
                after_update=self.after_update,
            )


@contextmanager
def _asked_to_stop(run: Run) -> Iterator[None]:
    """Turn Ctrl-C into a wish that is granted after the update, so that no half of one is kept.

    A second Ctrl-C stops at once.
    """

    def ask(which: int, frame: Any) -> None:
        run.stopping = True
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
    if name == "auto":
        return best_device()
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"expected a device such as cpu or cuda, got {name!r}") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"expected a device that is there, got {name!r}, but torch sees no GPU")
    return device
