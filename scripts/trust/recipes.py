"""One recipe for each public name of the library: how `fuzz` calls it with drawn arguments.

A recipe names what it covers; a public function, class or method that no recipe covers and that
`LEFT_OUT` does not excuse stops the fuzz.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

import lib
from lib import (
    attention,
    data,
    decoding,
    layers,
    masks,
    metrics,
    notebook,
    positions,
    seq2seq,
    training,
    transformer,
)
from scripts.trust.draw import Draw
from tasks import translation
from train import subword

LEFT_OUT = {
    "decoding.SequenceModel": "a protocol: it has no code; models that follow it are drawn",
    "decoding.SequenceModel.start": "the same",
    "decoding.SequenceModel.step": "the same",
    "checkpoints.write_whole": "writes what its caller says; `faults` stops it at each moment",
    "checkpoints.save_checkpoint": "its files are what `loaders` damages",
    "checkpoints.load_checkpoint": "in `loaders`",
    "checkpoints.peek": "in `loaders`",
    "checkpoints.save_model": "its files are what `loaders` damages",
    "checkpoints.load_model": "in `loaders`",
    "checkpoints.load_published": "load_model without an argument",
    "checkpoints.published_facts": "without an argument; its file is damaged in `loaders`",
    "data.read_parallel": "in `loaders`",
}


@dataclass(frozen=True)
class Recipe:
    """How to call `covers` with the arguments of a Draw; finite, if right numbers make finite
    ones; seconds that it may take.
    """

    covers: tuple[str, ...]
    call: Callable[[Draw], Any]
    finite: bool = True


RECIPES: list[Recipe] = []


def recipe(*covers: str, finite: bool = True) -> Callable[[Callable[[Draw], Any]], Any]:
    def add(call: Callable[[Draw], Any]) -> Callable[[Draw], Any]:
        RECIPES.append(Recipe(covers, call, finite))
        return call

    return add


def public_names() -> set[str]:
    """Every public function and class of the library, and the methods that a class defines."""
    found = set()
    for module in pkgutil.iter_modules(lib.__path__):
        here = importlib.import_module(f"lib.{module.name}")
        for name, thing in vars(here).items():
            own = getattr(thing, "__module__", "") == here.__name__
            if name.startswith("_") or not own or not callable(thing):
                continue
            if not (inspect.isfunction(thing) or inspect.isclass(thing)):
                continue
            found.add(f"{module.name}.{name}")
            if inspect.isclass(thing):
                found |= {
                    f"{module.name}.{name}.{method}"
                    for method, value in vars(thing).items()
                    if not method.startswith("_")
                    and inspect.isroutine(getattr(thing, method))
                    and isinstance(value, Callable | classmethod | staticmethod)
                    and method != "forward"  # a call of the module
                }
    return found


def uncovered() -> list[str]:
    """Public names without a recipe or an excuse, and excuses for names that are none."""
    covered = {name for one in RECIPES for name in one.covers}
    names = public_names()
    missing = [f"{name}: no recipe" for name in sorted(names - covered - LEFT_OUT.keys())]
    gone = (covered | LEFT_OUT.keys()) - names
    return missing + [f"{name}: not in the library" for name in sorted(gone)]


# --- attention ------------------------------------------------------------------------------------


@recipe("attention.scaled_dot_product_attention")
def _(d: Draw) -> Any:
    batch, heads, query, key, d_k, d_v = (d.size() for _ in range(6))
    lead = d.rng.choice(((), (batch,), (batch, heads)))
    mask = d.maybe(d.mask(*d.rng.choice(((query, key), (*lead, query, key), (*lead, 1, key)))))
    q, k, v = (d.floats(*lead, *last) for last in ((query, d_k), (key, d_k), (key, d_v)))
    bias = d.maybe(d.floats(query, key))
    if d.flag():
        return attention.attention_weights(q, k, mask, bias=bias)
    return attention.scaled_dot_product_attention(q, k, v, mask, bias=bias, dropout=d.share())


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors hold the same numbers; NaN equals NaN."""
    return a.shape == b.shape and bool(torch.isclose(a, b, rtol=0, atol=0, equal_nan=True).all())


