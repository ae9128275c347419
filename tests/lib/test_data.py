"""Vocabulary and batches: nothing lost, nothing doubled, padding where it belongs."""

import dataclasses
from collections import Counter
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lib.data import (
    BOS,
    EOS,
    PAD,
    SPECIAL,
    UNK,
    Batch,
    BatchStream,
    Pair,
    Vocabulary,
    batches,
    make_batch,
    pad_batch,
)
from tests.helpers import unchecked

WORD = st.text(min_size=1, max_size=4).filter(lambda word: word not in SPECIAL)
SENTENCE = st.lists(WORD, max_size=7)


def numbered(lengths):
    """Pairs that can be told apart, of the given source lengths; targets are one longer."""
    return [
        Pair((f"s{i}",) + ("x",) * (n - 1), (f"t{i}",) + ("y",) * n) for i, n in enumerate(lengths)
    ]


def vocabularies(pairs):
    return (
        Vocabulary.from_sentences(pair.source for pair in pairs),
        Vocabulary.from_sentences(pair.target for pair in pairs),
    )


def read_back(batch, source_vocab, target_vocab):
    """The pairs that a batch holds."""
    return [
        Pair(tuple(source_vocab.decode(source)), tuple(target_vocab.decode(target)))
        for source, target in zip(batch.source, batch.target_out, strict=True)
    ]


class TestVocabulary:
    def test_special_tokens_come_first(self):
        vocab = Vocabulary(["a", "b"])
        assert (PAD, BOS, EOS, UNK) == (0, 1, 2, 3)
        assert vocab.tokens == ("<pad>", "<bos>", "<eos>", "<unk>", "a", "b")
        assert len(vocab) == 6
        assert repr(vocab) == "Vocabulary(6 tokens)"

    def test_frequent_words_first_then_by_alphabet(self):
        vocab = Vocabulary.from_sentences([["b", "c", "a"], ["c", "d"], ["c", "d"]])
        assert vocab.tokens[4:] == ("c", "d", "a", "b")

    def test_order_of_sentences_does_not_matter(self):
        sentences = [["b", "c"], ["a"], ["d", "a"]]
        one, other = map(Vocabulary.from_sentences, (sentences, sentences[::-1]))
        assert one.tokens == other.tokens

    @pytest.mark.parametrize(("min_count", "words"), [(1, "cba"), (2, "cb"), (3, "c"), (4, "")])
    def test_min_count(self, min_count, words):
        vocab = Vocabulary.from_sentences([["c", "c", "b"], ["b", "c", "a"]], min_count)
        assert vocab.tokens[4:] == tuple(words)

    @given(st.lists(SENTENCE, max_size=5))
    def test_round_trip(self, sentences):
        vocab = Vocabulary.from_sentences(sentences)
        for sentence in sentences:
            ids = vocab.encode(sentence)
            assert min(ids, default=4) >= 4
            assert vocab.decode([BOS, *ids, EOS, PAD, PAD]) == sentence
            assert vocab.decode(torch.tensor(ids, dtype=torch.long)) == sentence

    @given(st.lists(SENTENCE, max_size=3), SENTENCE)
    def test_unknown_words_keep_their_place(self, sentences, other):
        vocab = Vocabulary.from_sentences(sentences)
        expected = [word if word in vocab.tokens else "<unk>" for word in other]
        assert vocab.decode(vocab.encode(other)) == expected

    def test_special_tokens_in_a_text_are_no_commands(self):
        vocab = Vocabulary(["a"])
        assert vocab.encode(["<eos>", "a", "<pad>"]) == [UNK, 4, UNK]

    def test_decode_stops_at_the_first_end(self):
        vocab = Vocabulary(["a", "b"])
        assert vocab.decode([BOS, 4, PAD, UNK, 5, EOS, 4, 99]) == ["a", "<unk>", "b"]
        assert vocab.decode([]) == []

    @pytest.mark.parametrize("number", [-1, 6, 99])
    def test_decode_of_a_number_that_is_not_there(self, number):
        with pytest.raises(ValueError, match=f"expected numbers from 0 to 5, got {number}"):
            Vocabulary(["a", "b"]).decode([4, number])

    @pytest.mark.parametrize("shape", [(), (2, 1)])
    def test_decode_of_what_is_no_sentence(self, shape):
        with unchecked(), pytest.raises(ValueError, match="expected the numbers of one sentence"):
            Vocabulary(["a", "b"]).decode(torch.full(shape, 4))

    @pytest.mark.parametrize("word", ["a", *SPECIAL])
    def test_no_token_twice(self, word):
        with pytest.raises(ValueError, match=f"got '{word}' twice"):
            Vocabulary(["a", "b", word])

    def test_text_is_not_a_sentence(self):
        with pytest.raises(ValueError, match="got the text 'a b'; tokenise it"):
            Vocabulary(["a", "b"]).encode("a b")
        with pytest.raises(ValueError, match="got the text 'a b'"):
            Vocabulary.from_sentences(["a b"])
        with pytest.raises(ValueError, match="got the text"):
            Vocabulary.from_sentences("ab")

    @pytest.mark.parametrize("min_count", [0, -1])
    def test_a_token_that_is_there_occurs_once_at_least(self, min_count):
        made = Vocabulary.from_sentences([["a"]], min_count)
        assert made.tokens == Vocabulary.from_sentences([["a"]]).tokens


