"""Decoding: from a trained model to a sentence, one token at a time.

One loop, `decode`, and a rule that chooses each token: greedy decoding and sampling are rules. Beam
search keeps several sentences at once. All work on any `SequenceModel`: one that reads a source and
answers it from BOS on, or a language model, which continues the prefix that it is given.
"""

from collections.abc import Callable, Sequence
from math import isfinite, log
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from lib.data import BOS, EOS, PAD, Pair, Vocabulary, make_batch
from lib.layers import in_mode

BATCH_SIZE = 250  # sentences that `translate` decodes together
MOST_ALPHA = 50  # of the length penalty
ROUNDING = 1e-6  # of a sum of probabilities in float32


@runtime_checkable
class SequenceModel(Protocol):
    """What every decoder asks of a model, an nn.Module with two methods.

    A model with an attribute `continues` that is True writes on where the source ends: the first
    token that `step` is fed is the source's last one, instead of BOS.
    """

    training: bool

    def start(self, source: Tensor, source_lengths: Tensor) -> Any:
        """Read the source; return the state before the first token is fed."""

    def step(self, token: Tensor, state: Any) -> tuple[Tensor, Tensor | None, Any]:
        """Feed one token: logits of the next, weights over the source or None, the new state."""


def _first_token(model: SequenceModel, source: Tensor) -> Int[Tensor, " batch"]:
    """What is fed first: BOS, or the last token of the prefix that a language model continues."""
    if getattr(model, "continues", False):
        return source[:, -1]
    return torch.full((len(source),), BOS, device=source.device)  # a source may be pictures


@torch.no_grad()
def decode(
    model: SequenceModel,
    source: Tensor,
    source_lengths: Int[Tensor, " batch"],
    max_length: int,
    choose: Callable[[Float[Tensor, "batch vocab"]], Int[Tensor, " batch"]],
    *,
    min_length: int = 0,
) -> tuple[Int[Tensor, "batch time"], Float[Tensor, "batch time source_time"] | None]:
    """Feed each token back that `choose(logits)` gives, until every sentence has ended.

    Args:
        model: what gives the logits; it is left in the mode it was in.
        source: what the model reads or, for a language model, continues: (batch, source_time).
        source_lengths: how many of its tokens are real.
        max_length: the most tokens that are made.
        choose: the rule, from the logits of a step to its tokens.
        min_length: the fewest tokens before EOS: until then its logit is -inf.
    Returns: the new tokens, EOS included and PAD after it; and each step's weights over the source,
        or None from a model without attention.
    Errors: ValueError for max_length below 1, a min_length that is not from 0 to max_length, or
        logits that leave a sentence no token: none that is above -inf, or NaN.
    """
    _require_lengths(min_length, max_length)
    tokens: list[Tensor] = []
    maps: list[Tensor | None] = []
    with in_mode(model, training=False):
        state = model.start(source, source_lengths)
        token = _first_token(model, source)
        ended = torch.zeros_like(token, dtype=torch.bool)
        while len(tokens) < max_length and not ended.all():
            logits, weights, state = model.step(token, state)
            if len(tokens) < min_length:
                logits = _without_end(logits)
            if not isfinite(logits.amax(dim=-1).sum().item()):
                logits = logits.masked_fill(ended.unsqueeze(1), 0.0)  # nobody reads these
                _require_choice(logits.amax(dim=-1))
            token = choose(logits).masked_fill(ended, PAD)
            tokens.append(token)
            maps.append(weights)
            ended |= token == EOS
    weighted = [weights for weights in maps if weights is not None]
    return torch.stack(tokens, dim=1), torch.stack(weighted, dim=1) if weighted else None


def _require_lengths(min_length: int, max_length: int) -> None:
    if max_length < 1:
        raise ValueError(f"expected max_length of at least 1, got {max_length}")
    if not 0 <= min_length <= max_length:
        raise ValueError(f"expected min_length from 0 to {max_length}, got {min_length}")


