"""The losses of a run in a file: one JSON object a line, which a resumed run goes on writing.

The same losses stand in a table beside it, in CSV, with a row for each update; and, if asked for,
in the files of TensorBoard.
"""

import hashlib
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from train.checkpoints import write_whole
from train.folder import TABLE

COLUMNS = ("step", "loss", "lr", "validation_loss")  # of the table


class LossLog:
    """The log of a run; its first line has the run's fingerprint.

    Args: `run`, the fingerprint. For a run that goes on, `keep`, the updates that it has behind it,
    and `told`, what `told()` was at that point: later lines are dropped, and so is a last line that
    a killed process left half written. Without a path nothing is written. `board`, a writer of
    TensorBoard that gets the same numbers.
    Errors: ValueError for lines that are not those of the run.

    notice  what is missing of the log of a run that goes on, or nothing
    """

    def __init__(
        self,
        path: Path | None,
        run: str = "",
        *,
        keep: int = 0,
        told: dict[str, Any] | None = None,
        board: Any = None,
    ):
        self._path = path or Path(os.devnull)
        self._table = path.with_name(TABLE) if path else Path(os.devnull)
        self._board = board
        self._waiting: list[tuple[int, dict[str, Any]]] = []
        self.notice = ""
        if path is None:
            self._lines, self._digest = 0, hashlib.sha256()
            return
        lines = self._kept(path, run, keep, told) if keep else []
        if not lines:
            lines = [_line({"step": 0, "run": run})]
        text = b"".join(lines)
        self._lines, self._digest = len(lines), hashlib.sha256(text)
        write_whole(path, lambda part: part.write_bytes(text))
        table = ",".join(COLUMNS) + "\n" + _rows(lines)
        write_whole(self._table, lambda part: part.write_text(table, encoding="utf-8"))

    def _kept(self, path: Path, run: str, keep: int, told: dict[str, Any] | None) -> list[bytes]:
        """The lines that a run that goes on finds of its earlier updates."""
        if not path.exists():
            self.notice = f"{path} is gone, and with it the losses of updates 1 to {keep:,}."
            return []
        found = path.read_bytes().splitlines(keepends=True)
        whole = [line for line in found if line.endswith(b"\n")]
        lines = whole[: told["lines"]] if told else whole
        steps = [_step(line, f"{path}, line {n}") for n, line in enumerate(lines, 1)]
        other = json.loads(lines[0]).get("run", run) if lines else run
        if other != run:
            raise ValueError(
                f"{path}: expected the losses of the run whose state is beside them, {run}, got "
                f"those of another one, {other}; put the files of one run together"
            )
        if told is None:  # by a version that kept no checksum
            return [line for line, step in zip(lines, steps, strict=True) if step <= keep]
        if len(lines) < told["lines"]:
            self.notice = (
                f"{path} was truncated: of the {told['lines']:,} lines that the run had written, "
                f"{len(lines):,} are there."
            )
        elif hashlib.sha256(b"".join(lines)).hexdigest() != told["sha256"]:
            raise ValueError(
                f"{path}: expected the losses that this run wrote, got others; put its own file "
                "back, or delete it: the run goes on without"
            )
        return lines

    def add(self, step: int, **values: float | Tensor) -> None:
        """Remember some values; a tensor is not read yet."""
        self._waiting.append((step, values))

    def flush(self) -> None:
        """Write what is remembered: only here the processor waits for the GPU's numbers.

        Errors: FloatingPointError for a loss that is not finite; OSError for a full disk.
        """
        lines = []
        for step, values in self._waiting:
            entry = {"step": step} | {name: float(value) for name, value in values.items()}
            if not math.isfinite(entry.get("loss", 0.0)):
                raise FloatingPointError(
                    f"expected a finite loss, got {entry['loss']} in update {step}: "
                    "lower --lr, or warm up longer, in a new folder"
                )
            lines.append(_line(entry))
        _append(self._path, b"".join(lines))
        _append(self._table, _rows(lines).encode())
        if self._board is not None:
            for step, values in self._waiting:
                for name, value in values.items():
                    self._board.add_scalar(name, float(value), step)
            self._board.flush()
        self._waiting = []
        self._lines += len(lines)
        self._digest.update(b"".join(lines))

    def told(self) -> dict[str, Any]:
        """How many lines are written, and their SHA-256: what a checkpoint knows of the log."""
        return {"lines": self._lines, "sha256": self._digest.hexdigest()}

    def check(self) -> None:
        """Hold the file against what was written. Errors: ValueError for anything else in it."""
        found = self._path.read_bytes() if self._path.exists() else b""
        if hashlib.sha256(found).hexdigest() != self._digest.hexdigest():
            raise ValueError(
                f"{self._path}: expected the losses that this run wrote, got others; delete the "
                "file, then score with --resume"
            )


def _line(entry: dict[str, Any]) -> bytes:
    return json.dumps(entry).encode() + b"\n"


def _append(path: Path, text: bytes) -> None:
    try:
        with path.open("ab") as stream:
            stream.write(text)
    except OSError as error:
        raise OSError(
            f"expected to write {path}, got: {error.strerror}; make room on its disk"
        ) from error


def _rows(lines: Sequence[bytes]) -> str:
    """The rows of the table for some lines of the log: one for each update, with gaps."""
    by_step: dict[int, dict[str, Any]] = {}
    for entry in map(json.loads, lines):
        if "run" not in entry:  # as the log's first line, which has the fingerprint alone
            by_step.setdefault(entry["step"], {}).update(entry)
    cells = ([str(row.get(name, "")) for name in COLUMNS] for row in by_step.values())
    return "".join(",".join(row) + "\n" for row in cells)


def open_board(folder: Path, done: int) -> Any:
    """TensorBoard's own writer, for a run that has so many updates behind it.

    What the folder has of later updates is not shown any more.
    Errors: ModuleNotFoundError with the command that helps if the package is missing.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ModuleNotFoundError(
            "expected the package tensorboard, which --tensorboard needs, but it is not "
            "installed: run `pip install tensorboard`, or leave the option out: the losses stand "
            f"in {TABLE} too"
        ) from error
    return SummaryWriter(str(folder), purge_step=done + 1)


def _step(line: bytes, place: str) -> int:
    try:
        return int(json.loads(line)["step"])
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"{place}: expected a JSON object with the step, got {line[:40]!r}; put the run's own "
            "file back, or delete it: the run goes on without"
        ) from error
