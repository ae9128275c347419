"""The losses of a run in a file: one JSON object a line, which a resumed run goes on writing."""

import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any

from torch import Tensor

from train.checkpoints import write_whole


class LossLog:
    """The log of a run; its first line has the run's fingerprint.

    Args: `run`, the fingerprint. For a run that goes on, `keep`, the updates that it has behind it,
    and `told`, what `told()` was at that point: later lines are dropped, and so is a last line that
    a killed process left half written. Without a path nothing is written.
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
    ):
        self._path = path or Path(os.devnull)
        self._waiting: list[tuple[int, dict[str, Any]]] = []
        self.notice = ""
        if path is None:
            self._lines, self._digest = 0, hashlib.sha256()
            return
        lines = self._kept(path, keep, told) if keep else []
        if not lines:
            lines = [_line({"step": 0, "run": run})]
        text = b"".join(lines)
        self._lines, self._digest = len(lines), hashlib.sha256(text)
        write_whole(path, lambda part: part.write_bytes(text))

    def _kept(self, path: Path, keep: int, told: dict[str, Any] | None) -> list[bytes]:
        """The lines that a run that goes on finds of its earlier updates."""
        if not path.exists():
            self.notice = f"{path} is gone, and with it the losses of updates 1 to {keep:,}."
            return []
        found = path.read_bytes().splitlines(keepends=True)
        whole = [line for line in found if line.endswith(b"\n")]
        lines = whole[: told["lines"]] if told else whole
        steps = [_step(line, f"{path}, line {n}") for n, line in enumerate(lines, 1)]
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
        try:
            with self._path.open("ab") as stream:
                stream.writelines(lines)
        except OSError as error:
            raise OSError(
                f"expected to write {self._path}, got: {error.strerror}; make room on its disk"
            ) from error
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


def _step(line: bytes, place: str) -> int:
    try:
        return int(json.loads(line)["step"])
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"{place}: expected a JSON object with the step, got {line[:40]!r}; put the run's own "
            "file back, or delete it: the run goes on without"
        ) from error
