"""Small, hand-set data for the widgets of this chapter: the sample of each, for all tests."""

from chapters.transformer.forward_tracer import ForwardTracer
from chapters.transformer.take_out import TakeOut
from chapters.transformer.tracing import stages_of
from chapters.transformer.written_without import WrittenWithout
from tests.packed import packed


def traced(n_layers: int = 1, heads: int = 2, longest: int = 0) -> tuple[dict, list[dict]]:
    """Traced sentences of 3 and 4 tokens, of 5 and 2, and of `longest` on both sides if given."""
    sizes = {"d_model": 3 * heads, "n_heads": heads, "d_ff": 7, "n_layers": n_layers}
    sizes |= {"source_vocab": 29, "target_vocab": 31, "pre_norm": True}
    sizes |= {"positions": "rotary", "tied": False}
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


PAIRS = {
    "ein hund jagt eine katze .": "a dog is chasing a cat .",
    "eine katze jagt einen hund .": "a cat is chasing a dog .",
    "drei männer sitzen an einem kleinen tisch .": "three men are sitting at a small table .",
}
WROTE = {  # by part and seed
    ("nothing", 0): ["a dog chases a cat .", "a cat chases a dog .", "three men sit at a table ."],
    ("nothing", 1): ["a dog is chasing a cat .", "a cat chases a dog .", "men at a table ."],
    ("positions", 0): [
        "a dog chases a cat .",
        "a dog chases a cat .",
        "three table sit at a men .",
    ],
    ("positions", 1): ["a cat is chasing a dog .", "a cat is .", "three men at a table ."],
    ("norms", 0): ["a dog dog is chasing a dog .", "", "three men are sitting at a small table ."],
}


def written() -> dict:
    """A record of five models, as the experiment writes it; one has no second seed."""
    return {
        "shown": {"real_text": [{"source": s, "wanted": w} for s, w in PAIRS.items()]},
        "parts": {"nothing": "nothing", "positions": "positions", "norms": "the layer norms"},
        "runs": [
            {"part": part, "seed": seed, "bleu": round(30 + seed - 2.2 * len(part) / 7, 2)}
            | {"said": texts}
            for (part, seed), texts in WROTE.items()
        ],
    }


SAMPLES = {
    "forward_tracer": lambda: ForwardTracer(
        *traced(), stage=6, head=1, position=2, packed=packed(), ready=["six days", "days"]
    ),
    "take_out": lambda: TakeOut("positions", seed=3),
    "written_without": lambda: WrittenWithout("positions", record=written()),
}
# What is more than a choice or a number: what fits the sample, and what does not
TEXTS = {
    ("forward_tracer", "own"): (["", "six days", "days in"], ["six cats", " ", "six " * 49]),
}
