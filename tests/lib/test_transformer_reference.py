"""The Transformer and its parts against torch's and Hugging Face's: values and gradients."""

import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from checks.torch_weights import named_as_ours, torch_masks
from lib.attention import MultiHeadAttention
from lib.data import PAD
from lib.layers import LayerNorm, layer_norm
from lib.masks import padding_mask
from lib.positions import SCHEMES, ALiBi, Rotary
from lib.training import label_smoothed_loss
from lib.transformer import Config, Transformer
from tests.helpers import assert_close, gradients, normal, random_mask

EXACT = 1e-10
DTYPES = pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, EXACT), (torch.float32, 1e-5)], ids=str
)


# Layer norm and label smoothing


@pytest.mark.parametrize("eps", [1e-5, 1e-12, 0.5])
@pytest.mark.parametrize("shape", [(4,), (1, 3), (2, 5, 7), (2, 3, 5, 64)], ids=str)
def test_layer_norm_equals_torch(shape, eps):
    d_model = shape[-1]
    theirs = nn.LayerNorm(d_model, eps=eps, dtype=torch.float64)
    ours = LayerNorm(d_model, eps=eps).double()
    with torch.no_grad():
        for parameter, other, seed in ((ours.gain, theirs.weight, 1), (ours.bias, theirs.bias, 2)):
            parameter.copy_(normal(d_model, seed=seed))
            other.copy_(parameter)
    x = (3 * normal(*shape) + 5).requires_grad_()
    wanted = theirs(x)
    exact = gradients(wanted, [x, *theirs.parameters()])
    for got in (ours(x), layer_norm(x, ours.gain, ours.bias, eps)):
        assert_close(got, wanted, EXACT)
        for one, other in zip(gradients(got, [x, *ours.parameters()]), exact, strict=True):
            assert_close(one, other, EXACT)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])
@pytest.mark.parametrize("shape", [(1, 1, 2), (3, 5, 7), (2, 11, 101)], ids=str)
def test_label_smoothing_equals_torch(shape, smoothing):
    logits = (5 * normal(*shape)).requires_grad_()
    target = torch.randint(1, shape[-1], shape[:2], generator=torch.Generator().manual_seed(0))
    target[1:, 3:] = PAD
    got = label_smoothed_loss(logits, target, smoothing)
    wanted = F.cross_entropy(
        logits.flatten(0, 1), target.flatten(), ignore_index=PAD, label_smoothing=smoothing
    )
    assert_close(got, wanted, EXACT)
    assert_close(torch.autograd.grad(got, logits)[0], torch.autograd.grad(wanted, logits)[0], EXACT)


# Positions inside attention


def make_in_float64(make):
    torch.set_default_dtype(torch.float64)
    try:
        return make()
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("scheme", ["rotary", "alibi"])
def test_attention_with_positions_by_loops(scheme):
    """Written out for one query and one key at a time, in float64."""
    batch, n_heads, time, d_k = 2, 3, 5, 4
    torch.manual_seed(0)
    positions = make_in_float64(
        lambda: Rotary(d_k) if scheme == "rotary" else ALiBi(n_heads, paper_formula=True)
    )
    layer = MultiHeadAttention(n_heads * d_k, n_heads, positions=positions).double()
    x = normal(batch, time, n_heads * d_k)
    mask = random_mask(batch, time, time)
    got = layer(x, mask=mask)

    heads = torch.zeros(batch, time, n_heads * d_k, dtype=torch.float64)
    for b in range(batch):
        for h in range(n_heads):
            own = slice(h * d_k, (h + 1) * d_k)
            for i in range(time):
                scores = []
                for j in range(time):
                    q, k = layer.w_q(x[b, i])[own], layer.w_k(x[b, j])[own]
                    score = 0.0
                    if scheme == "rotary":  # turn the key by the difference alone
                        for pair, w in enumerate((1.0, 0.01)):
                            turn = torch.tensor((i - j) * w, dtype=torch.float64)
                            (a, c), (e, f) = q[2 * pair : 2 * pair + 2], k[2 * pair : 2 * pair + 2]
                            score += (a * e + c * f) * turn.cos() + (a * f - c * e) * turn.sin()
                        score = score / d_k**0.5
                    else:
                        score = q @ k / d_k**0.5 - abs(i - j) * 2.0 ** (-8 * (h + 1) / n_heads)
                    scores.append(score if mask[b, i, j] else torch.tensor(-torch.inf).double())
                weights = torch.stack(scores).softmax(0)
                values = torch.stack([layer.w_v(x[b, j])[own] for j in range(time)])
                heads[b, i, own] = weights @ values
    assert_close(got, layer.w_o(heads), EXACT)


