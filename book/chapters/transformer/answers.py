"""Right and wrong answers to the exercises of chapter 10; the wrong with what they are told."""

import math
from dataclasses import replace
from functools import partial, reduce

import torch
from torch.nn import functional as F

from lib.data import BOS, EOS, PAD
from lib.masks import causal_mask, padding_mask
from lib.transformer import Transformer


def causal(x):
    return causal_mask(x.shape[1], device=x.device)


def with_own_masks(parts, source, target_in):
    """Masks with an axis for the heads, made by hand."""
    d_model = parts.target.size(1)
    real = (source != PAD)[:, None, None, :]
    place = torch.arange(target_in.size(1))
    earlier = (place[:, None] >= place)[None, None]
    x = F.embedding(source, parts.source) * d_model**0.5 + parts.positions[: source.size(1)]
    for layer in parts.encoder:
        first, second = layer.norms
        x = first(x + layer.attention(x, x, mask=real))
        x = second(layer.network(x) + x)
    y = F.embedding(target_in, parts.target) * d_model**0.5
    y = y + parts.positions[None, : target_in.size(1)]
    for layer in parts.decoder:
        first, second, third = layer.norms
        y = first(layer.attention(y, y, mask=earlier) + y)
        y = second(layer.cross_attention(y, x, mask=real) + y)
        y = third(layer.network(y) + y)
    return F.linear(y, parts.target)


def with_steps(parts, source, target_in):
    """A list of sub-layers that one loop adds and normalises."""

    def stack(x, layers):
        for steps, norms in layers:
            for step, norm in zip(steps, norms, strict=True):
                x = norm(x + step(x))
        return x

    def embedded(matrix, tokens):
        return matrix[tokens] * math.sqrt(len(matrix[0])) + parts.positions[: len(tokens[0])]

    real = source.ne(PAD).unsqueeze(1)
    own = causal_mask(target_in.shape[-1])
    encoder = [
        ([partial(lambda m, x: m(x, x, mask=real), one.attention), one.network], one.norms)
        for one in parts.encoder
    ]
    memory = stack(embedded(parts.source, source), encoder)
    decoder = [
        (
            [
                partial(lambda m, y: m(y, y, mask=own), one.attention),
                partial(lambda m, y: m(y, memory, mask=real), one.cross_attention),
                one.network,
            ],
            one.norms,
        )
        for one in parts.decoder
    ]
    return stack(embedded(parts.target, target_in), decoder) @ parts.target.T


def one_sentence_at_a_time(parts, source, target_in):
    """Without any padding, so without its mask."""
    rows = []
    for tokens, target in zip(source, target_in, strict=True):
        rows.append(with_steps(parts, tokens[tokens != PAD][None], target[None]))
    return torch.cat(rows)


def connected(
    *,
    scale=True,
    positions="xy",
    padding="xy",
    own=True,
    encoder_mask=None,
    memory=-1,
    level=False,
    added=True,
    norm="post",
    swap=False,
    network=True,
    queries="y",
    project="target",
):
    """The forward pass, with one thing wrong."""

    def forward(parts, source, target_in):
        root = parts.source.shape[1] ** 0.5 if scale else 1
        real = (source != PAD)[:, None]
        x, y = parts.source[source] * root, parts.target[target_in] * root
        x = x + parts.positions[: x.shape[1]] * ("x" in positions)
        y = y + parts.positions[: y.shape[1]] * ("y" in positions)
        causal = causal_mask(y.shape[1]) if own else None

        def around(x, step, norm_layer):
            if norm == "pre":
                return x + step(norm_layer(x))
            x = step(x) + x * added
            return norm_layer(x) if norm == "post" else x

        outputs = [x]
        for layer in parts.encoder:
            mask = real if "x" in padding else None
            mask = encoder_mask(real) if encoder_mask else mask
            attend = partial(lambda m, mask, x: m(x, x, mask=mask), layer.attention, mask)
            x = around(x, attend, layer.norms[0])
            x = around(x, layer.network, layer.norms[1]) if network else x
            outputs.append(x)
        for i, layer in enumerate(parts.decoder):
            of = outputs[i + 1] if level else outputs[memory]
            read = real if "y" in padding else None

            def cross(y, m=layer, of=of, read=read):
                asked = (of, y) if queries == "x" else (y, of)
                return m.cross_attention(*asked, mask=None if queries == "x" else read)

            steps = [lambda y, m=layer: m.attention(y, y, mask=causal), cross]
            steps = list(zip(steps, layer.norms, strict=False))
            for step, norm_layer in steps[::-1] if swap else steps:
                y = around(y, step, norm_layer)
            y = around(y, layer.network, layer.norms[2]) if network else y
        if project == "nothing":
            return y
        return y @ (parts.target if project == "target" else parts.source).T

    return forward


