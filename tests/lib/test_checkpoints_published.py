"""The stored model: it loads, it translates, its words are the task's, and damage is noticed."""

import json
import shutil

import pytest
import torch

from lib.checkpoints import PUBLISHED, load_published, published_facts, save_published
from lib.data import Vocabulary, make_batch
from lib.decoding import translate
from lib.metrics import exact_match
from lib.transformer import Config, Transformer
from lib.translation import translation_pairs

MOST_BYTES = 3_000_000


@pytest.fixture(scope="module")
def pairs():
    return translation_pairs()


@pytest.fixture
def copy(tmp_path):
    """A copy of both files, to be spoilt."""
    path = tmp_path / PUBLISHED.name
    shutil.copy(PUBLISHED, path)
    shutil.copy(PUBLISHED.with_suffix(".json"), path.with_suffix(".json"))
    return path


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


def test_the_json_file_says_how_to_make_it_again():
    facts = published_facts()
    assert facts["command"] == "python scripts/make_checkpoint.py"
    assert (PUBLISHED.parents[2] / "scripts" / "make_checkpoint.py").exists()
    assert facts["training"]["steps"] >= 1500


def test_what_is_saved_is_loaded(tmp_path, pairs):
    vocabs = Vocabulary(["un", "deux", "é"]), Vocabulary(["one", "two"])
    config = Config(7, 6, d_model=6, n_heads=3, d_ff=5, n_layers=2, tied=False, norm="pre")
    model = Transformer(config).eval()
    path = tmp_path / "made" / "small.safetensors"
    save_published(model, *vocabs, path=path, command="none")
    loaded, *words = load_published(path=path)
    assert published_facts(path)["command"] == "none"
    assert [vocab.tokens for vocab in words] == [vocab.tokens for vocab in vocabs]
    assert loaded.config == config
    source, lengths, target = torch.tensor([[4, 6, 2]]), torch.tensor([3]), torch.tensor([[1, 5]])
    assert torch.equal(loaded(source, lengths, target), model(source, lengths, target))


def test_saving_again_gives_the_same_bytes(tmp_path):
    facts = published_facts()
    wanted = facts.pop("sha256")
    for derived in ("config", "source_words", "target_words"):
        del facts[derived]
    save_published(*load_published(), path=tmp_path / PUBLISHED.name, **facts)
    assert published_facts(tmp_path / PUBLISHED.name)["sha256"] == wanted
    again = (tmp_path / PUBLISHED.name).with_suffix(".json").read_text(encoding="utf-8")
    assert again == PUBLISHED.with_suffix(".json").read_text(encoding="utf-8")


def test_a_tied_model_is_refused(tmp_path):
    model = Transformer(Config(7, d_model=6, n_heads=3, d_ff=5, n_layers=1))
    with pytest.raises(ValueError, match="expected a model with tied=False"):
        save_published(model, Vocabulary([]), Vocabulary([]), path=tmp_path / "x.safetensors")


def test_damaged_weights_are_refused(copy):
    weights = bytearray(copy.read_bytes())
    weights[len(weights) // 2] ^= 1  # one bit
    copy.write_bytes(weights)
    with pytest.raises(ValueError, match=r"expected translation\.safetensors with the checksum"):
        load_published(path=copy)


def test_cut_off_weights_are_refused(copy):
    copy.write_bytes(copy.read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"\(1,000 bytes\).*damaged.*make_checkpoint"):
        load_published(path=copy)


@pytest.mark.parametrize("ending", [".safetensors", ".json"])
def test_a_missing_file_is_named(copy, ending):
    copy.with_suffix(ending).unlink()
    with pytest.raises(ValueError, match=rf"expected a file .*translation\{ending}.*fetch"):
        load_published(path=copy)


def test_a_damaged_json_file_is_refused(copy):
    path = copy.with_suffix(".json")
    path.write_text(path.read_text(encoding="utf-8")[:-20], encoding="utf-8")
    with pytest.raises(ValueError, match=r"expected JSON in translation\.json"):
        load_published(path=copy)
    path.write_text(json.dumps({"config": {}}), encoding="utf-8")
    with pytest.raises(ValueError, match="expected sha256, source_words, target_words"):
        load_published(path=copy)


def test_it_reads_a_sentence_by_its_own_vocabulary(pairs):
    model, source_vocab, target_vocab = load_published()
    batch = make_batch(pairs[1][:3], source_vocab, target_vocab)
    logits = model(batch.source, batch.source_lengths, batch.target_in)
    right = logits.argmax(-1) == batch.target_out
    assert right[batch.target_out != 0].float().mean() > 0.97
