"""One run of `python -m train`: what it is made of, and what happens after each update."""

import argparse
import hashlib
import json
import math
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from lib.data import BatchStream, Vocabulary, batches
from lib.notebook import seed_everything
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
from train.checkpoints import load_checkpoint, load_model, peek, save_checkpoint, save_model
from train.choice import (
    CHOSEN,
    Chosen,
    choose_batches,
    choose_epochs,
    choose_model,
    choose_threads,
)
from train.corpus import make_vocabularies, read_corpus
from train.folder import BEST, BOARD, LOSSES, STATE
from train.losses import LossLog, open_board
from train.machine import device, expect_memory, use_threads
from train.options import DEFAULTS, FREE, PLACES, reads_files, settle
from train.ranks import Ranks
from train.subword import vocabulary_from_json, vocabulary_to_json

VALIDATION_BATCH = 100  # sentences
EXTRA_LENGTH = 50  # the paper stops a translation at the source's length + 50
FLUSH_EVERY = 100  # updates
ALONE = Ranks()


@dataclass
class Progress:
    """What a run knows of itself beyond parameters and generators; each checkpoint holds it."""

    seconds: float = 0.0
    epochs: int = 0  # validated
    best_loss: float = math.inf
    best_step: int = 0


class Run:
    """One training run: data, model, optimiser and place, new or taken from a checkpoint.

    Args: options as `settle` fills them; `kept`, what the checkpoint to resume from tells; `ranks`,
    the processes that train together; `given`, what the command line says of a new run: the rest is
    chosen by its sentences. What is done in step with the other processes says so below.
    Errors: ValueError for files, sizes or options that do not fit; OSError.

    fingerprint  a short text that is another one for other sentences, words or options
    notices      what was missing of a run that goes on
    reasons      of what was chosen by the data, a line for each
    """

    def __init__(
        self,
        options: argparse.Namespace,
        kept: dict[str, Any] | None = None,
        ranks: Ranks = ALONE,
        given: argparse.Namespace | None = None,
    ):
        o = self.options = options
        self._given = None if kept else given
        self.ranks = ranks
        self.out = Path(o.out)
        self.notices: list[str] = []
        self.reasons: list[str] = (kept or {}).get("reasons", [])
        self._chosen: dict[str, Any] = {}
        self.vocabs: tuple[Vocabulary, Vocabulary]
        self.progress: Progress
        seed_everything(o.seed)
        ranks.agree(partial(self._read, kept))
        self.fingerprint = (kept or {}).get("run") or self._fingerprint()
        ranks.agree(partial(self._build, kept))
        self.progress = ranks.gather(self.progress)[0]  # rank 0 has looked at the weights
        ranks.expect_same(self._digest())

    def _read(self, kept: dict[str, Any] | None) -> None:
        """The device, the sentences, what their words are numbered by, and their batches."""
        o = self.options
        self.device = device(self.ranks.device(o.device))
        bf16 = {"auto": self.device.type == "cuda", "bfloat16": True, "float32": False}
        self.autocast = torch.bfloat16 if bf16[o.precision] else None
        self.loss = partial(teacher_forcing, autocast=self.autocast)
        self.corpus = read_corpus(o)
        if self._given and reads_files(self._given):
            self._choose(choose_model, self.corpus)
        self._choose(choose_threads, self.options.d_model, self.device.type)
        use_threads(self.options.threads)
        self.sentences = now = self.corpus.fingerprints()
        if kept:
            before = _sentences(kept)
            if changed := [use for use in before if before[use] != now.get(use)]:
                raise ValueError(
                    f"expected the {' and '.join(changed)} sentences that the run began with, got "
                    "others; put the old files back, or begin a new run"
                )
            source, target = map(vocabulary_from_json, kept["vocabularies"])
            self.vocabs = source, target
        else:
            self.vocabs = make_vocabularies(self.corpus.train, self.options)
        self._make_batches()

    def _make_batches(self) -> None:
        """Split the sentences into batches; it follows how many updates there are."""
        own = self._given is not None and reads_files(self._given)
        size, train = self.options.size, self.corpus.train
        if own:
            sides = zip(self.vocabs, zip(*train, strict=True), strict=True)
            counts = [[len(vocab.encode(words)) + 1 for words in side] for vocab, side in sides]
            self._choose(choose_batches, size, list(zip(*counts, strict=True)))
        bounds = {name: vars(self.options)[name] for name in ("max_tokens", "batch_size")}
        self.stream = BatchStream(train, *self.vocabs, **bounds, seed=self.options.seed)
        if own:
            self._choose(choose_epochs, size, self.stream.per_epoch, self.corpus)
        o = self.options
        self.steps = o.steps or math.ceil(o.epochs * self.stream.per_epoch / o.accumulate)

    def _choose(self, choose: Callable[..., Chosen], *facts: Any) -> None:
        """Let what the command line of a new run leaves open follow from some facts."""
        if self._given is None:
            return
        chosen, reasons = choose(self._given, *facts)
        self._chosen |= chosen
        self.reasons += reasons
        threads = self._chosen.get("threads", self.options.threads)
        self.options = settle(self._given, self._chosen | {"threads": threads})

    def _build(self, kept: dict[str, Any] | None) -> None:
        """The model and all that is needed to train it, in the state of the checkpoint."""
        o, ranks = self.options, self.ranks
        config = self._config()
        expect_memory(config, self.device, ranks.here)
        self.model = Transformer(config).to(self.device)
        self.optimizer = paper_adam(self.model)
        self.state = (self.out / STATE, self.model, self.optimizer)  # a file, and what it keeps
        self.schedule = self._schedule()
        self._expect_sensible(config, new=kept is None)
        self.step, self.progress, self.stopping = 0, Progress(), False
        if kept:
            self.step, _ = load_checkpoint(*self.state, stream=self.stream)
            self.progress = Progress(**kept["progress"])
        states = kept.get("ranks", []) if kept else []
        self.ranks_before = (len(states) or 1) if kept else ranks.world
        ranks.set_generators(o.seed, self.step, states, self.device)
        self.kept, self.saved = self.step, time.monotonic()  # updates in the checkpoint, and when
        path = None if ranks.rank else self.out / LOSSES
        losses = kept.get("losses") if kept else None
        if kept and ranks.rank == 0:
            self._look_at_best()
        board = open_board(self.out / BOARD, self.step) if path and o.tensorboard else None
        self.log = LossLog(path, self.fingerprint, keep=self.step, told=losses, board=board)
        self.notices += [self.log.notice] if self.log.notice else []

    def _fingerprint(self) -> str:
        options = {n: value for n, value in _fixed(self.options).items() if n not in PLACES}
        vocabularies = [vocabulary_to_json(vocab) for vocab in self.vocabs]
        told = json.dumps([self.sentences, vocabularies, options], sort_keys=True)
        return hashlib.sha256(told.encode()).hexdigest()[:16]

    def _digest(self) -> str:
        """A short text that is another one for another run, or another place in it."""
        told = (self.fingerprint, self._fingerprint(), self.step, self.progress)
        return hashlib.sha256(repr(told).encode()).hexdigest()

    def _expect_sensible(self, config: Config, *, new: bool) -> None:
        """Check what would be refused only later, when hours are lost."""
        o, c = self.options, self.corpus
        if o.beam > len(self.vocabs[1]):
            raise ValueError(
                f"expected --beam of at most {len(self.vocabs[1]):,}, the target's vocabulary, "
                f"got {o.beam:,}"
            )
        if new and o.accumulate > self.stream.per_epoch:
            raise ValueError(
                f"expected --accumulate of at most {self.stream.per_epoch:,}, the batches of an "
                f"epoch, got {o.accumulate:,}"
            )
        if not new or o.positions != "learned":
            return
        sentences = [pair for pairs in (c.train, c.valid, *c.tests.values()) for pair in pairs]
        longest = max(
            len(vocab.encode(side))
            for pair in sentences
            for vocab, side in zip(self.vocabs, pair, strict=True)
        )
        most = config.max_length - EXTRA_LENGTH
        if longest > most:
            raise ValueError(
                f"expected sentences of at most {most} tokens for --positions learned, got one of "
                f"{longest}; leave it out, or choose other positions"
            )

    def _look_at_best(self) -> None:
        """If the best parameters so far are not there, let the next validation make others.

        Errors: ValueError for the weights of another run, which must not be overwritten.
        """
        if self.step < self.steps and (fault := self._fault_of_best()):
            self.notices.append(f"{fault}. The next validation makes them anew.")
            self.progress.best_loss, self.progress.best_step = math.inf, 0

    def _fault_of_best(self) -> str:
        return fault_of_best(self.out / BEST, self.fingerprint, self.progress)

    def best(self) -> tuple[Transformer, Vocabulary, Vocabulary]:
        """The model with the best parameters, as `load_model` gives it.

        Errors: ValueError for weights that are damaged, or not the run's own best ones.
        """
        if math.isinf(self.progress.best_loss):
            raise ValueError(
                "expected a finite validation loss, got none in the whole run; begin another run "
                "with a lower --lr"
            )
        if fault := self._fault_of_best():
            raise ValueError(f"{fault}; put the run's own file back, or train in another folder")
        return load_model(self.out / BEST, self.device)

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
            "run": self.fingerprint,
            "data": self.sentences,
            "losses": self.log.told(),
            "vocabularies": [vocabulary_to_json(vocab) for vocab in self.vocabs],
            "progress": asdict(self.progress),
            "reasons": self.reasons,
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
            if self.ranks.rank == 0:
                about = _about(self.fingerprint, self.progress)
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
    return Run(options, kept, ranks, given)


