"""Small, hand-set data for each widget: used by the tests in Python and in the browser."""

import torch

from chapters.attention_layer.query_plane import QueryPlane
from chapters.attention_layer.softmax_scale import SoftmaxScaleExplorer
from chapters.attention_seq2seq.alignment_player import AlignmentPlayer
from chapters.attention_seq2seq.bottleneck_explorer import BottleneckExplorer
from chapters.complexity.complexity_explorer import ComplexityExplorer
from chapters.decoding.beam_explorer import BeamExplorer
from chapters.distributed.cluster_planner import ClusterPlanner
from chapters.embeddings.tied_softmax import TiedSoftmaxExplorer
from chapters.families.families_explorer import FamiliesExplorer
from chapters.feed_forward_norm.norm_explorer import NormExplorer
from chapters.masking.mask_builder import MaskBuilder
from chapters.mistakes.bug_hunt import BugHunt
from chapters.modern_block.block_explorer import BlockExplorer
from chapters.multi_head.ablation import head_codes, layer_codes
from chapters.multi_head.head_ablation import HeadAblation
from chapters.multi_head.heads_explorer import HeadsExplorer
from chapters.positions.position_explorer import PositionExplorer
from chapters.self_attention.self_attention_explorer import SelfAttentionExplorer
from chapters.seq2seq.bottleneck_runs import BottleneckRuns
from chapters.training.learning_rate import LearningRateExplorer
from chapters.transformer.forward_tracer import ForwardTracer
from chapters.transformer.tracing import stages_of
from checks.framework import Finding
from engine.laboratory import Laboratory
from lib.data import Pair, Vocabulary
from lib.transformer import Config, Transformer
from widgets.packing import PackedModel, pack_model


def sentences() -> list[dict]:
    """Two sentences; sizes that cannot be mixed up: 3 by 2, then 5 by 4."""
    return [
        {
            "source": ["two", "euros", "<eos>"],
            "output": ["deux", "euros"],
            "reference": ["deux", "euros"],
            "weights": [[0.75, 0.25, 0.0], [0.125, 0.875, 0.0]],
            "candidates": [[("deux", 0.9), ("dix", 0.1)], [("euros", 0.996), ("francs", 0.004)]],
        },
        {
            "source": ["canadian", "dollars", "two", "<b>ago</b>", "<eos>"],
            "output": ["deux", "dollars", "canadiens", "<eos>"],
            "reference": ["deux", "dollars", "canadiens", "passés"],
            "weights": [
                [0.0, 0.1, 0.9, 0.0, 0.0],
                [0.0, 1.0, 0.0, 0.0, 0.0],
                [0.6, 0.2, 0.1, 0.1, 0.0],
                [0.0, 0.0, 0.0, 0.0, 1.0],
            ],
            "candidates": [
                [("deux", 0.5), ("dix", 0.25), ("<s>", 0.25)],
                [("dollars", 1.0)],
                [("dollars", 0.5), ("canadiens", 0.4)],  # not the likeliest: sampled, or a beam
                [("<eos>", 0.75)],
            ],
        },
    ]


def bins() -> list[dict]:
    """Three lengths; in the second, the first model errs in every way."""
    right = {"source": ["a", "b"], "reference": ["x", "y"], "outputs": [["x", "y"], ["x", "y"]]}
    wrong = {
        "source": ["a", "b", "c"],
        "reference": ["x", "y", "z", "u"],
        "outputs": [["w", "y", "y", "z"], ["x", "y", "z", "u"]],
    }
    empty = {"source": ["<i>q</i>"], "reference": ["x", "y", "z"], "outputs": [[], ["x", "y"]]}
    return [
        {"label": "1 to 2", "count": 7, "accuracy": [1.0, 1.0], "examples": [right]},
        {"label": "3 to 5", "count": 11, "accuracy": [0.55, 0.98], "examples": [wrong, right]},
        {"label": "6 to 9", "count": 13, "accuracy": [0, 0.5], "examples": [empty]},
    ]


def traced(n_layers: int = 1, heads: int = 2, longest: int = 0) -> tuple[dict, list[dict]]:
    """Traced sentences of 3 and 4 tokens, of 5 and 2, and of `longest` on both sides if given."""
    sizes = {"d_model": 3 * heads, "n_heads": heads, "d_ff": 7, "n_layers": n_layers}
    sizes |= {"source_vocab": 29, "target_vocab": 31, "pre_norm": True}
    stages = stages_of(n_layers, True)
    found = []
    long = [f"token{i}" for i in range(longest)]
    texts = [
        (
            ["six", "days", "<eos>"],
            ["<bos>", "dans", "six", "<b>"],
            ["dans", "six", "<b>", "<eos>"],
        ),
        (["a", "b", "c", "d", "<eos>"], ["<bos>", "x"], ["x", "<eos>"]),
        (long, long, long),
    ]
    for source, read, said in texts if longest else texts[:2]:
        times = {"source": len(source), "target": len(read)}
        maps = {}
        for stage in stages:
            if stage["kind"] in ("self", "cross"):
                queries = times[stage["side"]]
                keys = times["source"] if stage["kind"] == "cross" else queries
                maps[stage["name"]] = [
                    [
                        [float(j == (i + h) % min(i + 1, keys)) for j in range(keys)]
                        for i in range(queries)
                    ]
                    for h in range(heads)
                ]
        rows = [[n + i + 1.5 for i in range(times[s["side"]])] for n, s in enumerate(stages)]
        adds = [s["kind"] in ("self", "cross", "feed") for s in stages]
        guess = [[(token, 0.75), ("oui", 0.25 - 0.01 * i)] for i, token in enumerate(said)]
        found.append(
            {
                "source": source,
                "read": read,
                "said": said,
                "maps": maps,
                "lengths": rows,
                "changes": [row if add else [] for row, add in zip(rows, adds, strict=True)],
                "guesses": [guess] * sum(s["side"] == "target" for s in stages),
            }
        )
    return sizes, found