def test_rotary_equals_hugging_face():
    """GPT-J turns the same neighbouring pairs; Llama's halves are ours in another order."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from transformers.models.gptj import modeling_gptj as gptj
        from transformers.models.llama import modeling_llama as llama
    d_k, time, offset = 8, 13, 3
    x = normal(2, 5, time, d_k, dtype=torch.float32)  # (batch, heads, time, d_k)
    got = Rotary(d_k).rotate(x, offset)

    table = gptj.create_sinusoidal_positions(offset + time, d_k)[offset:]
    sin, cos = table.chunk(2, dim=-1)
    wanted = gptj.apply_rotary_pos_emb(x.transpose(1, 2), sin[None], cos[None]).transpose(1, 2)
    assert_close(got, wanted, 1e-5)

    config = llama.LlamaConfig(
        hidden_size=5 * d_k, num_attention_heads=5, num_key_value_heads=5, head_dim=d_k
    )
    position = torch.arange(offset, offset + time)[None]
    cos, sin = llama.LlamaRotaryEmbedding(config)(x, position)
    halves = torch.cat((x[..., 0::2], x[..., 1::2]), -1)
    turned, _ = llama.apply_rotary_pos_emb(halves, halves, cos, sin)
    wanted = torch.stack(turned.chunk(2, dim=-1), -1).flatten(-2)
    assert_close(got, wanted, 1e-5)


# The whole model

LENGTHS = torch.tensor([7, 3, 1, 5])


def beside_torch(norm, dtype, positions="sinusoidal"):
    """Return ours, theirs with the same random weights, and a function that runs theirs."""
    torch.manual_seed(3)
    config = Config(
        29, 31, d_model=20, n_heads=5, d_ff=37, n_layers=3, dropout=0.0, norm=norm,
        positions=positions,
    )  # fmt: skip
    with warnings.catch_warnings():  # nested tensors, which pre-norm cannot use
        warnings.simplefilter("ignore")
        theirs = nn.Transformer(
            20, 5, 3, 3, 37, dropout=0.0, batch_first=True, norm_first=norm == "pre", dtype=dtype
        )
    if norm == "post":  # torch normalises once more, the paper does not
        theirs.encoder.norm = theirs.decoder.norm = None
    for parameter in theirs.parameters():  # torch starts biases at 0, where a mix-up is not seen
        nn.init.normal_(parameter, 1.0 if parameter.dim() == 1 else 0.0, 0.3)
    ours = Transformer(config).to(dtype)
    missing, unexpected = ours.load_state_dict(named_as_ours(theirs), strict=False)
    kinds = {name.split(".")[-2].split("_")[-1] for name in missing}
    assert kinds - {"positions"} == {"embedding", "projection"}
    assert unexpected == []

    def run(source, target_in):
        inputs = [
            ours.encoder.positions.add(embedding(tokens))
            for embedding, tokens in (
                (ours.source_embedding, source),
                (ours.target_embedding, target_in),
            )
        ]
        masks = torch_masks(padding_mask(LENGTHS, source.shape[1]), target_in.shape[1])
        return ours.projection(theirs(*inputs, **masks))

    return ours, theirs, run


@DTYPES
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("target_time", [1, 11])
def test_transformer_equals_torch(norm, dtype, tolerance, target_time):
    ours, theirs, run = beside_torch(norm, dtype)
    generator = torch.Generator().manual_seed(5)
    source = torch.randint(4, 29, (4, 7), generator=generator)
    target_in = torch.randint(4, 31, (4, target_time), generator=generator)
    embeddings = [ours.source_embedding.weight, ours.target_embedding.weight]
    target = torch.randint(4, 31, (4, target_time), generator=generator)

    results = []
    for forward in (lambda: ours(source, LENGTHS, target_in), lambda: run(source, target_in)):
        for parameter in (*ours.parameters(), *theirs.parameters()):
            parameter.grad = None
        logits = forward()
        F.cross_entropy(logits.flatten(0, 1), target.flatten()).backward()
        results.append((logits.detach(), [weight.grad for weight in embeddings]))
        if len(results) == 1:
            own = {name: p.grad for name, p in ours.named_parameters() if p.grad is not None}
    assert_close(results[0][0], results[1][0], tolerance)
    for one, other in zip(results[0][1], results[1][1], strict=True):
        assert_close(one, other, tolerance)
    for name, gradient in named_as_ours(theirs, lambda p: p.grad).items():
        assert_close(own[name], gradient, tolerance)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_torch_in_evaluation_mode_agrees_too(norm):
    """torch's encoder then takes a faster path, which leaves padding out."""
    ours, theirs, run = beside_torch(norm, torch.float64)
    theirs.eval()
    source, target_in = torch.randint(4, 29, (2, 4, 7))
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = run(source, target_in)
    assert_close(ours.eval()(source, LENGTHS, target_in), wanted, EXACT)


@pytest.mark.parametrize("scheme", sorted({*SCHEMES} - {"sinusoidal"}))
def test_another_scheme_gives_another_model(scheme):
    """The comparison with torch would notice if positions were ignored."""
    ours, _, _ = beside_torch("pre", torch.float64)
    other, _, _ = beside_torch("pre", torch.float64, scheme)
    other.load_state_dict(ours.state_dict(), strict=False)
    source, target_in = torch.randint(4, 29, (2, 4, 7))
    gap = ours(source, LENGTHS, target_in) - other(source, LENGTHS, target_in)
    assert gap.abs().max() > 0.01