def shifted_once_more(parts, source, target_in):
    return connected()(parts, source, target_in.roll(1, 1))


def one_norm_for_all(parts, source, target_in):
    """The first norm of a layer is used after each of its sub-layers."""
    encoder, decoder = (
        [replace(layer, norms=layer.norms[:1] * 3) for layer in stack]
        for stack in (parts.encoder, parts.decoder)
    )
    return connected()(replace(parts, encoder=encoder, decoder=decoder), source, target_in)


def with_bos(target_out, rest):
    first = torch.full_like(target_out[:, :1], BOS)
    return torch.cat([first, rest], dim=1)


def rolled(target_out):
    target_in = torch.roll(target_out, shifts=1, dims=1)
    target_in[:, 0] = BOS
    return target_in


def from_lists(target_out):
    return torch.tensor([[BOS, *row[:-1]] for row in target_out.tolist()])


def filled_in(target_out):
    target_in = torch.empty_like(target_out)
    target_in[:, 0], target_in[:, 1:] = BOS, target_out[:, :-1]
    return target_in


def ends_left_out(target_out):
    """The EOS of a short row is replaced by PAD: nothing is learned there."""
    target_in = F.pad(target_out[:, :-1], (1, 0), value=BOS)
    return target_in.masked_fill(target_in == EOS, PAD)


def padded_and_cut(target_out):
    return F.pad(target_out, (1, -1), value=BOS)


def by_a_matrix(target_out):
    shift = torch.ones(target_out.shape[1], target_out.shape[1]).triu(1).tril(1).long()
    return target_out @ shift + BOS * (torch.arange(target_out.shape[1]) == 0)


def ends_first(target_out):
    """EOS in the place of BOS."""
    return with_bos(target_out, target_out[:, :-1]).index_fill(1, torch.tensor(0), EOS)


def shifted_in_place(target_out):
    target_out[:, 1:] = target_out[:, :-1].clone()
    target_out[:, 0] = BOS
    return target_out


def shifted_into_itself(target_out):
    """In place, and the first token runs through."""
    for place in range(1, target_out.shape[1]):
        target_out[:, place] = target_out[:, place - 1]
    return target_out


def own_mask(x, memory, memory_mask, self_attention, cross_attention, feed_forward):
    own = torch.ones(x.shape[1], x.shape[1]).tril().bool()
    return feed_forward(cross_attention(self_attention(x, mask=own), memory, mask=memory_mask))


def mask_of_the_batch(x, memory, memory_mask, self_attention, cross_attention, feed_forward):
    place = torch.arange(x.size(1))
    own = (place[:, None] >= place).unsqueeze(0).expand(x.size(0), -1, -1)
    seen = self_attention(x, mask=own)
    read = cross_attention(seen, memory, mask=memory_mask.expand(-1, x.shape[1], -1))
    return feed_forward(read)


def all_given(x, memory, memory_mask, self_attention, cross_attention, feed_forward):
    """Keys and values are given both, where that changes nothing."""
    x = self_attention(x, mask=causal(x))
    return feed_forward(cross_attention(x, memory, memory, mask=memory_mask))


