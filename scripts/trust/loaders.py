"""Damage the files that the book reads, load them, and judge what comes of it.

Bytes are flipped, cut, blanked, repeated or exchanged; tensors are renamed, left out and given
other sizes and types; values of JSON are exchanged for others. A damaged file must be refused by a
documented error, without a change to what was to be filled, or be read as what it was.
"""

import gzip
import hashlib
import json
import random
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from chapters.families.pretrained import load_bert, load_gpt2
from chapters.modern_block.decoder import ModernDecoder, today
from chapters.modern_block.llama import load_llama, save_llama
from lib.data import BatchStream, Pair, Vocabulary, read_parallel
from lib.decoding import translate
from lib.training import paper_adam
from lib.transformer import Config, Transformer
from scripts.trust.draw import TEXTS
from scripts.trust.fuzz import finite, judge_error
from train.checkpoints import load_checkpoint, load_model, peek, save_checkpoint, save_model
from train.subword import SubwordVocabulary, vocabulary_from_json, vocabulary_to_json

CHECKPOINTS = Path(__file__).resolve().parents[2] / "book" / "checkpoints"
WORDS = "abcdefg"
PAIRS = [Pair(("a", "b", "c"), ("b", "a")), Pair(("d",), ("e", "f")), Pair(("g", "a"), ("c",))]
VALUES = (None, [], {}, "", "x", -1, 0, 3, 10**9, 1.5, float("nan"), True, [None], {"a": 1}, "[]")


@dataclass(frozen=True)
class Loader:
    """A file and who reads it: `load` gives what was read, `parts` what it may have changed.

    exact, if every byte is guarded: a damaged file must not be read as another one.
    """

    name: str
    files: tuple[str, ...]
    load: Callable[[Path], Any]
    exact: bool = False


def _vocabulary() -> Vocabulary:
    return Vocabulary(WORDS)


def _model(**sizes: Any) -> Transformer:
    torch.manual_seed(0)
    settings = {"d_model": 8, "n_heads": 2, "d_ff": 8, "n_layers": 1} | sizes
    return Transformer(Config(len(_vocabulary()), len(_vocabulary()), **settings))


def _stream() -> BatchStream:
    return BatchStream(PAIRS, _vocabulary(), _vocabulary(), batch_size=2)


def _digest(*values: Any) -> str:
    """One text for all of these: tensors by their bytes."""
    found = hashlib.sha256()

    def add(value: Any) -> None:
        if isinstance(value, Tensor):
            plain = value.detach().reshape(-1).contiguous().view(torch.uint8)
            found.update(f"{value.dtype}{tuple(value.shape)}".encode() + plain.numpy().tobytes())
        elif isinstance(value, dict):
            for key in sorted(value, key=repr):
                found.update(repr(key).encode())
                add(value[key])
        elif isinstance(value, list | tuple):
            for one in value:
                add(one)
        else:
            found.update(repr(value).encode())

    add(values)
    return found.hexdigest()


class ChangedByARefusal(Exception):
    """A load that was refused has changed what it was to fill."""


def _load_checkpoint(folder: Path) -> Any:
    model, stream = _model(), _stream()
    optimizer = paper_adam(model)

    def now() -> str:
        generators = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()  # noqa: NPY002
        position = tuple(stream.position)
        return _digest(model.state_dict(), optimizer.state_dict(), position, generators)

    before = now()
    try:
        step, extra = load_checkpoint(folder / "last.pt", model, optimizer, stream=stream)
    except Exception as error:
        if now() != before:
            raise ChangedByARefusal(f"a refused load has changed something: {error}") from error
        raise
    batch = next(stream)
    logits = model(batch.source, batch.source_lengths, batch.target_in)
    logits.sum().backward()
    optimizer.step()
    told = json.dumps(extra)  # the run's own, in which a loss may be NaN
    return step, told, model.state_dict(), optimizer.state_dict()


def _load_model(folder: Path) -> Any:
    model, *vocabs = load_model(folder / "best.safetensors")
    said = translate(model, PAIRS, *vocabs, max_length=4)
    return model.config, model.state_dict(), [v.tokens for v in vocabs], said


def _load_vocabulary(folder: Path) -> Any:
    vocabulary = vocabulary_from_json((folder / "vocabulary.json").read_text(encoding="utf-8"))
    numbers = vocabulary.encode(("a", "bab", "z"))
    return type(vocabulary).__name__, vocabulary.tokens, numbers, vocabulary.decode(numbers)


def _load_bert(folder: Path) -> Any:
    return load_bert(folder).state_dict()


def _load_gpt2(folder: Path) -> Any:
    return load_gpt2(folder).state_dict()


def _load_llama(folder: Path) -> Any:
    return load_llama(folder).state_dict()