def _without_end(logits: Float[Tensor, "*batch vocab"]) -> Float[Tensor, "*batch vocab"]:
    """The same, where no sentence may end yet."""
    return logits.index_fill(-1, torch.tensor([EOS], device=logits.device), -torch.inf)


def _require_choice(largest: Float[Tensor, " batch"]) -> None:
    """An error unless the largest logit, or the score, of each sentence is a finite number."""
    if not largest.isfinite().all():
        raise ValueError(
            "expected logits that leave each sentence a token, got NaN, infinity or only -inf at "
            "some step; look at what the model returns, and at the temperature if it is near 0"
        )


def greedy(
    model: SequenceModel,
    source: Int[Tensor, "batch source_time"],
    source_lengths: Int[Tensor, " batch"],
    max_length: int,
    *,
    min_length: int = 0,
) -> tuple[Int[Tensor, "batch time"], Float[Tensor, "batch time source_time"] | None]:
    """Take the likeliest token at each step: y_t = argmax p(y | y_1 .. y_{t-1}, source).

    Arguments, returns and errors: those of `decode`.
    Source: Sutskever et al. 2014, section 3.2, with a beam of one.
    """
    inputs = (model, source, source_lengths, max_length)
    return decode(*inputs, lambda logits: logits.argmax(dim=-1), min_length=min_length)


def with_temperature(
    logits: Float[Tensor, "*batch vocab"], temperature: float
) -> Float[Tensor, "*batch vocab"]:
    """Divide the logits by the temperature, so that p_i becomes proportional to p_i^(1/T).

    Below 1 it moves probability towards the likeliest tokens; towards 0 the likeliest takes all, as
    in greedy decoding. Above 1 the distribution becomes flatter.

    Errors: ValueError for a temperature that is not above 0.
    Source: Ackley, Hinton and Sejnowski 1985.
    """
    if not temperature > 0:
        raise ValueError(
            f"expected a temperature above 0, got {temperature}; greedy decoding is its limit at 0"
        )
    return logits / temperature


def keep_top_k(logits: Float[Tensor, "*batch vocab"], k: int) -> Float[Tensor, "*batch vocab"]:
    """Leave the k largest logits of each row as they are and set all others to -inf.

    Exactly k are left even where some are equal; all of them if k is not below vocab.

    Errors: ValueError for k below 1.
    Source: Fan et al. 2018.
    """
    if k < 1:
        raise ValueError(f"expected k of at least 1, got {k}; k = 1 is greedy decoding")
    top = logits.topk(min(k, logits.size(-1)), dim=-1)
    return torch.full_like(logits, -torch.inf).scatter(-1, top.indices, top.values)


def keep_top_p(logits: Float[Tensor, "*batch vocab"], p: float) -> Float[Tensor, "*batch vocab"]:
    """Leave the smallest set of likeliest tokens that have together at least p, the nucleus.

    A token stays if those before it, from the likeliest down, have together less than p: so the
    token that crosses p stays, and with it at least one. All others are set to -inf. Sums that
    differ from p by the rounding of float32 alone count as p; code that compares without such an
    allowance, as transformers does, may keep one token more where a sum is p exactly.

    Errors: ValueError for p not above 0 or above 1.
    Source: Holtzman et al. 2020, section 3.1.
    """
    if not 0 < p <= 1:
        raise ValueError(f"expected p above 0 and at most 1, got {p}; p = 1 leaves every token")
    ordered, order = logits.sort(dim=-1, descending=True)
    probability = ordered.double().softmax(dim=-1)
    before = F.pad(probability.cumsum(dim=-1)[..., :-1], (1, 0))  # what likelier tokens have
    # Probabilities of 0.6 and 0.3 come as logits in float32, and their sum may be 0.9 - 1e-8: with
    # p = 0.9 a plain `before < p` would then keep a third token, on some machines and not on
    # others. So a sum counts as p if rounding may have moved it. A logit of size s is rounded by up
    # to eps * s, and that changes its probability by the same factor; the sum itself is exact
    # enough, in float64.
    eps = min(torch.finfo(kind).eps for kind in (logits.dtype, torch.float32))
    rounding = (eps * ordered[..., :1].double().abs()).clamp(min=ROUNDING)
    in_nucleus = before < p - rounding
    in_nucleus[..., :1] = True  # however small p is
    nucleus = ordered if p == 1 else ordered.masked_fill(~in_nucleus, -torch.inf)
    return torch.full_like(logits, -torch.inf).scatter(-1, order, nucleus)