class TestMakeBatch:
    def test_by_hand(self):
        vocab, other = Vocabulary(["a", "b"]), Vocabulary(["x", "y", "z"])
        pairs = [Pair(("a",), ("x", "y", "z")), Pair(("b", "a"), ("z",))]
        batch = make_batch(pairs, vocab, other)
        assert batch.source.tolist() == [[4, EOS, PAD], [5, 4, EOS]]
        assert batch.source_lengths.tolist() == [2, 3]
        assert batch.target_in.tolist() == [[BOS, 4, 5, 6], [BOS, 6, PAD, PAD]]
        assert batch.target_out.tolist() == [[4, 5, 6, EOS], [6, EOS, PAD, PAD]]

    @given(st.lists(st.tuples(SENTENCE, SENTENCE), min_size=1, max_size=5))
    def test_padding_is_right_of_the_end(self, sentences):
        pairs = [Pair(tuple(source), tuple(target)) for source, target in sentences]
        vocabs = vocabularies(pairs)
        batch = make_batch(pairs, *vocabs)
        for tensor in dataclasses.astuple(batch):
            assert tensor.dtype == torch.int64
        columns = dataclasses.astuple(batch)
        for source, length, target_in, target_out, pair in zip(*columns, pairs, strict=True):
            n, m = len(pair.source), len(pair.target)
            assert length == n + 1
            assert source[n] == EOS
            assert target_out[m] == EOS
            assert target_in[0] == BOS
            assert (source[:n] > UNK).all()
            assert (source[n + 1 :] == PAD).all()
            assert (target_out[m + 1 :] == PAD).all()
            assert (target_in[m + 1 :] == PAD).all()
            assert target_in[1 : m + 1].tolist() == target_out[:m].tolist()
        assert batch.source.shape[1] == max(batch.source_lengths)
        assert batch.target_in.shape[1] == max(len(pair.target) for pair in pairs) + 1
        assert read_back(batch, *vocabs) == pairs

    def test_moves_to_a_device(self):
        pairs = numbered([2, 3, 5])
        batch = make_batch(pairs, *vocabularies(pairs)).to("meta")
        assert {tensor.device.type for tensor in dataclasses.astuple(batch)} == {"meta"}
        shapes = [tuple(getattr(batch, field.name).shape) for field in dataclasses.fields(Batch)]
        assert shapes == [(3, 6), (3,), (3, 7), (3, 7)]

    def test_no_pairs(self):
        with pytest.raises(
            ValueError,
            match="as many targets as sources, at least one, got 0 sources and 0 targets",
        ):
            make_batch([], Vocabulary([]), Vocabulary([]))