@recipe(
    "attention.KeyValueCache",
    "attention.KeyValueCache.append",
    "attention.KeyValueCache.read",
    "attention.KeyValueCache.select",
)
def _(d: Draw) -> Any:
    batch, heads, d_k, d_v = (d.size() for _ in range(4))
    cache = attention.KeyValueCache(grows=d.rng.random() < 0.8)
    for _ in range(d.rng.randint(1, 3)):
        new, length = d.size(), cache.length
        before = [part.clone() for part in cache.read()]
        try:
            cache.append(d.floats(batch, heads, new, d_k), d.floats(batch, heads, new, d_v))
        except ValueError:
            after = cache.read()
            same = all(map(_equal, before, after))
            assert cache.length == length, "a refused append changed the length"
            assert same, "a refused append changed the cache"
            raise
        if d.flag():
            cache = cache.select(d.ints(d.size(), below=batch))
            batch = len(cache.read()[0])
    return cache.read()


def _attention_layer(d: Draw) -> tuple[attention.MultiHeadAttention, int]:
    kv_heads, group, d_k = d.count(1, 3), d.rng.choice((1, 1, 2)), 2 * d.size()
    heads = kv_heads * group
    d_model = heads * d_k
    scheme = d.maybe(positions.make_positions(d.choice(positions.SCHEMES), d_model, heads))
    layer = attention.MultiHeadAttention(
        d_model, heads, n_kv_heads=d.maybe(kv_heads), dropout=d.share(), bias=d.flag(),
        positions=scheme,
    )  # fmt: skip
    return layer.train(d.flag()), d_model


@recipe("attention.MultiHeadAttention")
def _(d: Draw) -> Any:
    layer, d_model = _attention_layer(d)
    batch, query, key = d.size(), d.size(), d.size()
    x, memory = d.floats(batch, query, d_model), d.floats(batch, key, d_model)
    if d.flag():
        mask = d.maybe(d.mask(*d.rng.choice(((query, query), (batch, 1, query)))))
        cache = d.maybe(attention.KeyValueCache(grows=d.flag()))
        return layer(x, mask=mask, cache=cache)
    mask = d.maybe(d.mask(batch, 1, key))
    if d.flag():
        return layer.attention_weights(x, memory, mask)
    return layer(x, memory, d.maybe(d.floats(batch, key, d_model)), mask)


@recipe("attention.MultiHeadAttention")
def _(d: Draw) -> Any:
    sizes = {name: d.maybe(d.count()) for name in ("d_k", "d_v", "d_query_in", "d_key_in", "d_out")}
    d_model, heads = d.count(), d.count(1, 3)
    layer = attention.MultiHeadAttention(
        d_model, heads, n_kv_heads=d.maybe(d.count(1, 3)), dropout=d.share(), **sizes
    )
    x = d.floats(2, 3, sizes["d_query_in"] or d_model)
    return layer(x, d.floats(2, 5, sizes["d_key_in"] or d_model))


def _config(d: Draw, **given: Any) -> transformer.Config:
    heads, d_k = d.count(1, 2), 2 * d.rng.randint(1, 2)
    right = isinstance(heads, int) and not isinstance(heads, bool) and 0 < heads < 5
    settings = {
        "target_vocab": d.maybe(11),
        "d_model": heads * d_k if right else 8,
        "n_heads": heads,
        "d_ff": d.count(),
        "n_layers": d.count(1, 2, work=True),
        "dropout": d.share(),
        "norm": d.choice(("pre", "post")),
        "positions": d.choice(positions.SCHEMES),
        "activation": d.choice(tuple(layers.ACTIVATIONS)),
        "tied": d.flag(),
        "max_length": 20,
    }
    return transformer.Config(**{"source_vocab": 11} | settings | given)


def _translator(d: Draw) -> Any:
    """Any of the three translators, of 11 words on both sides, on a scale that keeps it finite."""
    kind = d.rng.choice((seq2seq.Seq2Seq, seq2seq.AttentionSeq2Seq, None))
    if kind is not None:
        return kind(11, 11, 4, 3)
    clean = Draw(d.rng.randrange(1000))
    clean.spoil = 0.0
    return transformer.Transformer(_config(clean, target_vocab=11))


