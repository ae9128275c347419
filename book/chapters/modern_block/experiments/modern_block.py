"""Chapter 16: from the paper's block to today's, each change measured on one text, three seeds.

    python experiments/modern_block.py [--seeds 0 1 2] [--steps 300]    (20 minutes of one core)

The text is Python's reference on its statements and types, which every Python carries as
`pydoc_data.topics` (licence: Python Software Foundation), as characters. Other Pythons carry other
editions of it, so the record holds the edition's SHA-256. All models have the same windows, number
of steps and learning rate. `--jobs 2` trains two models at a time.

Times are the processor's seconds of a training step, measured in turn, as ratios to the first
model's; "unbalanced" is the model of "4 experts", trained without the balancing loss.
"""

import hashlib
import statistics
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[3]))

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
from measure.experiments import Run, command_line, grid
from tasks.characters import character_vocabulary, next_token, python_topics


def parameters(model: torch.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def active_parameters(model: ModernDecoder) -> int:
    """Those that one token passes: of each layer's experts, only the chosen ones."""
    idle = 0
    for layer in model.decoder.layers:
        experts = getattr(layer.feed_forward.sublayer, "experts", ())
        idle += sum(parameters(one) for one in list(experts)[model.config.n_active :])
    return parameters(model) - idle


def cache_bytes(model: ModernDecoder, n_tokens: int) -> int:
    """What the caches hold after n_tokens have passed, one at a time, in bytes."""
    state = model.start()
    for token in torch.randint(4, model.config.vocab, (n_tokens, 1)):
        _, _, state = model.step(token, state)
    return sum(part[0, :, : own.length].nbytes for own, _ in state for part in own.read())


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


def run(step: str, seed: int, steps: int) -> Run:
    """Train one model; what it is and what it has learned."""
    torch.set_num_threads(1)
    text, held_out = tokens()
    model, losses = train_step(step, text, seed, steps=steps)
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


def summary(step: Step, runs: list[Run], ratio: float) -> Run:
    """The runs of one step, which differ in their seed: what is common once, the rest as lists."""
    common = {key: runs[0][key] for key in ("parameters", "active", "cache_bytes")}
    left = [key for key in runs[0] if key not in (*common, "step", "seed")]
    lists = {key: [one[key] for one in runs] for key in left}
    return {"name": step.name, "after": step.after, **common, "time": ratio, **lists}


def record(runs: list[Run], steps: int) -> dict[str, Any]:
    texts = python_topics()
    ratios = time_ratios([step.name for step in (*WAY, *BACK)], len(character_vocabulary()))
    settings = []
    for step in (*WAY, *BACK):
        of_seeds = [one for one in runs if one["step"] == step.name]
        settings.append(summary(step, of_seeds, ratios[step.name]))
    return {
        "complete": True,
        "text": {
            "characters": len(texts[0]),
            "held_out": len(texts[1]),
            "sha256": hashlib.sha256("".join(texts).encode()).hexdigest(),
        },
        "training": {"steps": steps, "batch": BATCH, "length": LENGTH, "lr": LR},
        "sizes": SIZES,
        "seeds": list(dict.fromkeys(one["seed"] for one in runs)),
        "settings": settings,
    }


def main(arguments: list[str] | None = None) -> None:
    over = {"step": [step.name for step in (*WAY, *BACK)], "seed": (0, 1, 2)}
    given = command_line(__file__, __doc__, over, arguments, steps=STEPS)
    torch.set_num_threads(1)
    steps = given.options.steps
    grid(partial(run, steps=steps), given, partial(record, steps=steps))


if __name__ == "__main__":
    main()