def chained(x, memory, memory_mask, self_attention, cross_attention, feed_forward):
    steps = (
        partial(self_attention, mask=causal(x)),
        lambda y: cross_attention(y, memory, mask=memory_mask),
        feed_forward,
    )
    return reduce(lambda y, step: step(y), steps, x)


def bare(x, memory, memory_mask, self_attention, cross_attention, feed_forward):
    """Positional masks; keys and values by name."""
    x = self_attention(x, None, None, causal(x))
    return feed_forward(cross_attention(x, x_key=memory, x_value=memory, mask=memory_mask))


def masks_with_heads(x, memory, memory_mask, self_attention, cross_attention, feed_forward):
    """An axis for the heads in both masks."""
    x = self_attention(x, mask=causal(x)[None, None])
    return feed_forward(cross_attention(x, memory, mask=memory_mask.unsqueeze(1)))


def one_mask_for_both(x, memory, memory_mask, self_attention, cross_attention, feed_forward):
    """The memory is read causally."""
    x = self_attention(x, mask=causal(x))
    later = causal_mask(x.shape[1], memory.shape[1])
    return feed_forward(cross_attention(x, memory, mask=memory_mask & later))


def self_attention_reads_memory(
    x, memory, memory_mask, self_attention, cross_attention, feed_forward
):
    x = self_attention(x, memory, mask=memory_mask)
    return feed_forward(cross_attention(x, memory, mask=memory_mask))


def keys_not_normalised(x, memory, memory_mask, self_attention, cross_attention, feed_forward):
    """In a pre-norm layer the sub-layer gets norm(x), and the keys would be x."""
    x = self_attention(x, x, mask=causal(x))
    return feed_forward(cross_attention(x, memory, mask=memory_mask))


def mask_inverted(x, memory, memory_mask, self_attention, cross_attention, feed_forward):
    x = self_attention(x, mask=causal(x))
    return feed_forward(cross_attention(x, memory, mask=~memory_mask))


def mask_changed(x, memory, memory_mask, self_attention, cross_attention, feed_forward):
    x = self_attention(x, mask=causal(x))
    x = feed_forward(cross_attention(x, memory, mask=memory_mask))
    memory_mask.fill_(True)
    return x


def x_changed(x, memory, memory_mask, self_attention, cross_attention, feed_forward):
    x.copy_(self_attention(x, mask=causal(x)))
    return feed_forward(cross_attention(x, memory, mask=memory_mask))


def memory_passed_on(x, memory, memory_mask, self_attention, cross_attention, feed_forward):
    """The memory gets a network of its own."""
    x = self_attention(x, mask=causal(x))
    return feed_forward(cross_attention(x, feed_forward(memory), mask=memory_mask))


def without_causal_mask(x, memory, memory_mask, self_attention, cross_attention, feed_forward):
    x = self_attention(x)
    return feed_forward(cross_attention(x, memory, mask=memory_mask))


def transposed_mask(x, memory, memory_mask, self_attention, cross_attention, feed_forward):
    x = self_attention(x, mask=causal(x).T)
    return feed_forward(cross_attention(x, memory, mask=memory_mask))


def queries_from_the_memory(x, memory, memory_mask, self_attention, cross_attention, feed_forward):
    x = self_attention(x, mask=causal(x))
    return feed_forward(cross_attention(memory, x))


def padding_is_read(x, memory, memory_mask, self_attention, cross_attention, feed_forward):
    x = self_attention(x, mask=causal(x))
    return feed_forward(cross_attention(x, memory))


def memory_unread(x, memory, memory_mask, self_attention, cross_attention, feed_forward):
    x = self_attention(x, mask=causal(x))
    return feed_forward(cross_attention(x, mask=causal(x)))


def memory_first(x, memory, memory_mask, self_attention, cross_attention, feed_forward):
    x = cross_attention(x, memory, mask=memory_mask)
    return feed_forward(self_attention(x, mask=causal(x)))


