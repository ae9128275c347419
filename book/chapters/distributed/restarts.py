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
from pathlib import Path
from typing import NamedTuple

BOOK = Path(__file__).resolve().parents[2]
LOSSES = "losses.jsonl"  # in the folder of a run
LOOK = 0.001  # seconds between two looks at the log
PATIENCE = 600.0  # seconds that a run may take


class Trained(NamedTuple):
    """A run that has ended: its folder, its losses of training, and what it printed."""

    out: Path
    losses: list[float]
    said: str


def train_command(
    arguments: Sequence[str], out: Path, *, n: int = 1, kill_at: int | None = None
) -> Trained:
    """Run `torchrun --nproc-per-node=n -m train` with these arguments; n = 1 is without torchrun.

    Args: out, a folder that the run makes. kill_at, the number of updates after which the last of
        the processes is killed (SIGKILL), once; torchrun then starts all of them again.
    Errors: RuntimeError with the end of what it printed, if the run fails.
    """
    options = [*arguments, "--out", str(out), "--threads", "1"]
    command = [sys.executable, "-m", "train"]
    if n > 1:
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command += [f"--nproc-per-node={n}", f"--max-restarts={int(kill_at is not None)}"]
        command += ["-m", "chapters.distributed.restarts", str(kill_at or 0), str(out)]
    loopback = next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo")
    environment = os.environ | {
        "PYTHONPATH": str(BOOK),
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": loopback,
        "TQDM_DISABLE": "1",
    }
    done = subprocess.run(
        [*command, *options],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"expected a run that ends with 0, got:\n{done.stderr[-2000:]}")
    return Trained(out, losses(out), done.stdout)


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
    """Be one of the processes: `restarts.py KILL_AT OUT ARGUMENTS_OF_TRAIN`."""
    kill_at, out = int(sys.argv[1]), Path(sys.argv[2])
    last = os.environ["RANK"] == str(int(os.environ["WORLD_SIZE"]) - 1)
    if kill_at and last and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        threading.Thread(target=_die_after, args=(kill_at, out), daemon=True).start()
    sys.argv = ["train", *sys.argv[3:]]
    runpy.run_module("train", run_name="__main__")


if __name__ == "__main__":
    main()
