"""An exported model beside transformers: equal logits, tokens and words; what is refused."""

import ast
import random
import re
import shutil
import warnings

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from lib.data import EOS, SPECIAL, UNK, Vocabulary, pad_batch, tokenise
from lib.decoding import greedy
from lib.layers import ACTIVATIONS, PLACEMENTS
from lib.masks import padding_mask
from lib.positions import SCHEMES
from lib.transformer import Config, Transformer
from tests.helpers import assert_close, full_disk
from tests.train.test_translate import DAMAGE, SIZE, contents
from train import export
from train.__main__ import main as train
from train.checkpoints import load_model
from train.run import Run
from train.translator import Translator, read_run

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

MARIAN = ["--norm", "post", "--positions", "sinusoidal"]
PEGASUS = ["--positions", "sinusoidal", "--share", "--subword", "90"]
WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


def with_random_parameters(config):
    """torch starts biases at 0 and scales at 1, where a mix-up is not seen."""
    torch.manual_seed(7)
    model = Transformer(config).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, 1.0 if parameter.dim() == 1 else 0.0, 0.3)
    return model


def vocabularies(config):
    source, target = (
        Vocabulary("a" * i for i in range(1, size - len(SPECIAL) + 1))
        for size in (config.source_vocab, config.target_vocab or config.source_vocab)
    )
    return source, source if config.target_vocab is None else target


def written(model, folder):
    folder.mkdir()
    export.write_folder(folder, model, *vocabularies(model.config), lowercase=True)
    return folder


def inputs(config):
    """Eleven sentences of different lengths, and what comes before each token of a target."""
    draw = random.Random(3)
    sides = [
        [[draw.randrange(UNK, words) for _ in range(draw.randint(1, 13))] for _ in range(11)]
        for words in (config.source_vocab, config.target_vocab or config.source_vocab)
    ]
    return pad_batch(*sides)


# --- the same numbers -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("norm", "target_vocab", "tied", "activation", "d_model", "n_heads"),
    [  # an odd dimension has one sine more than cosines
        ("post", 31, True, "relu", 20, 5),
        ("post", 31, False, "gelu", 21, 3),
        ("post", None, True, "gelu_tanh", 21, 3),
        ("post", None, False, "relu", 20, 5),
        ("pre", None, True, "gelu", 21, 3),
        ("pre", None, True, "relu", 20, 5),
    ],
)
@torch.no_grad()
def test_transformers_gives_the_same_logits_and_tokens(
    norm, target_vocab, tied, activation, d_model, n_heads, tmp_path
):
    config = Config(
        29, target_vocab, d_model=d_model, n_heads=n_heads, d_ff=37, n_layers=3, norm=norm,
        positions="sinusoidal", activation=activation, tied=tied,
    )  # fmt: skip
    name = "MarianMTModel" if norm == "post" else "PegasusForConditionalGeneration"
    model = with_random_parameters(config)
    folder = written(model, tmp_path / "theirs")
    batch = inputs(config)
    mask = padding_mask(batch.source_lengths, batch.source.shape[1])[:, 0].long()
    ours = model(batch.source, batch.source_lengths, batch.target_in)
    tokens, _ = greedy(model, batch.source, batch.source_lengths, 23)
    for place in (folder, tmp_path / "saved by transformers"):
        theirs, told = AutoModelForSeq2SeqLM.from_pretrained(place, output_loading_info=True)
        assert type(theirs).__name__ == name
        assert not any(told.values()), "no parameter is missing, left over or of another size"
        given = {"input_ids": batch.source, "attention_mask": mask}
        assert_close(theirs(**given, decoder_input_ids=batch.target_in).logits, ours, 1e-5)
        found = theirs.generate(**given, max_new_tokens=23)[:, 1:]
        assert found.tolist() == tokens.tolist()
        theirs.save_pretrained(tmp_path / "saved by transformers")


def test_the_order_of_the_sinusoids_is_needed(tmp_path):
    """What is read back is compared: with the book's own order the logits are others."""
    config = Config(29, d_model=20, n_heads=5, d_ff=37, n_layers=1)
    model = with_random_parameters(config)
    folder = written(model, tmp_path / "theirs")
    weights = load_file(folder / "model.safetensors")
    weights["model.shared.weight"] = model.source_embedding.weight.detach()
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match="expected the logits of the book from transformers"):
        export.read_back(folder, model, *vocabularies(config), lowercase=True)


def test_the_words_of_another_vocabulary_are_noticed(tmp_path):
    config = Config(29, d_model=20, n_heads=5, d_ff=37, n_layers=1)
    model = with_random_parameters(config)
    folder = written(model, tmp_path / "theirs")
    other = Vocabulary("a" * i for i in range(25, 0, -1))
    with pytest.raises(ValueError, match="expected the numbers of the book from the tokenizer"):
        export.read_back(folder, model, other, other, lowercase=True)