def added_twice(x, memory, memory_mask, self_attention, cross_attention, feed_forward):
    x = x + self_attention(x, mask=causal(x))
    x = x + cross_attention(x, memory, mask=memory_mask)
    return x + feed_forward(x)


def no_feed_forward(x, memory, memory_mask, self_attention, cross_attention, feed_forward):
    x = self_attention(x, mask=causal(x))
    return cross_attention(x, memory, mask=memory_mask)


def run(
    *,
    encoder_norm=True,
    decoder_norm=True,
    take=None,  # the memory is the output of this many encoder layers
    layer_by_layer=False,
    masked=True,
    padded=True,
    positions=True,
    project=True,
):
    """The whole model, with one thing wrong."""

    def forward(model, source, source_lengths, target_in):
        mask = padding_mask(source_lengths, source.shape[1]) if padded else None
        x = model.encoder.positions.add(model.source_embedding(source))
        memories = [x]
        for layer in model.encoder.layers:
            memories.append(layer(memories[-1], mask))
        memory = memories[-1 if take is None else take]
        memory = model.encoder.norm(memory) if encoder_norm else memory
        y = model.target_embedding(target_in)
        y = model.decoder.positions.add(y) if positions else y
        own = causal_mask(y.shape[1]) if masked else None
        for layer, each in zip(model.decoder.layers, memories[1:], strict=True):
            read = model.encoder.norm(each) if layer_by_layer else memory
            y = layer(y, read, mask=own, memory_mask=mask)
        y = model.decoder.norm(y) if decoder_norm else y
        return model.projection(y) if project else y

    return forward


def folded(model, source, source_lengths, target_in):
    """With a mask of the tokens' own making."""
    padding = (torch.arange(source.shape[1]) < source_lengths[:, None])[:, None]
    embedded = model.encoder.positions.add(model.source_embedding(source))
    memory = model.encoder.norm(
        reduce(lambda x, layer: layer(x, padding), model.encoder.layers, embedded)
    )
    causal = torch.ones(2 * target_in.shape[1:], dtype=torch.bool).tril()
    decode = partial(reduce, lambda y, layer: layer(y, memory, mask=causal, memory_mask=padding))
    y = decode(model.decoder.layers, model.decoder.positions.add(model.target_embedding(target_in)))
    return model.projection(model.decoder.norm(y))


def by_keywords(model, source, source_lengths, target_in):
    mask = padding_mask(source_lengths, source.shape[1])
    x = model.encoder.positions.add(x=model.source_embedding(source))
    for number in range(len(model.encoder.layers)):
        x = model.encoder.layers[number](x, mask=mask)
    own = causal_mask(target_in.shape[1]) & (target_in >= 0)[:, None]
    y = model.decoder.positions.add(model.target_embedding(target_in))
    for layer in model.decoder.layers:
        y = layer(x=y, memory=model.encoder.norm(x), mask=own, memory_mask=mask)
    return model.projection(model.decoder.norm(y))


def sentence_by_sentence(model, source, source_lengths, target_in):
    """Each without its padding."""
    said = []
    for tokens, length, target in zip(source, source_lengths.tolist(), target_in, strict=True):
        said.append(run()(model, tokens[None, :length], torch.tensor([length]), target[None]))
    return torch.cat(said)


def with_the_stacks(model, source, source_lengths, target_in):
    """The stacks called whole."""
    padding = padding_mask(source_lengths, source.size(1))
    memory = model.encoder(model.source_embedding(source), padding)
    return model.projection(model.decoder(model.target_embedding(target_in), memory, padding))


def target_first(model, source, source_lengths, target_in):
    """The target is embedded first, and the masks have all their axes."""
    y = model.decoder.positions.add(model.target_embedding(target_in))
    own = causal_mask(y.shape[1]).repeat(len(y), 1, 1)
    x = model.encoder.positions.add(model.source_embedding(source))
    for layer in model.encoder.layers:
        x = layer(x, padding_mask(source_lengths, x.shape[1]).expand(-1, x.shape[1], -1))
    x = model.encoder.norm(x)
    for layer in model.decoder.layers:
        read = padding_mask(source_lengths, x.shape[1]).expand(-1, y.shape[1], -1)
        y = layer(y, x, mask=own, memory_mask=read)
    return F.linear(model.decoder.norm(y), model.projection.weight)


