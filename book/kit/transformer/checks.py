"""Properties of a Transformer put together by hand: the shift, a layer, all of it, its size."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from kit.shared.checks import Report, require
from lib.data import BOS, EOS, PAD
from lib.masks import causal_mask
from lib.transformer import Config, DecoderLayer, Transformer

SIZES = {"d_model": 12, "n_heads": 2, "d_ff": 17, "n_layers": 3, "dropout": 0.0}
CLOSE = 1e-10
COUNTED = (  # sizes that no two terms of a formula share
    Config(37_000),
    Config(37_000, d_model=1024, n_heads=16, d_ff=4096),
    Config(101, d_model=24, n_heads=4, d_ff=37, n_layers=5, norm="pre"),
    Config(101, d_model=24, n_heads=4, d_ff=37, n_layers=5, tied=False),
    Config(101, 53, d_model=24, n_heads=4, d_ff=37, n_layers=1),
    Config(101, 53, d_model=24, n_heads=4, d_ff=37, n_layers=2, tied=False, norm="pre"),
)


def check_shift_right(shift: Callable[[Tensor], Tensor]) -> Report:
    """Check shift(target_out) -> target_in: BOS, then what is to be said, one step late.

    Shapes: target_out (batch, time), each row ends with EOS and is filled with PAD; target_in the
        same. What stands where target_out is PAD is not looked at: nobody reads the output there.
    Errors: CheckFailed.
    """
    rows = [[7, 5, 9, 4, EOS], [8, EOS, PAD, PAD, PAD], [6, 6, 6, EOS, PAD]]
    for target_out in (torch.tensor(rows), torch.tensor([[EOS]]), torch.tensor(rows[:1])):
        before = target_out.clone()
        target_in = shift(target_out)
        require(isinstance(target_in, Tensor), f"expected a tensor of tokens, got {target_in!r}")
        wanted = tuple(target_out.shape)
        require(
            tuple(target_in.shape) == wanted,
            f"expected the shape {wanted} of target_out, got {tuple(target_in.shape)}; the last "
            "token is never read, so it makes room for BOS",
        )
        require(torch.equal(target_out, before), "target_out itself was changed: work on a copy")
        for given, said in zip(target_in.tolist(), target_out.tolist(), strict=True):
            length = len(said) - said.count(PAD)
            right = [BOS, *said[: length - 1]]
            require(given[0] == BOS, f"position 0 must read BOS = {BOS}, got {given[0]}")
            require(
                given[:length] == right,
                f"to say {said} the decoder must read {right}, got {given[:length]}; position t "
                "reads what was said at t - 1",
            )
    return Report("shift right", ("BOS comes first", "position t reads what was said at t - 1"))


def check_decoder_layer(layer: Callable[..., Tensor]) -> Report:
    """Check layer(x, memory, memory_mask, self_attention, cross_attention, feed_forward).

    The last three are sub-layers in their `Residual`, which adds and normalises.
    Shapes: x (batch, time, d_model), memory (batch, source_time, d_model), memory_mask
        (batch, 1, source_time). Returns the shape of x.
    Errors: CheckFailed.
    """
    for norm in ("post", "pre"):
        seeded = torch.Generator().manual_seed(0)
        parts = DecoderLayer(Config(29, norm=norm, **SIZES)).double()
        three = (parts.self_attention, parts.cross_attention, parts.feed_forward)
        x, memory = (
            torch.randn(3, time, 12, generator=seeded, dtype=torch.float64) for time in (5, 7)
        )
        mask = torch.arange(7) < torch.tensor([7, 4, 2])[:, None, None]  # (batch, 1, source_time)

        def run(x: Tensor, memory: Tensor, mask: Tensor = mask, three: tuple = three) -> Tensor:
            return _tensor(layer, x, memory, mask, *three)

        got = run(x, memory)
        require(got.shape == x.shape, f"expected the shape of x, (3, 5, 12), got {_shape(got)}")
        for t in range(1, 5):
            later = x.clone()
            later[:, t] = later[:, t].flip(-1)
            require(
                _near(run(later, memory)[:, :t], got[:, :t]),
                f"an output before position {t} feels x at {t}: no causal mask in self-attention?",
            )
        padding = torch.where(mask.transpose(1, 2), memory, memory.flip(-1))
        require(_near(run(x, padding), got), "the padding of the memory is read: memory_mask?")
        other = run(x, memory.flip(-1))
        require(not _near(other, got), "another memory changes nothing: it is never read")
        wanted = parts(x, memory, mask, causal_mask(5))
        require(
            _near(got, wanted),
            f"with {norm}-norm: right shape and nothing leaks, but another output than "
            "self-attention, then cross-attention with queries from x, then feed-forward",
        )
    return Report(
        "decoder layer",
        (
            "no position sees a later one",
            "the memory is read, its padding is not",
            "equal to the library's layer with the same weights, post-norm and pre-norm",
        ),
    )


def check_forward(forward: Callable[..., Tensor]) -> Report:
    """Check forward(model, source, source_lengths, target_in) -> logits, from the model's layers.

    The models have sinusoidal positions, post-norm or pre-norm, and no dropout.
    Shapes: source (batch, source_time), target_in (batch, time), logits (batch, time, vocab).
    Errors: CheckFailed.
    """
    seeded = torch.Generator().manual_seed(0)
    source = torch.randint(4, 29, (3, 7), generator=seeded)
    target = torch.randint(4, 23, (3, 5), generator=seeded)
    lengths = torch.tensor([7, 4, 2])
    for norm in ("post", "pre"):
        model = Transformer(Config(29, 23, norm=norm, **SIZES)).double()
        for parameter in model.parameters():  # gains and biases that are not 1 and 0
            mean = 1.0 if parameter.dim() == 1 else 0.0
            nn.init.normal_(parameter, mean, 0.5, generator=seeded)
        with torch.no_grad():
            got = _tensor(forward, model, source, lengths, target)
            require(
                tuple(got.shape) == (3, 5, 23),
                f"expected logits (batch, time, vocab) = (3, 5, 23), got {_shape(got)}",
            )
            changed = target.clone()
            changed[:, 3] = 4 + (target[:, 3] - 3) % 19
            require(
                _near(_tensor(forward, model, source, lengths, changed)[:, :3], got[:, :3]),
                "a token of target_in changes earlier logits: the decoder has no causal mask",
            )
            changed = torch.where(torch.arange(7) < lengths[:, None], source, PAD)
            require(
                _near(_tensor(forward, model, changed, lengths, target), got),
                "padding of the source is read: both stacks need the padding mask",
            )
            wanted = model(source, lengths, target)
        why = {
            "post": "are positions added on both sides? Is the memory the output of the last "
            "encoder layer, for every decoder layer?",
            "pre": "with post-norm they were right, so a norm at the end of a stack is missing",
        }[norm]
        require(_near(got, wanted), f"with {norm}-norm the logits are others: {why}")
    return Report(
        "forward pass",
        ("no token sees a later one", "padding is not read", "the library's logits, post and pre"),
    )


def check_count(count: Callable[[Config], int]) -> Report:
    """Check count(config): the number of parameters of a Transformer, without building one.

    The configurations differ in sizes, norm, tying and vocabularies; all have ReLU and sinusoids.
    Errors: CheckFailed.
    """
    for config in COUNTED:
        with torch.device("meta"):  # shapes without numbers
            model = Transformer(config)
        sizes = {name: p.numel() for name, p in model.named_parameters()}
        wanted, got = sum(sizes.values()), count(config)
        require(isinstance(got, int), f"expected a whole number, got {got!r}")
        norms = sum(size for name, size in sizes.items() if ".norm." in name)
        last = sum(size for name, size in sizes.items() if name.count(".") == 2 and "norm" in name)
        biases = sum(n for name, n in sizes.items() if name.endswith("bias") and "norm" not in name)
        ends = config.source_vocab * config.d_model, len(model.projection.weight) * config.d_model
        why = {
            -biases: "the biases are missing",
            -norms: "the layer norms are missing",
            -norms - biases: "biases and layer norms are missing",
            -last: "pre-norm has a last norm at the end of each stack",
            **{sum(ends[i:]): "a matrix that is shared counts once" for i in (0, 1)},
        }.get(got - wanted, "count each kind of layer by itself, and print them")
        require(
            got == wanted,
            f"{_brief(config)}: expected {wanted:,}, got {got:,} ({got - wanted:+,}); {why}",
        )
    return Report("parameter count", ("base and big", "pre-norm", "untied", "two vocabularies"))


def _brief(config: Config) -> str:
    """What differs from the base model."""
    base = vars(Config(37_000))
    changed = [f"{name}={value!r}" for name, value in vars(config).items() if value != base[name]]
    return f"Config({', '.join(changed)})" if changed else "the base model, Config(37_000)"


def _tensor(function: Callable[..., Tensor], *inputs: object) -> Tensor:
    try:
        output = function(*inputs)
    except (ValueError, RuntimeError) as error:
        require(False, f"it stops with: {error}")
    require(isinstance(output, Tensor), f"expected a tensor, got {output!r}")
    return output


def _near(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and bool((one - other).abs().max() <= CLOSE)


def _shape(x: Tensor) -> tuple[int, ...]:
    return tuple(x.shape)