def keep_min_p(logits: Float[Tensor, "*batch vocab"], p: float) -> Float[Tensor, "*batch vocab"]:
    """Leave the tokens that are at least p times as likely as the likeliest; set others to -inf.

    Where the model is sure few are left, where it is unsure many are; the likeliest always stays.

    Errors: ValueError for p not above 0 or above 1.
    Source: Nguyen et al. 2024.
    """
    if not 0 < p <= 1:
        raise ValueError(f"expected p above 0 and at most 1, got {p}; p = 1 leaves the likeliest")
    return logits.masked_fill(logits < logits.amax(dim=-1, keepdim=True) + log(p), -torch.inf)


def penalise_repetition(
    logits: Float[Tensor, "*batch vocab"], written: Bool[Tensor, "*batch vocab"], penalty: float
) -> Float[Tensor, "*batch vocab"]:
    """Divide the logits of words that are written already by the penalty, or multiply them.

    A logit above 0 is divided and one below 0 multiplied, so both fall with a penalty above 1, but
    by how much depends on where 0 is, which a softmax does not care about.

    Args: written, True for the words that a sentence has already.
    Errors: ValueError for a penalty that is not above 0.
    Source: Keskar et al. 2019, section 4.1, who divide all; in this form as in transformers.
    """
    if not penalty > 0:
        raise ValueError(f"expected a penalty above 0, got {penalty}; 1 changes nothing")
    lower = torch.where(logits > 0, logits / penalty, logits * penalty)
    return torch.where(written, lower, logits)


def sample(
    model: SequenceModel,
    source: Int[Tensor, "batch source_time"],
    source_lengths: Int[Tensor, " batch"],
    max_length: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    repetition_penalty: float = 1.0,
    min_length: int = 0,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "batch time"]:
    """Sample each token and feed it back, until every sentence has ended.

    y_t ~ p(y | y_1 .. y_{t-1}, source), first changed by `penalise_repetition` and
    `with_temperature`, then filtered by `keep_top_k`, `keep_top_p` and `keep_min_p`, in this order
    and as far as they are given.

    Args:
        model: what gives the logits.
        source: what the model reads or, for a language model, continues.
        source_lengths: how many of its tokens are real.
        max_length: the most tokens that are made.
        temperature: what the logits are divided by.
        top_k: how many of the likeliest tokens are left, all unless given.
        top_p: the probability of the nucleus that is left, all unless given.
        min_p: how likely a token must be beside the likeliest, all are left unless given.
        repetition_penalty: for the tokens that are written already, and those of the prefix that a
            language model continues.
        min_length: the fewest tokens before EOS.
        generator: of random numbers, on the model's device; the same seed gives the same tokens.
    Returns: the new tokens, EOS included and PAD after it.
    Errors: ValueError for lengths as in `decode`, and as the functions above.
    Source: Holtzman et al. 2020.
    """
    before = torch.empty(len(source), 0, dtype=torch.long, device=source.device)
    if getattr(model, "continues", False):
        before = source
    written: Tensor | None = None

    def draw(logits: Tensor) -> Tensor:
        nonlocal written
        if written is None:
            written = torch.zeros_like(logits, dtype=torch.bool).scatter(1, before, True)
        logits = penalise_repetition(logits, written, repetition_penalty)
        logits = with_temperature(logits, temperature)
        _require_choice(logits.amax(dim=-1))
        if top_k is not None:
            logits = keep_top_k(logits, top_k)
        if top_p is not None:
            logits = keep_top_p(logits, top_p)
        if min_p is not None:
            logits = keep_min_p(logits, min_p)
        token = torch.multinomial(logits.softmax(dim=-1), 1, generator=generator)
        written = written.scatter(1, token, True)
        return token.squeeze(1)

    inputs = (model, source, source_lengths, max_length)
    return decode(*inputs, draw, min_length=min_length)[0]