class TestBatches:
    @given(
        st.lists(st.integers(1, 13), min_size=1, max_size=97),
        st.integers(1, 11),
        st.integers(0, 2**32),
    )
    def test_every_pair_once(self, lengths, batch_size, seed):
        pairs = numbered(lengths)
        vocabs = vocabularies(pairs)
        epoch = list(batches(pairs, *vocabs, batch_size, seed=seed))
        seen = Counter(pair for batch in epoch for pair in read_back(batch, *vocabs))
        assert seen == Counter(pairs)
        sizes = sorted(len(batch.source) for batch in epoch)
        assert sizes[1:] == [batch_size] * (len(sizes) - 1)

    def test_pairs_that_occur_twice_stay_twice(self):
        pairs = numbered([2, 3]) * 3
        vocabs = vocabularies(pairs)
        epoch = batches(pairs, *vocabs, 4, seed=0)
        seen = Counter(pair for batch in epoch for pair in read_back(batch, *vocabs))
        assert set(seen.values()) == {3}

    def test_seed_decides(self):
        pairs = numbered([2, 3, 5, 7] * 11)
        vocabs = vocabularies(pairs)

        def epoch(seed):
            return [read_back(batch, *vocabs) for batch in batches(pairs, *vocabs, 5, seed=seed)]

        assert epoch(3) == epoch(3)
        assert epoch(3) != epoch(4)

    def test_does_not_touch_other_randomness(self):
        pairs = numbered([2, 3, 5])
        torch.manual_seed(0)
        before = torch.get_rng_state()
        list(batches(pairs, *vocabularies(pairs), 2, seed=1))
        assert torch.equal(before, torch.get_rng_state())

    def test_more_than_one_pool(self):
        pairs = numbered([n % 31 + 1 for n in range(1_009)])
        vocabs = vocabularies(pairs)
        epoch = list(batches(pairs, *vocabs, 7, seed=2))
        sizes = Counter(len(batch.source) for batch in epoch)
        assert sizes == {7: 144, 1: 1}
        seen = [pair for batch in epoch for pair in read_back(batch, *vocabs)]
        assert sorted(seen) == sorted(pairs)

    def test_similar_lengths_stand_together(self):
        pairs = numbered([n % 31 + 1 for n in range(2_003)])
        epoch = list(batches(pairs, *vocabularies(pairs), 16, seed=0))
        real = sum(batch.source_lengths.sum().item() for batch in epoch)
        assert real / sum(batch.source.numel() for batch in epoch) > 0.95

    def test_lengths_come_in_random_order(self):
        pairs = numbered([n % 31 + 1 for n in range(2_003)])
        epoch = batches(pairs, *vocabularies(pairs), 16, seed=0)
        longest = [batch.source.shape[1] for batch in epoch]
        steps = list(pairwise(longest))
        for share in (sum(a < b for a, b in steps), sum(a > b for a, b in steps)):
            assert 0.3 < share / len(steps) < 0.7  # as many steps up as down

    def test_seed_also_decides_who_stands_together(self):
        pairs = numbered([5] * 53)
        vocabs = vocabularies(pairs)

        def groups(seed):
            epoch = batches(pairs, *vocabs, 7, seed=seed)
            return {frozenset(read_back(batch, *vocabs)) for batch in epoch}

        assert not groups(0) & groups(1)

    @pytest.mark.parametrize(
        ("count", "batch_size", "message"),
        [
            (0, 4, "at least one pair to make batches of"),
            (3, 0, "batch_size of at least 1, got 0"),
            (3, -2, "batch_size of at least 1, got -2"),
        ],
    )
    def test_nothing_to_do(self, count, batch_size, message):
        pairs = numbered([2] * count)
        with pytest.raises(ValueError, match=message):
            batches(pairs, Vocabulary([]), Vocabulary([]), batch_size, seed=0)


def test_pad_batch_puts_the_marks_where_they_belong():
    batch = pad_batch([[5, 6, 7], [8]], [[9], [4, 5]])
    assert batch.source.tolist() == [[5, 6, 7, EOS], [8, EOS, PAD, PAD]]
    assert batch.source_lengths.tolist() == [4, 2]
    assert batch.target_in.tolist() == [[BOS, 9, PAD], [BOS, 4, 5]]
    assert batch.target_out.tolist() == [[9, EOS, PAD], [4, 5, EOS]]


@pytest.mark.parametrize(
    ("sources", "targets"), [([], []), ([[5]], [[5], [6]]), ([[5], [6]], [[5]])]
)
def test_pad_batch_needs_as_many_targets_as_sources(sources, targets):
    got = f"{len(sources)} sources and {len(targets)} targets"
    with pytest.raises(ValueError, match=f"as many targets as sources, at least one, got {got}"):
        pad_batch(sources, targets)


@pytest.mark.parametrize("words", [[1], ["a", None], [["a"]], [b"a"]])
def test_a_vocabulary_is_made_of_words(words):
    with unchecked(), pytest.raises(ValueError, match="expected words, got"):
        Vocabulary(words)


def test_a_stream_has_no_pair_of_that_number():
    pairs = [Pair(("a",), ("b",)), Pair(("b",), ("a",))]
    vocabulary = Vocabulary.from_sentences([("a", "b")])
    stream = BatchStream(pairs, vocabulary, vocabulary, batch_size=1)
    with pytest.raises(IndexError):
        stream.batch([2])


def test_what_is_no_word_is_shown():
    with unchecked(), pytest.raises(ValueError, match="expected words, got 3; turn it"):
        Vocabulary(["a", 3])
