"""Right and wrong answers to the exercises of chapter 6; the wrong ones with what they are told."""

import torch
from torch.nn import functional as F

from chapters.masking.conversions import additive_mask
from lib.masks import causal_mask, combine_masks, padding_mask


def filled(scores, mask, fill):
    return scores.masked_fill(~mask, fill).softmax(-1)


def lowest(scores):
    return torch.finfo(scores.dtype).min


def by_hand(scores, mask):
    top = torch.where(mask, scores, lowest(scores)).amax(-1, keepdim=True)
    above = torch.where(mask, scores - top, -torch.inf).exp()
    return above / above.sum(-1, keepdim=True).clamp(min=1)


def row_by_row(scores, mask):
    weights = torch.zeros_like(scores)
    for row in range(len(scores)):
        weights[row, mask[row]] = scores[row, mask[row]].softmax(-1)
    return weights


def empty_rows_apart(scores, mask):
    empty = ~mask.any(-1, keepdim=True)
    return filled(scores, mask | empty, -torch.inf).masked_fill(empty, 0)


def in_float32(scores, mask):
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    weights = F.softmax(wide.masked_fill(~mask, -torch.inf), dim=1)
    return torch.where(mask, weights, 0.0).to(scores.dtype)


def into_a_copy(scores, mask):
    scores = scores.clone()
    scores[~mask] = lowest(scores)
    return torch.softmax(scores, dim=-1) * mask


def in_logarithms(scores, mask):
    scores = scores.masked_fill(~mask, -torch.inf)
    return torch.where(mask, (scores - scores.logsumexp(-1, keepdim=True)).exp(), 0)


def with_a_key_for_nobody(scores, mask):
    """An empty row attends to a last key, which is cut off."""
    nobody = scores.new_full((len(scores), 1), lowest(scores))
    return torch.cat([scores.masked_fill(~mask, -torch.inf), nobody], dim=1).softmax(-1)[:, :-1]


def scores_overwritten(scores, mask):
    return scores.masked_fill_(~mask, lowest(scores)).softmax(-1).masked_fill(~mask, 0)


def mask_overwritten(scores, mask):
    return filled(scores, mask, lowest(scores)).masked_fill(mask.logical_not_(), 0)


def renormalised(scores, mask):
    weights = scores.softmax(-1) * mask
    return weights / weights.sum(-1, keepdim=True).clamp(min=1e-9)


def exponentials(scores, mask):
    weights = scores.exp() * mask
    return weights / weights.sum(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).tiny)


def prefix_loops(lengths, n):
    rows = [[[k <= q or k < length for k in range(n)] for q in range(n)] for length in lengths]
    return torch.tensor(rows)


def prefix_written(lengths, n):
    mask = torch.ones(len(lengths), n, n).tril()
    for one, length in zip(mask, lengths.tolist(), strict=True):
        one[:, :length] = 1
    return mask == 1


def prefix_reached(lengths, n):
    place = torch.arange(n)
    return place < torch.maximum(place[:, None] + 1, lengths[:, None, None])


def prefix_blocks(lengths, n):
    source = torch.arange(n) < lengths[:, None]
    return source[:, :, None] & source[:, None] | causal_mask(n)


def prefix_not_later(lengths, n):
    later = torch.ones(n, n, dtype=torch.bool).triu(1)
    return ~(later & ~padding_mask(lengths, n))


def prefix_by_vmap(lengths, n):
    return torch.vmap(lambda length: (torch.arange(n) < length) | causal_mask(n))(lengths)


def prefix_in_place(lengths, n):
    place = torch.arange(n)
    last = lengths.sub_(1)[:, None, None]
    return (place <= place[:, None]) | (place <= last)


def same_document(document):
    return document[:, :, None] == document[:, None]


def packed_loops(document):
    mask = torch.zeros(*document.shape, document.shape[1], dtype=torch.bool)
    for row, numbers in enumerate(document.tolist()):
        for query, number in enumerate(numbers):
            for key in range(query + 1):
                mask[row, query, key] = numbers[key] == number
    return mask


def packed_one_hot(document):
    one_hot = F.one_hot(document).float()
    return (torch.einsum("bqd,bkd->bqk", one_hot, one_hot) > 0).tril()


def packed_blocks(document):
    """Documents stand behind each other: a block for each."""
    blocks = [
        [torch.ones(length, length) for length in row.unique_consecutive(return_counts=True)[1]]
        for row in document
    ]
    return torch.stack([torch.block_diag(*row) for row in blocks]).tril().bool()


def packed_by_bits(document):
    return ~(document.unsqueeze(-1) ^ document.unsqueeze(-2)).bool() & causal_mask(document.size(1))


def packed_neighbours(document):
    """Same as the token before: only two positions deep."""
    same = same_document(document).tril()
    return same & same_document(document).triu(-1)


def packed_in_place(document):
    document -= document.min()
    return packed_one_hot(document)


RIGHT = {
    "masked_softmax": [
        lambda scores, mask: filled(scores, mask, -torch.inf).nan_to_num(),
        lambda scores, mask: filled(scores, mask, -torch.inf).masked_fill(~mask, 0),
        lambda scores, mask: filled(scores, mask, lowest(scores)) * mask,
        by_hand,
        row_by_row,
        empty_rows_apart,
        in_float32,
        into_a_copy,
        in_logarithms,
        with_a_key_for_nobody,
        lambda scores, mask: filled(scores, mask, lowest(scores)) * mask.any(-1, keepdim=True),
        lambda scores, mask: filled(scores.float(), mask, -torch.inf).nan_to_num(),
    ],
    "prefix_mask": [
        prefix_loops,
        prefix_written,
        prefix_reached,
        prefix_blocks,
        prefix_not_later,
        prefix_by_vmap,
        lambda lengths, n: torch.where(padding_mask(lengths, n), True, causal_mask(n)),
    ],
    "packed_mask": [
        lambda document: same_document(document).tril(),
        lambda document: torch.stack([(row[:, None] == row).tril() for row in document]),
        packed_loops,
        packed_one_hot,
        packed_blocks,
        packed_by_bits,
        lambda document: same_document(document.double().sqrt()) & causal_mask(document.shape[1]),
    ],
}

