"""Real weights in the book's modules: equal to their own library's models, and to torch's."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from chapters.families.pretrained import (
    GELU,
    GELU_TANH,
    BertEncoder,
    bert_names,
    load_bert,
    load_gpt2,
    mean_pooled,
)
from lib.attention import attention_maps
from lib.layers import LayerNorm
from lib.transformer import Config
from tests.helpers import assert_close, normal, unchecked
from tests.paths import BOOK

BERT, GPT2 = (BOOK / "checkpoints" / f"reference_{name}" for name in ("bert", "gpt2"))
MINILM = Config(30_522, d_model=384, n_heads=12, d_ff=1536, n_layers=6, activation="gelu")
PRECISIONS = [(torch.float32, 1e-5), (torch.float64, 1e-10)]


def expected(folder):
    return load_file(folder / "expected.safetensors")


def real(lengths, time):
    return torch.arange(time) < lengths[:, None]


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
def test_bert_equals_what_transformers_computed(dtype, tolerance):
    model, kept = load_bert(BERT, dtype=dtype), expected(BERT)
    assert not model.training
    hidden = model(kept["tokens"], kept["lengths"], kept["segments"])
    at = real(kept["lengths"], 11)
    scale = kept["logits"].abs().max().item()
    assert_close(hidden[at], kept["hidden"][at], tolerance)
    assert_close(model.logits(hidden)[at] / scale, kept["logits"][at] / scale, tolerance)


@pytest.mark.parametrize(
    ("folder", "load", "name", "of"),
    [
        (GPT2, load_gpt2, "lm_head.weight", "transformer.wte.weight"),
        (
            BERT,
            load_bert,
            "cls.predictions.decoder.weight",
            "bert.embeddings.word_embeddings.weight",
        ),
        (BERT, load_bert, "cls.predictions.decoder.bias", "cls.predictions.bias"),
    ],
)
def test_a_tied_head_that_is_stored_beside_is_read_only_if_it_is_the_same(
    folder, load, name, of, tmp_path
):
    copy = shutil.copytree(folder, tmp_path / "model")
    weights = load_file(copy / "model.safetensors")
    save_file(weights | {name: weights[of].clone()}, copy / "model.safetensors")
    wanted, got = load(folder).state_dict(), load(copy).state_dict()
    assert all(torch.equal(got[part], wanted[part]) for part in wanted)
    save_file(weights | {name: weights[of] + 0.1}, copy / "model.safetensors")
    with pytest.raises(ValueError, match=f"expected {name} to be .*, got another matrix"):
        load(copy)


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
def test_gpt2_equals_what_transformers_computed(dtype, tolerance):
    model, kept = load_gpt2(GPT2, dtype=dtype), expected(GPT2)
    scale = kept["logits"].abs().max().item()
    with torch.no_grad():
        assert_close(model(kept["tokens"]) / scale, kept["logits"] / scale, tolerance)
    assert model.projection.weight is model.embedding.weight


def test_gpt2_step_by_step_says_the_same():
    model, kept = load_gpt2(GPT2, dtype=torch.float64), expected(GPT2)
    state = model.start()
    for t, token in enumerate(kept["tokens"].T):
        logits, _, state = model.step(token, state)
        assert_close(logits, kept["logits"][:, t], 1e-10)


def test_bert_ignores_padding_and_feels_segments():
    model, kept = load_bert(BERT, dtype=torch.float64), expected(BERT)
    tokens, lengths = kept["tokens"], kept["lengths"]
    at = real(lengths, 11)
    other = torch.where(at, tokens, (tokens + 1) % 31)
    assert_close(model(other, lengths)[at], model(tokens, lengths)[at], 1e-12)
    assert (model(tokens, lengths, kept["segments"]) - model(tokens, lengths)).abs().max() > 0.1
    assert_close(model(tokens, torch.full((5,), 11)), model(tokens), 1e-12)


def test_bert_equals_torch_s_own_encoder_by_copied_weights(tmp_path):
    """A folder written from torch's modules alone: no other library has a hand in this one."""
    vocab, d_model, n_heads, d_ff = 29, 14, 2, 19
    layer = nn.TransformerEncoderLayer(
        d_model, n_heads, d_ff, 0.0, "gelu", layer_norm_eps=1e-12, batch_first=True
    )
    encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False).double().eval()
    tables = {
        name: normal(rows, d_model, seed=rows)
        for name, rows in (("word", vocab), ("position", 13), ("token_type", 2))
    }
    norm = nn.LayerNorm(d_model, eps=1e-12).double()
    for parameter in (*encoder.parameters(), *norm.parameters()):
        parameter.data = normal(*parameter.shape, seed=parameter.numel()) * 0.4
    stored = {f"embeddings.{name}_embeddings.weight": t for name, t in tables.items()}
    stored |= {f"embeddings.LayerNorm.{n}": p.data for n, p in norm.named_parameters()}
    for i, one in enumerate(encoder.layers):
        there = f"encoder.layer.{i}"
        for part in ("weight", "bias"):
            thirds = getattr(one.self_attn, f"in_proj_{part}").data.chunk(3)
            for word, third in zip(("query", "key", "value"), thirds, strict=True):
                stored[f"{there}.attention.self.{word}.{part}"] = third
            for name, module in (
                ("attention.output.dense", one.self_attn.out_proj),
                ("attention.output.LayerNorm", one.norm1),
                ("intermediate.dense", one.linear1),
                ("output.dense", one.linear2),
                ("output.LayerNorm", one.norm2),
            ):
                stored[f"{there}.{name}.{part}"] = getattr(module, part).data
    save_file({k: v.contiguous() for k, v in stored.items()}, tmp_path / "model.safetensors")
    config = {
        "model_type": "bert", "vocab_size": vocab, "hidden_size": d_model,
        "num_attention_heads": n_heads, "intermediate_size": d_ff, "num_hidden_layers": 3,
        "max_position_embeddings": 13,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = load_bert(tmp_path, dtype=torch.float64)
    tokens = torch.randint(vocab, (5, 7), generator=torch.Generator().manual_seed(0))
    lengths = torch.tensor([7, 1, 3, 5, 2])
    x = tables["word"][tokens] + tables["position"][:7] + tables["token_type"][0]
    with torch.no_grad():
        wanted = encoder(norm(x), src_key_padding_mask=~real(lengths, 7))
        assert_close(model(tokens, lengths)[real(lengths, 7)], wanted[real(lengths, 7)], 1e-10)


def test_minilm_s_sizes_and_count():
    with torch.device("meta"):
        model = BertEncoder(MINILM)
    pooler = 384 * 384 + 384  # in the file, and not used
    assert sum(p.numel() for p in model.parameters()) + pooler == 22_713_216
    assert set(bert_names(6, False)) == set(model.state_dict())
    assert {m.eps for m in model.modules() if isinstance(m, LayerNorm)} == {1e-12}


def test_gpt2_small_s_count(tmp_path):
    from lib.transformer import LanguageModel

    with torch.device("meta"):
        small = Config(50_257, d_model=768, n_heads=12, d_ff=3072, n_layers=12, norm="pre",
                       positions="learned", max_length=1024)  # fmt: skip
        model = LanguageModel(small)
    assert sum(p.numel() for p in model.parameters()) == 124_439_808


@pytest.mark.parametrize(
    "kind",
    ["bert of MiniLM's size", "bert, masked", "bert, two tasks", "bert, untied", "gpt2",
     "gpt2, untied", "gpt2, in shards", "gpt2, eps 0.1"],
)  # fmt: skip
@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
def test_equal_to_transformers_itself(kind, dtype, tolerance, tmp_path):
    transformers = pytest.importorskip("transformers", reason="needs the package transformers")
    torch.manual_seed(0)
    tied = "untied" not in kind
    if kind.startswith("gpt2"):
        theirs = gpt2_of(transformers, tied=tied, eps=0.1 if "eps" in kind else 1e-5)
    elif kind != "bert of MiniLM's size":
        task = "PreTraining" if kind == "bert, two tasks" else "MaskedLM"
        theirs = getattr(transformers, f"BertFor{task}")(
            transformers.BertConfig(vocab_size=97, hidden_size=48, num_attention_heads=4,
                                    intermediate_size=67, num_hidden_layers=3,
                                    tie_word_embeddings=tied)
        )  # fmt: skip
    else:
        theirs = transformers.BertModel(
            transformers.BertConfig(hidden_size=384, num_attention_heads=12,
                                    intermediate_size=1536, num_hidden_layers=6)
        )  # fmt: skip
    for parameter in theirs.parameters():
        parameter.data += torch.randn_like(parameter) * 0.02
    size = "40KB" if "shards" in kind else "1GB"
    theirs.eval().save_pretrained(tmp_path, max_shard_size=size)
    assert (len(list(tmp_path.glob("*.safetensors"))) > 3) == ("shards" in kind)
    theirs = theirs.to(dtype)
    tokens = torch.randint(97, (3, 17))
    lengths = torch.tensor([17, 5, 11])
    at = real(lengths, 17)
    with torch.no_grad():
        if kind.startswith("gpt2"):
            model, wanted = load_gpt2(tmp_path, dtype=dtype), theirs(tokens).logits
            assert_close(model(tokens), wanted, tolerance)
            assert (model.projection.weight is model.embedding.weight) == tied
            assert model.config.tied == tied
            return
        model = load_bert(tmp_path, dtype=dtype)
        segments = (torch.arange(17) >= lengths[:, None] // 2).long()
        hidden, said = model(tokens, lengths, segments), theirs(tokens, at.long(), segments)
        if kind == "bert of MiniLM's size":
            assert_close(hidden[at], said.last_hidden_state[at], tolerance)
        else:
            logits = said.prediction_logits if kind == "bert, two tasks" else said.logits
            assert_close(model.logits(hidden)[at], logits[at], tolerance)


def gpt2_of(transformers, *, tied=True, eps=1e-5, activation="gelu_new"):
    sizes = {"vocab_size": 97, "n_positions": 23, "n_embd": 48, "n_layer": 3, "n_head": 4}
    config = transformers.GPT2Config(
        **sizes, bos_token_id=1, eos_token_id=2, tie_word_embeddings=tied,
        layer_norm_epsilon=eps, activation_function=activation,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config)


@pytest.mark.parametrize("name", ["relu", *GELU, *GELU_TANH])
def test_each_name_of_an_activation_is_the_function_that_transformers_takes(name, tmp_path):
    """In float64: GELU and its tanh formula are 1e-4 apart, which a looser test would not see."""
    transformers = pytest.importorskip("transformers", reason="needs the package transformers")
    torch.manual_seed(0)
    theirs = gpt2_of(transformers, activation=name).double().eval()
    for parameter in theirs.parameters():
        parameter.data += torch.randn_like(parameter) * 0.1
    theirs.save_pretrained(tmp_path)
    tokens = torch.randint(97, (3, 17))
    with torch.no_grad():
        wanted = theirs(tokens).logits
        assert_close(load_gpt2(tmp_path, dtype=torch.float64)(tokens), wanted, 1e-9)


def test_heads_of_a_loaded_model_can_be_looked_at():
    maps = attention_maps(load_bert(BERT), expected(BERT)["tokens"])
    assert [m.shape for m in maps.values()] == [(5, 3, 11, 11)] * 2
    assert_close(torch.stack(list(maps.values())).sum(-1), torch.ones(2, 5, 3, 11), 1e-5)


def test_mean_pooled_leaves_padding_out():
    hidden, lengths = normal(3, 5, 7), torch.tensor([5, 2, 1])
    pooled = mean_pooled(hidden, lengths)
    for row, length, got in zip(hidden, lengths, pooled, strict=True):
        mean = row[:length].mean(0)
        assert_close(got, mean / mean.norm(), 1e-12)


def test_a_model_without_a_head_gives_no_logits():
    with pytest.raises(ValueError, match="expected a model with a head"):
        BertEncoder(Config(5, d_model=4, n_heads=2, d_ff=3, n_layers=1)).logits(
            torch.zeros(1, 1, 4)
        )


@pytest.mark.parametrize(
    ("folder", "change", "message"),
    [
        (BERT, {"model_type": "roberta"}, "expected model_type 'bert', got 'roberta'"),
        (BERT, {"model_type": None}, "expected model_type 'bert', got None"),
        (GPT2, {"model_type": "bert"}, "expected model_type 'gpt2', got 'bert'"),
        (BERT, {"is_decoder": True}, "expected is_decoder False, got True"),
        (BERT, {"position_embedding_type": "relative_key"}, "'absolute', got 'relative_key'"),
        (BERT, {"hidden_act": "silu"}, "out of relu, gelu, gelu_python, .* got 'silu'"),
        (BERT, {"vocab_size": "31"}, "vocab_size as a whole number above 0, got '31'"),
        (BERT, {"hidden_size": 0}, "hidden_size as a whole number above 0, got 0"),
        (BERT, {"num_hidden_layers": 3}, r"expected a tensor encoder\.layer\.2.* \(16 missing"),
        (BERT, {"num_hidden_layers": 1}, r"no tensor encoder\.layer\.1.* \(16 left over"),
        (BERT, {"intermediate_size": 21}, r"of shape \(21, 12\), got \(20, 12\)"),
        (BERT, {"architectures": ["BertModel"]}, r"no tensor cls\.predictions"),
        (BERT, {"hidden_act": "relu"}, "expected hidden_act 'gelu', got 'relu'"),
        (BERT, {"hidden_act": ["gelu"], "architectures": None}, r"an activation .* got \['gelu'\]"),
        (BERT, {"layer_norm_eps": "1e-12"}, "layer_norm_eps as a number .* got '1e-12'"),
        (BERT, {"hidden_dropout_prob": None}, "hidden_dropout_prob as a number .* got None"),
        (BERT, {"type_vocab_size": "2"}, "type_vocab_size as a whole number above 0, got '2'"),
        (BERT, {"architectures": 5}, r"no tensor cls\.predictions"),
        (GPT2, {"n_inner": "20"}, "n_inner as a whole number above 0, got '20'"),
        (GPT2, {"resid_pdrop": 1.5}, "resid_pdrop as a number from 0 to below 1, got 1.5"),
        (GPT2, {"n_layer": 3}, r"expected a tensor h\.2\..* \(12 missing"),
        (GPT2, {"n_inner": None}, r"of shape \(12, 48\), got \(12, 20\)"),
        (GPT2, {"scale_attn_by_inverse_layer_idx": True}, "inverse_layer_idx False, got True"),
        (GPT2, {"layer_norm_epsilon": "1e-6"}, "layer_norm_epsilon as a number .* got '1e-6'"),
        (GPT2, {"activation_function": "quick_gelu"}, "an activation out of .* got 'quick_gelu'"),
        (GPT2, {"activation_function": "gelu_10"}, "an activation out of .* got 'gelu_10'"),
        (GPT2, {"tie_word_embeddings": False}, r"expected a tensor lm_head\.weight, got none"),
        (GPT2, {"tie_word_embeddings": 1}, "tie_word_embeddings true or false, got 1"),
        (BERT, {"tie_word_embeddings": False}, r"a tensor cls\.predictions\.decoder\.bias"),
        (BERT, {"hidden_act": "gelu_new"}, "expected hidden_act 'gelu', got 'gelu_new'"),
        (GPT2, {"quantization_config": {"quant_method": "fp8"}}, "of 'fp8'; .* in bfloat16"),
        (BERT, {"quantization_config": {"quant_method": "gptq"}}, "of 'gptq'; .* in bfloat16"),
    ],
)
def test_a_config_that_does_not_fit_is_named(folder, change, message, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "model")
    config = json.loads((copy / "config.json").read_text()) | change
    (copy / "config.json").write_text(json.dumps(config))
    load = load_bert if folder == BERT else load_gpt2
    with unchecked(), pytest.raises(ValueError, match=message):
        load(copy)
