"""Several processes train one model: `torchrun --standalone --nproc-per-node=2 -m train`.

Each process, called a rank, holds the whole model and takes its part of every batch; torch's
DistributedDataParallel averages the gradients over the ranks. A run that torchrun did not start is
rank 0 of one, and everything here then leaves it as it is.

On several machines there is one torchrun each, and all ranks write to the store of the first. When
a rank dies, all torchruns start their ranks again; `_meet` then brings those together that live.
"""

import base64
import io
import os
import random
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import (
    AbstractContextManager,
    contextmanager,
    nullcontext,
    redirect_stderr,
    redirect_stdout,
)
from dataclasses import dataclass
from datetime import timedelta
from itertools import cycle
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel
from tqdm import tqdm

from lib.data import BOS, EOS, PAD, Batch
from lib.layers import in_mode
from lib.notebook import seed_everything
from lib.training import Loss, teacher_forcing

PATIENCE = timedelta(minutes=10)  # how long a rank waits for another one's work
MEETING = timedelta(minutes=1)  # how long it waits for all to be there
LOOK = 0.1  # seconds between two looks at the store
T = TypeVar("T")


@dataclass(frozen=True)
class Ranks:
    """This process among those that train together.

    rank      its number; rank 0 alone writes files and tells how the run goes
    world     how many there are, `here` of them on this machine, where this is number `local`
    machines  how many torchruns have started them, and `first`, the address of the first one
    launch    the name of the command that started all of them; the same after a restart
    restarted whether torchrun has started the processes again, after one of them had ended
    restarts  how often torchrun may still do so, if this process fails
    store     what all can write to, even when some of them have ended
    parent    the process that started this one
    """

    rank: int = 0
    world: int = 1
    local: int = 0
    here: int = 1
    machines: int = 1
    first: str = ""
    launch: str | None = None
    restarted: bool = False
    restarts: int = 0
    store: dist.Store | None = None
    parent: int = 0

    def abandoned(self) -> bool:
        """Whether torchrun has ended without ending its processes, as when it is killed."""
        return self.store is not None and os.getppid() != self.parent

    def device(self, name: str) -> str:
        """The device that `--device name` means for this rank: each one has a GPU of its own.

        Errors: ValueError for a GPU that several ranks would have to share.
        """
        gpus = torch.cuda.device_count()
        if self.here == 1 or not name.startswith(("auto", "cuda")):
            return name
        if name == "auto":
            return f"cuda:{self.local}" if gpus >= self.here else "cpu"
        if name != "cuda":
            raise ValueError(
                f"expected a GPU for each of {self.here} processes, got --device {name}, which is "
                "one; say --device cuda, or start one process"
            )
        if gpus < self.here:
            raise ValueError(
                f"expected a GPU for each of {self.here} processes, got {gpus} of them; "
                "start as many processes as there are GPUs, or say --device cpu"
            )
        return f"cuda:{self.local}"

    def threads(self, wanted: int | None = None) -> int:
        """How many threads of the processor this rank has: of several ranks each gets its share.

        torchrun gives one to each of several; a number above one was said by OMP_NUM_THREADS.
        Args: wanted, how many it had in the run that goes on, if any.
        """
        found = torch.get_num_threads()
        if self.here > 1 and found == 1:
            found = max((os.cpu_count() or 1) // self.here, 1)
        return min(wanted or found, found) if self.here > 1 else wanted or found

    def part(self, batch: Batch) -> Batch:
        """This rank's sentences of a batch: every world-th, from number `rank` on.

        A batch is sorted by length. So all ranks get about as many tokens, and none waits long for
        another; of contiguous parts the last would be the longest. A rank for which no sentence is
        left gets one without a real token, which counts for nothing in the loss.
        """
        if self.world == 1:
            return batch
        if self.rank >= len(batch.source):
            return _nothing()
        sides = (batch.source, batch.source_lengths, batch.target_in, batch.target_out)
        return Batch(*(side[self.rank :: self.world] for side in sides))

    def replicate(self, model: nn.Module) -> nn.Module:
        """The model whose gradients are the mean over the ranks, and whose parameters rank 0's.

        After its first backward pass DistributedDataParallel sorts the gradients into new buckets,
        in which the sums over three ranks or more are rounded otherwise. That pass is made here,
        with nothing to learn: a run that goes on then computes what it would have without a stop.
        """
        if self.store is None:
            return model
        device = next(model.parameters()).device
        on_gpu = [device] if device.type == "cuda" else None
        copies = DistributedDataParallel(model, device_ids=on_gpu)
        copies.broadcast_buffers = False  # tables, which each rank computes and extends by itself
        with torch.random.fork_rng(on_gpu or []), in_mode(copies, training=True):
            teacher_forcing(copies, _nothing().to(device))[0].backward()
        return copies

    def loss_of_all(self, loss: Loss, accumulate: int = 1) -> Loss:
        """The loss summed over the tokens of all ranks, and their number.

        Its gradient is `world` times that of this rank's own sum: the mean over the ranks, which
        DistributedDataParallel takes, is then the gradient of the sum over all of them. So `update`
        divides by the tokens of all, and clips the gradient of all. Of `accumulate` batches, which
        make one update, the ranks exchange gradients in the last one only.
        """
        if self.store is None:
            return loss
        turns = cycle(range(accumulate))

        def of_all(model: nn.Module, part: Any) -> tuple[Tensor, Tensor]:
            waits: AbstractContextManager = nullcontext()
            if isinstance(model, DistributedDataParallel) and next(turns) < accumulate - 1:
                waits = model.no_sync()
            with waits:
                total, tokens = loss(model, part)
            number = torch.as_tensor(tokens, device=total.device)
            both = torch.stack([total.detach().double(), number.double()])
            dist.all_reduce(both)
            whole, number = both
            return whole.to(total.dtype) + self.world * (total - total.detach()), number.long()

        return of_all

    def any(self, *flags: bool) -> tuple[bool, ...]:
        """For each flag, whether it is true on some rank: what all of them are to act upon."""
        if self.store is None:
            return flags
        found = torch.tensor(flags, dtype=torch.int32)
        dist.all_reduce(found, dist.ReduceOp.MAX)
        return tuple(found.bool().tolist())

    def gather(self, mine: T) -> list[T]:
        """What each rank gives, in the order of the ranks."""
        if self.store is None:
            return [mine]
        found: list[Any] = [None] * self.world
        dist.all_gather_object(found, mine)
        return found

    def agree(self, make: Callable[[], T]) -> T:
        """Make something on every rank. If one of them cannot, none goes on to wait for it.

        `make` waits for no other rank. Errors: those of `make`; ValueError for one of another rank.
        """
        made, error = None, None
        try:
            made = make()
        except Exception as caught:
            error = caught
        faults = self.gather(None if error is None else str(error))
        if error:
            raise error
        for rank, fault in enumerate(faults):
            if fault is not None:
                raise ValueError(f"process {rank}: {fault}")
        return made  # type: ignore[return-value]  # without an error it was made

    def expect_same(self, text: str) -> None:
        """Check that all ranks give the same text. Errors: ValueError if they do not."""
        if len(set(self.gather(text))) > 1:
            raise ValueError(
                f"expected the same options, sentences and checkpoint in all {self.world} "
                "processes, got different ones; give every machine the same files"
            )

    def generators(self, device: torch.device) -> list[list[str]]:
        """The states of every rank's generators, which dropout draws from, for a checkpoint."""
        states = [torch.get_rng_state()]
        if device.type == "cuda":
            states.append(torch.cuda.get_rng_state(device))
        return self.gather([base64.b64encode(state.numpy().tobytes()).decode() for state in states])

    def set_generators(
        self, seed: int, step: int, kept: list[list[str]], device: torch.device
    ) -> None:
        """Give each rank other random numbers: those that it had in the checkpoint, if any.

        Args: `kept`, from `generators`, or nothing. If it is of another number of ranks, the random
        numbers follow from seed, rank and step, as in a new run. Rank 0 has the generators of a run
        of one process, and keeps them as they are.
        """
        if self.rank:
            seed_everything(random.Random(f"{seed} {self.rank} {step}").getrandbits(32))
        if len(kept) == self.world:
            states = [
                torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.uint8)
                for text in kept[self.rank]
            ]
            torch.set_rng_state(states[0])
            if device.type == "cuda" and len(states) > 1:
                torch.cuda.set_rng_state(states[1], device)

    def lost(self, error: RuntimeError) -> bool:
        """Whether this is the error of a rank that another one has left alone."""
        of_torch = isinstance(error, dist.DistError) or "gloo" in str(error).lower()
        return self.store is not None and of_torch

    def end_together(self) -> None:
        """Wait until rank 0 has come to this point, too, if it takes hours.

        Ranks that left earlier could not be started again if rank 0 were killed.
        Errors: RuntimeError, as `lost` tells it, if the store is gone.
        """
        if self.store is None:
            return
        if self.rank == 0:
            self.store.set("done", "yes")
        while not self.store.check(["done"]):
            time.sleep(LOOK)

    @contextmanager
    def only_first_speaks(self) -> Iterator[None]:
        """Meanwhile what other ranks than 0 print goes nowhere."""
        if self.rank == 0:
            yield
            return
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            yield

    def report(self, message: str) -> None:
        """Tell why the run ends. The first rank to end tells it; the others end because of it."""
        try:
            first = self.store is None or self.store.add("told", 1) == 1
        except dist.DistError:  # torchrun has ended, and the store with it
            first = self.rank == 0
        if first:
            tqdm.write(message, file=sys.stderr)


