"""Wrong answers to the exercises of chapter 10, classic ones; every check must reject them."""

import torch

from lib.data import BOS, EOS
from lib.masks import causal_mask, padding_mask


def causal(x):
    return causal_mask(x.shape[1], device=x.device)


def with_bos(target_out, rest):
    first = torch.full_like(target_out[:, :1], BOS)
    return torch.cat([first, rest], dim=1)


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


def layers(config, attention, feed_forward, norm):
    encoder = attention + feed_forward + 2 * norm
    decoder = 2 * attention + feed_forward + 3 * norm
    return config.n_layers * (encoder + decoder)


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


WRONG = {
    "shift_right": [
        lambda target_out: target_out,  # it reads what it must say
        lambda target_out: target_out.roll(1, dims=1),  # the last token comes in at the front
        lambda target_out: with_bos(target_out, target_out),  # one token too long
        lambda target_out: with_bos(target_out, target_out[:, 1:]),  # BOS over the first token
        lambda target_out: target_out.roll(-1, dims=1),  # the other way
        lambda target_out: torch.where(  # what precedes is EOS
            torch.arange(target_out.shape[1]) == 0, EOS, target_out.roll(1, dims=1)
        ),
        lambda target_out: target_out[:, :-1],  # no BOS
        lambda target_out: with_bos(target_out, target_out[:, :-1]).tolist(),
    ],
    "decoder_layer": [
        without_causal_mask,
        transposed_mask,
        queries_from_the_memory,
        padding_is_read,
        memory_unread,
        memory_first,
        added_twice,
        no_feed_forward,
        lambda x, *others: x,
    ],
    "run_transformer": [
        run(encoder_norm=False),
        run(decoder_norm=False),
        run(encoder_norm=False, decoder_norm=False),
        run(take=0),  # the embedded source for a memory
        run(take=-2),  # one layer too early
        run(layer_by_layer=True),  # each decoder layer reads the encoder layer of its number
        run(masked=False),
        run(padded=False),
        run(positions=False),
        run(project=False),
        lambda model, source, source_lengths, target_in: model(source, source_lengths, source),
    ],
    "count_parameters": [
        count(biases=False),
        count(norms=False),
        count(biases=False, norms=False),
        count(last=False),
        count(shared=False),
        count(cross=False),  # a decoder layer has a second attention
        count(shared=False, output=False),
        lambda config: count()(config) + config.max_length * config.d_model,
        lambda config: float(count()(config)),
    ],
}