def causal_encoder(model, source, source_lengths, target_in):
    padding = padding_mask(source_lengths, source.shape[1])
    mask = padding & causal_mask(source.shape[1])
    memory = model.encoder(model.source_embedding(source), mask)
    return model.projection(model.decoder(model.target_embedding(target_in), memory, padding))


def scaled_again(model, source, source_lengths, target_in):
    """The embedding multiplies by sqrt(d_model) already."""
    padding, root = padding_mask(source_lengths, source.shape[1]), model.config.d_model**0.5
    memory = model.encoder(model.source_embedding(source) * root, padding)
    y = model.decoder(model.target_embedding(target_in) * root, memory, padding)
    return model.projection(y)


def changed_target(model, source, source_lengths, target_in):
    logits = run()(model, source, source_lengths, target_in)
    target_in[:, 1:] = target_in[:, :-1].clone()
    return logits


def lengths_changed(model, source, source_lengths, target_in):
    source_lengths.clamp_(min=2)
    return run()(model, source, source_lengths, target_in)


def shifted_again(model, source, source_lengths, target_in):
    return run()(model, source, source_lengths, rolled(target_in))


def one_embedding(model, source, source_lengths, target_in):
    """The source embedding for the target, where it has enough rows."""
    vocab = len(model.source_embedding.weight)
    model.target_embedding, kept = model.source_embedding, model.target_embedding
    logits = run()(model, source, source_lengths, target_in % vocab)
    model.target_embedding = kept
    return logits


def layers(config, attention, feed_forward, norm):
    encoder = attention + feed_forward + 2 * norm
    decoder = 2 * attention + feed_forward + 3 * norm
    return config.n_layers * (encoder + decoder)


def counted_by_parts(config):
    """Each matrix with the number of its copies."""
    d, d_ff, n = config.d_model, config.d_ff, config.n_layers
    target = config.source_vocab if config.target_vocab is None else config.target_vocab
    parts = {
        "projections": (12 * n, d * d + d),
        "inner": (2 * n, d * d_ff + d_ff),
        "outer": (2 * n, d_ff * d + d),
        "norms": (5 * n + (2 if config.norm == "pre" else 0), d + d),
        "source": (1, config.source_vocab * d),
        "target": (0 if config.tied and config.target_vocab is None else 1, target * d),
        "output": (0 if config.tied else 1, target * d),
    }
    return sum(copies * size for copies, size in parts.values())


def counted_in_loops(config):
    d, total = config.d_model, 0
    for attentions in (1, 2):
        for _ in range(config.n_layers):
            for _ in range(attentions):
                total += config.n_heads * config.d_k * (3 * (d + 1)) + d * (d + 1) + 2 * d
            total += d * config.d_ff * 2 + config.d_ff + d + 2 * d
        total += 2 * d * (config.norm == "pre")
    matrices = {"source": config.source_vocab, "target": config.target_vocab or config.source_vocab}
    if config.tied and not config.target_vocab:
        del matrices["target"]
    if not config.tied:
        matrices["output"] = matrices["target"]
    return total + d * sum(matrices.values())


def counted_as_a_difference(config):
    """Of a pre-norm, untied model, what others lack."""
    d, target = config.d_model, config.target_vocab or config.source_vocab
    per_layer = 12 * (d * d + d) + 2 * (2 * d * config.d_ff + config.d_ff + d) + 10 * d
    total = per_layer * config.n_layers + 4 * d + (config.source_vocab + 2 * target) * d
    total -= 4 * d if config.norm == "post" else 0
    return total - config.tied * (2 - (config.target_vocab is not None)) * target * d