def _nothing() -> Batch:
    """A sentence without a real token to predict."""
    return Batch(*map(torch.tensor, ([[EOS]], [1], [[BOS]], [[PAD]])))


@contextmanager
def joined() -> Iterator[Ranks]:
    """Meet the other processes that torchrun has started, and part from them at the end.

    Numbers of the processor travel by gloo, those of GPUs by NCCL.
    Errors: ValueError for processes that something else has started; ConnectionError if they do not
    all meet. Source: torch.distributed; the variables are those that torchrun sets.
    """
    told = os.environ
    if not dist.is_torchelastic_launched():
        if "RANK" in told and told.get("WORLD_SIZE", "1") not in ("", "1"):
            raise ValueError(
                f"expected torchrun to start several processes, got RANK={told['RANK']} and "
                f"WORLD_SIZE={told['WORLD_SIZE']} from something else; start one torchrun on each "
                "machine, or unset RANK to train in one process"
            )
        yield Ranks()
        return
    rank, world = int(told["RANK"]), int(told["WORLD_SIZE"])
    count = int(told["TORCHELASTIC_RESTART_COUNT"])
    both = torch.cuda.is_available() and dist.is_nccl_available()
    try:
        store = next(rendezvous("env://", timeout=MEETING))[0]
        launch = store.compare_set("launch", "", uuid.uuid4().hex).decode()
        start = _meet(store, rank, world)
        store = dist.PrefixStore(f"start {start}", store)
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if both else "gloo",
            store=store,
            rank=rank,
            world_size=world,
            timeout=MEETING,
        )
    except RuntimeError as error:  # torch's own: a store or a process that does not answer
        raise ConnectionError(
            f"expected all {world} processes to meet within {MEETING.seconds} seconds, but process "
            f"{rank} got: {str(error).splitlines()[0]}; torchrun's report names the one that failed"
        ) from error
    group = dist.group.WORLD
    assert group is not None  # it has just been made
    group.set_timeout(PATIENCE)
    try:
        yield Ranks(
            rank,
            world,
            int(told["LOCAL_RANK"]),
            int(told["LOCAL_WORLD_SIZE"]),
            int(told["GROUP_WORLD_SIZE"]),
            told["MASTER_ADDR"],
            launch,
            start > 1 or count > 0,
            int(told["TORCHELASTIC_MAX_RESTARTS"]) - count,
            store,
            os.getppid(),
        )
    finally:
        dist.destroy_process_group()


