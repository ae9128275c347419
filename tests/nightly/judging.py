"""What may come of a call: a finite result or a documented error, and no argument is changed."""

import contextlib
import hashlib
import linecache
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any

import numpy as np
import torch
from hypothesis import settings
from torch import Tensor

from tests.paths import BOOK

BASE = settings.default.max_examples  # 60 for every test, 3000 in `make fuzz`
FEW = settings(max_examples=BASE // 6)  # for each of many properties
DOCUMENTED = (ValueError, FileNotFoundError, ModuleNotFoundError, FloatingPointError)
TOO_BIG = (  # for the memory, or for torch's own whole numbers
    "allocate memory",
    "not enough memory",
    "Storage size calculation overflowed",
    "Overflow when unpacking long",
    "index-sized integer",
    "int too big to convert",
    "too large to convert to C",
    "without overflow",
    "possible overflow",
    "as a SymInt",
    "can't convert negative int to unsigned",
)
IN_TORCHS_WORDS = (  # which name both sizes, or what came: the library promises no others for them
    "must match the size of tensor b",
    "must match the existing size",
    "Expected size for first two dimensions of batch2 tensor to be",
    "the number of sizes provided",
    "Dimension out of range (expected to be in range of",
    "Dimension specified as -1 but tensor has no dimensions",
    "too many indices for tensor of dimension",
    "arguments to linear need to be at least 1D, but they are",
    "dropout probability has to be between 0 and 1",
    "list index out of range",  # of a list of numbers, as documented
    "shapes cannot be multiplied",
    "expected input with shape",
    "does not match the shape of the indexed tensor",
    "Trying to create tensor with negative dimension",
    "upper bound and lower bound inconsistent with step sign",  # of a negative number of keys
    "is out of bounds for dimension",
    "normal expects std",
    "nvalid device string",
    "device type at start of device string",
    "Device string must not be empty",
    "error unpacking string as utf-8",  # of a device's name
    "do not support dropout > 0",  # of one below 0 too: it names the argument, if not its sign
    "stack expects a non-empty TensorList",  # of a list of batches that has none
)
OF_TYPES = (
    "must be long",
    "dtype",
    "scalar type",
    "not implemented for",
    "type",
    "are valid indices",
)
SECONDS = 5.0  # of the processor, for one call
MEMORY = 3 << 30


def digest(*values: Any) -> str:
    """One text for all of these: tensors by their bytes, objects of the library by their parts."""
    found, seen = hashlib.sha256(), set()

    def add(value: Any) -> None:
        if isinstance(value, Tensor):
            plain = value.detach().clone(memory_format=torch.contiguous_format)
            plain = plain.reshape(-1).view(torch.uint8)
            found.update(f"{value.dtype}{tuple(value.shape)}".encode() + plain.numpy().tobytes())
        elif isinstance(value, Mapping):
            for key in sorted(value, key=repr):
                found.update(repr(key).encode())
                add(value[key])
        elif isinstance(value, list | tuple):
            found.update(f"{type(value).__name__}{len(value)}".encode())
            for one in value:
                add(one)
        elif isinstance(value, torch.nn.Module):  # a table of positions may have grown
            add(value.state_dict())
            add([(m.training, len(m._forward_hooks)) for m in value.modules()])
        elif type(value).__module__.startswith("lib."):
            if id(value) not in seen:
                seen.add(id(value))
                add(vars(value))
        else:
            found.update(repr(value).encode())

    add(values)
    return found.hexdigest()


def finite(value: Any) -> bool:
    """Whether every number in a result is finite."""
    if isinstance(value, Tensor):
        return bool(value.isfinite().all())
    if isinstance(value, float):
        return bool(np.isfinite(value))
    if isinstance(value, Mapping):
        return all(map(finite, value.values()))
    return not isinstance(value, list | tuple) or all(map(finite, value))


def settled(result: Any) -> Any:
    """What comes out of an iterator, a context or a schedule when it is used."""
    if isinstance(result, AbstractContextManager) and not isinstance(result, Iterator):
        with result as entered:
            return entered
    if isinstance(result, Iterator):
        return list(islice(result, 5))
    if callable(result) and not isinstance(result, torch.nn.Module | type):
        return [result(step) for step in range(8)]
    return result


@contextlib.contextmanager
def watched(seconds: float = SECONDS) -> Iterator[None]:
    """No warnings, and an error instead of a hang."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"expected an end within {seconds} s of the processor")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextlib.contextmanager
def little_memory() -> Iterator[None]:
    """So much more memory than this process has, and no more."""
    import resource  # not on Windows

    with open("/proc/self/statm", encoding="utf-8") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def outcome(call: Callable[[], Any], *, wrong_type: bool = False) -> tuple[str, Any]:
    """Make a call: "returned" and its result, or "refused" and the error, which is documented.

    Any other error is raised. With an argument of another Python type, or tensors of another type
    of numbers, Python's or torch's own complaint of it will do.
    """
    try:
        with watched():
            return "returned", call()
    except Exception as error:
        if not allowed(error, wrong_type):
            raise
        return "refused", error


def allowed(error: Exception, wrong_type: bool) -> bool:
    said = str(error)
    if isinstance(error, MemoryError) or any(words in said for words in TOO_BIG):
        return True
    if isinstance(error, DOCUMENTED):
        return bool(said.strip())
    if isinstance(error, AssertionError):  # that of `assert_same`, and no other
        last = traceback.extract_tb(error.__traceback__)[-1]
        line = linecache.getline(last.filename, last.lineno or 0)
        return last.filename.startswith(str(BOOK)) and "raise AssertionError" in line
    of_torch = isinstance(error, RuntimeError | TypeError | IndexError)
    if of_torch and any(words in said for words in IN_TORCHS_WORDS):
        return True
    if not wrong_type:
        return False
    of_types = isinstance(error, RuntimeError | IndexError) and any(w in said for w in OF_TYPES)
    return of_types or isinstance(error, TypeError | AttributeError | NotImplementedError)