@recipe("attention.attention_maps")
def _(d: Draw) -> Any:
    clean = Draw(d.rng.randrange(1000))
    clean.spoil = 0.0
    model = transformer.Transformer(_config(clean, target_vocab=11))
    batch, source, target = d.size(), d.size(), d.size()
    return list(
        attention.attention_maps(
            model,
            d.ints(batch, source, below=11),
            d.lengths(batch, source),
            d.ints(batch, target, below=11),
        ).values()
    )


# --- data -----------------------------------------------------------------------------------------


@recipe("data.tokenise")
def _(d: Draw) -> Any:
    return data.tokenise(d.text(), lowercase=d.flag())


def _pair(d: Draw) -> data.Pair:
    return data.Pair(d.tokens(), d.tokens())


def _vocabulary(d: Draw) -> data.Vocabulary:
    return data.Vocabulary("abcd")


@recipe(
    "data.Vocabulary",
    "data.Vocabulary.from_sentences",
    "data.Vocabulary.encode",
    "data.Vocabulary.decode",
)
def _(d: Draw) -> Any:
    sentences = d.some(d.tokens)
    vocabulary = data.Vocabulary.from_sentences(sentences, d.count(1, 2))
    tokens = d.tokens()
    numbers = vocabulary.encode(tokens)
    words = vocabulary.decode(d.ints(d.size(), below=len(vocabulary)))
    assert all(isinstance(word, str) for word in words) or d.wrong_type
    return repr(vocabulary), numbers, len(data.Vocabulary(d.rng.sample("abcd", 2)))


@recipe("data.Pair", "data.make_batch", "data.Batch", "data.Batch.to", "training.count_tokens")
def _(d: Draw) -> Any:
    pairs = d.some(lambda: _pair(d))
    batch = data.make_batch(pairs, _vocabulary(d), _vocabulary(d)).to("cpu")
    return vars(batch), training.count_tokens(batch)


@recipe("data.pad_batch")
def _(d: Draw) -> Any:
    def numbers() -> Any:
        return d.some(lambda: d.count(0, 20), least=0)

    return vars(data.pad_batch(d.some(numbers), d.some(numbers)))


@recipe("data.batches", "data.token_batches", "data.endless")
def _(d: Draw) -> Any:
    pairs = d.some(lambda: _pair(d), least=2)
    vocabs = _vocabulary(d), _vocabulary(d)
    which = d.rng.randrange(3)
    if which == 0:
        found = list(data.batches(pairs, *vocabs, d.count(), seed=d.seed()))
    elif which == 1:
        found = list(data.token_batches(pairs, *vocabs, d.count(8, 30), seed=d.seed()))
    else:
        stream = data.endless(pairs, *vocabs, d.count(), seed=d.seed())
        found = [next(stream) for _ in range(5)]
    return [vars(batch) for batch in found]


@recipe("data.BatchStream", "data.BatchStream.groups", "data.BatchStream.batch", "data.Position")
def _(d: Draw) -> Any:
    pairs = d.some(lambda: _pair(d), least=2)
    stream = data.BatchStream(
        pairs,
        _vocabulary(d),
        _vocabulary(d),
        max_tokens=d.maybe(d.count(8, 30)),
        batch_size=d.count(),
        seed=d.seed(),
    )
    before = stream.position
    try:
        stream.position = data.Position(d.count(0, 3), 0)
    except ValueError:
        assert stream.position == before, "a refused position was kept"
        raise
    batch = stream.batch([d.count(0, 1)])
    return stream.groups(d.seed()), vars(batch), vars(next(stream)), stream.per_epoch


# --- decoding -------------------------------------------------------------------------------------


