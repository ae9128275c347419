"""Start the command line `python -m train` in several processes, and kill one of them if asked.

torchrun starts this module in each process; it runs the command line, and in the process that is to
be killed a second thread beside it, which waits for an update and then sends the signal.
"""

import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple

BOOK = Path(__file__).resolve().parents[2]
LOSSES = "losses.jsonl"  # in the folder of a run
LOOK = 0.001  # seconds between two looks at the log
PATIENCE = 600.0  # seconds that a run may take
GRACE = 40.0  # seconds in which torchrun ends its processes; after 30 it kills them


class Trained(NamedTuple):
    """A run that has ended: its folder, its losses of training, and what it printed."""

    out: Path
    losses: list[float]
    said: str


def train_command(
    arguments: Sequence[str],
    out: Path,
    *,
    n: int = 1,
    machines: int = 1,
    kill_at: int | None = None,
    kill_rank: int | None = None,
) -> Trained:
    """Run `torchrun --nproc-per-node=n -m train` with these arguments, or one process without it.

    With machines=2 two torchruns start n processes each, as on two machines, but both on this one:
    they meet at a port of its loopback interface.

    Args: out, a folder that the run makes. kill_at, the number of updates after which one of the
        processes is killed (SIGKILL), once; torchrun then starts all of them again. kill_rank, its
        number; if it is not given, the last one's.
    Errors: RuntimeError with the end of what was printed, if the run fails or takes too long.
    """
    command = ["-m", "train"]
    if n * machines > 1:
        where = ["--standalone"] if machines == 1 else several_machines(machines, "127.0.0.1")
        rank = n * machines - 1 if kill_rank is None else kill_rank
        command = ["-m", "torch.distributed.run", *where, f"--nproc-per-node={n}"]
        command += [f"--max-restarts={int(kill_at is not None)}"]
        command += ["-m", "chapters.distributed.restarts", str(kill_at or 0), str(rank), str(out)]
    command = [sys.executable, *command, *arguments, "--out", str(out), "--threads", "1"]
    loopback = next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo")
    environment = os.environ | {
        "PYTHONPATH": str(BOOK),
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": loopback,
        "TQDM_DISABLE": "1",
    }
    with ExitStack() as stack:
        started = []
        for _ in range(machines):
            said, faults = (stack.enter_context(TemporaryFile("w+")) for _ in range(2))
            process = subprocess.Popen(command, env=environment, stdout=said, stderr=faults)
            stack.callback(_end, process)
            started.append((process, said, faults))
        end = time.monotonic() + PATIENCE
        with suppress(subprocess.TimeoutExpired):
            for process, *_ in started:
                process.wait(max(end - time.monotonic(), 0))
        for process, _, faults in started:
            if process.poll() != 0:
                faults.seek(0)
                raise RuntimeError(
                    f"expected a run that ends with 0, got {process.poll()}:\n"
                    f"{faults.read()[-2000:]}"
                )
        for _, said, _ in started:
            said.seek(0)
        return Trained(out, losses(out), "".join(said.read() for _, said, _ in started))


def several_machines(machines: int, first: str, port: int | None = None) -> list[str]:
    """torchrun's options, the same on each machine, with which they meet at the first one.

    Args: first, its address. port, a free one there; if it is not given, one that is free here.
    """
    if port is None:
        with socket.create_server((first, 0)) as free:
            port = free.getsockname()[1]
    options = [f"--nnodes={machines}", "--rdzv-backend=c10d", f"--rdzv-endpoint={first}:{port}"]
    return [*options, f"--local-addr={first}"] if first == "127.0.0.1" else options


def _end(process: subprocess.Popen) -> None:
    """End torchrun, if it has not ended, and with it its processes."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
        process.kill()
        process.wait()


def losses(out: Path) -> list[float]:
    """The training losses in the log of a run, one for each update so far."""
    log = out / LOSSES
    lines = log.read_text(encoding="utf-8").splitlines(keepends=True) if log.exists() else []
    entries = [json.loads(line) for line in lines if line.endswith("\n")]
    return [entry["loss"] for entry in entries if "lr" in entry]


def _die_after(updates: int, out: Path) -> None:
    while len(losses(out)) < updates:
        time.sleep(LOOK)
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Be one of the processes: `restarts.py KILL_AT KILL_RANK OUT ARGUMENTS_OF_TRAIN`."""
    kill_at, kill_rank, out = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    # The torchrun whose process was killed counts; another one may not.
    first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    if kill_at and first and os.environ["RANK"] == kill_rank:
        threading.Thread(target=_die_after, args=(kill_at, out), daemon=True).start()
    sys.argv = ["train", *sys.argv[4:]]
    runpy.run_module("train", run_name="__main__")


if __name__ == "__main__":
    main()