def _what_is_asked(
    given: argparse.Namespace, ranks: Ranks
) -> tuple[argparse.Namespace, dict[str, Any] | None]:
    """The options of the run, and what the checkpoint tells from which it goes on."""
    options = settle(given)
    state = Path(options.out) / STATE
    if options.resume or _was_begun_by(ranks, given, options, state):
        if not state.exists():
            raise ValueError(
                f"expected a run to resume in {options.out}, there is no {STATE}; "
                "name its folder with --out, or begin one without --resume"
            )
        kept = read_state(state)
        told = {name: value for name, value in vars(given).items() if name in FREE}
        # `out` even if it was not told: the folder may have been copied or renamed since.
        before = argparse.Namespace(**DEFAULTS | kept["options"] | told | {"out": options.out})
        before.threads = told.get("threads") or ranks.threads(before.threads)
        return before, kept
    if state.exists():
        raise ValueError(
            f"expected a new folder for a new run, but {options.out} holds one; "
            "go on with it by --resume, or name another folder with --out"
        )
    if (state.parent / BEST).exists():
        raise ValueError(
            f"expected a new folder for a new run, but {options.out} holds the weights of another, "
            f"{BEST}, without its state; move them away, or name another folder with --out"
        )
    Path(options.out).mkdir(parents=True, exist_ok=True)
    options.threads = options.threads or ranks.threads()
    return options, None


