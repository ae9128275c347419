"""Write a trained model as Hugging Face's transformers read it: `python -m train.export RUN`.

RUN is the folder of a finished run. A new folder gets the configuration, the parameters under the
names that transformers gives them, and the vocabularies. Only a design that transformers has can be
written: Marian's, which is the paper's, or Pegasus', the same with the norm before each sub-layer.
Where transformers is installed, the folder is read back by it and compared before it gets its name.
"""

import argparse
import importlib.util
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import save_file
from torch import Tensor

from lib.data import BOS, EOS, PAD, SPECIAL, UNK, Vocabulary, pad_batch, tokenise
from lib.masks import padding_mask
from lib.positions import sinusoidal_table
from lib.transformer import Config, Transformer
from train.checkpoints import whole_folder
from train.huggingface import CONFIG, WEIGHTS
from train.tokenizer_file import tokenizer_json
from train.translator import read_run

USUAL_OUT = "huggingface"  # in the folder of the run
TARGET = "target"  # folder of the target's tokenizer, if it has a vocabulary of its own
POSITIONS = 512  # rows of the table that transformers makes; the sinusoids have no end
MOST_WORDS = 500  # of a vocabulary that are compared
CLOSE = 1e-5  # logits, relative to the largest where that is above 1
# What transformers calls our activations; a gated network it does not have in these designs.
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_pytorch_tanh"}
# From our names to theirs, in this order.
NAMES = (
    (r"^encoder\.norm", "encoder.layer_norm"),
    (r"^decoder\.norm", "decoder.layer_norm"),
    ("self_attention", "self_attn"),
    ("cross_attention", "encoder_attn"),
    (r"attn\.norm", "attn_layer_norm"),
    (r"feed_forward\.norm", "final_layer_norm"),
    (r"feed_forward\.sublayer\.w_([12])", r"fc\1"),
    (r"sublayer\.w_([qkv])", r"\1_proj"),
    (r"sublayer\.w_o", "out_proj"),
    (r"gain$", "weight"),
)
USAGE = """\
---
library_name: transformers
pipeline_tag: translation
---
`python -m train` of "The Transformer, Piece by Piece" has trained this model. It computes what
transformers' {model} does:

```python
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

folder = "."  # this one
model = AutoModelForSeq2SeqLM.from_pretrained(folder)
source = AutoTokenizer.from_pretrained(folder)
target = {target}
batch = source(["a sentence", "one more"], return_tensors="pt", padding=True)
tokens = model.generate(**batch)
print(target.batch_decode(tokens, skip_special_tokens=True))
```

The tokenizers split text as the book does and give the same numbers. `generate` is greedy, as
`--beam 1` is. With several beams transformers ranks by a length penalty of its own, so it may find
other words than the book. A sentence may have {positions} tokens, and so may a translation:
there the table of positions ends.
"""
OTHER_TOKENIZER = f'AutoTokenizer.from_pretrained(f"{{folder}}/{TARGET}")'


class Design(NamedTuple):
    """A design that transformers has: its names there."""

    model_type: str
    architecture: str


DESIGNS = {
    "post": Design("marian", "MarianMTModel"),
    "pre": Design("pegasus", "PegasusForConditionalGeneration"),
}


def design_of(config: Config) -> Design:
    """The design of transformers that computes the same.

    Errors: ValueError that names each part which transformers does not have so, and the option that
    gives one it has.
    """
    other = []
    if config.positions != "sinusoidal":
        other.append(f"positions {config.positions} (--positions sinusoidal)")
    if config.activation not in ACTIVATIONS:
        other.append(f"activation {config.activation} (--activation relu)")
    one = config.target_vocab is None and config.tied
    if config.norm == "pre" and not one:
        other.append("norm pre without one matrix for all words (--share --tied, or --norm post)")
    if other:
        raise ValueError(
            "expected a design that transformers has, Marian's or Pegasus', got "
            f"{' and '.join(other)}; train with what stands in brackets"
        )
    return DESIGNS[config.norm]


