"""A reader's own model as a page gets it: small, and hardly another one."""

import base64
import json

import numpy as np
import pytest
import torch

from lib.data import Vocabulary
from lib.transformer import Config, Transformer
from train.bits import LARGEST, in_eight_bits
from train.subword import SubwordVocabulary
from widgets.rounding import BITS, pack_rounded, rounded, size_of

WORDS = Vocabulary([f"w{i}" for i in range(9)])
SIZES = {"d_model": 8, "n_heads": 2, "d_ff": 12, "n_layers": 2, "norm": "pre"}


def made(tied=True, shared=False, **choices):
    torch.manual_seed(3)
    config = Config(13, None if shared else 13, tied=tied, **SIZES, **choices)
    return Transformer(config).eval()


def unpacked(packed):
    """The parameters as a page reads them, by name."""
    header, data, found, at = packed.header, packed.data, {}, 0
    narrow = []
    for name, shape in header["tensors"]:
        is_narrow = header["bits"] == 8 and len(shape) == 2
        count = shape[0] if is_narrow else int(np.prod(shape))
        numbers = torch.from_numpy(np.frombuffer(data, "<f4", count, at).copy())
        at += 4 * count
        if is_narrow:
            narrow.append((name, shape, numbers))
        else:
            found[name] = numbers.reshape(shape)
    for name, (rows, columns), scales in narrow:
        whole = np.frombuffer(data, "i1", rows * columns, at).copy()
        at += rows * columns
        found[name] = torch.from_numpy(whole).reshape(rows, columns).float() * scales[:, None]
    assert 0 <= len(data) - at < 4
    return found | {other: found[first] for other, first in header["same"]}


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize(("tied", "shared"), [(True, True), (True, False), (False, False)])
def test_the_page_has_the_parameters_of_the_rounded_model(bits, tied, shared):
    model = made(tied, shared)
    packed = pack_rounded(model, WORDS, WORDS, bits, True)
    expected, found = rounded(model, bits).state_dict(), unpacked(packed)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert torch.equal(found[name], values), name
    assert len(packed.data) - size_of(model, bits) in range(4)
    stored = sum(int(np.prod(shape)) for _, shape in packed.header["tensors"])
    assert stored == sum(p.numel() for p in model.parameters()), "what is used twice is there once"


def test_32_bits_change_nothing_and_8_bits_little():
    model = made()
    exact, eight = model.state_dict(), rounded(model, 8).state_dict()
    for name, values in rounded(model, 32).state_dict().items():
        assert torch.equal(values, exact[name]), name
    for name, values in exact.items():
        gap = (eight[name] - values).abs()
        if values.dim() == 1:
            assert not gap.any(), name
        else:
            step = values.abs().amax(dim=1, keepdim=True) / LARGEST
            assert (gap <= step * 0.5001).all(), name
            assert gap.any(), name
    assert all(
        torch.equal(a, b) for a, b in zip(made().parameters(), model.parameters(), strict=True)
    )


def test_a_row_s_largest_number_and_its_zeros_stay():
    matrix = torch.tensor([[0.0, 0.0, 0.0], [3.0, -1.5, 0.0], [-1e-20, 0.0, 1e-21]])
    numbers, scales = in_eight_bits(matrix)
    assert numbers.dtype == torch.int8
    assert numbers.tolist() == [[0, 0, 0], [127, -64, 0], [-127, 0, 13]]
    assert scales.tolist() == pytest.approx([0.0, 3 / 127, 1e-20 / 127])


def test_8_bits_take_about_a_quarter():
    model = made()
    assert size_of(model, 32) == 4 * sum(p.numel() for p in model.parameters())
    assert size_of(model, 8) < 0.5 * size_of(model, 32), "these rows are short"


def test_the_script_is_base_85():
    packed = pack_rounded(made(), WORDS, WORDS, 8, True)
    data = json.loads(packed.script().split(", data: ")[1].removesuffix(" };\n"))
    assert base64.b85decode(data) == packed.data
    assert len(data) == len(packed.data) * 5 // 4


def test_a_large_script_is_written_in_blocks(monkeypatch):
    packed = pack_rounded(made(), WORDS, WORDS, 32, True)
    whole = packed.script()
    monkeypatch.setattr("widgets.packing.BLOCK", 64)
    assert packed.script() == whole


def test_sub_words_come_with_their_merges():
    pytest.importorskip("tokenizers")
    vocab = SubwordVocabulary.from_sentences([["abab", "ab", "ba"], ["cab", "abc"]], 13)
    assert len(vocab) <= 13
    torch.manual_seed(3)
    model = Transformer(Config(len(vocab), None, **SIZES)).eval()
    header = pack_rounded(model, vocab, vocab, 8, False).header
    assert header["merges"] == vocab.merges
    assert header["pieces"] == list(vocab.tokens[4:])
    assert len(header["source_words"]) == len(header["pieces"])
    assert header["lower"] is False
    assert all("</w>" not in word for word in header["source_words"] + header["target_words"])
    assert "merges" not in pack_rounded(made(), WORDS, WORDS, 8, True).header


def test_a_design_that_the_page_cannot_compute_is_refused():
    with pytest.raises(ValueError, match=r"expected positions out of .* got 'learned'"):
        pack_rounded(made(positions="learned"), WORDS, WORDS, 8, True)
