"""Every file that the book reads, damaged: refused by a ValueError, or read as what it says.

Bytes are flipped, cut, blanked, repeated or exchanged; tensors are renamed, left out and given
other sizes, types and numbers; values of JSON are exchanged for others. What a checksum guards is
never read as something else, and a refusal leaves unchanged what was to be filled.
"""

import gzip
import json
import random
import shutil
import struct
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, note
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor

from chapters.families.pretrained import load_bert, load_gpt2
from chapters.modern_block.decoder import ModernDecoder, today
from chapters.modern_block.llama import load_llama, save_llama
from engine import take
from engine.replay import make_model
from lib.data import BatchStream, Pair, Vocabulary, read_parallel
from lib.decoding import translate
from lib.training import paper_adam
from lib.transformer import Config, Transformer
from tests.helpers import unchecked
from tests.nightly.judging import FEW, digest, finite, outcome
from tests.nightly.texts import texts
from tests.paths import BOOK
from train.checkpoints import load_checkpoint, load_model, peek, save_checkpoint, save_model
from train.subword import SubwordVocabulary, vocabulary_from_json, vocabulary_to_json

WORDS = Vocabulary("abcdefg")
PAIRS = [Pair(("a", "b", "c"), ("b", "a")), Pair(("d",), ("e", "f")), Pair(("g", "a"), ("c",))]
VALUES = (None, [], {}, "", "x", -1, 0, 3, 10**9, 1.5, float("nan"), True, [None], {"a": 1}, "[]")
Draw = Callable[[st.SearchStrategy], Any]


@dataclass(frozen=True)
class Loader:
    """Files, who writes them into a folder, and who reads them there.

    guarded, if a checksum stands over every byte.
    """

    files: tuple[str, ...]
    write: Callable[[Path], Any]
    load: Callable[[Path], Any]
    guarded: bool = False


def model_and_stream() -> tuple[Transformer, torch.optim.Optimizer, BatchStream]:
    torch.manual_seed(0)
    config = Config(len(WORDS), len(WORDS), d_model=8, n_heads=2, d_ff=8, n_layers=1)
    model = Transformer(config)
    return model, paper_adam(model), BatchStream(PAIRS, WORDS, WORDS, batch_size=2)


def update(model: Transformer, optimizer: torch.optim.Optimizer, stream: BatchStream) -> None:
    batch = next(stream)
    model(batch.source, batch.source_lengths, batch.target_in).sum().backward()
    optimizer.step()


def write_state(folder: Path) -> None:
    model, optimizer, stream = model_and_stream()
    update(model, optimizer, stream)
    extra = {"options": {"seed": 3}, "vocabularies": ["{}"], "losses": [1.5]}
    save_checkpoint(folder / "last.pt", model, optimizer, step=1, stream=stream, extra=extra)


def load_state(folder: Path) -> Any:
    """What was read, after one more update with it; a refusal has changed nothing."""
    model, optimizer, stream = model_and_stream()

    def now() -> str:
        generators = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()  # noqa: NPY002
        return digest(model, optimizer.state_dict(), tuple(stream.position), generators)

    before = now()
    try:
        step, extra = load_checkpoint(folder / "last.pt", model, optimizer, stream=stream)
    except Exception:
        assert now() == before, "a refused load has changed something"
        raise
    update(model, optimizer, stream)
    told = json.dumps(extra)  # the run's own, in which a loss may be NaN
    return step, told, model.state_dict(), optimizer.state_dict()


def write_model(folder: Path) -> None:
    save_model(folder / "best.safetensors", model_and_stream()[0], WORDS, WORDS, {"step": 1})


def load_and_translate(folder: Path) -> Any:
    model, *vocabularies = load_model(folder / "best.safetensors")
    said = translate(model, PAIRS, *vocabularies, max_length=4)
    return model.config, model.state_dict(), [v.tokens for v in vocabularies], said


def write_taken(folder: Path) -> None:
    torch.manual_seed(0)
    design = {"kind": "translator", "source_vocab": 7, "target_vocab": 5, "d_model": 8}
    design |= {"n_heads": 2, "d_ff": 8, "n_layers": 1, "norm": "pre", "positions": "learned"}
    design |= {"activation": "relu", "tied": False, "max_length": 11, "without": ["relu"]}
    tokens = [["<pad>", "<eos>", *"abcde"], ["<pad>", "<bos>", "<eos>", "x", "y"]]
    card = take.Card("parts", {"seed": 3, "relu": False}, 17, design, tokens)
    take.save_model(folder / "mine.safetensors", make_model(design), card)