@recipe("decoding.decode", "decoding.greedy", "decoding.sample", "decoding.beam_search")
def _(d: Draw) -> Any:
    model, batch, time = _translator(d), d.size(), d.size()
    if d.hit():
        weight = next(p for p in reversed(list(model.parameters())) if p.numel() > 1)
        nn.init.constant_(weight, d.rng.choice(d.not_finite()))
        d.spoiled.append("weights not finite")
        d.odd = True
    inputs = d.ints(batch, time, below=11), d.lengths(batch, time), d.count(1, 6, work=True)
    before = model.training
    which = d.rng.randrange(4)
    try:
        if which == 0:
            return decoding.greedy(model, *inputs)
        if which == 1:
            return decoding.beam_search(
                model, *inputs, beam=d.count(1, 5, work=True), alpha=d.number(0, 1)
            )
        if which == 2:
            return decoding.decode(model, *inputs, lambda logits: logits.argmin(dim=-1))
        return decoding.sample(
            model,
            *inputs,
            temperature=d.number(),
            top_k=d.maybe(d.count()),
            top_p=d.maybe(d.share()),
            generator=d.torch,
        )
    finally:
        assert model.training == before, "the model was left in another mode"


@recipe("decoding.with_temperature", "decoding.keep_top_k", "decoding.keep_top_p", finite=False)
def _(d: Draw) -> Any:
    logits = d.floats(*d.rng.choice(((5,), (2, 5), (2, 3, 7))))
    which = d.rng.randrange(3)
    if which == 0:
        return decoding.with_temperature(logits, d.number())
    if which == 1:
        return decoding.keep_top_k(logits, d.count())
    return decoding.keep_top_p(logits, d.share())


@recipe("decoding.length_penalty")
def _(d: Draw) -> Any:
    return decoding.length_penalty(d.count(1, 100), d.number(0, 2))


@recipe("decoding.select_rows", "seq2seq.DecoderState", "seq2seq.AttentionState")
def _(d: Draw) -> Any:
    batch = d.size()
    state: Any = d.rng.choice(
        (
            None,
            d.floats(batch, 3),
            (d.floats(batch, 3), None),
            seq2seq.DecoderState(d.floats(batch, 3), d.floats(batch, 3)),
            seq2seq.AttentionState(d.floats(batch, 3), d.floats(batch, 2), d.floats(batch), None),
            d.other_type() if d.hit() else None,
        )
    )
    return decoding.select_rows(state, d.ints(d.size(), below=batch))


@recipe("decoding.store_by_columns")
def _(d: Draw) -> Any:
    model = _translator(d)
    before = [p.clone() for p in model.parameters()]
    decoding.store_by_columns(model)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    return [p.detach() for p in model.parameters()]


@recipe("decoding.translate")
def _(d: Draw) -> Any:
    vocabulary = data.Vocabulary("abcdefg")
    beam = d.maybe(d.count(1, 4, work=True))
    pairs = d.some(lambda: _pair(d), least=0)
    options = {"max_length": d.count(1, 6, work=True), "beam": beam, "alpha": d.number(0, 1)}
    return decoding.translate(_translator(d), pairs, vocabulary, vocabulary, **options)


# --- layers ---------------------------------------------------------------------------------------


@recipe("layers.layer_norm")
def _(d: Draw) -> Any:
    width = d.size()
    x = d.floats(d.size(), width)
    eps = d.number(1e-6, 1e-2)
    d.odd |= eps < 0  # the formula then takes the root of a negative number
    return layers.layer_norm(x, d.floats(width), d.floats(width), eps)


@recipe("layers.LayerNorm", "layers.RMSNorm")
def _(d: Draw) -> Any:
    make = d.rng.choice((layers.LayerNorm, layers.RMSNorm))
    width, eps = d.count(), d.number(1e-6, 1e-2)
    d.odd |= eps < 0  # the formula then takes the root of a negative number
    return make(width, eps)(d.floats(d.size(), width if _whole(width) else 3))


def _whole(number: Any) -> bool:
    """A size of which a tensor can be made here."""
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 2000


@recipe("layers.FeedForward")
def _(d: Draw) -> Any:
    width = d.count()
    layer = layers.FeedForward(width, d.count(), d.choice(tuple(layers.ACTIVATIONS)), bias=d.flag())
    return layer(d.floats(d.size(), width if _whole(width) else 3))


@recipe("layers.Residual")
def _(d: Draw) -> Any:
    width = d.size()
    inside = nn.Linear(width, width + (d.hit() and d.rng.choice((1, -width + 1))))
    norm = d.rng.choice((layers.LayerNorm, layers.RMSNorm))
    layer = layers.Residual(
        inside, width, norm=d.choice(layers.PLACEMENTS), dropout=d.share(), norm_layer=norm
    )
    return layer(d.floats(d.size(), d.size(), width))


