"""Tokens, and parallel text from files: nothing may be lost in silence."""

import gzip
import os
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.data import Pair, read_parallel, tokenise

GERMAN = "Ein Hund läuft.\nZwei Katzen\nDrei\n"
ENGLISH = "A dog runs.\nTwo cats\nThree\n"
EXPECTED = [
    Pair(("ein", "hund", "läuft", "."), ("a", "dog", "runs", ".")),
    Pair(("zwei", "katzen"), ("two", "cats")),
    Pair(("drei",), ("three",)),
]


def write(path, content):
    """Write text or bytes, packed if the name ends in .gz; return the path."""
    raw = content if isinstance(content, bytes) else content.encode("utf-8")
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


class TestTokenise:
    @pytest.mark.parametrize(
        ("text", "tokens"),
        [
            ("Wednesday, June 28, 2028", "wednesday , june 2 8 , 2 0 2 8"),
            ("It's l’été...", "it ' s l ’ été . . ."),
            ("dix-sept", "dix - sept"),
            ("  \t\n ", ""),
            ("abc12def", "abc 1 2 def"),
            ("\u00a0a\u2028b", "a b"),
        ],
    )
    def test_cuts_words_digits_and_marks(self, text, tokens):
        assert tokenise(text) == tuple(tokens.split())

    def test_keeps_case_if_asked(self):
        assert tokenise("Le Chat", lowercase=False) == ("Le", "Chat")

    def test_equal_words_written_in_two_ways_are_one_token(self):
        composed = "\u00e9t\u00e9"
        decomposed = unicodedata.normalize("NFD", composed)
        assert composed != decomposed
        assert tokenise(composed) == tokenise(decomposed) == (composed,)

    @given(st.text())
    def test_loses_only_white_space(self, text):
        tokens = tokenise(text, lowercase=False)
        expected = unicodedata.normalize("NFC", text)
        assert "".join(tokens) == re.sub(r"\s", "", expected)
        assert all(tokens)

    @given(st.text())
    def test_tokens_are_not_cut_again(self, text):
        tokens = tokenise(text)
        assert tokenise(" ".join(tokens)) == tokens