def load_taken(folder: Path) -> Any:
    model, card = take.load_model(folder / "mine.safetensors")
    return model.state_dict(), json.dumps(asdict(card))


def write_vocabulary(make: Callable[[], Vocabulary]) -> Callable[[Path], Any]:
    return lambda folder: (folder / "vocabulary.json").write_text(
        vocabulary_to_json(make()), encoding="utf-8"
    )


def load_vocabulary(folder: Path) -> Any:
    vocabulary = vocabulary_from_json((folder / "vocabulary.json").read_text(encoding="utf-8"))
    numbers = vocabulary.encode(("a", "bab", "z"))
    return type(vocabulary).__name__, vocabulary.tokens, numbers, vocabulary.decode(numbers)


def pieces() -> SubwordVocabulary:
    return SubwordVocabulary.from_sentences([("abc", "bab", "cab")] * 3, 30)


LINES = [f"the cat {i}\tle chat {i}\n" for i in range(20)]


def write_two_files(folder: Path) -> None:
    for side, name in enumerate(("a.x", "a.y")):
        text = "".join(line.strip().split("\t")[side] + "\n" for line in LINES)
        (folder / name).write_text(text, encoding="utf-8")


def write_llama(folder: Path) -> None:
    torch.manual_seed(0)
    config = today(11, d_model=8, n_heads=2, d_ff=8, n_layers=1, n_kv_heads=1)
    save_llama(ModernDecoder(config), folder)


def copy_of(name: str) -> Callable[[Path], Any]:
    return lambda folder: shutil.copytree(BOOK / "checkpoints" / name, folder, dirs_exist_ok=True)


FOLDER = ("model.safetensors", "config.json")
LOADERS = {
    "load_checkpoint": Loader(("last.pt",), write_state, load_state, guarded=True),
    "peek": Loader(("last.pt",), write_state, lambda f: peek(f / "last.pt"), guarded=True),
    "load_model": Loader(("best.safetensors",), write_model, load_and_translate, guarded=True),
    "laboratory": Loader(("mine.safetensors",), write_taken, load_taken),
    "words": Loader(("vocabulary.json",), write_vocabulary(lambda: WORDS), load_vocabulary),
    "sub-words": Loader(("vocabulary.json",), write_vocabulary(pieces), load_vocabulary),
    "two files": Loader(
        ("a.x", "a.y"), write_two_files, lambda f: read_parallel(f / "a.x", f / "a.y")
    ),
    "columns": Loader(
        ("a.tsv",),
        lambda f: (f / "a.tsv").write_text("".join(LINES), encoding="utf-8"),
        lambda f: read_parallel(f / "a.tsv"),
    ),
    "gzip": Loader(
        ("a.tsv.gz",),
        lambda f: (f / "a.tsv.gz").write_bytes(gzip.compress("".join(LINES).encode(), mtime=0)),
        lambda f: read_parallel(f / "a.tsv.gz"),
    ),
    "BERT": Loader(FOLDER, copy_of("reference_bert"), lambda f: load_bert(f).state_dict()),
    "GPT-2": Loader(FOLDER, copy_of("reference_gpt2"), lambda f: load_gpt2(f).state_dict()),
    "LLaMA": Loader(FOLDER, write_llama, lambda f: load_llama(f).state_dict()),
}


# --- damage ---------------------------------------------------------------------------------------


def damage_bytes(content: bytes, draw: Draw) -> bytes:
    """Change some bytes, wherever they are."""
    data, at = bytearray(content), draw(st.integers(0, len(content) - 1))
    way = draw(st.sampled_from(["flip", "cut", "blank", "insert", "other", "many"]))
    if way == "flip":
        data[at] ^= 1 << draw(st.integers(0, 7))
    elif way == "cut":
        del data[at:]
    elif way == "blank":
        end = min(len(data), at + draw(st.sampled_from([1, 8, 64, 4096])))
        data[at:end] = bytes(end - at)
    elif way == "insert":
        data[at:at] = data[: draw(st.integers(1, 32))]
    elif way == "other":
        return draw(st.sampled_from([b"", b"{}", b"null", bytes(64)]) | st.binary(max_size=99))
    else:
        for where in draw(st.lists(st.integers(0, len(content) - 1), min_size=2, max_size=40)):
            data[where] = draw(st.integers(0, 255))
    return bytes(data)