def config_for_hugging_face(config: Config) -> dict[str, Any]:
    """What config.json says. Errors: those of `design_of`."""
    design = design_of(config)
    both = {
        "layers": config.n_layers,
        "attention_heads": config.n_heads,
        "ffn_dim": config.d_ff,
        "layerdrop": 0.0,
    }
    sides = {f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in both.items()}
    found = {
        "architectures": [design.architecture],
        "model_type": design.model_type,
        "vocab_size": config.source_vocab,
        "d_model": config.d_model,
        **sides,
        "dropout": config.dropout,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "activation_function": ACTIVATIONS[config.activation],
        "scale_embedding": True,
        "max_position_embeddings": POSITIONS,
        "tie_word_embeddings": config.tied,
        "is_encoder_decoder": True,
        "dtype": "float32",
    }
    if design.model_type == "marian":
        found["decoder_vocab_size"] = config.target_vocab or config.source_vocab
        found["share_encoder_decoder_embeddings"] = config.tied and config.target_vocab is None
    # A configuration has defaults of its own for some of these; the end of a text is never forced.
    return found | _special_tokens() | {"forced_eos_token_id": None}


def _special_tokens() -> dict[str, Any]:
    numbers = {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS}
    return numbers | {"decoder_start_token_id": BOS}


def weights_for_hugging_face(model: Transformer) -> dict[str, Tensor]:
    """The parameters under the names of transformers; a matrix that is used twice is there once.

    The book's sinusoids have sine and cosine in turn, theirs all sines first. Which entry of the
    vectors is which makes no difference to any layer, so all entries are brought into their order.
    Errors: those of `design_of`.
    """
    config = model.config
    design_of(config)
    order = [*range(0, config.d_model, 2), *range(1, config.d_model, 2)]
    found: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():  # each once
        reads = name.endswith("weight") and not re.search(r"w_[o2]\.", name)
        writes = re.search(r"(w_[o2]\.(weight|bias)|gain|norm\.bias)$", name)
        tensor = parameter.detach().cpu().float()
        if reads:  # a row for each entry that it makes, a column for each that it reads
            tensor = tensor[:, order]
        elif writes:
            tensor = tensor[order]
        found[_their_name(name, config)] = tensor.contiguous()
    found["final_logits_bias"] = torch.zeros(1, config.target_vocab or config.source_vocab)
    if config.norm == "pre":  # Marian makes its tables anew, Pegasus asks for them
        table = sinusoidal_table(POSITIONS, config.d_model)[:, order].contiguous()
        for side in ("encoder", "decoder"):
            found[f"model.{side}.embed_positions.weight"] = table.clone()
    return found


def _their_name(name: str, config: Config) -> str:
    shared = config.tied and config.target_vocab is None
    embeddings = {
        "source_embedding.weight": "model.shared.weight"
        if shared
        else "model.encoder.embed_tokens.weight",
        "target_embedding.weight": "model.decoder.embed_tokens.weight",
        "projection.weight": "lm_head.weight",
    }
    if name in embeddings:
        return embeddings[name]
    for ours, theirs in NAMES:
        name = re.sub(ours, theirs, name)
    return f"model.{name}"


# --- the folder -------------------------------------------------------------------------------


def write_folder(
    folder: Path,
    model: Transformer,
    source_vocab: Vocabulary,
    target_vocab: Vocabulary,
    *,
    lowercase: bool,
) -> None:
    """Write all that transformers reads into a folder that is there.

    Args: lowercase, whether the text is turned to lower case before it is split.
    Errors: those of `design_of`; OSError.
    """
    config = config_for_hugging_face(model.config)
    shared = model.config.target_vocab is None
    save_file(weights_for_hugging_face(model), folder / WEIGHTS, {"format": "pt"})
    _write_json(folder / CONFIG, config)
    _write_json(
        folder / "generation_config.json",
        _special_tokens() | {"max_length": POSITIONS, "num_beams": 1, "do_sample": False},
    )
    _write_tokenizer(folder, source_vocab, lowercase)
    if not shared:
        (folder / TARGET).mkdir()
        _write_tokenizer(folder / TARGET, target_vocab, lowercase)
    usage = USAGE.format(
        model=config["architectures"][0],
        target="source  # one vocabulary" if shared else OTHER_TOKENIZER,
        positions=POSITIONS,
    )
    (folder / "README.md").write_text(usage, encoding="utf-8")