def counted_by_layers(config):
    def linear(n_in, n_out):
        return (n_in + 1) * n_out

    def norm(width):
        return 2 * width

    d = config.d_model
    attention = sum(linear(d, d) for _ in ("query", "key", "value", "output")) + norm(d)
    network = linear(d, config.d_ff) + linear(config.d_ff, d) + norm(d)
    stacks = config.n_layers * (3 * attention + 2 * network) + 2 * norm(d) * (config.norm == "pre")
    vocabularies = [config.source_vocab, config.target_vocab or config.source_vocab]
    if config.tied and config.target_vocab is None:
        vocabularies.pop()
    return stacks + d * (sum(vocabularies) + (0 if config.tied else vocabularies[-1]))


def attention_by_head(config):
    """d x d for each head."""
    return count()(config) + 12 * config.n_layers * (config.n_heads - 1) * config.d_model**2


def built(config):
    return sum(parameter.numel() for parameter in Transformer(config).parameters())


def count(*, biases=True, norms=True, last=True, shared=True, cross=True, output=True):
    """The formula, with one thing forgotten."""

    def formula(config):
        d, d_ff = config.d_model, config.d_ff
        attention = 4 * d * d + (4 * d if biases else 0)
        feed_forward = 2 * d * d_ff + (d_ff + d if biases else 0)
        norm = 2 * d if norms else 0
        total = layers(config, attention, feed_forward, norm)
        if not cross:
            total -= config.n_layers * (attention + norm)
        if last and config.norm == "pre":
            total += 2 * norm
        target = config.target_vocab or config.source_vocab
        rows = config.source_vocab
        if not (shared and config.tied):
            rows += target + (target if output else 0)
        elif config.target_vocab:
            rows += target
        return total + rows * d

    return formula


RIGHT = {
    "my_transformer": [connected(), with_own_masks, with_steps, one_sentence_at_a_time],
    "shift_right": [rolled, from_lists, filled_in, ends_left_out, by_a_matrix, padded_and_cut],
    "decoder_layer": [own_mask, mask_of_the_batch, all_given, chained, bare, masks_with_heads],
    "run_transformer": [
        run(),
        folded,
        by_keywords,
        sentence_by_sentence,
        with_the_stacks,
        target_first,
    ],
    "count_parameters": [
        count(),
        counted_by_parts,
        counted_in_loops,
        counted_as_a_difference,
        counted_by_layers,
    ],
}