@recipe("layers.in_mode", "layers.at_real")
def _(d: Draw) -> Any:
    batch, time, width = d.size(), d.size(), d.size()
    layer = nn.Linear(width, width)
    before = layer.training
    try:
        with layers.in_mode(layer, training=d.flag()), layers.at_real([layer], d.mask(batch, time)):
            return layer(d.floats(batch, time, width))
    finally:
        assert layer.training == before, "the layer was left in another mode"
        assert not layer._forward_hooks, "hooks were left"


@recipe("layers.Embedding", "layers.TiedProjection")
def _(d: Draw) -> Any:
    vocab, width = d.count(), d.count()
    embedding = layers.Embedding(vocab, width, std=d.number(0.1, 2))
    rows = embedding(d.ints(d.size(), d.size(), below=vocab if _whole(vocab) else 3))
    projected = layers.TiedProjection(embedding)(d.floats(2, width if _whole(width) else 3))
    return rows, projected


# --- masks ----------------------------------------------------------------------------------------


@recipe("masks.padding_mask")
def _(d: Draw) -> Any:
    lengths = d.ints(*d.rng.choice(((3,), (2, 5))), below=6)
    return masks.padding_mask(lengths, d.count(0, 7))


@recipe("masks.causal_mask", "masks.window_mask")
def _(d: Draw) -> Any:
    keys = d.maybe(d.count(4, 9))
    if d.flag():
        return masks.causal_mask(d.count(0, 4), keys, window=d.maybe(d.count()))
    return masks.window_mask(d.count(0, 4), d.count(0, 3), keys)


@recipe("masks.combine_masks")
def _(d: Draw) -> Any:
    shapes = ((3, 5), (2, 3, 5), (2, 1, 5), (2, 7, 3, 5), (1, 1))
    chosen = [d.rng.choice(shapes) for _ in range(d.rng.randint(0, 4))]
    return masks.combine_masks(*(d.maybe(d.mask(*shape)) for shape in chosen))


@recipe("masks.fit_mask", finite=False)
def _(d: Draw) -> Any:
    mask = d.mask(*d.rng.choice(((3, 5), (2, 3, 5), (2, 1, 5), (2, 7, 3, 5))))
    return masks.fit_mask(mask, d.rng.choice(((2, 7, 3, 5), (2, 3, 5), (3, 5), (5,), ())))


# --- metrics --------------------------------------------------------------------------------------


@recipe("metrics.exact_match", "metrics.accuracy_by_length", "metrics.LengthBin", finite=False)
def _(d: Draw) -> Any:
    predictions = d.some(d.tokens)
    if d.flag():
        return metrics.exact_match(predictions, d.some(d.tokens) if d.hit() else predictions)
    sources = predictions if isinstance(predictions, list) else [("a",)]
    pairs = [data.Pair(d.tokens(), tokens) for tokens in sources]
    return metrics.accuracy_by_length(predictions, pairs, (d.count(0, 1), d.count(5, 9), 1000))


@recipe("metrics.bleu", "metrics.Bleu")
def _(d: Draw) -> Any:
    make = d.rng.choice((d.tokens, d.text))
    sides = d.some(make), d.some(make)
    if d.flag() and all(isinstance(side, list) for side in sides):
        sides = tuple(side[: min(map(len, sides))] for side in sides)
    return metrics.bleu(*sides, tokenize=d.choice(metrics.TOKENISERS))


# --- notebook -------------------------------------------------------------------------------------


@recipe("notebook.show_source", "notebook.Source")
def _(d: Draw) -> Any:
    things = (data.tokenise, data.Batch, len, int, d.text(), None, 3, lambda: 0, torch.add)
    return repr(notebook.show_source(d.rng.choice(things)))


@recipe("notebook.seed_everything", "notebook.best_device")
def _(d: Draw) -> Any:
    notebook.seed_everything(d.seed())
    return str(notebook.best_device())


@recipe("notebook.assert_same")
def _(d: Draw) -> Any:
    x = d.floats(d.size(), 3)
    functions = (torch.sin, torch.cos, lambda x: x, lambda x: x.sum(), lambda x: x.detach())
    one = d.rng.choice(functions)
    other = d.rng.choice(functions) if d.hit() else one
    inputs = () if d.hit() else (x,)
    return notebook.assert_same(one, other, *inputs, atol=d.number(1e-12, 1e-3))


