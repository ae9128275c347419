"""Chapter 16: from the paper's block to today's, each change measured on one text, three seeds.

    python experiments/modern_block.py [--seeds 0 1 2] [--steps 300]    (20 minutes of one core)

The text is Python's reference on its statements and types, which every Python carries as
`pydoc_data.topics` (licence: Python Software Foundation), as characters. Other Pythons carry other
editions of it, so the record holds the edition's SHA-256. All models have the same windows, number
of steps and learning rate. The record is written after each run; "complete" says when it is whole.

Times are the processor's seconds of a training step, measured in turn, as ratios to the first
model's; "unbalanced" is the model of "4 experts", trained without the balancing loss.
"""

import argparse
import hashlib
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from chapters.modern_block.decoder import ModernDecoder
from chapters.modern_block.steps import (
    BACK,
    BATCH,
    LENGTH,
    LR,
    SIZES,
    STEPS,
    WAY,
    Step,
    balanced,
    config_of,
    expert_fractions,
    held_out_loss,
    train_step,
)
from measure.records import write_results
from tasks.characters import character_vocabulary, next_token, python_topics

Run = dict[str, Any]


def parameters(model: torch.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def active_parameters(model: ModernDecoder) -> int:
    """Those that one token passes: of each layer's experts, only the chosen ones."""
    idle = 0
    for layer in model.layers:
        experts = getattr(layer.feed_forward.sublayer, "experts", ())
        idle += sum(parameters(one) for one in list(experts)[model.config.n_active :])
    return parameters(model) - idle


def cache_bytes(model: ModernDecoder, n_tokens: int) -> int:
    """What the caches hold after n_tokens have passed, one at a time, in bytes."""
    state = model.start()
    for token in torch.randint(4, model.config.vocab, (n_tokens, 1)):
        _, _, state = model.step(token, state)
    return sum(part[0, :, : cache.length].nbytes for cache in state for part in cache.read())


def time_ratios(names: list[str], vocab: int, rounds: int = 15) -> dict[str, float]:
    """The median over rounds of a training step's processor seconds, beside the first model's."""
    window = torch.randint(4, vocab, (BATCH, LENGTH + 1))
    models = {name: ModernDecoder(config_of(name, vocab)) for name in names}
    optimizers = {
        name: torch.optim.Adam(model.parameters(), fused=True) for name, model in models.items()
    }
    ratios: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds + 2):  # the first two warm up
        seconds = {}
        for name, model in models.items():
            loss = balanced(2, 0.01) if model.config.n_experts else next_token
            since = time.process_time()
            total, number = loss(model, window)
            (total / number).backward()
            optimizers[name].step()
            optimizers[name].zero_grad()
            seconds[name] = time.process_time() - since
        for name in names if turn > 1 else ():
            ratios[name].append(seconds[name] / seconds[names[0]])
    return {name: round(statistics.median(found), 2) for name, found in ratios.items()}


def run(name: str, seed: int, steps: int) -> Run:
    """Train one model; what it is and what it has learned."""
    torch.set_num_threads(1)
    text, held_out = tokens()
    model, losses = train_step(name, text, seed, steps=steps)
    found: Run = {
        "parameters": parameters(model),
        "active": active_parameters(model),
        "cache_bytes": cache_bytes(model, LENGTH),
        "train": round(statistics.mean(losses[-30:]), 4),
        "held_out": round(held_out_loss(model, held_out), 4),
    }
    if model.config.n_experts:
        fractions = expert_fractions(model, held_out[: 32 * LENGTH].view(32, LENGTH))
        found["fractions"] = [[round(x, 3) for x in layer] for layer in fractions.tolist()]
    return found


def tokens() -> tuple[torch.Tensor, torch.Tensor]:
    vocabulary = character_vocabulary()
    text, held_out = (torch.tensor(vocabulary.encode(list(part))) for part in python_topics())
    return text, held_out


def summary(step: Step, runs: list[Run], ratio: float | None) -> Run:
    """The runs of one step, which differ in their seed: what is common once, the rest as lists."""
    common = {key: runs[0][key] for key in ("parameters", "active", "cache_bytes")}
    lists = {key: [one[key] for one in runs] for key in runs[0] if key not in common}
    return {"name": step.name, "after": step.after, **common, "time": ratio, **lists}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--jobs", type=int, default=1, help="models that are trained at a time")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    texts = python_topics()
    steps = (*WAY, *BACK)
    done: dict[str, list[Run]] = {}

    def record(ratios: dict[str, float]) -> None:
        results = {
            "complete": bool(ratios),
            "text": {
                "characters": len(texts[0]),
                "held_out": len(texts[1]),
                "sha256": hashlib.sha256("".join(texts).encode()).hexdigest(),
            },
            "training": {"steps": arguments.steps, "batch": BATCH, "length": LENGTH, "lr": LR},
            "sizes": SIZES,
            "seeds": arguments.seeds,
            "settings": [
                summary(step, done[step.name], ratios.get(step.name))
                for step in steps
                if step.name in done
            ],
        }
        write_results("modern_block", results)

    jobs = [(step.name, seed) for part in (WAY, BACK) for seed in arguments.seeds for step in part]
    with ProcessPoolExecutor(arguments.jobs) as pool:
        runs = pool.map(run, *zip(*jobs, strict=True), [arguments.steps] * len(jobs))
        for (name, seed), found in zip(jobs, runs, strict=True):
            done.setdefault(name, []).append(found)
            print(f"{name:12} seed {seed}: held out {found['held_out']:.3f}", flush=True)
            record({})
    record(time_ratios([step.name for step in steps], len(character_vocabulary())))


if __name__ == "__main__":
    main()