def length_penalty(length: int, alpha: float) -> float:
    """What a log-probability is divided by, so that short sentences have no unfair lead.

    lp(length) = ((5 + length) / 6) ^ alpha

    Args: length in tokens, EOS included; alpha, 0 for no penalty, 0.6 in the paper.
    Errors: ValueError for a length below 1, and an alpha below 0 or so large that lp may overflow.
    Source: Wu et al. 2016, equation 14.
    """
    if length < 1 or not 0 <= alpha <= MOST_ALPHA:
        raise ValueError(
            f"expected length of at least 1 and alpha from 0 to {MOST_ALPHA}, got {length} and "
            f"{alpha}; the paper has 0.6"
        )
    return ((5 + length) / 6) ** alpha


def select_rows(state: Any, rows: Int[Tensor, " rows"]) -> Any:
    """Return a model's state with these rows of the batch, in this order, each any number of times.

    The state may have its own `select`, or be a tensor, None, or a tuple or a list of such.
    Errors: ValueError for anything else; torch's IndexError for rows that the state does not have.
    """
    if hasattr(state, "select") and not isinstance(state, Tensor):
        return state.select(rows)
    if state is None:
        return None
    if isinstance(state, Tensor):
        return state[rows]
    if isinstance(state, tuple | list):
        parts = [select_rows(part, rows) for part in state]
        return type(state)(*parts) if hasattr(state, "_fields") else type(state)(parts)
    raise ValueError(
        f"expected a state made of tensors and tuples, got {type(state).__name__}; give it a "
        "method select(rows), which keeps these sequences of the batch"
    )


def beam_search(
    model: SequenceModel,
    source: Int[Tensor, "batch source_time"],
    source_lengths: Int[Tensor, " batch"],
    max_length: int,
    *,
    beam: int = 4,
    alpha: float = 0.6,
    min_length: int = 0,
) -> tuple[Int[Tensor, "batch time"], Float[Tensor, " batch"]]:
    """Keep the `beam` likeliest prefixes at each step; return the best sentence that ended.

    Args and errors: those of `n_best`, which does the search.
    Returns: the new tokens, EOS included and PAD after it; and the score of each sentence.
    Source: Sutskever et al. 2014, section 3.2; Wu et al. 2016, section 7.
    """
    inputs = (model, source, source_lengths, max_length)
    tokens, scores = n_best(*inputs, n=1, beam=beam, alpha=alpha, min_length=min_length)
    return tokens[:, 0], scores[:, 0]


