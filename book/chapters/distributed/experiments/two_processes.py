"""One process against two on Multi30k, one epoch through the command line; and two that are killed.

    python experiments/two_processes.py DIR [--kills 5] [--dropout 0 0.1]

DIR holds train.de, train.en, val.de and val.en, plain or as .gz. For each dropout one process and
two train with the same options, so with the same batches: without dropout they differ by rounding
alone, with it also by the random numbers of the second rank. Then two processes train with the last
dropout once more, and by turns one of them is killed (SIGKILL), so many times at seeded moments;
torchrun starts both again. At its end the script asserts that the validation losses without
dropout differ by less than 0.01, and that the kills have changed no bit.

It reads /proc, so it needs Linux. All processes meet on the loopback interface.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[3]))

from measure.experiments import command_line
from measure.records import BOOK, write_results

OPTIONS = (
    "--source de --target en --min-count 2 --layers 2 --d-model 64 --heads 4 --d-ff 256 "
    "--batch-size 64 --epochs 1 --beam 1 --threads 1 --device cpu --save-every 2"
)
BAR = 0.01  # between the validation losses of one process and two
PATIENCE = 3600.0  # seconds that a run may take


def start(
    processes: int, arguments: Sequence[str], restarts: int = 0, **streams: Any
) -> subprocess.Popen:
    """Start `python -m train`, for several processes by torchrun, in the folder of the book."""
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    launcher += [f"--max-restarts={restarts}", "-m", "train"]
    environment = os.environ | {
        "PYTHONPATH": str(BOOK),
        "OMP_NUM_THREADS": "1",
        "TQDM_DISABLE": "1",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    command = [sys.executable, *(launcher if processes > 1 else ["-m", "train"]), *arguments]
    return subprocess.Popen(command, env=environment, text=True, **streams)


def workers(launcher: subprocess.Popen) -> list[int]:
    """The processes that torchrun has started, by rank."""
    try:
        children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text()
    except FileNotFoundError:  # torchrun has ended
        return []
    return [int(number) for number in children.split()]


def stop(launcher: subprocess.Popen) -> None:
    """End torchrun and its processes, whatever state they are in."""
    left = workers(launcher)
    launcher.kill()
    for number in left:
        try:
            os.kill(number, signal.SIGKILL)
        except ProcessLookupError:
            continue
    launcher.wait()


def logged(out: Path) -> int:
    """How many updates the log of a run has."""
    log = out / "losses.jsonl"
    return log.read_text(encoding="utf-8").count('"lr"') if log.exists() else 0


def kill_at(
    launcher: subprocess.Popen,
    out: Path,
    moments: Iterable[int],
    rng: random.Random,
    patience: float,
) -> list[dict[str, int]]:
    """Each time when so many updates are in the log, kill a process, a moment later: by turns.

    Errors: RuntimeError when the run ends, or the patience, before the last of the moments.
    """
    deadline, done = time.monotonic() + patience, []
    for turn, moment in enumerate(sorted(moments)):
        running: list[int] = []
        while logged(out) < moment or not running:
            if launcher.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(
                    f"expected {moment} updates in the log, got {logged(out)}, and torchrun's "
                    f"status {launcher.poll()}"
                )
            time.sleep(0.002)
            running = workers(launcher)
        rank = turn % len(running)
        time.sleep(rng.uniform(0, 0.1))
        os.kill(running[rank], signal.SIGKILL)
        done.append({"updates": moment, "rank": rank})
        while running[rank] in workers(launcher) and time.monotonic() < deadline:
            time.sleep(0.002)
    return done


def tensors(thing: Any) -> list[torch.Tensor]:
    """All tensors in nested dictionaries and lists, in their order."""
    if isinstance(thing, torch.Tensor):
        return [thing]
    inner = thing.values() if isinstance(thing, dict) else thing
    nested = isinstance(thing, dict | list | tuple)
    return [tensor for one in inner for tensor in tensors(one)] if nested else []


def same_bits(one: Path, other: Path) -> bool:
    """Whether two runs ended with the same parameters, moments, position and losses."""
    states = [torch.load(out / "last.pt", weights_only=True) for out in (one, other)]
    kept = [{name: s[name] for name in ("model", "optimizer", "generators")} for s in states]
    equal = (
        all(map(torch.equal, *map(tensors, kept))) and len(set(map(len, map(tensors, kept)))) == 1
    )
    places = [(s["step"], s["position"], json.loads(s["extra"])["ranks"]) for s in states]
    logs = [(out / "losses.jsonl").read_text(encoding="utf-8") for out in (one, other)]
    return equal and places[0] == places[1] and logs[0] == logs[1]


def run(
    processes: int, out: Path, arguments: Sequence[str], moments: Sequence[int] = (), seed: int = 0
) -> dict[str, Any]:
    """Train to the end; return the losses of validation and the kills."""
    begun = time.monotonic()
    launcher = start(processes, [*arguments, "--out", str(out)], len(moments))
    try:
        kills = kill_at(launcher, out, moments, random.Random(seed), PATIENCE)
        if launcher.wait(timeout=PATIENCE):
            raise RuntimeError(f"expected a run that ends with 0, got {launcher.returncode}")
    finally:
        stop(launcher)
    entries = [json.loads(line) for line in (out / "losses.jsonl").read_text().splitlines()]
    return {
        "processes": processes,
        "updates": sum("lr" in entry for entry in entries),
        "validation_loss": [e["validation_loss"] for e in entries if "validation_loss" in e][-1],
        "training_loss": [entry["loss"] for entry in entries if "lr" in entry][-1],
        "seconds": round(time.monotonic() - begun),
        "kills": kills,
    }


def main(arguments: list[str] | None = None) -> None:
    options = {"corpus": Path, "kills": 5, "dropout": ["0", "0.1"]}
    experiment = command_line(__file__, __doc__, arguments=arguments, **options)
    given = experiment.options
    torch.set_num_threads(1)
    rows, seed = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for dropout in given.dropout:
            options = [*OPTIONS.split(), "--data", str(given.corpus), "--dropout", dropout]
            outs = [Path(folder) / f"{dropout}-{n}" for n in (1, 2)]
            pair = [run(n, out, options) for n, out in enumerate(outs, 1)]
            apart = abs(pair[0]["validation_loss"] - pair[1]["validation_loss"])
            rows.append({"dropout": float(dropout), "runs": pair, "difference": apart})
        updates = pair[1]["updates"]
        moments = random.Random(seed).sample(range(1, updates - 50), given.kills)
        killed = run(2, Path(folder) / "killed", options, moments, seed)
        killed["same_bits"] = same_bits(outs[1], Path(folder) / "killed")
    results = {"options": OPTIONS, "bar": BAR, "settings": rows, "killed": killed}
    write_results(experiment.path, results)
    assert killed["same_bits"]
    assert all(row["difference"] < BAR for row in rows if row["dropout"] == 0)


if __name__ == "__main__":
    main()