def _was_begun_by(
    ranks: Ranks, given: argparse.Namespace, options: argparse.Namespace, state: Path
) -> bool:
    """Whether this state is that of the same start by torchrun, before it restarted the run."""
    if not (ranks.restarted and state.exists()):
        return False
    kept = read_state(state)
    told = {n: value for n, value in _fixed(options).items() if n not in CHOSEN or n in given}
    same = all(kept["options"].get(name) == value for name, value in told.items())
    return same and kept.get("launch") == ranks.launch


def fault_of_best(path: Path, run: str, progress: Progress) -> str:
    """What is wrong with a run's best parameters in a file; nothing before there are any.

    Args: the file, the fingerprint of the run, and what the run knows of its best parameters.
    Errors: ValueError for the weights of another run, which must not be overwritten.
    """
    if math.isinf(progress.best_loss):
        return ""
    if not path.exists():
        return f"{path} is gone"
    try:
        found = peek(path)
    except ValueError as error:
        return str(error)
    if found.get("run", run) != run:
        raise ValueError(
            f"expected the weights of this run in {path}, got those of another one, with the "
            f"fingerprint {found['run']} and not {run}; move them away"
        )
    wanted = _about(run, progress)
    if {"run": run} | found != wanted:
        after = f"update {wanted['step']:,}, with a loss of {wanted['validation_loss']:.4g}"
        return f"{path}: expected the weights after {after}, got others"
    return ""


def _about(run: str, progress: Progress) -> dict[str, Any]:
    """What is told beside the best parameters."""
    return {"run": run, "step": progress.best_step, "validation_loss": progress.best_loss}


def read_state(state: Path) -> dict[str, Any]:
    """What a run has told in its checkpoint. Errors: ValueError for a checkpoint of none."""
    kept = peek(state)
    if not isinstance(kept, dict) or not kept.keys() >= {"options", "vocabularies", "progress"}:
        raise ValueError(
            f"{state}: expected the state of a run, got another checkpoint; name the folder of a "
            "run with --out"
        )
    return kept


def _sentences(kept: dict[str, Any]) -> dict[str, str]:
    """The fingerprints of a run's sentences; earlier versions kept that of training alone."""
    return kept.get("data", {"training": kept.get("fingerprint", "")})


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

    before: dict[int, Any] = {
        which: signal.getsignal(which) for which in (signal.SIGINT, signal.SIGTERM)
    }
    for which in before:
        signal.signal(which, ask)
    try:
        yield
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)
