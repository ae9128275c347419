"""What a run must keep to go on as if nothing had happened, and a trained model to keep.

`save_checkpoint` keeps all of the state: parameters, optimiser, number of updates (so the
schedule), random generators, and position in the data. `save_model` keeps what translating needs:
parameters in the safetensors format, sizes and vocabularies beside them in the same file.

Both write a new file and then give it the name of the old one, which is one act: whenever the
process is killed, the name stands for a complete file, the old or the new. Neither file can make
the reader's computer run code, and both have checksums, which are read first."""

import hashlib
import io
import json
import os
import random
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors import torch as safetensors
from torch import Tensor, nn

from lib.data import BatchStream, Vocabulary
from lib.transformer import Config, Transformer
from train.subword import vocabulary_from_json, vocabulary_to_json

FORMAT = 1  # raised when a file of the old kind can no longer be read
SEAL = 64  # bytes of a SHA-256 as text
PARTS = {"step", "model", "optimizer", "position", "generators", "extra"}  # of a checkpoint
REAL = ("F16", "BF16", "F32", "F64")  # what safetensors calls the types of real numbers
PUBLISHED = Path(__file__).resolve().parent.parent / "checkpoints" / "translation.safetensors"


def write_whole(path: str | Path, write: Callable[[Path], Any]) -> None:
    """Let `write` fill a temporary file beside `path`, then give it that name in one act.

    The bytes are on the disk before the name changes, so even a power cut leaves a whole file. The
    temporary file is a new one, no link, with a name that nobody can guess; after an error it is
    gone.

    Errors: OSError, with the reason, for a full disk or a folder that must not be written.
    Source: POSIX open (O_EXCL) and rename.
    """
    path = Path(path)
    part = path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")
    try:
        part.touch(exist_ok=False)
        mode = part.stat().st_mode  # safetensors puts a file of its own there, for its owner only
        write(part)
        part.chmod(mode)
        with part.open("rb+") as stream:
            os.fsync(stream.fileno())
        os.replace(part, path)
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise OSError(
            f"expected to write {path}, got: {reason}; what stood there before is still there; "
            "make room on its disk, or name a folder that can be written"
        ) from error
    finally:
        with suppress(OSError):  # after the renaming it is gone
            part.unlink()