# --- a run, from its folder to words ----------------------------------------------------------


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Three finished runs, of which transformers has two, and one that was stopped."""
    root, draw = tmp_path_factory.mktemp("runs"), random.Random(0)
    files = []
    for name, n in (("train", 60), ("valid", 9), ("test", 5)):
        sources = [draw.choices(WORDS, k=draw.randint(1, 9)) for _ in range(n)]
        lines = [" ".join(s) + "\t" + " ".join(reversed(s)).upper() + "\n" for s in sources]
        (root / name).write_text("".join(lines), encoding="utf-8")
        files += [f"--{name}", str(root / name)]
    given = [*SIZE, *files, "--max-tokens", "100", "--steps", "100", "--beam", "1"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("train.translator.EXTRA_LENGTH", 5)
        assert train([*given, *MARIAN, "--out", str(root / "one")]) == 0
        assert train([*given, *PEGASUS, "--no-lower-case", "--out", str(root / "two")]) == 0
        assert train([*given, "--out", str(root / "rotary")]) == 0

        def stop(self):
            raise KeyboardInterrupt

        patch.setattr(Run, "validate", stop)
        assert train([*given, *MARIAN, "--out", str(root / "stopped")]) == 130
    return root


@pytest.fixture
def one(runs, tmp_path):
    """A copy of a finished run, to be damaged."""
    return shutil.copytree(runs / "one", tmp_path / "one")


def files_of(folder):
    return {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def run(*given):
    return export.main([str(each) for each in given])


def error(capsys, *given):
    """The one line that a command which fails says."""
    capsys.readouterr()
    assert run(*given) == 1
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert line.startswith("error: ")
    return line


@pytest.mark.parametrize(
    ("name", "architecture"), [("one", "MarianMTModel"), ("two", "PegasusForConditional")]
)
def test_a_sentence_becomes_the_same_words(runs, name, architecture, tmp_path, capsys):
    out = tmp_path / "out"
    before = contents(runs / name)
    assert run(runs / name, "--out", out) == 0
    assert contents(runs / name) == before
    told = rf"transformers [\d.]+, {architecture}\w*: logits differ by at most (\S+)\.\n"
    assert 0 < float(re.search(told, capsys.readouterr().out)[1]) < 1e-5
    model, *vocabs = load_model(runs / name / "best.safetensors")
    lowercase = name == "one"
    texts = ["One two", "seven nine wombat one", "ten, ten!", *map(" ".join, [WORDS, WORDS[:3]])]
    source = AutoTokenizer.from_pretrained(out)
    target = AutoTokenizer.from_pretrained(out / "target") if name == "one" else source
    assert (out / "target").exists() == (name == "one"), "a shared vocabulary is there once"
    theirs = AutoModelForSeq2SeqLM.from_pretrained(out)
    sentences = [tokenise(text, lowercase=lowercase) for text in texts]
    batch = source(texts, return_tensors="pt", padding=True)
    for row, mask, sentence in zip(
        batch["input_ids"].tolist(), batch["attention_mask"].tolist(), sentences, strict=True
    ):
        assert row[: sum(mask)] == [*vocabs[0].encode(sentence), EOS]
    found = target.batch_decode(theirs.generate(**batch), skip_special_tokens=True)
    ours = Translator(model, *vocabs, beam=1, alpha=0.0).translate(sentences)
    ended = [best for (best,) in ours if best.tokens[-1] == EOS]
    assert ended, "some translation has come to its end"
    for text, (best,) in zip(found, ours, strict=True):
        if best.tokens[-1] == EOS:
            assert text == " ".join(best.words)


@pytest.mark.parametrize("name", ["one", "two"])
def test_its_own_guide_works(runs, name, tmp_path, monkeypatch, capsys):
    """The code in the folder's README.md, run in the folder."""
    out = tmp_path / name
    assert run(runs / name, "--out", out) == 0
    (code,) = re.findall(r"```python\n(.*?)```", (out / "README.md").read_text(), re.S)
    assert '"a sentence", "one more"' in code
    monkeypatch.chdir(out)
    capsys.readouterr()
    exec(code.replace("a sentence", "seven").replace("one more", "one two"), {})
    first, _ = ast.literal_eval(capsys.readouterr().out)
    model, *vocabs = load_model(runs / name / "best.safetensors")
    ((best,),) = Translator(model, *vocabs, beam=1, alpha=0.0).translate([["seven"]])
    assert first == " ".join(best.words)


def test_usually_it_stands_in_the_folder_of_the_run(one):
    before = files_of(one)
    assert run(one) == 0
    assert files_of(one) == before
    assert (one / "huggingface" / "config.json").exists()
    Translator(*read_run(one)[0], 1, 0.0).translate([["one"]])  # the run is as good as before