LOADERS = (
    Loader("load_checkpoint", ("last.pt",), _load_checkpoint, exact=True),
    Loader("peek", ("last.pt",), lambda folder: peek(folder / "last.pt"), exact=True),
    Loader("load_model", ("best.safetensors",), _load_model, exact=True),
    Loader("vocabulary of words", ("vocabulary.json",), _load_vocabulary),
    Loader("vocabulary of sub-words", ("vocabulary.json",), _load_vocabulary),
    Loader("read_parallel, two files", ("a.x", "a.y"),
           lambda folder: read_parallel(folder / "a.x", folder / "a.y")),
    Loader("read_parallel, columns", ("a.tsv",), lambda folder: read_parallel(folder / "a.tsv")),
    Loader("read_parallel, gzip", ("a.tsv.gz",),
           lambda folder: read_parallel(folder / "a.tsv.gz"), exact=False),
    Loader("load_bert", ("model.safetensors", "config.json"), _load_bert),
    Loader("load_gpt2", ("model.safetensors", "config.json"), _load_gpt2),
    Loader("load_llama", ("model.safetensors", "config.json"), _load_llama),
)  # fmt: skip


def name_of(number: int) -> str:
    return LOADERS[number % len(LOADERS)].name


def make_files(root: Path) -> None:
    """Write the right files of each loader, into a folder of its name."""
    for loader in LOADERS:
        (root / loader.name).mkdir(parents=True)
    model, stream = _model(), _stream()
    optimizer = paper_adam(model)
    batch = next(stream)
    model(batch.source, batch.source_lengths, batch.target_in).sum().backward()
    optimizer.step()
    for name in ("load_checkpoint", "peek"):
        extra = {"options": {"seed": 3}, "vocabularies": ["{}"], "losses": [1.5]}
        path = root / name / "last.pt"
        save_checkpoint(path, model, optimizer, step=1, stream=stream, extra=extra)
    vocabs = _vocabulary(), _vocabulary()
    save_model(root / "load_model" / "best.safetensors", model, *vocabs, {"step": 1})
    pieces = SubwordVocabulary.from_sentences([("abc", "bab", "cab")] * 3, 30)
    for kind, one in (("words", _vocabulary()), ("sub-words", pieces)):
        text = vocabulary_to_json(one)
        (root / f"vocabulary of {kind}" / "vocabulary.json").write_text(text, encoding="utf-8")
    lines = [f"the cat {i}\tle chat {i}\n" for i in range(20)]
    columns = "".join(lines).encode()
    (root / "read_parallel, columns" / "a.tsv").write_bytes(columns)
    (root / "read_parallel, gzip" / "a.tsv.gz").write_bytes(gzip.compress(columns, mtime=0))
    for side, ending in enumerate("xy"):
        text = "".join(line.strip().split("\t")[side] + "\n" for line in lines)
        path = root / "read_parallel, two files" / f"a.{ending}"
        path.write_text(text, encoding="utf-8")
    for name in ("bert", "gpt2"):
        shutil.copytree(
            CHECKPOINTS / f"reference_{name}", root / f"load_{name}", dirs_exist_ok=True
        )
    torch.manual_seed(0)
    config = today(11, d_model=8, n_heads=2, d_ff=8, n_layers=1, n_kv_heads=1)
    save_llama(ModernDecoder(config), root / "load_llama")


# --- damage ---------------------------------------------------------------------------------------