def mutate(value: Any, draw: Draw) -> Any:
    """A copy of nested lists and dictionaries with one value or one key exchanged.

    A text that is JSON itself is changed inside.
    """
    if isinstance(value, str) and value[:1] in ("{", "["):
        return json.dumps(mutate(json.loads(value), draw))
    if isinstance(value, Tensor):
        return other_tensor(value, draw)
    if not isinstance(value, dict | list | tuple) or not value or draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from(VALUES))
    way = draw(st.sampled_from(["change"] * 8 + ["leave out", "add"]))
    if isinstance(value, dict):
        key, copy = draw(st.sampled_from(list(value))), dict(value)
        part = copy.pop(key)
        if way == "change":
            copy[key] = mutate(part, draw)
        elif way == "add":
            copy[f"{key}x" if isinstance(key, str) else 99] = part
        return copy
    at, parts = draw(st.integers(0, len(value) - 1)), [*value]
    parts[at : at + 1] = {"change": [None], "leave out": [], "add": [parts[at]] * 2}[way]
    if way == "change":
        parts[at] = mutate(value[at], draw)
    return tuple(parts) if isinstance(value, tuple) else parts


def other_tensor(tensor: Tensor, draw: Draw) -> Tensor:
    way = draw(st.sampled_from(["fewer", "axis", "type", "none", "entry", "turned"]))
    if way == "fewer":
        return tensor.flatten()[: max(0, tensor.numel() - 1)].clone()
    if way == "axis":
        return tensor.unsqueeze(0).clone()
    if way == "type":
        kinds = (torch.int64, torch.float64, torch.float16, torch.bool)
        return tensor.to(draw(st.sampled_from(kinds)))
    if way == "entry" and tensor.is_floating_point() and tensor.numel():
        wrong = tensor.clone()
        at = draw(st.integers(0, tensor.numel() - 1))
        wrong.view(-1)[at] = draw(st.sampled_from([float("nan"), float("inf"), 1e38, -1.0]))
        return wrong
    if way == "turned":
        return tensor.mT.contiguous() if tensor.dim() > 1 else tensor.repeat(2)
    return torch.zeros(0)


def header_of(path: Path) -> tuple[dict[str, Any], bytes]:
    """The header of a file of safetensors, and the rest of its bytes."""
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def damage_inside(path: Path, draw: Draw) -> None:
    """Change a part of a file and write it again as its format wants it."""
    if path.suffix == ".pt":
        torch.save(mutate(torch.load(path, weights_only=True), draw), path)
    elif path.suffix == ".safetensors":
        header, rest = header_of(path)
        if draw(st.booleans()):
            text = json.dumps(mutate(header, draw), ensure_ascii=False).encode()
            path.write_bytes(struct.pack("<Q", len(text)) + text + rest)
            return
        changed = mutate({name: one.clone() for name, one in load_file(path).items()}, draw)
        if isinstance(changed, dict) and all(isinstance(t, Tensor) for t in changed.values()):
            whole = {name: t.contiguous() for name, t in changed.items()}
            save_file(whole, path, header.get("__metadata__"))
    elif path.suffix == ".json":
        changed = mutate(json.loads(path.read_text(encoding="utf-8")), draw)
        path.write_text(json.dumps(changed), encoding="utf-8")
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(draw(st.binary(max_size=20))))
    else:
        lines = path.read_bytes().splitlines(keepends=True)
        at = draw(st.integers(0, len(lines) - 1))
        lines[at] = draw(texts).encode("utf-8", "surrogatepass") + b"\n"
        path.write_bytes(b"".join(lines))


@pytest.fixture(scope="module")
def right(tmp_path_factory) -> dict[str, tuple[Path, str]]:
    """The undamaged files of each loader, and what they give."""
    found = {}
    for name, loader in LOADERS.items():
        folder = tmp_path_factory.mktemp("right")
        loader.write(folder)
        found[name] = folder, digest(loader.load(folder))
    return found


@pytest.mark.parametrize("name", LOADERS)
@FEW
@given(data=st.data())
def test_a_damaged_file_is_refused_or_read_as_what_it_was(name, data, right, tmp_path_factory):
    loader, (whole, wanted) = LOADERS[name], right[name]
    folder = tmp_path_factory.mktemp("damaged", numbered=True)
    try:
        shutil.copytree(whole, folder, dirs_exist_ok=True)
        path = folder / data.draw(st.sampled_from(loader.files))
        if inside := data.draw(st.booleans()):
            damage_inside(path, data.draw)
        else:
            path.write_bytes(damage_bytes(path.read_bytes(), data.draw))
        with unchecked():
            end, read = outcome(lambda: loader.load(folder))
        note(f"{path.name} {end}: {read}")
        if end == "returned":
            assert finite(read)
            assert inside or not loader.guarded or digest(read) == wanted
    finally:
        shutil.rmtree(folder)
