"""What single heads of the published translator are for: sentences by how many items they list.

    python experiments/head_roles.py                         (two minutes of one core)

A sentence lists one to three items, with commas and "and" between them. For each head that is off
(zero ablation) the exact match of the held-out sentences is counted by their number of items. For
each head of the encoder it is measured where the tokens of each item look: at their own item, at
another one, at a separator, at <eos>; means over all sentences of three items. For each two
cross-attention heads of a layer: how much their attention maps overlap, and exact match when one
takes over the other's map (W^Q and W^K) or what the other brings home (W^V and W^O).
"""

import itertools
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[3]))

from chapters.multi_head.ablation import ablated, head_codes, layer_codes
from chapters.multi_head.items import count_items, items_of
from lib.attention import attention_maps
from lib.data import PAD, Batch, Pair, Vocabulary, make_batch
from lib.transformer import Transformer
from measure.experiments import command_line
from measure.records import write_results
from tasks.translation import translation_pairs
from train.checkpoints import load_published

MOST = 3  # items


@torch.no_grad()
def right(model: Transformer, batch: Batch) -> list[bool]:
    """For each sentence whether every token is predicted right."""
    logits = model(batch.source, batch.source_lengths, batch.target_in)
    same = (logits.argmax(-1) == batch.target_out) | (batch.target_out == PAD)
    return same.all(dim=1).tolist()


def by_items(model: Transformer, batch: Batch, counts: list[int]) -> dict[str, dict[str, float]]:
    """Exact match by the number of items, with all heads ("") and with each of them off."""
    found = {}
    for head in ("", *head_codes(model.config.n_layers, model.config.n_heads)):
        with ablated(model, [head] if head else []):
            exact = right(model, batch)
        hits = Counter(n for n, ok in zip(counts, exact, strict=True) if ok)
        found[head] = {str(n): round(hits[n] / counts.count(n), 4) for n in sorted(set(counts))}
    return found


def where_items_look(
    model: Transformer, pairs: Sequence[Pair], vocabs: Sequence[Vocabulary]
) -> dict[str, list[dict[str, float]]]:
    """For each head of the encoder, for each item, the mean weight of its tokens on four places."""
    codes = {
        code: name for code, name in layer_codes(model.config.n_layers).items() if code[0] == "e"
    }
    sums: dict[tuple[str, int], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    queries: Counter[int] = Counter()
    for pair in pairs:
        batch = make_batch([pair], *vocabs)
        maps = attention_maps(model, batch.source, batch.source_lengths, batch.target_in)
        items = items_of(pair.source)
        for i, item in enumerate(items):
            if item is None:
                continue
            queries[item] += 1
            names = ["separator" if other is None else "own item" if other == item else "other item"
                     for other in items]  # fmt: skip
            for code, name in codes.items():
                for h, row in enumerate(maps[name][0, :, i].tolist()):
                    for place, weight in zip([*names, "<eos>"], row, strict=True):
                        sums[f"{code}.{h + 1}", item][place] += weight
    heads = [
        head for head in head_codes(model.config.n_layers, model.config.n_heads) if head[0] == "e"
    ]
    return {
        head: [
            {place: round(x / queries[item], 3) for place, x in sums[head, item].items()}
            for item in range(MOST)
        ]
        for head in heads
    }


@torch.no_grad()
def in_each_others_place(model: Transformer, batch: Batch) -> dict[str, dict[str, float]]:
    """For each two heads of a cross-attention layer the overlap and both replacements."""
    maps = attention_maps(model, batch.source, batch.source_lengths, batch.target_in)
    real = batch.target_in != PAD
    found = {}
    codes = {
        code: name for code, name in layer_codes(model.config.n_layers).items() if code[0] == "c"
    }
    for code, name in codes.items():
        layer = model.get_submodule(f"{name}.sublayer")
        kept = {key: tensor.clone() for key, tensor in layer.state_dict().items()}
        parts = {"map": ("w_q", "w_k"), "values": ("w_v", "w_o")}
        for i, j in itertools.permutations(range(model.config.n_heads), 2):
            shared = torch.minimum(maps[name][:, i], maps[name][:, j]).sum(-1)
            row = {"overlap": round(shared[real].mean().item(), 4)}
            for part, matrices in parts.items():
                for matrix in matrices:
                    weight, bias = kept[f"{matrix}.weight"].clone(), kept[f"{matrix}.bias"].clone()
                    axis = 1 if matrix == "w_o" else 0  # W^O has the heads as blocks of columns
                    blocks = weight.unflatten(axis, (model.config.n_heads, -1)).movedim(axis, 0)
                    blocks[i] = blocks[j].clone()
                    if matrix != "w_o":
                        rows = bias.unflatten(0, (model.config.n_heads, -1))
                        rows[i] = rows[j].clone()
                    getattr(layer, matrix).weight.copy_(weight)
                    getattr(layer, matrix).bias.copy_(bias)
                exact = right(model, batch)
                row[part] = round(sum(exact) / len(exact), 4)
                layer.load_state_dict(kept)
            found[f"{code}.{i + 1} like {code}.{j + 1}"] = row
    return found


def main(arguments: list[str] | None = None) -> None:
    given = command_line(__file__, __doc__, arguments=arguments)
    torch.set_num_threads(1)
    model, *vocabs = load_published()
    model.eval()
    test = translation_pairs()[1]
    counts = [count_items(pair) for pair in test]
    batch = make_batch(test, *vocabs)
    three = [pair for pair, n in zip(test, counts, strict=True) if n == MOST]
    results = {
        "sentences": {str(n): counts.count(n) for n in sorted(set(counts))},
        "exact_by_items": by_items(model, batch, counts),
        "where_items_look": where_items_look(model, three, vocabs),
        "in_each_others_place": in_each_others_place(model, batch),
    }
    write_results(given.path, results)


if __name__ == "__main__":
    main()
