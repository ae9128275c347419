"""The command line: defaults by size, values that are refused, options that exclude each other."""

import pytest

from train.options import DEFAULTS, FREE, SIZES, parse, settle


def options(text=""):
    return settle(parse(text.split()))


def test_only_what_was_given_is_told():
    assert vars(parse([])) == {}
    assert vars(parse(["--lr", "0.1", "--no-tied"])) == {"lr": 0.1, "tied": False}


def test_every_option_has_its_default():
    settled = vars(options())
    assert set(settled) == set(DEFAULTS) | set(SIZES["tiny"])
    assert set(settled) >= FREE


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("", "tiny"),
        ("--train a", "small"),
        ("--train a --size big", "big"),
        ("--size base", "base"),
    ],
)
def test_files_ask_for_a_larger_model(text, size):
    settled = options(text)
    assert settled.size == size
    assert settled.d_model == SIZES[size]["d_model"]


def test_what_is_given_wins_over_the_size():
    settled = options("--size small --d-ff 48 --epochs 2")
    assert (settled.d_ff, settled.epochs, settled.layers) == (48, 2, SIZES["small"]["layers"])


def test_sizes_of_the_paper():
    assert [SIZES["base"][name] for name in ("layers", "d_model", "heads", "d_ff")] == [
        6,
        512,
        8,
        2048,
    ]
    assert [SIZES["big"][name] for name in ("layers", "d_model", "heads", "d_ff")] == [
        6,
        1024,
        16,
        4096,
    ]


def test_rate_depends_on_width_and_schedule():
    assert options().lr == pytest.approx(4e-3)
    assert options("--size small").lr == pytest.approx(1e-3)
    assert options("--schedule paper").lr == 1.0
    assert options("--schedule paper --lr 2").lr == 2.0


def test_bounds_of_a_batch_and_of_a_run():
    assert options("--batch-size 7").max_tokens is None
    both = options("--batch-size 7 --max-tokens 99")
    assert (both.batch_size, both.max_tokens) == (7, 99)
    assert options("--steps 5").epochs is None


def test_paths_are_made_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settled = options("--train a b --valid c")
    assert settled.train == [str(tmp_path / "a"), str(tmp_path / "b")]
    assert settled.valid == [str(tmp_path / "c")]
    assert options("--data d --source x --target y").data == str(tmp_path / "d")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("--layers 0", "--layers: expected a whole number of at least 1, got '0'"),
        ("--layers two", "--layers: expected a whole number of at least 1, got 'two'"),
        ("--dropout 1", "--dropout: expected a number of at least 0.0 and below 1, got '1'"),
        ("--smoothing -0.1", "--smoothing: expected a number of at least 0.0 and below 1"),
        ("--lr nan", "--lr: expected a number above 0, got 'nan'"),
        ("--lr 0", "--lr: expected a number above 0, got '0'"),
        ("--clip 0", "--clip: expected a number above 0, got '0'"),
        ("--clip -1", "--clip: expected a number above 0, got '-1'"),
        ("--alpha 1e9", "--alpha: expected a number of at least 0.0 and below 100, got '1e9'"),
        ("--steps 1" + 40 * "0", "a whole number of at least 1, got '1" + 40 * "0" + "', which is"),
        ("--seed 4294967296", "of at least 0 and below 4294967296, got '4294967296', which is too"),
        ("--norm middle", "--norm: invalid choice: 'middle'"),
        ("--steps 5 --epochs 5", "expected --epochs or --steps, got both"),
        ("--train a --data b", "expected --data or --train, got both"),
        ("--subword 9 --min-count 2", "expected --subword or --min-count, got both"),
        ("--data b --source de", "together, got only --data and --source"),
        ("--train a b c", "expected one or two files after --train, got 3"),
        ("--train a\0b", "expected names of files after --train, got one with a zero byte"),
        ("--data a\0b --source x --target y", "after --data, got one with a zero byte"),
        ("--test a b", "expected --train FILE FILE together with --test"),
        ("--resume --lr 1 --d-ff 5", "goes on with the options of the run; leave out --d-ff, --lr"),
        ("--nonsense", "unrecognized arguments: --nonsense"),
    ],
)
def test_refused(text, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        parse(text.split())
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_a_resumed_run_may_be_told_what_does_not_change_it():
    text = "--resume --out x --beam 1 --alpha 0.5 --device cpu --threads 2"
    assert parse(text.split()).resume
    assert settle(parse(["--save-every", "0"])).save_every == 0.0


def test_help_names_each_option_with_its_default(capsys):
    with pytest.raises(SystemExit):
        parse(["--help"])
    text = capsys.readouterr().out
    for name in vars(options()):
        assert "--" + name.replace("_", "-") in text
    assert "(default 0.6)" in text