@torch.no_grad()
def n_best(
    model: SequenceModel,
    source: Int[Tensor, "batch source_time"],
    source_lengths: Int[Tensor, " batch"],
    max_length: int,
    *,
    n: int,
    beam: int = 4,
    alpha: float = 0.6,
    min_length: int = 0,
) -> tuple[Int[Tensor, "batch n time"], Float[Tensor, "batch n"]]:
    """Keep the `beam` likeliest prefixes at each step; return the `n` best sentences that ended.

    score(y) = log p(y | source) / lp(length of y), with lp from `length_penalty`

    A hypothesis that ends keeps its place, so with `beam` places the search stops after `beam`
    ends at the latest. It stops earlier if no open hypothesis can overtake the n-th best that
    ended. That changes no result: log p only falls, so an open one reaches log p / lp(max_length)
    at most. Only where nothing has ended after `max_length` tokens is the likeliest open one
    returned.

    Args:
        model: what gives the logits.
        source: what the model reads or, for a language model, continues; only what comes after
            it counts in the score and in the length.
        source_lengths: how many of its tokens are real.
        max_length: the most tokens that are made.
        n: how many sentences are wanted; more than `beam` do not end.
        beam: hypotheses that are kept at each step.
        alpha: how much length is made up for, see `length_penalty`.
        min_length: the fewest tokens before EOS. Scores stay those of the model: what no sentence
            may choose keeps its probability.
    Returns: the new tokens, EOS included and PAD after it, and the scores, the best first. Where
        fewer than n have ended, the others are all PAD and have the score -inf.
    Errors: ValueError for n, a beam or max_length below 1, an alpha below 0, a min_length that is
        not from 0 to max_length, a model whose state `select_rows` cannot read, or logits that are
        NaN or leave a sentence no token.
    Source: Sutskever et al. 2014, section 3.2; Wu et al. 2016, section 7.
    """
    if min(n, beam) < 1:
        raise ValueError(
            f"expected n and a beam of at least 1, got n={n} and beam={beam}; a beam of 1 is "
            "greedy decoding"
        )
    _require_lengths(min_length, max_length)
    highest_penalty = length_penalty(max_length, alpha)
    batch, device = len(source), source.device
    # There is a table with `beam` columns for each sentence: log p of each hypothesis in `total`,
    # its words in `tokens`. A column is open while its total is finite; -inf marks one that has
    # ended, was pruned or was never filled. The model's state and `token` have rows for the open
    # columns only, in the order of the table: that keeps a step cheap when few are left.
    token = _first_token(model, source)
    total = torch.full((batch, beam), -torch.inf, dtype=torch.float64, device=device)
    total[:, 0] = 0.0  # one hypothesis for each sentence, without words
    tokens = source.new_full((batch, beam, max_length), PAD)
    places = torch.full((batch, 1), beam, device=device)  # that no ended hypothesis holds
    best = source.new_full((batch, n, max_length), PAD)
    best_score = total.new_full((batch, n), -torch.inf)
    with in_mode(model, training=False):
        state = model.start(source, source_lengths)
        for length in range(1, max_length + 1):
            logits, _, state = model.step(token, state)
            _require_choice(logits.amax(dim=-1).clamp(min=0.0))  # -inf alone: the beam drops it
            was_open = total.isfinite()
            # The likeliest continuations, best first; column `parent` of the old table and a word.
            total, parent, word = _continue(total, logits.double(), may_end=length > min_length)
            # Each end has taken a place for good: only the best of the rest may go on.
            total[torch.arange(beam, device=device) >= places] = -torch.inf
            tokens = tokens.gather(1, parent.unsqueeze(-1).expand_as(tokens))
            tokens[:, :, length - 1] = word

            # What ends now leaves the table; the n best ends so far of a sentence are remembered.
            ended = (word == EOS) & total.isfinite()
            if ended.any():
                scores = (total / length_penalty(length, alpha)).masked_fill(~ended, -torch.inf)
                best, best_score = _merge(best, best_score, tokens, scores)
            places = places - ended.sum(dim=1, keepdim=True)
            total[ended] = -torch.inf

            # log p only falls and lp is largest at max_length: no open hypothesis can get above
            # its bound, so where n ends have reached the highest of them the search is over.
            bound, likeliest = (total / highest_penalty).max(dim=1)
            total[best_score[:, -1] >= bound] = -torch.inf
            is_open = total.isfinite()
            if length == max_length or not is_open.any():
                break
            # Column (i, j) of the old table was row number (open columns before it) of the state.
            row = was_open.flatten().cumsum(0).view_as(was_open) - 1
            state = _follow(state, row.gather(1, parent)[is_open], len(token))
            token = word[is_open]
    cut_off = best_score[:, 0].isinf()  # nothing has ended: the likeliest open one instead
    best[cut_off, 0], best_score[cut_off, 0] = tokens[cut_off, likeliest[cut_off]], bound[cut_off]
    _require_choice(best_score[:, 0])
    longest = length if cut_off.any() else int((best == EOS).nonzero()[:, 2].max()) + 1
    return best[:, :, :longest], best_score