def _write_tokenizer(folder: Path, vocabulary: Vocabulary, lowercase: bool) -> None:
    text = tokenizer_json(vocabulary, lowercase=lowercase)
    (folder / "tokenizer.json").write_text(text, encoding="utf-8")
    names = {"pad_token": PAD, "bos_token": BOS, "eos_token": EOS}
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **{name: SPECIAL[number] for name, number in names.items()},
        "model_max_length": POSITIONS,
        "split_special_tokens": True,  # "<eos>" in a text is three tokens, as in the book
        "clean_up_tokenization_spaces": False,
    }
    _write_json(folder / "tokenizer_config.json", settings)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def read_back(
    folder: Path,
    model: Transformer,
    source_vocab: Vocabulary,
    target_vocab: Vocabulary,
    *,
    lowercase: bool,
) -> str:
    """Let transformers read the folder, and compare logits and numbers of words with the book's.

    Returns: what was found, as a sentence. Errors: ValueError where they are not the same.
    """
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, local_files_only=True)
    for place, vocabulary in ((folder, source_vocab), (folder / TARGET, target_vocab)):
        if place.exists():
            tokenizer = transformers.AutoTokenizer.from_pretrained(place, local_files_only=True)
            text = " ".join(vocabulary.decode(range(UNK, len(vocabulary)))[:MOST_WORDS])
            wanted = vocabulary.encode(tokenise(text, lowercase=lowercase))
            if tokenizer(text)["input_ids"] != [*wanted, EOS]:
                raise ValueError(f"expected the numbers of the book from the tokenizer in {place}")
    gap = _gap(model, theirs, len(source_vocab), len(target_vocab))
    told = f"transformers {transformers.__version__}, {type(theirs).__name__}"
    if not gap <= CLOSE:
        raise ValueError(
            f"expected the logits of the book from {told}, got some that differ by {gap:.1e}; "
            "export with the version that the book is tested with"
        )
    return f"{told}: logits differ by at most {gap:.1e}"


@torch.no_grad()
def _gap(model: Transformer, theirs: Any, source_words: int, target_words: int) -> float:
    """The largest difference of two models' logits for some random tokens, of 1 or the largest."""
    draw = torch.Generator().manual_seed(0)

    def some(words: int, length: int) -> list[int]:
        return torch.randint(UNK, words, (length,), generator=draw).tolist()

    lengths = (1, 7, 13, 29)
    sources = [some(source_words, length) for length in lengths]
    targets = [some(target_words, length) for length in reversed(lengths)]
    batch = pad_batch(sources, targets)
    mask = padding_mask(batch.source_lengths, batch.source.shape[1])[:, 0].long()
    ours = model.cpu()(batch.source, batch.source_lengths, batch.target_in)
    other = theirs(
        input_ids=batch.source, attention_mask=mask, decoder_input_ids=batch.target_in
    ).logits
    return ((ours - other).abs().max() / ours.abs().max().clamp(min=1.0)).item()


# --- the command ------------------------------------------------------------------------------


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line. Errors: SystemExit with a message for what it does not know."""
    parser = argparse.ArgumentParser(
        prog="python -m train.export",
        description="Write a model that python -m train has trained as a folder that Hugging "
        "Face's transformers reads: as Marian if it was trained with --norm post --positions "
        "sinusoidal, as Pegasus if with --positions sinusoidal --share.",
        epilog="example:\n  python -m train.export runs/de --out de-en",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", metavar="RUN", help="folder of a finished run")
    parser.add_argument(
        "--out", metavar="DIR", help=f"a new folder (default {USUAL_OUT} in that of the run)"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, or 1 after an error and 130 after Ctrl-C."""
    given = parse(arguments)
    run = Path(given.run)
    out = Path(given.out) if given.out else run / USUAL_OUT
    try:
        trained, options = read_run(run)
        design_of(trained[0].config)
        _expect_new(out)
        lowercase = options["lower_case"]
        with whole_folder(out) as part:
            write_folder(part, *trained, lowercase=lowercase)
            if importlib.util.find_spec("transformers"):
                print(f"Read back by {read_back(part, *trained, lowercase=lowercase)}.")
            else:
                print("transformers is not installed: nothing was read back and compared.")
    except KeyboardInterrupt:
        print("\nStopped; nothing is written.", file=sys.stderr)
        return 130
    except (ValueError, OSError, ModuleNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"Written: {out}; its README.md says how to use it.")
    return 0


def _expect_new(out: Path) -> None:
    """Check, before anything is written, that the folder may be made."""
    if out.is_symlink() or (out.exists() and not (out.is_dir() and not any(out.iterdir()))):
        raise ValueError(f"expected a new folder after --out, got {out}, which is there already")
    if not out.parent.is_dir():
        raise ValueError(f"expected a folder that is there for --out, got {out.parent}")


if __name__ == "__main__":
    sys.exit(main())