def recorded_runs() -> dict:
    """Four settings, one of them with two seeds; two lengths; one setting without translations."""

    def run(model: str, d_hidden: int, seed: int, *points: dict) -> dict:
        settings = {"model": model, "d_hidden": d_hidden, "lr": 2e-3, "seed": seed}
        return settings | {"checkpoints": list(points)}

    def point(step: int, right: list[int], examples: list | None = None) -> dict:
        probes = [[9, n, 9, 0] for n in (5, right[0], 1)]
        found = {"step": step, "bins": [[n, 9, 8, 7, 8] for n in right], "probes": probes}
        return found | ({"examples": examples} if examples else {})

    right = [["deux euros", "six <b>"], ["il y a deux jours"]]
    return {
        "sets": {
            "edges": [1, 3, 6],
            "trained_bins": 1,
            "trained_items": 2,
            "probe_items": 5,
            "sentences_per_bin": [4, 8],
            "sentences": [
                [["two euros", "deux euros"], ["six <b>", "six <b>"]],
                [["two days ago", "il y a deux jours"]],
            ],
        },
        "runs": [
            run("last state only", 32, 1, point(300, [0, 0])),
            run(
                *("last state only", 128, 0),
                point(300, [2, 2], [["dix euros", "six <b>"], ["deux jours"]]),
                point(1250, [4, 4], right),
            ),
            run("last state only", 128, 1, point(300, [4, 0])),
            run("attention", 128, 0, point(300, [4, 8], [right[0], ["il a a deux jours"]])),
        ],
    }


def rows_of_families() -> list[dict]:
    """Two rows, of 7 and of 5 tokens; guesses that name their family, their prefix and place."""
    found = []
    for tokens, prefix in (
        (["<bos>", "two", "euros", "<eos>", "deux", "<b>euros</b>", "<eos>"], 4),
        (["<bos>", "ago", "<eos>", "passés", "<eos>"], 3),
    ):

        def said(name, places, tokens=tokens):
            return [
                [(tokens[t], 0.75), (f"{name}{t}", 0.25 - 0.01 * t)] if t in places else []
                for t in range(len(tokens))
            ]

        places = range(1, len(tokens))
        after = range(prefix, len(tokens))
        found.append(
            {
                "tokens": tokens,
                "prefix": prefix,
                "encoder-only": said("e", [t for t in places if tokens[t] != "<eos>"]),
                "decoder-only": said("d", places),
                "encoder-decoder": said("t", after),
                "prefixed": [said(f"p{k}-", after) for k in range(2, prefix + 1)],
            }
        )
    return found


def packed() -> PackedModel:
    """A model with random weights and the sizes of `traced()`, small enough to load anywhere."""
    words = ("six", "days", "day", "in", "<i>"), ("dans", "six", "jours", "<b>")
    sizes = {"d_model": 6, "n_heads": 2, "d_ff": 7, "n_layers": 1}
    with torch.random.fork_rng():
        torch.manual_seed(7)
        model = Transformer(Config(9, 8, norm="pre", tied=False, **sizes))
    return pack_model(model, *map(Vocabulary, words))


def measured(n_layers: int = 1, n_heads: int = 2, d_v: int = 3) -> dict:
    """What a script would have recorded of the heads of `packed()`: no two figures alike."""
    heads, layers = head_codes(n_layers, n_heads), layer_codes(n_layers)
    kinds = {
        mode: {
            "single": {head: {"exact": 0.9 - 0.1 * i - by} for i, head in enumerate(heads)},
            "layers": {layer: {"exact": 0.3 - 0.1 * i - by} for i, layer in enumerate(layers)},
        }
        for mode, by in (("zero", 0.05), ("mean", 0.02))
    }
    means = {
        layer: [[i + h + 0.125 * k for k in range(d_v)] for h in range(n_heads)]
        for i, layer in enumerate(layers)
    }
    return {"sentences": 700, "whole": {"exact": 0.95}, "ablations": kinds, "means": means}


