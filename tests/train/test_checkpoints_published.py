"""The stored model: it loads, it translates, its words are the task's, and damage is noticed."""

import json
import shutil

import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from lib.data import Vocabulary, make_batch
from lib.decoding import translate
from lib.metrics import exact_match
from tasks.translation import translation_pairs
from train.checkpoints import PUBLISHED, load_model, load_published, published_facts, save_model

MOST_BYTES = 3_000_000


@pytest.fixture(scope="module")
def pairs():
    return translation_pairs()


@pytest.fixture
def copy(tmp_path):
    """A copy, to be spoilt."""
    return shutil.copy(PUBLISHED, tmp_path / PUBLISHED.name)


def test_it_is_small_and_ready_for_use():
    model, source_vocab, target_vocab = load_published()
    assert PUBLISHED.stat().st_size <= MOST_BYTES
    assert not model.training
    config = model.config
    assert (config.source_vocab, config.target_vocab) == (len(source_vocab), len(target_vocab))
    assert sum(p.numel() for p in model.parameters()) == published_facts()["figures"]["parameters"]


def test_it_translates_sentences_it_has_not_seen(pairs):
    model, source_vocab, target_vocab = load_published("cpu")
    held_out = pairs[1][:200]
    said = translate(model, held_out, source_vocab, target_vocab)
    assert exact_match(said, [pair.target for pair in held_out]) >= 0.97
    assert published_facts()["figures"]["test_exact_match"] >= 0.97


def test_its_words_are_those_of_the_task(pairs):
    _, source_vocab, target_vocab = load_published()
    training = pairs[0]
    made = Vocabulary.from_sentences(pair.source for pair in training)
    assert source_vocab.tokens == made.tokens
    made = Vocabulary.from_sentences(pair.target for pair in training)
    assert target_vocab.tokens == made.tokens


def test_its_card_says_how_to_make_it_again():
    facts = published_facts()
    assert facts["command"] == "python scripts/make_checkpoint.py"
    assert (PUBLISHED.parents[2] / "scripts" / "make_checkpoint.py").exists()
    assert facts["training"]["steps"] >= 1500


def test_saving_again_gives_the_same_bytes(tmp_path):
    again = tmp_path / PUBLISHED.name
    save_model(again, *load_published(), published_facts())
    assert again.read_bytes() == PUBLISHED.read_bytes()


def test_one_flipped_bit_is_noticed(copy):
    weights = bytearray(copy.read_bytes())
    weights[-1000] ^= 1
    copy.write_bytes(weights)
    with pytest.raises(ValueError, match=r"expected contents with the checksum .* damaged"):
        load_model(copy)


def test_cut_off_weights_are_refused(copy):
    copy.write_bytes(copy.read_bytes()[:20_000])
    with pytest.raises(ValueError, match="another one or a part of one"):
        load_model(copy)


def test_a_model_without_a_checksum_is_refused(copy):
    with safe_open(str(copy), "pt") as file:
        card = json.loads(file.metadata()["card"])
    del card["sha256"]
    save_file(load_file(copy), copy, {"card": json.dumps(card)})
    with pytest.raises(ValueError, match=r"expected contents with the checksum None.* damaged"):
        load_model(copy)


def test_weights_alone_are_refused(copy):
    save_file(load_file(copy), copy)
    with pytest.raises(ValueError, match="expected a model that save_model has written"):
        load_model(copy)


def test_it_reads_a_sentence_by_its_own_vocabulary(pairs):
    model, source_vocab, target_vocab = load_published()
    batch = make_batch(pairs[1][:3], source_vocab, target_vocab)
    logits = model(batch.source, batch.source_lengths, batch.target_in)
    right = logits.argmax(-1) == batch.target_out
    assert right[batch.target_out != 0].float().mean() > 0.97