WRONG = {
    "my_transformer": {
        connected(scale=False): "not multiplied by the root of d_model",
        connected(positions="y"): "the source has no positions",
        connected(positions="x"): "the target has no positions",
        connected(positions=""): "neither side has positions",
        connected(padding="y"): "padding of the source is read in the encoder",
        connected(padding="x"): "padding of the memory is read in the cross-attention",
        connected(padding=""): "both the encoder and the cross-attention need its mask",
        connected(own=False): "the causal mask is missing",
        connected(encoder_mask=lambda real: real & causal_mask(real.shape[-1])): (
            "the encoder has a causal mask"
        ),
        connected(memory=0): "the memory is the embedded source",
        connected(level=True): "all read the last one",
        connected(added=False): "nothing is added",
        connected(norm="none"): "no norm is applied",
        connected(norm="pre"): "(pre-norm)",
        connected(swap=True): "cross-attention comes after self-attention",
        connected(network=False): "the feed-forward networks are missing",
        connected(queries="x"): "RuntimeError",
        connected(project="nothing"): "got (3, 5, 12); it is (batch, time, target_vocab)",
        connected(project="source"): "got (3, 5, 29); it is (batch, time, target_vocab)",
        lambda *given: connected()(*given).softmax(-1): "without a softmax",
        lambda *given: connected()(*given).detach(): "the output is detached",
        shifted_once_more: "target_in is shifted already",
        one_norm_for_all: "which norm follows",
    },
    "shift_right": {
        shifted_in_place: "argument 1 was changed",
        shifted_into_itself: "argument 1 was changed",
        lambda target_out: rolled(target_out).float(): "whole numbers",
        lambda target_out: F.pad(target_out[:, :-1], (1, 0)): "got [0, 7, 5, 9, 4",  # PAD in front
        lambda target_out: rolled(target_out)[:1]: "got (1, 5)",
        lambda target_out: target_out: "got [7, 5, 9, 4, 2",  # it reads what it must say
        lambda target_out: target_out.roll(1, dims=1): "got [2, 7, 5, 9, 4",
        lambda target_out: with_bos(target_out, target_out): "got (3, 6)",  # one token too long
        lambda target_out: with_bos(target_out, target_out[:, 1:]): "got [1, 5, 9, 4, 2",
        lambda target_out: target_out.roll(-1, dims=1): "got [5, 9, 4, 2, 7",  # the other way
        ends_first: "got [2, 7, 5, 9, 4",
        lambda target_out: target_out[:, :-1]: "got (3, 4)",  # no BOS
        lambda target_out: with_bos(target_out, target_out[:, :-1]).tolist(): "tensor of tokens",
        lambda target_out: rolled(target_out.T).T: "got [1, 1, 1, 1, 1",  # along the batch
    },
    "decoder_layer": {
        x_changed: "argument 1 was changed",
        mask_changed: "argument 3 was changed",
        keys_not_normalised: "give x once",
        one_mask_for_both: "the memory is read under a causal mask",
        self_attention_reads_memory: "got another output",
        mask_inverted: "memory_mask is inverted",
        memory_passed_on: "got another output",
        without_causal_mask: "a position attends to later ones",
        transposed_mask: "wrong way round",
        queries_from_the_memory: "got (3, 7, 12)",
        padding_is_read: "pass memory_mask to cross_attention",
        memory_unread: "give it the memory",
        memory_first: "cross-attention comes after self-attention",
        added_twice: "adds twice",
        no_feed_forward: "there is no feed-forward network at the end",
        lambda x, *others: x: "got another output",
    },
    "run_transformer": {
        changed_target: "argument 4 was changed",
        lengths_changed: "argument 3 was changed",
        shifted_again: "shifted already",
        causal_encoder: "other logits than",
        scaled_again: "scaled already",
        one_embedding: "each side's own embedding",
        lambda *given: run()(*given).softmax(-1): "logits without a softmax",
        lambda *given: run()(*given).argmax(-1): "got (3, 5); it is (batch, time, vocab)",
        lambda *given: run()(*given).detach(): "no gradient",
        run(encoder_norm=False): "a norm at the end of a stack",
        run(decoder_norm=False): "a norm at the end of a stack",
        run(encoder_norm=False, decoder_norm=False): "a norm at the end of a stack",
        run(take=0): "other logits than",  # the embedded source for a memory
        run(take=-2): "other logits than",  # one layer too early
        run(layer_by_layer=True): "other logits than",
        run(masked=False): "a token of target_in changes earlier logits",
        run(padded=False): "padding of the source is read",
        run(positions=False): "other logits than",
        run(project=False): "got (3, 5, 12); it is (batch, time, vocab)",
        lambda model, source, source_lengths, target_in: model(
            source, source_lengths, source
        ): "ValueError",
    },
    "count_parameters": {
        built: "a model is built here",
        attention_by_head: "the base model",
        lambda config: count()(config) - config.d_model: "the base model",
        count(biases=False): "the biases are missing",
        count(norms=False): "the layer norms are missing",
        count(biases=False, norms=False): "biases and layer norms are missing",
        count(last=False): "pre-norm has a last norm",
        count(shared=False): "counts once",
        count(cross=False): "two attentions",  # a decoder layer has a second attention
        count(shared=False, output=False): "counts once",
        lambda config: count()(config) + config.max_length * config.d_model: "the base model",
        lambda config: float(count()(config)): "expected a whole number",
    },
}