def _meet(store: dist.Store, rank: int, world: int) -> int:
    """Wait until all ranks are there; return how often torchrun has started them.

    torchrun keeps its store over all restarts, and in it what ended processes have written: their
    addresses, too. Its restart count cannot tell the starts apart, since of several torchruns only
    the one whose process failed counts. So rank 0 numbers the starts, and each other rank answers
    to the newest number. A process that is not the first to answer to a number as this rank knows
    that it belongs to an earlier start, whose rank 0 has ended, and waits for the next one.

    Errors: RuntimeError if they are not all there in time.
    """
    end = time.monotonic() + MEETING.total_seconds()
    if rank == 0:
        start = store.add("starts", 1)
        store.set("newest", str(start))
        others = [f"{start} answer {other}" for other in range(1, world)]
        while absent := [key for key in others if not store.check([key])]:
            if time.monotonic() > end:
                missing = ", ".join(key.split()[-1] for key in absent)
                raise RuntimeError(f"no answer from process {missing}")
            time.sleep(LOOK)
        store.set(f"{start} complete", "yes")
        return start
    heard, mine = 0, False
    while not (mine and store.check([f"{heard} complete"])):
        newest = int(store.get("newest")) if store.check(["newest"]) else 0
        if newest != heard:
            heard, mine = newest, store.add(f"{newest} answer {rank}", 1) == 1
        if time.monotonic() > end:
            raise RuntimeError("no answer from process 0")
        time.sleep(LOOK)
    return heard
