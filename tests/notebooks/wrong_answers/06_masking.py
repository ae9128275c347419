"""Wrong answers to the exercises of chapter 6, each a mistake that people make."""

import torch

from lib.masks import additive_mask, causal_mask, combine_masks, padding_mask


def filled(scores, mask, fill):
    return scores.masked_fill(~mask, fill).softmax(-1)


def same_document(document):
    return document[:, :, None] == document[:, None]


WRONG = {
    "masked_softmax": [
        lambda scores, mask: scores.softmax(-1) * mask,  # after the softmax: no sum of 1
        lambda scores, mask: (scores * mask).softmax(-1),  # a score of 0 has the weight of e^0
        lambda scores, mask: filled(scores, mask, -1e9),  # uniform in an empty row
        lambda scores, mask: filled(scores, mask, -torch.inf),  # NaN in an empty row
        lambda scores, mask: filled(scores, mask, -torch.inf) * mask,  # 0 * NaN
        lambda scores, mask: filled(scores, mask, -1e9) * mask,  # not in float16
        lambda scores, mask: filled(scores, mask, -100.0) * mask,  # loses to a lower score
        lambda scores, mask: filled(scores, ~mask, -torch.inf).nan_to_num(),  # inverted
        lambda scores, mask: (  # -inf added: the gradient passes through the NaN
            (scores + additive_mask(mask, scores.dtype)).softmax(-1).nan_to_num()
        ),
        lambda scores, mask: scores.masked_fill(~mask, -torch.inf).softmax(0).nan_to_num(),
    ],
    "prefix_mask": [
        lambda lengths, n: causal_mask(n) & padding_mask(lengths, n),
        lambda lengths, n: combine_masks(causal_mask(n), padding_mask(lengths, n)),
        lambda lengths, n: padding_mask(lengths, n),  # the target sees nothing of itself
        lambda lengths, n: causal_mask(n).expand(len(lengths), n, n),  # no prefix
        lambda lengths, n: ~(causal_mask(n) | padding_mask(lengths, n)),  # inverted
        lambda lengths, n: (causal_mask(n) | padding_mask(lengths, n)).float(),
        lambda lengths, n: (causal_mask(n) | padding_mask(lengths, n)).mT,  # rows for columns
        lambda lengths, n: causal_mask(n) | padding_mask(lengths + 1, n),
        lambda lengths, n: causal_mask(n) | padding_mask(lengths, n).mT,  # on the query axis
    ],
    "packed_mask": [
        same_document,  # the future of the same document
        lambda document: causal_mask(document.shape[1]).expand(len(document), -1, -1),
        lambda document: same_document(document) | causal_mask(document.shape[1]),
        lambda document: ~(same_document(document) & causal_mask(document.shape[1])),
        lambda document: same_document(document) & causal_mask(document.shape[1]).T,
        lambda document: same_document(document).tril(-1),  # not itself
        lambda document: (  # a later document sees the earlier ones
            document[:, :, None] >= document[:, None]
        ).tril(),
    ],
}
