"""torch's side of the page's engine: the same design, the same first parameters, the same batches.

`book/engine/model.js` has four designs. Here is the model of torch that each is equal
to, and a training that takes the same steps, so that both can be compared number by number.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import fields
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from engine.without import leave_out
from lib.attention import MultiHeadAttention, attention_maps
from lib.layers import in_mode
from lib.masks import causal_mask, combine_masks, padding_mask
from lib.positions import Learned, Positions
from lib.seq2seq import AttentionSeq2Seq, Seq2Seq
from lib.training import Schedule, cosine, warm_up
from lib.transformer import Config, OneStack, Transformer

CONFIGURED = {field.name for field in fields(Config)} - {"dropout"}
TWO_SIDED = ("translator", "recurrent")  # kinds that read a source and write a target
LEFT_AT_END = 0.01  # of the rate, in a linear schedule
BITS = 2**32 - 1


class Reader(nn.Module):
    """Embedding and learned positions, one attention layer, and a linear layer that reads it.

    Shapes: tokens (batch, time). Returns logits (batch, time, outputs, classes).
    Errors: ValueError for other positions than "none" and "learned".
    """

    def __init__(
        self,
        *,
        vocab: int,
        classes: int,
        outputs: int,
        d_model: int,
        n_heads: int,
        d_k: int,
        positions: str,
        length: int,
    ):
        super().__init__()
        if positions not in ("none", "learned"):
            raise ValueError(f'expected positions "none" or "learned", got {positions!r}')
        self.embedding = nn.Embedding(vocab, d_model)
        self.positions = Positions()
        if positions == "learned":
            self.positions = Learned(d_model, max_length=length)
            nn.init.normal_(self.positions.weight)  # as the tokens
        self.attention = MultiHeadAttention(d_model, n_heads, d_k=d_k, d_v=d_k)
        self.output = nn.Linear(d_model, outputs * classes)
        self.sizes = (outputs, classes)

    def forward(
        self, tokens: Int[Tensor, "batch time"]
    ) -> Float[Tensor, "batch time outputs classes"]:
        x = self.positions.add(self.embedding(tokens))
        return self.output(self.attention(x)).unflatten(-1, self.sizes)


class PageDropout(nn.Module):
    """Dropout that drops what the page's engine does; all of a model's count their calls together.

    Args: rate, the fraction dropped; noise, one number in a list: the seed of the next call.
    """

    def __init__(self, rate: float, noise: list[int]):
        super().__init__()
        self.rate, self.noise = rate, noise

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        if not self.training:
            return x
        seed = self.noise[0] * 0x85EBCA6B & BITS
        self.noise[0] += 1
        bits = (seed + torch.arange(x.numel()) * 0x9E3779B1) & BITS
        for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
            bits = (bits ^ (bits >> shift)) * factor & BITS
        bits ^= bits >> 16
        return torch.where(bits.view(x.shape) < int(self.rate * 2**32), 0.0, x / (1 - self.rate))


def _with_dropout(model: OneStack, rate: float) -> OneStack:
    noise = [0]
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.Dropout):
                setattr(module, name, PageDropout(rate, noise))
    return model


def recurrent(
    *,
    source_vocab: int,
    target_vocab: int,
    d_embed: int,
    d_hidden: int,
    attention: bool,
    d_scorer: int | None = None,
) -> Seq2Seq:
    """The translator of chapter 1, or with attention that of chapter 2, which has a d_scorer.

    Errors: ValueError for attention without a d_scorer, and the other way round.
    """
    sizes = (source_vocab, target_vocab, d_embed, d_hidden)
    if attention != (d_scorer is not None):
        raise ValueError(f"expected a d_scorer with attention alone, got {attention}, {d_scorer}")
    return Seq2Seq(*sizes) if d_scorer is None else AttentionSeq2Seq(*sizes, d_scorer)


def make_model(design: Mapping[str, Any]) -> nn.Module:
    """The model of torch that is equal to a design of the page's engine.

    Errors: ValueError for another kind than "reader", "one_stack", "translator" and "recurrent",
        and for a field that its model refuses, or a part that it cannot do without.
    """
    kind = design["kind"]
    fields_of_its_own = {name: value for name, value in design.items() if name != "kind"}
    if kind == "reader":
        return Reader(**fields_of_its_own)
    if kind == "recurrent":
        return recurrent(**fields_of_its_own)
    given = {name: value for name, value in design.items() if name in CONFIGURED}
    if kind == "one_stack":
        stack = OneStack(Config(**given, dropout=0.0))
        return _with_dropout(stack, design["dropout"]) if design.get("dropout") else stack
    if kind == "translator":
        return leave_out(Transformer(Config(**given, dropout=0.0)), design.get("without", ()))
    raise ValueError(f'expected "reader", "one_stack", "translator" or "recurrent", got {kind!r}')


def inputs_of(design: Mapping[str, Any], batch: Mapping[str, Any]) -> tuple[Any, ...]:
    """A batch of the page as what the model of a design is called with."""

    def tokens(name: str) -> Tensor:
        return torch.as_tensor(batch[name]).long().view(batch["rows"], -1)

    if design["kind"] in TWO_SIDED:
        lengths = torch.as_tensor(batch["source_lengths"]).long()
        return tokens("source"), lengths, tokens("target_in")
    words = tokens("tokens")
    if design["kind"] == "reader":
        return (words,)
    time, mask = words.shape[1], None
    if design["causal"]:
        mask = causal_mask(time)
    if "lengths" in batch:
        mask = combine_masks(mask, padding_mask(torch.as_tensor(batch["lengths"]), time))
    return words, mask


def linear(steps: int, warmup: int = 0) -> Schedule:
    """A schedule: the factor rises over `warmup` steps, then falls in a straight line to 0.01."""

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        return 1 - (1 - LEFT_AT_END) * min(1.0, (step - warmup) / (steps - warmup))

    return factor


SCHEDULES: dict[str, Callable[[int, int], Schedule]] = {
    "constant": lambda steps, warmup: warm_up(warmup),
    "linear": linear,
    "cosine": cosine,
}


class Replay:
    """A run of the page's engine, taken again by torch.

    Args: design and options as the page has them (options: steps, lr, schedule, warmup, clip,
        betas, eps); parameters, those that the page began with: name, shape and data of each.
    Errors: ValueError for a design or a schedule that there is not, and for parameters that are
        not those of the design.
    """

    def __init__(
        self,
        design: Mapping[str, Any],
        options: Mapping[str, Any],
        parameters: Sequence[Mapping[str, Any]],
    ):
        self.design = design
        self.model = make_model(design).eval()  # what is dropped, is dropped in learn alone
        self.dropouts = [m for m in self.model.modules() if isinstance(m, PageDropout)]
        self._load(parameters)
        schedule = options.get("schedule", "constant")
        if schedule not in SCHEDULES:
            raise ValueError(f"expected a schedule out of {', '.join(SCHEDULES)}, got {schedule!r}")
        self.factor = SCHEDULES[schedule](options["steps"], options.get("warmup", 0))
        self.lr, self.clip = options["lr"], options.get("clip")
        betas = options.get("betas", (0.9, 0.999))
        self.optimizer = torch.optim.Adam(
            self.model.parameters(),
            lr=self.lr,
            betas=tuple(betas),
            eps=options.get("eps", 1e-8),
            fused=True,
        )

    def _load(self, parameters: Sequence[Mapping[str, Any]]) -> None:
        own = dict(self.model.named_parameters())
        given = {p["name"]: (tuple(p["shape"]), p["data"]) for p in parameters}
        shapes = {name: tuple(parameter.shape) for name, parameter in own.items()}
        if (got := {name: shape for name, (shape, _) in given.items()}) != shapes:
            raise ValueError(f"expected the parameters {shapes}, got {got}")
        with torch.no_grad():
            for name, parameter in own.items():
                shape, data = given[name]
                parameter.copy_(torch.as_tensor(data, dtype=parameter.dtype).reshape(shape))

    def inputs(self, batch: Mapping[str, Any]) -> tuple[Any, ...]:
        """A batch of the page as what the model is called with."""
        return inputs_of(self.design, batch)

    def logits(self, batch: Mapping[str, Any]) -> Float[Tensor, "*batch classes"]:
        """What the model predicts for a batch of the page.

        Shapes: (rows, time, classes), with an axis of outputs before the last for a reader.
        """
        return self.model(*self.inputs(batch))

    def maps(self, batch: Mapping[str, Any]) -> dict[str, Float[Tensor, "rows heads query key"]]:
        """Every attention map of a batch, see `lib.attention.attention_maps`."""
        if self.design["kind"] == "recurrent":
            source, lengths, target_in = self.inputs(batch)
            assert isinstance(self.model, Seq2Seq)
            _, weights, _ = self.model.decoder(target_in, self.model.start(source, lengths))
            return {} if weights is None else {"decoder.attention": weights.unsqueeze(1)}
        return attention_maps(self.model, *self.inputs(batch))

    def learn(self, batch: Mapping[str, Any]) -> float:
        """The mean loss over the targets that are not -1; the parameters get its gradients."""
        wanted = "target_out" if self.design["kind"] in TWO_SIDED else "targets"
        targets = torch.as_tensor(batch[wanted]).long()
        self.optimizer.zero_grad()
        for layer in self.dropouts:
            layer.noise[0] = batch["noise"]
        with in_mode(self.model, training=True) if self.dropouts else nullcontext():
            logits = self.logits(batch)
        total = F.cross_entropy(logits.flatten(0, -2), targets, ignore_index=-1, reduction="sum")
        loss = total / (targets >= 0).sum().clamp(min=1)
        loss.backward()
        return loss.item()

    def step(self, n: int) -> None:
        """Step n = 0, 1, ... of Adam."""
        if self.clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = self.lr * self.factor(n)
        self.optimizer.step()

    def run(self, batches: Iterable[Mapping[str, Any]]) -> list[float]:
        """Take a step for each batch; return the loss before each."""
        losses = []
        for n, batch in enumerate(batches):
            losses.append(self.learn(batch))
            self.step(n)
        return losses
