"""The files of a run are found, whatever their endings, and what is missing is named."""

import gzip
from dataclasses import replace

import pytest

from lib.data import Pair, Vocabulary
from train.corpus import make_vocabularies, read_corpus
from train.options import parse, settle
from train.subword import SubwordVocabulary


def options(*given):
    return settle(parse(list(given)))


def write(folder, name, lines, packed=False):
    text = "".join(line + "\n" for line in lines)
    path = folder / (name + ".gz" if packed else name)
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    return str(path)


def sentences(n, word):
    return [f"{word} {i} ." for i in range(100, 100 + n)]


@pytest.fixture
def multi30k(tmp_path):
    """Files with the names that Multi30k gives them."""
    for name, n in (("train", 43), ("val", 5), ("test_2016_flickr", 3), ("test_2017_flickr", 2)):
        write(tmp_path, f"{name}.de", sentences(n, f"Wort{name}"), packed=True)
        write(tmp_path, f"{name}.en", sentences(n, f"Word{name}"), packed=True)
    write(tmp_path, "train.fr", ["livre"])
    return tmp_path


def test_layout_of_multi30k(multi30k):
    corpus = read_corpus(options("--data", str(multi30k), "--source", "de", "--target", "en"))
    assert (len(corpus.train), len(corpus.valid)) == (43, 5)
    assert {name: len(pairs) for name, pairs in corpus.tests.items()} == {
        "test_2016_flickr": 3,
        "test_2017_flickr": 2,
    }
    assert corpus.train[0].source == ("worttrain", "1", "0", "0", ".")
    assert corpus.train[0].target[0] == "wordtrain"
    assert corpus.left_out == []


def test_faults_of_all_files_are_told_together(multi30k):
    write(multi30k, "train.de", ["eins", "", "drei"], packed=True)
    write(multi30k, "train.en", ["one", "two", "three"], packed=True)
    write(multi30k, "val.de", ["vier"], packed=True)
    write(multi30k, "val.en", ["four", "five"], packed=True)
    message = r"line 2: .*empty source.*\n.*val\.de\.gz: expected a line 2"
    with pytest.raises(ValueError, match=message):
        read_corpus(options("--data", str(multi30k), "--source", "de", "--target", "en"))


def test_other_direction_and_case(multi30k):
    given = ["--data", str(multi30k), "--source", "en", "--target", "de", "--no-lower-case"]
    pair = read_corpus(options(*given)).train[0]
    assert (pair.source[0], pair.target[0]) == ("Wordtrain", "Worttrain")


def test_missing_files_are_named_with_those_that_are_there(multi30k):
    with pytest.raises(ValueError, match=r"expected train.de and train.it, or the same with .gz"):
        read_corpus(options("--data", str(multi30k), "--source", "de", "--target", "it"))
    with pytest.raises(ValueError, match=r"there is .*train.de.gz, train.en.gz, train.fr"):
        read_corpus(options("--data", str(multi30k), "--source", "de", "--target", "it"))
    with pytest.raises(ValueError, match=r"expected a folder after --data, got .*nowhere"):
        read_corpus(options("--data", "nowhere", "--source", "de", "--target", "it"))


def test_named_files(tmp_path):
    paths = [write(tmp_path, f"{n}.{s}", sentences(9, s)) for n in "abc" for s in "xy"]
    given = ["--train", *paths[:2], "--valid", *paths[2:4], "--test", *paths[4:]]
    corpus = read_corpus(options(*given))
    assert (len(corpus.train), len(corpus.valid)) == (9, 9)
    assert list(corpus.tests) == ["c.x"]


def test_one_file_with_tabs_and_part_of_it_for_validation(tmp_path):
    path = write(tmp_path, "all.tsv", [f"{x}\tb" for x in sentences(61, "a")])
    corpus = read_corpus(options("--train", path))
    assert (len(corpus.train), len(corpus.valid)) == (58, 3)
    assert not set(corpus.train) & set(corpus.valid)
    assert corpus.tests == {"validation": corpus.valid}
    assert corpus == read_corpus(options("--train", path))


def test_too_few_pairs_to_hold_one_out(tmp_path):
    path = write(tmp_path, "all.tsv", ["a\tb"] * 19)
    with pytest.raises(ValueError, match=r"at least 20 training pairs.* got 19; name files with"):
        read_corpus(options("--train", path))


def test_long_sentences_are_left_out_and_counted(tmp_path):
    lines = ["a b c\td"] * 40 + ["a\tb c d e"] * 5
    given = ["--train", write(tmp_path, "t", lines), "--valid", write(tmp_path, "v", lines)]
    corpus = read_corpus(options(*given, "--max-length", "3"))
    assert (len(corpus.train), len(corpus.valid), len(corpus.left_out)) == (40, 45, 5)
    with pytest.raises(ValueError, match=r"at most 2 tokens, all are longer; raise --max-length"):
        read_corpus(options(*given, "--max-length", "2"))


def test_the_book_s_own_task():
    corpus = read_corpus(options())
    assert (len(corpus.train), len(corpus.valid)) == (19_000, 1000)
    assert len(corpus.tests["test"]) == 1500
    assert not set(corpus.train) & {*corpus.valid, *corpus.tests["test"]}


def test_fingerprint_sees_each_sentence(multi30k):
    given = ["--data", str(multi30k), "--source", "de", "--target", "en"]
    corpus = read_corpus(options(*given, "--max-length", "5"))
    first = corpus.fingerprints()
    assert first == read_corpus(options(*given)).fingerprints()
    other = corpus.train[0]
    for use, changed in {
        "training": replace(corpus, train=[*corpus.train[:-1], other]),
        "left-out": replace(corpus, left_out=[other]),
        "validation": replace(corpus, valid=[other, *corpus.valid[1:]]),
        "test": replace(corpus, tests=corpus.tests | {"test_2017_flickr": [other]}),
    }.items():
        now = changed.fingerprints()
        assert [one for one in first if first[one] != now[one]] == [use]
    moved = dict(zip(reversed(corpus.tests), corpus.tests.values(), strict=True))
    assert replace(corpus, tests=moved).fingerprints()["test"] != first["test"]


def test_vocabularies(multi30k):
    given = ["--data", str(multi30k), "--source", "de", "--target", "en"]
    train = read_corpus(options(*given)).train
    source, target = make_vocabularies(train, options(*given))
    assert {"worttrain", "."} <= set(source.tokens)
    assert "wordtrain" in target.tokens
    assert "worttrain" not in target.tokens
    rare, _ = make_vocabularies(train, options(*given, "--min-count", "40"))
    assert 4 < len(rare) < len(source)
    both, same = make_vocabularies(train, options(*given, "--share"))
    assert both is same
    assert {"worttrain", "wordtrain"} <= set(both.tokens)
    pieces, _ = make_vocabularies(train, options(*given, "--subword", "60"))
    assert isinstance(pieces, SubwordVocabulary)
    assert len(pieces) <= 60
    assert type(source) is Vocabulary


def test_more_sub_words_than_letters_are_refused(tmp_path):
    """The package `tokenizers` would ask for memory for all of them, and end the process."""
    train = [Pair(("ab", "c"), ("d",)), Pair(("a",), ("efg",))]
    given = ["--train", "x", "--subword"]
    with pytest.raises(ValueError, match="at most 4, the letters of the training text, got 1,000,"):
        make_vocabularies(train, options(*given, "1000000000"))
    with pytest.raises(ValueError, match="at most 8, the letters of the training text, got 9"):
        make_vocabularies(train, options(*given, "9", "--share"))