def _merge(
    best: Int[Tensor, "batch n time"],
    best_score: Float[Tensor, "batch n"],
    tokens: Int[Tensor, "batch beam time"],
    scores: Float[Tensor, "batch beam"],
) -> tuple[Int[Tensor, "batch n time"], Float[Tensor, "batch n"]]:
    """The n best of both tables, and their scores; of equals those that came first.

    Where a score is -inf the row is all PAD.
    """
    tokens = tokens.masked_fill(scores.isinf().unsqueeze(-1), PAD)
    scores, order = torch.cat([best_score, scores], 1).sort(dim=1, descending=True, stable=True)
    order = order[:, : best.size(1)].unsqueeze(-1).expand_as(best)
    return torch.cat([best, tokens], 1).gather(1, order), scores[:, : best.size(1)]


def _continue(
    total: Float[Tensor, "batch beam"], logits: Float[Tensor, "open vocab"], *, may_end: bool
) -> tuple[Float[Tensor, "batch beam"], Int[Tensor, "batch beam"], Int[Tensor, "batch beam"]]:
    """The likeliest continuations of each sentence's hypotheses, whichever they come from.

    Returns: their log-probabilities, the hypotheses that they continue, and their new words.
    """
    # Of one hypothesis at most `beam` words can be among the `beam` best of its sentence: the table
    # gets these alone, since one of all words would be read and written several times at each step.
    normaliser = logits.logsumexp(dim=-1, keepdim=True)
    chosen = logits if may_end else _without_end(logits)
    chosen, chosen_word = chosen.topk(min(total.shape[1], logits.shape[-1]), dim=-1)
    is_open = total.isfinite()
    step = total.new_full((*total.shape, chosen.shape[-1]), -torch.inf)
    word = torch.zeros_like(step, dtype=torch.long)
    step[is_open], word[is_open] = chosen - normaliser, chosen_word
    total, place = (total.unsqueeze(-1) + step).flatten(1).topk(total.shape[1])
    return total, place // step.shape[-1], word.flatten(1).gather(1, place)


def _follow(state: Any, rows: Int[Tensor, " rows"], n_rows: int) -> Any:
    """The rows of the state that go on; the state itself if all do and none has moved."""
    if len(rows) == n_rows and torch.equal(rows, torch.arange(n_rows, device=rows.device)):
        return state
    return select_rows(state, rows)


def store_by_columns(model: nn.Module) -> nn.Module:
    """Store the matrix of every nn.Linear in the order in which x W adds its rows up; same numbers.

    nn.Linear keeps W transposed and row by row, so that for one vector x each output is a dot
    product with a row of its own. In the other order one entry of x after another scales a row of W
    and adds it to all outputs at once, which some processors do faster. A batch does not care.

    Returns: the model, changed in place: its parameters are the same objects, with other strides.
    """
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            layer.weight.data = layer.weight.data.t().contiguous().t()
    return model


def translate(
    model: Any,
    pairs: Sequence[Pair],
    source_vocab: Vocabulary,
    target_vocab: Vocabulary,
    *,
    max_length: int = 60,
    beam: int | None = None,
    alpha: float = 0.6,
) -> list[list[str]]:
    """Translate the sources of some pairs, on the model's device; targets are not read.

    Greedily, or with `beam_search` if a beam is given.

    Args:
        model: what translates.
        pairs: whose sources are translated.
        source_vocab: the vocabulary of the sources.
        target_vocab: that of the translations.
        max_length: the most tokens of a translation.
        beam: hypotheses that `beam_search` keeps; None for greedy decoding.
        alpha: its `length_penalty`.
    Returns: the words of each translation, in the order of the pairs.
    Errors: ValueError for max_length or beam below 1, or alpha below 0.
    """
    device = next(model.parameters()).device
    sentences = []
    for i in range(0, len(pairs), BATCH_SIZE):
        batch = make_batch(pairs[i : i + BATCH_SIZE], source_vocab, target_vocab).to(device)
        inputs = (model, batch.source, batch.source_lengths, max_length)
        if beam is None:
            tokens, _ = greedy(*inputs)
        else:
            tokens, _ = beam_search(*inputs, beam=beam, alpha=alpha)
        sentences += [target_vocab.decode(row) for row in tokens.tolist()]
    return sentences