def damage_bytes(content: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Change some bytes, wherever they are."""
    data, way = bytearray(content), rng.randrange(7)
    at = rng.randrange(len(data))
    if way <= 1:
        data[at] ^= 1 << rng.randrange(8)
        return bytes(data), f"bit flipped at {at}"
    if way == 2:
        return bytes(data[:at]), f"cut at {at}"
    if way == 3:
        end = min(len(data), at + rng.choice((1, 8, 64, 4096)))
        data[at:end] = bytes(end - at)
        return bytes(data), f"blank from {at} to {end}"
    if way == 4:
        data[at:at] = data[: rng.randint(1, 32)]
        return bytes(data), f"bytes put in at {at}"
    if way == 5:
        return rng.choice((b"", b"{}", b"null", b"\0" * 64, rng.randbytes(99))), "another file"
    for _ in range(rng.randint(2, 40)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data), "many bytes"


def mutate(value: Any, rng: random.Random) -> Any:
    """A copy of nested lists and dictionaries with one value or one key exchanged.

    A text that is JSON itself is changed inside.
    """
    inner = _inside(value)
    if inner is not None and rng.random() < 0.8:
        return json.dumps(mutate(inner, rng))
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key, copy = rng.choice(list(value)), dict(value)
        way = rng.random()
        if way < 0.1:
            del copy[key]
        elif way < 0.2:
            copy[f"{key}x" if isinstance(key, str) else 99] = copy.pop(key)
        else:
            copy[key] = mutate(copy[key], rng)
        return copy
    if isinstance(value, list | tuple) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        parts = [*value]
        way = rng.random()
        if way < 0.1:
            del parts[at]
        elif way < 0.2:
            parts.append(parts[at])
        else:
            parts[at] = mutate(parts[at], rng)
        return type(value)(parts) if type(value) in (list, tuple) else parts
    if isinstance(value, Tensor) and rng.random() < 0.9:
        return _other_tensor(value, rng)
    return rng.choice(VALUES)


def _inside(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith(("{", "[")):
        return None
    try:
        return json.loads(value)
    except ValueError:
        return None


def _other_tensor(tensor: Tensor, rng: random.Random) -> Tensor:
    way = rng.randrange(6)
    if way == 0:
        return tensor.flatten()[: max(0, tensor.numel() - 1)].clone()
    if way == 1:
        return tensor.unsqueeze(0).clone()
    if way == 2:
        return tensor.to(rng.choice((torch.int64, torch.float64, torch.float16, torch.bool)))
    if way == 3:
        return torch.zeros(0)
    if way == 4 and tensor.is_floating_point() and tensor.numel():
        wrong = tensor.clone()
        wrong.view(-1)[rng.randrange(wrong.numel())] = rng.choice((float("nan"), float("inf")))
        return wrong
    return tensor.mT.contiguous() if tensor.dim() > 1 else tensor.repeat(2)


def damage_inside(path: Path, rng: random.Random) -> str:
    """Change a part of a file and write it again as its format wants it."""
    if path.suffix == ".pt":
        state = torch.load(path, weights_only=True)
        torch.save(mutate(state, rng), path)
        return "a part exchanged"
    if path.suffix == ".safetensors":
        if rng.random() < 0.5:
            with path.open("rb") as file:
                (size,) = struct.unpack("<Q", file.read(8))
                header, rest = json.loads(file.read(size)), file.read()
            text = json.dumps(mutate(header, rng), ensure_ascii=False).encode()
            path.write_bytes(struct.pack("<Q", len(text)) + text + rest)
            return "header exchanged"
        tensors = {name: tensor.clone() for name, tensor in load_file(path).items()}
        changed = mutate(tensors, rng)
        if isinstance(changed, dict) and all(isinstance(t, Tensor) for t in changed.values()):
            with path.open("rb") as file:
                (size,) = struct.unpack("<Q", file.read(8))
                card = json.loads(file.read(size)).get("__metadata__")
            save_file({name: t.contiguous() for name, t in changed.items()}, path, card)
        return "tensors exchanged"
    if path.suffix == ".json":
        changed = mutate(json.loads(path.read_text(encoding="utf-8")), rng)
        path.write_text(json.dumps(changed), encoding="utf-8")
        return "JSON exchanged"
    lines = path.read_bytes().splitlines(keepends=True) if path.suffix != ".gz" else []
    if not lines:
        path.write_bytes(gzip.compress(rng.randbytes(20)))
        return "others' bytes in the archive"
    lines[rng.randrange(len(lines))] = rng.choice(TEXTS).encode("utf-8", "surrogatepass") + b"\n"
    path.write_bytes(b"".join(lines))
    return "a line exchanged"


def judge_file(root: Path, seed: int, number: int) -> list[str]:
    """Damage the file of one loader in a copy, load it, and say what became of it."""
    loader = LOADERS[number % len(LOADERS)]
    rng = random.Random((seed << 32) + number)
    folder = root / f"{number}"
    shutil.copytree(root / loader.name, folder)
    try:
        path = folder / rng.choice(loader.files)
        if inside := rng.random() < 0.5:
            how = damage_inside(path, rng)
        else:
            content, how = damage_bytes(path.read_bytes(), rng)
            path.write_bytes(content)
        how = f"{path.name}: {how}"
        try:
            read = loader.load(folder)
        except ChangedByARefusal as error:
            return ["changed by a refusal", str(error), how]
        except BaseException as error:  # a package in Rust panics with one of its own
            kind, text = judge_error(error)
            return [kind, text.replace(str(folder), ""), how]
        if not finite(read):
            return ["not finite", "", how]
        if loader.exact and not inside and _digest(read) != _right(root, loader):
            return ["unnoticed", "", how]
        return ["returned", "", how]
    finally:
        shutil.rmtree(folder)


_RIGHT: dict[str, str] = {}


def _right(root: Path, loader: Loader) -> str:
    """What the undamaged file gives."""
    if loader.name not in _RIGHT:
        _RIGHT[loader.name] = _digest(loader.load(root / loader.name))
    return _RIGHT[loader.name]