class TestReadParallel:
    @pytest.mark.parametrize("ending", ["", ".gz"])
    def test_reads_two_files(self, tmp_path, ending):
        source = write(tmp_path / f"a.de{ending}", GERMAN)
        target = write(tmp_path / f"a.en{ending}", ENGLISH)
        assert read_parallel(source, target) == EXPECTED
        assert read_parallel(str(source), str(target)) == EXPECTED

    @pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz"])
    def test_reads_two_columns(self, tmp_path, name):
        lines = zip(GERMAN.splitlines(), ENGLISH.splitlines(), strict=True)
        path = write(tmp_path / name, "\n".join("\t".join(line) for line in lines))
        assert read_parallel(path) == EXPECTED

    def test_reads_files_from_windows(self, tmp_path):
        source = write(tmp_path / "a.de", b"\xef\xbb\xbf" + GERMAN.replace("\n", "\r\n").encode())
        target = write(tmp_path / "a.en", ENGLISH.rstrip("\n"))
        assert read_parallel(source, target) == EXPECTED

    def test_other_line_separators_do_not_end_a_line(self, tmp_path):
        source = write(tmp_path / "a.de", "eins\u2028zwei\x0bdrei\n")
        target = write(tmp_path / "a.en", "one two three\n")
        assert read_parallel(source, target)[0].source == ("eins", "zwei", "drei")

    def test_keeps_case_if_asked(self, tmp_path):
        path = write(tmp_path / "a.tsv", "Der Hund\tThe dog\n")
        assert read_parallel(path, lowercase=False) == [Pair(("Der", "Hund"), ("The", "dog"))]

    @pytest.mark.parametrize("shorter", ["source", "target"])
    def test_unequal_files(self, tmp_path, shorter):
        full, cut = "a\nb\nc\n", "a\nb\n"
        source = write(tmp_path / "s.txt", cut if shorter == "source" else full)
        target = write(tmp_path / "t.txt", cut if shorter == "target" else full)
        name = {"source": "s", "target": "t"}[shorter]
        with pytest.raises(ValueError, match=rf"{name}\.txt: expected a line 3 .*got only 2 lines"):
            read_parallel(source, target)

    @pytest.mark.parametrize(
        ("source", "target", "side"),
        [
            ("a\n\nc\n", "a\nb\nc\n", "source"),
            ("a\nb\nc\n", "a\n  \nc\n", "target"),
            ("a\n\nc\n", "a\n\nc\n", "source"),
        ],
    )
    def test_empty_line(self, tmp_path, source, target, side):
        paths = write(tmp_path / "s.txt", source), write(tmp_path / "t.txt", target)
        with pytest.raises(ValueError, match=rf"t\.txt, line 2: .*got an empty {side}"):
            read_parallel(*paths)

    @pytest.mark.parametrize(("line", "tabs"), [("no tab", 0), ("a\tb\tc", 2)])
    def test_wrong_number_of_tabs(self, tmp_path, line, tabs):
        path = write(tmp_path / "a.tsv", f"x\ty\n{line}\n")
        message = rf"a\.tsv, line 2: expected exactly one tab, got {tabs}"
        with pytest.raises(ValueError, match=message):
            read_parallel(path)

    @pytest.mark.parametrize("line", ["\ty", "x\t", " \ty"])
    def test_empty_column(self, tmp_path, line):
        path = write(tmp_path / "a.tsv", f"x\ty\n{line}\n")
        with pytest.raises(ValueError, match=r"a\.tsv, line 2: expected a sentence"):
            read_parallel(path)

    @pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz"])
    def test_invalid_utf8(self, tmp_path, name):
        path = write(tmp_path / name, b"x\ty\nx\ty\nl\xe9\ty\n")
        with pytest.raises(ValueError, match=rf"{name}, line 3: expected UTF-8"):
            read_parallel(path)

    def test_all_faults_are_listed_at_once(self, tmp_path):
        source = write(tmp_path / "s.txt", b"a\n\nc\nl\xe9\ne\nf\n")
        target = write(tmp_path / "t.txt", b"a\nb\n \nd\ne\n")
        with pytest.raises(ValueError, match="empty source") as told:
            read_parallel(source, target)
        faults = [line.split(": ")[1] for line in str(told.value).splitlines()]
        assert [fault.split(", got")[0] for fault in faults] == [
            "expected a sentence",
            "expected a sentence",
            "expected UTF-8",
            f"expected a line 6 as in {source}",
        ]

    def test_a_long_list_of_faults_is_cut_and_counted(self, tmp_path):
        path = write(tmp_path / "a.tsv", "no tab\n" * 2_013)
        with pytest.raises(ValueError, match="line 10: expected exactly one tab") as told:
            read_parallel(path)
        lines = str(told.value).splitlines()
        assert len(lines) == 11
        assert lines[-1] == "and 2,003 more faults"

    def test_truncated_archive(self, tmp_path):
        path = write(tmp_path / "a.tsv.gz", "".join(f"x {n * n}\ty\n" for n in range(5_003)))
        path.write_bytes(path.read_bytes()[:-7])
        with pytest.raises(ValueError, match=r"a\.tsv\.gz, line \d+: expected a whole gzip"):
            read_parallel(path)

    def test_corrupt_archive(self, tmp_path):
        path = write(tmp_path / "a.tsv.gz", "".join(f"x {n * n}\ty\n" for n in range(503)))
        raw = bytearray(path.read_bytes())
        raw[23:61] = b"\xff" * 38
        path.write_bytes(raw)
        with pytest.raises(ValueError, match=r"a\.tsv\.gz, line \d+: expected a whole gzip"):
            read_parallel(path)

    def test_named_gz_but_plain(self, tmp_path):
        path = tmp_path / "a.tsv.gz"
        path.write_text("x\ty\n")
        with pytest.raises(ValueError, match=r"a\.tsv\.gz, line 1: expected a whole gzip"):
            read_parallel(path)

    def test_empty_files(self, tmp_path):
        empty, other = write(tmp_path / "a", ""), write(tmp_path / "b", "")
        for paths in ((empty,), (empty, other)):
            with pytest.raises(ValueError, match="got an empty file"):
                read_parallel(*paths)

    def test_missing_file(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="nowhere"):
            read_parallel(tmp_path / "nowhere.tsv")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("name", ["a.de", "a.de.gz"])
def test_lines_end_as_on_any_system(tmp_path, end, name):
    source = write(tmp_path / name, GERMAN.replace("\n", end))
    target = write(tmp_path / "a.en", ENGLISH.replace("\n", end).removesuffix(end))
    assert read_parallel(source, target) == EXPECTED


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")
@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.mkdir(),
        lambda path: os.mkfifo(path),
        lambda path: path.symlink_to("/dev/zero"),
    ],
)
def test_no_file_but_something_else(tmp_path, make):
    good = write(tmp_path / "a.en", ENGLISH)
    make(tmp_path / "a.de")
    for paths in ((tmp_path / "a.de", good), (good, tmp_path / "a.de"), (tmp_path / "a.de",)):
        with pytest.raises(ValueError, match=r"a\.de: expected a file, got a folder, a pipe or"):
            read_parallel(*paths)