# --- positions ------------------------------------------------------------------------------------


@recipe("positions.sinusoidal_table")
def _(d: Draw) -> Any:
    return positions.sinusoidal_table(d.count(), d.count(), base=d.number(2, 10_000))


@recipe(
    "positions.make_positions",
    *(f"positions.{name}" for name in ("Positions", "Sinusoidal", "Learned", "Rotary", "ALiBi")),
    *(f"positions.Positions.{name}" for name in ("add", "rotate", "bias")),
    "positions.Sinusoidal.add",
    "positions.Learned.add",
    "positions.Rotary.rotate",
    "positions.ALiBi.bias",
)
def _(d: Draw) -> Any:
    heads, d_k = d.count(1, 3), 2 * d.rng.randint(1, 3)
    d_model = heads * d_k if _whole(heads) else 6
    scheme = positions.make_positions(
        d.choice(positions.SCHEMES), d_model, heads, max_length=d.count(1, 30), base=d.number(2, 99)
    )
    which = d.rng.randrange(3)
    if which == 0:
        return scheme.add(d.floats(2, d.size(), d_model), d.count(0, 9))
    if which == 1:
        return scheme.rotate(d.floats(2, 3, d.size(), d_k), d.count(0, 9))
    return scheme.bias(d.count(1, 5), d.count(5, 9))


@recipe("positions.Sinusoidal", "positions.Learned", "positions.Rotary", "positions.ALiBi")
def _(d: Draw) -> Any:
    width, most = d.count(1, 8), d.count(1, 9)
    which = d.rng.randrange(4)
    x = d.floats(2, d.size(), width if _whole(width) else 4)
    if which == 3:
        return positions.ALiBi(width).bias(d.count(1, 5), d.count(5, 9))
    if which == 2:
        return positions.Rotary(width, max_length=most, base=d.number(2, 99)).rotate(x)
    made = (positions.Sinusoidal, positions.Learned)[which](width, max_length=most)
    return made.add(x, d.count(0, 5))


# --- seq2seq --------------------------------------------------------------------------------------


@recipe("seq2seq.GRUCell", "seq2seq.GRUCell.advance")
def _(d: Draw) -> Any:
    batch, d_in, hidden = d.size(), d.size(), d.size()
    cell = seq2seq.GRUCell(d_in, hidden)
    h = d.floats(batch, hidden)
    return cell(d.floats(batch, d_in), h), cell.advance(d.floats(batch, 3 * hidden), h)


@recipe("seq2seq.Encoder", "seq2seq.real_positions")
def _(d: Draw) -> Any:
    batch, time = d.size(), d.size()
    lengths = d.lengths(batch, time)
    if d.flag():
        return seq2seq.real_positions(lengths, d.count(5, 9) if d.hit() else time)
    return seq2seq.Encoder(d.count(3, 9), d.count(), d.count())(
        d.ints(batch, time, below=3), lengths
    )


@recipe("seq2seq.Decoder", "seq2seq.Decoder.start")
def _(d: Draw) -> Any:
    batch, time, hidden = d.size(), d.size(), d.size()
    decoder = seq2seq.Decoder(7, d.size(), hidden)
    state = decoder.start(d.floats(batch, 3, hidden), d.floats(batch, hidden), d.mask(batch, 3))
    return decoder(d.ints(batch, time), state)


@recipe("seq2seq.AdditiveAttention", finite=False)  # a query without any key has no weights
def _(d: Draw) -> Any:
    batch, key, d_query, d_key, scorer = (d.size() for _ in range(5))
    layer = seq2seq.AdditiveAttention(d_query, d_key, scorer)
    projected = d.maybe(d.floats(batch, key, scorer))
    keys = d.floats(batch, key, d_key)
    return layer(d.floats(batch, d_query), keys, d.maybe(d.mask(batch, key)), projected)