@contextmanager
def whole_folder(out: Path, clear: Callable[[Path], Any] = Path.rmdir) -> Iterator[Path]:
    """A folder beside `out` to be filled, which then gets that name; after an error it is gone.

    Args: clear, how a folder that has the name is taken away; usually it must be empty.
    Errors: OSError, with the reason, for a full disk or a folder that must not be written.
    """
    part = out.with_name(f"{out.name}.{secrets.token_hex(8)}.part")
    try:
        part.mkdir()
        yield part
        if out.exists():
            clear(out)
        part.rename(out)
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise OSError(
            f"expected to write {out}, got: {reason}; make room on its disk, or name another "
            "folder with --out"
        ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def save_checkpoint(
    path: str | Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    *,
    step: int,
    stream: BatchStream | None = None,
    extra: dict[str, Any] | None = None,
) -> None:
    """Write the complete state of a training run to one file, atomically.

    Args:
        path: the file.
        model: whose parameters and buffers are kept.
        optimizer: whose state is kept.
        step: the updates made so far.
        stream: the batches, whose position is kept.
        extra: what else the run wants back: numbers, strings, lists and dictionaries of them.
    Errors: ValueError for an `extra` that could not be read back safely.
    """
    name, keys, *rest = np.random.get_state(legacy=True)  # noqa: NPY002 (the global generator)
    state = {
        "format": FORMAT,
        "step": step,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "position": tuple(stream.position) if stream else None,
        "generators": {
            "python": random.getstate(),
            "numpy": (name, np.asarray(keys).tolist(), *rest),
            "torch": torch.get_rng_state(),
            "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        },
        "extra": json.dumps(_plain(extra or {})),
    }
    _write(path, state)


def _write(path: str | Path, state: dict[str, Any]) -> None:
    """A zip file by torch.save, whose comment is the SHA-256 of what stands before it."""
    buffer = io.BytesIO()  # torch's own writer does not tell why a file could not be written
    torch.save(state, buffer)
    buffer.seek(-2, os.SEEK_END)  # a zip file ends with the length of a comment, which may follow
    buffer.write(SEAL.to_bytes(2, "little"))
    buffer.write(_seal(buffer.getbuffer()))
    write_whole(path, lambda part: part.write_bytes(buffer.getvalue()))


def load_checkpoint(
    path: str | Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    *,
    stream: BatchStream | None = None,
) -> tuple[int, dict[str, Any]]:
    """Put a run back into the state that `save_checkpoint` kept; all are changed in place.

    All is compared before anything changes: names, sizes, types, and that the numbers are finite.
    Returns: the updates made so far, and `extra`.
    Errors: ValueError for a file that is no checkpoint, or one of another model or optimiser, or
    one with numbers that are not finite; FileNotFoundError. Nothing has changed then.
    """
    state, place = _read(path), stream.position if stream else None
    try:
        step, extra = int(state["step"]), json.loads(state["extra"])
        _require_model(state["model"], model)
        _require_optimizer(state["optimizer"], optimizer)
        generators = state["generators"]
        _require_generators(generators)
        if stream and state["position"]:
            stream.position = state["position"]
        if generators["cuda"] and torch.cuda.device_count() == len(generators["cuda"]):
            torch.cuda.set_rng_state_all(generators["cuda"])
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as e:
        if stream and place:
            stream.position = place
        raise ValueError(
            f"{path}: expected the state of this model and optimiser, got one with which they "
            f"cannot go on: {e}"
        ) from e
    optimizer.load_state_dict(_laid_out(state["optimizer"], optimizer))
    model.load_state_dict(state["model"])
    random.setstate(generators["python"])  # last: nothing may draw from them any more
    np.random.set_state(generators["numpy"])  # noqa: NPY002
    torch.set_rng_state(generators["torch"])
    return step, extra


def _require_model(state: dict[str, Tensor], model: nn.Module) -> None:
    own = model.state_dict()
    kinds, wanted = ({k: (v.shape, v.dtype) for k, v in x.items()} for x in (state, own))
    if names := [name for name in wanted | kinds if wanted.get(name) != kinds.get(name)]:
        raise ValueError(f"{names[0]} has another size or type, or is in one of both only")
    if odd := [name for name, _ in model.named_parameters() if not state[name].isfinite().all()]:
        raise ValueError(f"a number in {odd[0]} is not finite")


def _require_optimizer(state: dict[str, Any], optimizer: torch.optim.Optimizer) -> None:
    """Compare what torch does not: with other sizes it would go wrong at the next update."""
    for group, own in zip(
        state["param_groups"], optimizer.state_dict()["param_groups"], strict=True
    ):
        kinds, wanted = ({k: type(v) for k, v in x.items()} for x in (group, own))
        numbers = [value for value in group.values() if isinstance(value, float)]
        if kinds != wanted or group["params"] != own["params"] or not all(map(isfinite, numbers)):
            raise ValueError(f"the optimiser has other settings: {group}")
    parameters, moments = _parameters(optimizer), state["state"]
    for number, kept in moments.items():
        if kept.keys() != next(iter(moments.values())).keys():
            raise ValueError(f"parameter {number} has other moments than the first")
        for name, value in kept.items():
            if value.dim() and value.shape != parameters[number].shape:
                raise ValueError(f"{name} of parameter {number} has another size")
            if not value.isfinite().all():
                raise ValueError(f"a number in {name} of parameter {number} is not finite")


def _require_generators(generators: dict[str, Any]) -> None:
    random.Random().setstate(generators["python"])
    np.random.RandomState().set_state(generators["numpy"])
    if not 0 <= generators["numpy"][2] <= len(generators["numpy"][1]):  # NumPy does not look
        raise ValueError("its random numbers begin outside their table")
    torch.Generator().set_state(generators["torch"])


def _laid_out(state: dict[str, Any], optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """The state with its moments in memory as their parameters are: fused kernels count on it."""
    parameters = _parameters(optimizer)
    moments = {
        number: {
            name: torch.empty_like(parameters[number]).copy_(value) if value.dim() else value
            for name, value in kept.items()
        }
        for number, kept in state["state"].items()
    }
    return state | {"state": moments}


def _parameters(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """All parameters in the order in which a state numbers them."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def peek(path: str | Path) -> dict[str, Any]:
    """Read only what was told beside the tensors, before anything is built.

    Of a checkpoint this is `extra`; of a model, a file with the ending .safetensors, `about`.
    Errors: as load_checkpoint.
    """
    if Path(path).suffix == ".safetensors":
        return _read_card(path)["about"]
    return json.loads(_read(path)["extra"])


def _read(path: str | Path) -> dict[str, Any]:
    try:
        content = Path(path).read_bytes()
        if content[-SEAL:] != _seal(memoryview(content)[:-SEAL]):
            raise ValueError("its checksum is another one")
        # weights_only: tensors, numbers and containers are read; anything that is code is refused.
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise
    except Exception as error:  # a damaged file is met by errors of many classes
        reason = str(error).split("\n")[0]
        raise ValueError(
            f"{path}: expected a checkpoint, got a file that is none, or is damaged: {reason}; "
            "put a copy back, or begin anew"
        ) from error
    whole = isinstance(state, dict) and state.get("format") == FORMAT and state.keys() >= PARTS
    if not whole or not isinstance(state["extra"], str):
        raise ValueError(
            f"{path}: expected a checkpoint of format {FORMAT}, got something else; it was not "
            "written by this version of save_checkpoint"
        )
    return state


def _seal(content: bytes | memoryview) -> bytes:
    """The SHA-256 of a file, as the comment that stands behind it."""
    return hashlib.sha256(content).hexdigest().encode()


def _plain(extra: dict[str, Any]) -> dict[str, Any]:
    """`extra` as it will come back; an error for what JSON does not keep."""
    try:
        return json.loads(json.dumps(extra, allow_nan=True))
    except TypeError as error:
        raise ValueError(
            f"expected numbers, strings, lists and dictionaries in extra, got more: {error}"
        ) from error


def save_model(
    path: str | Path,
    model: Transformer,
    source_vocab: Vocabulary,
    target_vocab: Vocabulary,
    about: dict[str, Any] | None = None,
) -> None:
    """Write a trained Transformer to one safetensors file: parameters, sizes and vocabularies.

    The file's metadata hold a card: configuration, both vocabularies, `about` (whatever else is to
    be known, as `extra` in `save_checkpoint`) and a checksum of all this and the parameters. A
    matrix that is used twice is kept once.

    Args:
        path: the file.
        model: whose parameters and configuration are kept.
        source_vocab: the vocabulary of its sources.
        target_vocab: that of its targets.
        about: what else is to be known of it.
    Errors: ValueError, and nothing is written, for vocabularies of another size than the model's,
    parameters that are not finite, or an `about` that is not plain.
    """
    state = model.state_dict()
    _require_whole("the model", model.config, (source_vocab, target_vocab), state)
    card = {
        "format": FORMAT,
        "config": asdict(model.config),
        "source_vocab": vocabulary_to_json(source_vocab),
        "target_vocab": vocabulary_to_json(target_vocab),
        "about": _plain(about or {}),
    }
    card["sha256"] = _checksum(state.values(), card)
    metadata = {"card": json.dumps(card, ensure_ascii=False)}
    write_whole(path, lambda part: safetensors.save_model(model, str(part), metadata))


def _read_card(path: str | Path) -> dict[str, Any]:
    """Read what `save_model` wrote beside the parameters, before any of them is read.

    Errors: ValueError for a file that `save_model` did not write; FileNotFoundError.
    """
    if Path(path).exists() and not Path(path).is_file():  # a pipe would be waited for
        raise ValueError(f"{path}: expected a file, got a folder, a pipe or a device")
    try:
        with safe_open(str(path), "pt") as file:
            card = json.loads((file.metadata() or {}).get("card", "{}"))
    except (SafetensorError, RecursionError, ValueError) as error:
        raise ValueError(
            f"{path}: expected a safetensors file, got another one or a part of one: {error}; "
            "fetch or make it again"
        ) from error
    known = isinstance(card, dict) and card.get("format") == FORMAT
    if not known or not isinstance(card.get("about"), dict):
        raise ValueError(
            f"{path}: expected a model that save_model has written, got another file; name one, "
            "or train it"
        )
    return card


def load_model(
    path: str | Path, device: torch.device | str = "cpu"
) -> tuple[Transformer, Vocabulary, Vocabulary]:
    """Build the Transformer that `save_model` kept: ready to translate, in evaluation mode.

    Returns: the model, the source's vocabulary and the target's; nothing is built before all fits.
    Errors: ValueError for a file that `save_model` did not write, or one that has changed since;
    FileNotFoundError.
    """
    card = _read_card(path)
    try:
        config = Config(**card["config"])
        source_vocab = vocabulary_from_json(card["source_vocab"])
        target_vocab = vocabulary_from_json(card["target_vocab"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path}: expected a card with a configuration and two vocabularies, got another: "
            f"{error}"
        ) from error
    state = _read_parameters(path, config)
    stated = card.pop("sha256", None)
    actual = _checksum(state.values(), card)
    if stated != actual:
        raise ValueError(
            f"{path}: expected contents with the checksum {str(stated)[:12]}..., got {actual[:12]}"
            "...: the file is damaged; fetch or make it again"
        )
    _require_whole(str(path), config, (source_vocab, target_vocab), state)
    model = Transformer(config)
    model.load_state_dict(state)
    return model.to(device).eval(), source_vocab, target_vocab


def _read_parameters(path: str | Path, config: Config) -> dict[str, Tensor]:
    """The parameters of a model of this configuration, by name; one that is used twice has two."""
    with safe_open(str(path), "pt") as file:
        stored = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118, no mapping
        if config.n_layers > len(stored):  # before so many layers are built
            raise ValueError(
                f"{path}: expected {config.n_layers:,} layers, got {len(stored)} tensors"
            )
        try:
            with torch.device("meta"):  # names and sizes, without memory
                own = dict(Transformer(config).named_parameters(remove_duplicate=False))
        except (ArithmeticError, RuntimeError, TypeError) as error:  # too many entries to count
            raise ValueError(f"{path}: expected smaller sizes, got {config}") from error
        kinds = {name: (tuple(s.get_shape()), s.get_dtype() in REAL) for name, s in stored.items()}
        faults = [n for n in kinds if n not in own or kinds[n] != (tuple(own[n].shape), True)]
        faults += [n for n, p in own.items() if sum(own.get(m) is p for m in kinds) != 1]
        if faults:
            raise ValueError(
                f"{path}: expected each parameter of {config} once, got another or none as "
                f"{', '.join(faults[:3])} ({len(faults)} in all)"
            )
        read = {own[name]: file.get_tensor(name) for name in stored}
    return {name: read[parameter] for name, parameter in own.items()}


def _require_whole(
    place: str, config: Config, vocabs: tuple[Vocabulary, Vocabulary], state: dict[str, Tensor]
) -> None:
    wanted = (config.source_vocab, config.target_vocab or config.source_vocab)
    if (got := tuple(map(len, vocabs))) != wanted:
        raise ValueError(f"{place}: expected vocabularies of {wanted} tokens, got {got}")
    if odd := [name for name, tensor in state.items() if not tensor.isfinite().all()]:
        raise ValueError(f"{place}: expected finite numbers, got NaN or infinity in {odd[0]}")


def load_published(
    device: torch.device | str = "cpu",
) -> tuple[Transformer, Vocabulary, Vocabulary]:
    """Load the book's trained English to French model, as `load_model` does.

    Chapters, widgets and tests that look at a trained Transformer load this one instead of training
    their own. `python scripts/make_checkpoint.py` (or `make checkpoint`) makes it again.
    """
    return load_model(PUBLISHED, device)


def published_facts() -> dict[str, Any]:
    """What is known of the book's model: how it was trained, and the figures of its test."""
    return _read_card(PUBLISHED)["about"]


def _checksum(tensors: Iterable[Tensor], card: dict[str, Any]) -> str:
    """A SHA-256 of all tensors, in whatever order, and of the card.

    A tensor that is kept under two names counts once.
    """
    digests = set()
    for tensor in tensors:
        data = tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()
        digests.add(hashlib.sha256(data).hexdigest())
    text = "".join((*sorted(digests), json.dumps(card, sort_keys=True)))
    return hashlib.sha256(text.encode()).hexdigest()
