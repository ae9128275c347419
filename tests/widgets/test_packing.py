"""The published model as the page gets it: half precision, alike from file and torch."""

import base64
import json
import re
import struct

import numpy as np
import pytest
import torch

from build.directives import widgets
from lib.data import Vocabulary
from lib.decoding import translate
from lib.transformer import Config, Transformer
from tasks.translation import translation_pairs
from tests.paths import BOOK
from train.checkpoints import PUBLISHED, load_published
from widgets.packing import PackedModel, halves, pack_file, pack_model


@pytest.fixture(scope="module")
def packed() -> PackedModel:
    return pack_file(PUBLISHED)


def unpacked(packed: PackedModel) -> dict[str, torch.Tensor]:
    """The weights as a page has them, in float32."""
    numbers = torch.from_numpy(np.frombuffer(packed.data, dtype="<f2").astype(np.float32))
    found, at = {}, 0
    for name, shape in packed.header["tensors"]:
        size = int(np.prod(shape))
        found[name], at = numbers[at : at + size].reshape(shape), at + size
    assert at == len(numbers)
    return found


def test_file_and_model_are_packed_alike(packed):
    assert pack_model(*load_published()) == packed
    assert len(packed.data) == 2 * 197_568
    assert re.fullmatch("[0-9a-f]{12}", packed.id)


def test_halves_are_those_of_torch():
    ties = [1 + 2**-11, 1 + 3 * 2**-11, 2**-25, 3 * 2**-25, 65_504.0, -0.0]
    values = torch.cat([torch.tensor(ties), torch.randn(997), torch.randn(499) * 2e-6])
    assert halves(values.numpy().tobytes()) == values.half().numpy().tobytes()
    with pytest.raises(OverflowError):
        halves(struct.pack("<f", 65_536.0))


def test_rounding_errs_by_at_most_half_a_step(packed):
    exact = load_published()[0].state_dict()
    rounded = unpacked(packed)
    assert rounded.keys() == exact.keys()
    for name, values in exact.items():
        gap = (rounded[name] - values).abs()
        assert (gap <= (values.abs() * 2**-11).clamp(min=2**-25)).all(), name
    assert any((rounded[name] != values).any() for name, values in exact.items())


def test_rounding_changes_no_translation(packed):
    model, *vocabs = load_published()
    pairs = translation_pairs()[1][-100:]
    before = translate(model, pairs, *vocabs, max_length=40)
    model.load_state_dict(unpacked(packed))
    assert translate(model, pairs, *vocabs, max_length=40) == before


def test_script_holds_the_header_and_the_numbers(packed):
    text = packed.script()
    pattern = r'\(window\.bookModels \?\?= \{\}\)\["(\w+)"\] = \{ header: (.*), data: "(.*)" \};\n'
    name, header, data = re.fullmatch(pattern, text).groups()
    assert name == packed.id
    assert json.loads(header) == packed.header
    assert base64.b64decode(data) == packed.data


def test_name_tells_models_apart(packed):
    spoilt = bytes([packed.data[0] ^ 1]) + packed.data[1:]
    assert PackedModel(packed.header, spoilt).id != packed.id
    header = packed.header | {"source_words": packed.header["source_words"][::-1]}
    assert PackedModel(header, packed.data).id != packed.id


def test_the_page_s_model_is_the_one_that_chapter_10_names(packed, tmp_path):
    widgets.emit_assets(tmp_path)
    files = list((tmp_path / "models").iterdir())
    assert [file.name for file in files] == [f"{packed.id}.js"]
    assert files[0].read_text(encoding="utf-8") == packed.script()
    chapter = (BOOK / "10_transformer.ipynb").read_text(encoding="utf-8")
    assert f'{{\\"engine\\":{{\\"id\\":\\"{packed.id}\\"' in chapter, "run scripts/refresh.py"


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"activation": "gelu"}, "expected activation out of relu, got 'gelu'"),
        ({"positions": "alibi"}, "expected positions out of none, sinusoidal, rotary, got 'alibi'"),
    ],
)
def test_a_model_beyond_the_page_is_refused(choice, words):
    vocab = Vocabulary(["a", "b"])
    model = Transformer(Config(len(vocab), d_model=6, n_heads=3, d_ff=5, n_layers=1, **choice))
    with pytest.raises(ValueError, match=words):
        pack_model(model, vocab, vocab)


def test_weights_beyond_float16_are_refused():
    vocab = Vocabulary(["a", "b"])
    model = Transformer(Config(len(vocab), d_model=6, n_heads=3, d_ff=5, n_layers=1))
    model.encoder.layers[0].feed_forward.norm.gain.data[3] = 1e5
    with pytest.raises(ValueError, match=r"got larger ones in encoder\.layers\.0\.feed_forward\.n"):
        pack_model(model, vocab, vocab)