@recipe("seq2seq.AttentionDecoder", "seq2seq.AttentionDecoder.start", finite=False)
def _(d: Draw) -> Any:
    batch, key, hidden, d_key = (d.size() for _ in range(4))
    decoder = seq2seq.AttentionDecoder(7, d.size(), hidden, d_key, d.size())
    mask = d.maybe(d.mask(batch, key))
    state = decoder.start(d.floats(batch, key, d_key), d.floats(batch, hidden), mask)
    return decoder(d.ints(batch, d.size()), state)


@recipe(
    "seq2seq.Seq2Seq",
    "seq2seq.AttentionSeq2Seq",
    "seq2seq.Seq2Seq.start",
    "seq2seq.Seq2Seq.step",
    "transformer.Transformer.start",
    "transformer.Transformer.step",
)
def _(d: Draw) -> Any:
    model, batch, time = _translator(d), d.size(), d.size()
    source = d.ints(batch, time, below=11), d.lengths(batch, time)
    if d.flag():
        return model(*source, d.ints(batch, d.size(), below=11))
    state = model.start(*source)
    for _ in range(d.rng.randint(1, 3)):
        logits, weights, state = model.step(d.ints(batch, below=11), state)
    return logits, weights


# --- subword --------------------------------------------------------------------------------------


@recipe(
    "subword.SubwordVocabulary",
    *(
        f"subword.SubwordVocabulary.{name}"
        for name in ("from_sentences", "encode", "decode", "to_text")
    ),
    "subword.vocabulary_to_json",
    "subword.vocabulary_from_json",
)
def _(d: Draw) -> Any:
    size = d.count(40, 80)
    vocabulary = subword.SubwordVocabulary.from_sentences(d.some(d.tokens), size)
    numbers = vocabulary.encode(d.tokens())
    again = subword.vocabulary_from_json(subword.vocabulary_to_json(vocabulary))
    words = again.decode(d.ints(d.size(), below=len(vocabulary)))
    return repr(vocabulary), numbers, words, subword.SubwordVocabulary(vocabulary.to_text()).tokens


# --- training -------------------------------------------------------------------------------------


@recipe("training.cosine", "training.warm_up", "training.paper_schedule")
def _(d: Draw) -> Any:
    which = d.rng.randrange(3)
    steps = d.count(5, 30)
    if which == 0:
        schedule = training.cosine(steps, d.count(0, 4))
    elif which == 1:
        schedule = training.warm_up(d.count(0, 9))
    else:
        schedule = training.paper_schedule(d.count(), d.count())
    return [schedule(step) for step in range(30)]


@recipe("training.token_loss", "training.label_smoothed_loss")
def _(d: Draw) -> Any:
    batch, time = d.size(), d.size()
    logits, target = d.floats(batch, time, 7), d.ints(batch, time)
    how = d.choice(("mean", "sum"))
    if d.flag():
        return training.token_loss(logits, target, reduction=how)
    return training.label_smoothed_loss(logits, target, d.share(), reduction=how)


def _batches(d: Draw, number: int) -> list[data.Batch]:
    vocabulary = data.Vocabulary("abcdefg")
    pairs = [data.Pair(("a", "b"), ("c",)), data.Pair(("d",), ("e", "f", "g"))]
    return [data.make_batch(pairs, vocabulary, vocabulary) for _ in range(number)]


@recipe("training.low_precision", "training.teacher_forcing")
def _(d: Draw) -> Any:
    loss = d.rng.choice((training.token_loss, training.label_smoothed_loss))
    precision = d.rng.choice((None, None, torch.bfloat16))
    (batch,) = _batches(d, 1)
    with training.low_precision(torch.device("cpu"), precision):
        plain = torch.ones(2, 2) @ torch.ones(2, 2)
    found = training.teacher_forcing(
        _translator(d), batch, criterion=loss, autocast=precision, real_only=d.flag()
    )
    return plain, found


@recipe("training.update", "training.train", "training.paper_adam", "training.validation_loss")
def _(d: Draw) -> Any:
    model = _translator(d)
    which = d.rng.randrange(3)
    some = _batches(d, d.rng.randint(0, 3) if d.hit() else 2)
    optimizer = training.paper_adam(model)
    if which == 0:
        return training.update(model, optimizer, some, clip=d.number())
    if which == 1:
        return training.validation_loss(model, some)
    steps = d.count(1, 2, work=True)
    schedule = d.maybe(training.warm_up(2))
    rate, accumulate, start = d.number(1e-4, 1e-2), d.count(1, 1, work=True), d.count(0, 0)
    return training.train(
        model, some, steps, rate, schedule=schedule, clip=d.number(), optimizer=d.maybe(optimizer),
        accumulate=accumulate, start=start,
    )  # fmt: skip