WRONG = {
    "masked_softmax": {
        scores_overwritten: "argument 1 was changed",
        mask_overwritten: "argument 2 was changed",
        lambda scores, mask: filled(scores, mask, scores.min().item() - 10) * mask: "row 3, scores",
        lambda scores, mask: mask / mask.sum(-1, keepdim=True).clamp(min=1): "row 0, scores",
        # 0 / 0 where the masked scores are far above
        renormalised: "row 3, scores [-20000.0, 9.0, 9.0], mask [True, False, False], in torch.f",
        exponentials: "row 3, scores",  # overflow
        lambda scores, mask: filled(scores, mask, -1e4) * mask: "row 3, scores",
        lambda scores, mask: scores.softmax(-1) * mask: "masked after the softmax",
        lambda scores, mask: (scores * mask).softmax(
            -1
        ): "row 0, scores",  # a score of 0 has weight e^0
        lambda scores, mask: filled(
            scores, mask, -1e9
        ): "masked row is all 0",  # uniform in an empty row
        lambda scores, mask: filled(
            scores, mask, -torch.inf
        ): "row 2, scores",  # NaN in an empty row
        lambda scores, mask: filled(scores, mask, -torch.inf) * mask: "row 2, scores",  # 0 * NaN
        lambda scores, mask: filled(scores, mask, -1e9) * mask: "without overflow, in the line",
        lambda scores, mask: filled(scores, mask, -100.0) * mask: "row 3, scores",
        lambda scores, mask: filled(scores, ~mask, -torch.inf).nan_to_num(): "the wrong way round",
        lambda scores, mask: filled(scores, ~mask, -torch.inf): "the wrong way round",
        lambda scores, mask: filled(
            scores + additive_mask(mask, scores.dtype), mask, 0
        ): "row 0, scores",
        lambda scores, mask: (
            (scores + additive_mask(mask, scores.dtype)).softmax(-1).nan_to_num()
        ): "NaN in the gradient",
        lambda scores, mask: (
            scores.masked_fill(~mask, -torch.inf).softmax(0).nan_to_num()
        ): "the softmax runs over the queries",
        lambda scores, mask: in_float32(
            scores, mask
        ).detach(): "the weights are detached from the scores",
    },
    "prefix_mask": {
        prefix_in_place: "argument 1 was changed",
        lambda lengths, n: causal_mask(n) & padding_mask(lengths, n): "key 1: expected True",
        lambda lengths, n: combine_masks(
            causal_mask(n), padding_mask(lengths, n)
        ): "key 1: expected True",
        lambda lengths, n: padding_mask(lengths, n): "got (5, 1, 7)",
        lambda lengths, n: padding_mask(lengths, n).expand(-1, n, n): "key 3: expected True",
        lambda lengths, n: causal_mask(n).expand(len(lengths), n, n): "key 1: expected True",
        lambda lengths, n: ~(causal_mask(n) | padding_mask(lengths, n)): "wrong way round",
        lambda lengths, n: (causal_mask(n) | padding_mask(lengths, n)).float(): "bool",
        lambda lengths, n: (causal_mask(n) | padding_mask(lengths, n)).int(): "bool",
        lambda lengths, n: (causal_mask(n) | padding_mask(lengths, n)).mT: "is transposed",
        lambda lengths, n: causal_mask(n) | padding_mask(lengths + 1, n): "key 3: expected False",
        lambda lengths, n: causal_mask(n) | padding_mask(lengths, n).mT: "key 3: expected False",
        lambda lengths, n: prefix_blocks(
            lengths.new_full(lengths.shape, lengths[0]), n
        ): "key 1: expected False",
        lambda lengths, n: prefix_blocks(lengths, int(lengths.max())): "got (2, 4, 4)",
        lambda lengths, n: causal_mask(n) | padding_mask(lengths[:1], n): "got (1, 7, 7)",
        lambda lengths, n: causal_mask(n) | padding_mask(lengths - 1, n): "key 2: expected True",
        lambda lengths, n: list(prefix_blocks(lengths, n)): "a boolean tensor",
    },
    "packed_mask": {
        packed_in_place: "argument 1 was changed",
        same_document: "key 1: expected False",  # the future of the same document
        lambda document: causal_mask(document.shape[1]).expand(
            len(document), -1, -1
        ): "key 0: expected False",
        lambda document: (
            same_document(document) | causal_mask(document.shape[1])
        ): "key 1: expected False",
        lambda document: (
            ~(same_document(document) & causal_mask(document.shape[1]))
        ): "wrong way round",
        lambda document: (
            same_document(document) & causal_mask(document.shape[1]).T
        ): "the mask is transposed",
        lambda document: same_document(document).tril(-1): "key 0: expected True",  # not itself
        lambda document: (
            document[:, :, None] >= document[:, None]
        ).tril(): "key 0: expected False",
        lambda document: (
            document[:, :, None] <= document[:, None]
        ).tril(): "key 0: expected False",
        lambda document: same_document(document).tril().int(): "bool",
        packed_neighbours: "key 0: expected True",
        lambda document: (
            same_document(document[:1]).tril().expand(len(document), -1, -1)
        ): "key 0: expected False",
        lambda document: same_document(document)[0].tril(): "got (7, 7)",  # of the first row alone
    },
}