# Greedy takes "no"; the likeliest sentence is "yes"; with a penalty the longest one wins.
ROWS = {
    (): {"no": 0.45, "yes": 0.4, "<b>": 0.15},
    ("no",): {"<eos>": 0.5, "no": 0.3, "yes": 0.2},
    ("no", "no"): {"<eos>": 1.0},
    ("no", "yes"): {"<eos>": 1.0},
    ("yes",): {"<eos>": 0.6, "yes": 0.4},
    ("yes", "yes"): {"no": 1.0},
    ("yes", "yes", "no"): {"<eos>": 0.95, "yes": 0.05},
    ("yes", "yes", "no", "yes"): {"<eos>": 1.0},
    ("<b>",): {"<eos>": 1.0},
}


def hunted() -> tuple[dict, dict, dict]:
    """Three mistakes by three properties, two cases, and a right model, all by hand."""

    def row(name: str, held: bool, number: float | None, message: str) -> tuple[str, Finding]:
        return name, Finding(name, held, number, message)

    held = row("padding", True, 0.0, "no logit moved")
    future = row("future", False, 0.31, "an earlier logit sees a later token")
    matrix = {
        "NoTargetMask": dict([future, held, row("copied", False, 0.25, "other logits")]),
        "MinusBillion": dict(
            [row("future", True, 0.0, "unseen"), held, row("copied", True, 0.0, "same")]
        ),
        "UsedBeforeAssigned": dict(
            row(name, False, None, "it stops: UnboundLocalError: <b>embedded</b>")
            for name in ("future", "padding", "copied")
        ),
    }
    shown = {
        "losses": [5.25, 2.5, 0.125],
        "validation": 0.25,
        "source": ["two", "<b>euros</b>", "<eos>"],
        "wanted": ["deux", "euros", "<eos>"],
        "said": ["deux", "deux"],
        "map": [[0.75, 0.25, 0.0], [0.125, 0.875, 0.0], [0.0, 0.0, 1.0]],
    }
    cases = {"NoTargetMask": shown, "MinusBillion": shown | {"said": [], "validation": 1.5}}
    return matrix, cases, shown | {"losses": [5.0, 3.0, 1.0], "said": ["deux", "euros"]}


SAMPLES = {
    "alignment_player": lambda: AlignmentPlayer(sentences(), sentence=1, step=2),
    "beam_explorer": lambda: BeamExplorer({"yes or no": ROWS}, beam=2, alpha=0.6),
    "block_explorer": lambda: BlockExplorer("Mistral 7B", context=8192, experts=True, bias=True),
    "bottleneck_explorer": lambda: BottleneckExplorer(bins(), bin=1),
    "bottleneck_runs": lambda: BottleneckRuns(recorded_runs(), steps=300, length=1),
    "bug_hunt": lambda: BugHunt(*hunted(), case=1),
    "cluster_planner": lambda: ClusterPlanner(64, parameters=213, fsdp=True),
    "complexity_explorer": lambda: ComplexityExplorer(96, 64, k=5, radius=4, pick="restricted"),
    "families_explorer": lambda: FamiliesExplorer(
        rows_of_families(), position=2, family="decoder-only", shown=2
    ),
    "forward_tracer": lambda: ForwardTracer(
        *traced(), stage=6, head=1, position=2, packed=packed(), ready=["six days", "days"]
    ),
    "head_ablation": lambda: HeadAblation(
        packed(),
        [Pair(("six", "days"), ("six", "jours")), Pair(("in", "<i>"), ("dans", "<b>", "six"))],
        measured(),
        ready=["six days", "days"],
        off="e1.2_c1.1",
        mode="mean",
        sentence=1,
    ),
    "heads_explorer": lambda: HeadsExplorer(48, 3, time=11),
    "laboratory": lambda: Laboratory("neighbours", n_heads=2, d_k=4, seed=3),
    "learning_rate": lambda: LearningRateExplorer(
        "cosine", d_model=128, warmup=30, total=500, peak=2e-3, step=101
    ),
    "mask_builder": lambda: MaskBuilder(7, lengths=5, causal=True, by_hand={(1, 4): True}),
    "norm_explorer": lambda: NormExplorer(
        7, norm="pre", residual=True, scale=1, d_model=16, seed=3
    ),
    "position_explorer": lambda: PositionExplorer(
        "sinusoidal", 16, length=19, base=100, position=5, shift=3, pair=2
    ),
    "query_plane": lambda: QueryPlane(
        [1.5, -0.5],
        [[1.0, 0.5], [-0.25, 1.5], [2.0, -1.0], [0.0, -2.0]],
        [[-2.0, 1.0], [2.5, 2.0], [1.0, -2.5], [-1.5, -1.5]],
        scaled=True,
        temperature=0.7,
    ),
    "self_attention_explorer": lambda: SelfAttentionExplorer(
        {"red": [1.0, 0.5], "fox": [-0.25, 1.5], "runs": [0.0, -1.0]}, "red fox runs", query=1
    ),
    "softmax_scale": lambda: SoftmaxScaleExplorer(16, scaled=True, n_keys=11, seed=3),
    "tied_softmax": lambda: TiedSoftmaxExplorer(
        {"un": [1.0, 0.5], "deux": [-0.25, 1.5], "<i>": [0.0, -1.0]},
        [0.5, 1.0],
        "deux",
        temperature=0.5,
        smoothing=0.1,
    ),
}