# --- transformer ----------------------------------------------------------------------------------


@recipe("transformer.Config", "transformer.Transformer", "transformer.Transformer.encode",
        "transformer.Transformer.real_logits")  # fmt: skip
def _(d: Draw) -> Any:
    config = _config(d, source_vocab=d.count(11, 13))
    model = transformer.Transformer(config).train(d.flag())
    batch, source, target = d.size(), d.size(), d.size()
    inputs = d.ints(batch, source, below=11), d.lengths(batch, source)
    which = d.rng.randrange(3)
    if which == 0:
        return model.encode(*inputs)
    wanted = d.ints(batch, target, below=11)
    if which == 1:
        return model(*inputs, wanted)
    return model.real_logits(*inputs, wanted, d.lengths(batch, target))


@recipe(
    "transformer.LanguageModel",
    "transformer.LanguageModel.start",
    "transformer.LanguageModel.step",
    "transformer.OneStack",
    "transformer.LayerCache",
    "transformer.LayerCache.select",
)
def _(d: Draw) -> Any:
    config = _config(d, target_vocab=None)
    batch, time = d.size(), d.size()
    tokens = d.ints(batch, time, below=11)
    if d.flag():
        return transformer.OneStack(config)(tokens, d.maybe(d.mask(time, time)))
    model = transformer.LanguageModel(config)
    state = model.start()
    logits = model(tokens, d.maybe(state))
    caches = (
        [cache.select(d.ints(batch, below=batch)) for cache in state]
        if state[0].own.length
        else state
    )
    return logits, model.step(d.ints(batch, below=11), caches)[0]


@recipe("transformer.EncoderLayer", "transformer.DecoderLayer")
def _(d: Draw) -> Any:
    config = _config(d)
    batch, time, source = d.size(), d.size(), d.size()
    x, memory = d.floats(batch, time, config.d_model), d.floats(batch, source, config.d_model)
    if d.flag():
        return transformer.EncoderLayer(config)(x, d.maybe(d.mask(batch, 1, time)))
    layer = transformer.DecoderLayer(config, cross_attention=d.rng.random() < 0.7)
    mask, memory_mask = d.maybe(d.mask(time, time)), d.maybe(d.mask(batch, 1, source))
    return layer(x, d.maybe(memory) if d.hit() else memory, mask=mask, memory_mask=memory_mask)


@recipe("transformer.Encoder", "transformer.Decoder", "transformer.Decoder.new_caches",
        "transformer.TransformerState", "transformer.TransformerState.select")  # fmt: skip
def _(d: Draw) -> Any:
    config = _config(d)
    batch, time, source = d.size(), d.size(), d.size()
    x, memory = d.floats(batch, time, config.d_model), d.floats(batch, source, config.d_model)
    mask = d.mask(batch, 1, source)
    if d.flag():
        return transformer.Encoder(config)(memory, d.maybe(mask))
    decoder = transformer.Decoder(config, cross_attention=d.rng.random() < 0.7)
    caches = decoder.new_caches()
    output = decoder(x, memory, d.maybe(mask), d.maybe(caches))
    if not caches[0].own.length or not caches[0].memory.length:
        return output
    state = transformer.TransformerState(memory, mask, caches)
    chosen = state.select(d.ints(d.size(), below=batch))
    new = d.floats(len(chosen.memory), 1, config.d_model)
    return output, decoder(new, *chosen)


# --- translation ----------------------------------------------------------------------------------


@recipe("translation.translation_pairs")
def _(d: Draw) -> Any:
    train, test = translation.translation_pairs(
        d.count(0, 20, work=True),
        d.count(0, 9),
        seed=d.seed(),
        locale=d.choice(("fr", "fr", "fr", "de")),
        max_items=d.count(1, 3),
    )
    assert not set(train) & set(test), "a sentence stands in both"
    return train, test