def test_without_transformers_it_is_said_that_nothing_was_compared(one, monkeypatch, capsys):
    monkeypatch.setattr(export.importlib.util, "find_spec", lambda _: None)
    assert run(one) == 0
    assert "nothing was read back and compared" in capsys.readouterr().out
    AutoModelForSeq2SeqLM.from_pretrained(one / "huggingface")


# --- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"positions": scheme}, f"got positions {scheme} (--positions sinusoidal); train with")
        for scheme in SCHEMES
        if scheme != "sinusoidal"
    ]
    + [
        ({"activation": "swiglu"}, "got activation swiglu (--activation relu); train with"),
        ({"norm": "pre"}, "got norm pre without one matrix for all words (--share --tied, or"),
        ({"norm": "pre", "target_vocab": None, "tied": False}, "got norm pre without one matrix"),
        (
            {"norm": "pre", "positions": "rotary", "activation": "swiglu"},
            "got positions rotary (--positions sinusoidal) and activation swiglu (--activation "
            "relu) and norm pre without one matrix",
        ),
    ],
    ids=str,
)
def test_a_design_that_transformers_has_not_is_refused_with_the_part(parts, message):
    config = Config(29, **{"target_vocab": 31} | parts)
    for ask in (export.design_of, export.config_for_hugging_face):
        with pytest.raises(ValueError, match=re.escape(message)):
            ask(config)


def test_each_choice_of_a_part_is_either_written_or_refused():
    taken = [
        (norm, positions, activation)
        for norm in PLACEMENTS
        for positions in SCHEMES
        for activation in ACTIVATIONS
        if export_takes(Config(29, norm=norm, positions=positions, activation=activation))
    ]
    assert taken == [
        (norm, "sinusoidal", activation)
        for norm in ("pre", "post")
        for activation in ("relu", "gelu", "gelu_tanh")
    ]


def export_takes(config):
    try:
        export.design_of(config)
    except ValueError:
        return False
    return True


def test_the_usual_design_is_refused_and_nothing_is_written(runs, tmp_path, capsys):
    before = contents(runs / "rotary")
    line = error(capsys, runs / "rotary", "--out", tmp_path / "out")
    assert "got positions rotary (--positions sinusoidal)" in line
    assert contents(runs / "rotary") == before
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("damage", "message"), DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_or_foreign_folder_is_refused_and_left_alone(
    runs, one, damage, message, tmp_path, capsys
):
    shutil.copytree(runs / "two", tmp_path / "other")
    damage(one)
    before = contents(one)
    assert message in error(capsys, one, "--out", tmp_path / "out")
    assert contents(one) == before
    assert {path.name for path in tmp_path.iterdir()} - {"one"} == {"other"}


def test_a_run_that_is_not_finished_is_refused(runs, tmp_path, capsys):
    before = contents(runs / "stopped")
    line = error(capsys, runs / "stopped", "--out", tmp_path / "out")
    assert "got one that has not come to its end" in line
    assert contents(runs / "stopped") == before
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("full", "expected a new folder after --out, got"),
        ("file", "expected a new folder after --out, got"),
        ("link", "expected a new folder after --out, got"),
        ("one", "expected a new folder after --out, got"),
        ("nowhere/out", "expected a folder that is there for --out"),
        ("file/out", "expected a folder that is there for --out"),
        ("x" * 300, "File name too long"),
    ],
)
def test_a_place_that_is_taken_is_refused_and_left_alone(one, out, message, tmp_path, capsys):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to("nowhere")
    before = sorted(tmp_path.rglob("*"))
    assert message in error(capsys, one, "--out", tmp_path / out)
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "file").read_text() == "mine"


def test_an_empty_folder_is_filled(one, tmp_path):
    (tmp_path / "out").mkdir()
    assert run(one, "--out", tmp_path / "out") == 0
    assert (tmp_path / "out" / "config.json").exists()


def test_a_full_disk_leaves_nothing(one, tmp_path, capsys):
    with full_disk(2_000):
        line = error(capsys, one, "--out", tmp_path / "out")
    assert "expected to write" in line
    assert {path.name for path in tmp_path.iterdir()} == {"one"}


def test_ctrl_c_leaves_nothing(one, tmp_path, monkeypatch, capsys):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(export, "read_back", stop)
    assert run(one, "--out", tmp_path / "out") == 130
    assert "Stopped; nothing is written." in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"one"}


def test_a_command_line_without_a_run_is_refused(capsys):
    with pytest.raises(SystemExit) as stopped:
        export.parse([])
    assert stopped.value.code == 2
    assert "the following arguments are required: RUN" in capsys.readouterr().err
