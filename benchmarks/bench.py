"""The library beside its peers, as ratios within one process: `make bench`.

    python benchmarks/bench.py [--cores 1] [--repeats 9] [--only training,forward,...]

All take turns, A B C A B C, on the same input; each is given as the median, over the turns, of its
time divided by that of torch.nn (or of what the table names), with the quartiles of this ratio.
Below 1 is faster. Peers that are not installed are named and left out: requirements-bench.txt.
These libraries do more for each call than ours does; the figures say what a reader pays, not who
is better made.
"""

import argparse
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import metadata
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "book"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from peers import SIZES, Ours, Size, missing, models

from lib.attention import MultiHeadAttention, scaled_dot_product_attention
from lib.measure import fit_power, peak_bytes
from lib.training import token_loss
from lib.windowed import windowed_attention

Work = dict[str, Callable[[], object]]
Table = Iterator[tuple[str, str, Work]]  # what is done, who is 1.00, and who does it


def batch(size: Size) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Random tokens, padded on the right: source, lengths, target_in, target_out."""
    lengths = torch.randint(size.shortest, size.time + 1, (size.batch,))
    lengths[0] = size.time
    real = torch.arange(size.time) < lengths[:, None]
    tokens = torch.randint(4, size.vocab, (3, size.batch, size.time)).masked_fill(~real, 0)
    return tokens[0], lengths, tokens[1], tokens[2]


def trainer(
    model: nn.Module, inputs: tuple[Tensor, ...], *, fused: bool = False, bf16: bool = False
) -> Callable[[], None]:
    """Return a function that takes one step of Adam."""
    source, lengths, target_in, target_out = inputs
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=fused)

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            logits = model(source, lengths, target_in)
        loss = token_loss(logits.float(), target_out)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def training() -> Table:
    """One training step; every model with plain Adam, and ours as a reader would train it."""
    for name, size in SIZES.items():
        inputs = batch(size)
        work: Work = {peer: trainer(model, inputs) for peer, model in models(size).items()}
        work["lib, tied, fused Adam"] = trainer(Ours(size, tied=True), inputs, fused=True)
        work["lib, the same in bf16"] = trainer(
            Ours(size, tied=True), inputs, fused=True, bf16=True
        )
        yield f"training step, {name}", "torch.nn", work


def forward() -> Table:
    """One pass in evaluation mode, teacher forcing."""
    for name, size in SIZES.items():
        inputs = batch(size)[:3]
        work = {peer: quiet(partial(model.eval(), *inputs)) for peer, model in models(size).items()}
        yield f"forward pass, {name}", "torch.nn", work


def attention() -> Table:
    """Self-attention of 8 heads, d_model 256: the whole layer, and its kernel alone."""
    d_model, n_heads = 256, 8
    ours = MultiHeadAttention(d_model, n_heads).eval()
    theirs = nn.MultiheadAttention(d_model, n_heads, batch_first=True).eval()
    for n in (256, 1024, 2048):
        x = torch.randn(1, n, d_model)
        work = {
            "lib": partial(ours, x),
            "lib, with weights": partial(ours, x, return_weights=True),
            "nn.MultiheadAttention": partial(theirs, x, x, x, need_weights=False),
            "bare fused": partial(bare, ours, x),
        }
        yield f"self-attention, n = {n}", "bare fused", {k: quiet(f) for k, f in work.items()}


def bare(layer: MultiHeadAttention, x: Tensor) -> Tensor:
    """The same layer as five bare calls into torch, without our checks."""
    q, k, v = (
        w(x).unflatten(-1, (layer.n_heads, -1)).transpose(1, 2)
        for w in (layer.w_q, layer.w_k, layer.w_v)
    )
    return layer.w_o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def decoding() -> Table:
    """Writing a fixed number of tokens, batch 1: greedily, and with a beam of 4."""
    size = SIZES["medium"]
    source, lengths = torch.randint(4, size.vocab, (1, 20)), torch.tensor([20])
    peers = {name: model.eval() for name, model in models(size).items()}
    for count in (16, 64, 128, 256):
        work = {
            name: quiet(partial(model.write, source, lengths, count))
            for name, model in peers.items()
            if hasattr(model, "write")
        }
        yield f"greedy, {count} tokens", "Hugging Face", work
    for count in (16, 64):
        work = {
            name: quiet(partial(model.search, source, lengths, count, 4))
            for name, model in peers.items()
            if hasattr(model, "search")
        }
        yield f"beam 4, {count} tokens", "Hugging Face", work


def window() -> Table:
    """Attention to a window of 128 keys, beside full attention through the fused kernel."""
    for n in (512, 1024, 2048, 4096):
        qkv = torch.randn(3, 1, 8, n, 32).unbind()
        work = {
            "full, fused": partial(scaled_dot_product_attention, *qkv),
            "windowed": partial(windowed_attention, *qkv, 64),
            "windowed, causal": partial(windowed_attention, *qkv, 64, causal=True),
        }
        yield f"window of 128, n = {n}", "full, fused", {k: quiet(f) for k, f in work.items()}


GROUPS = {
    "training": training,
    "forward": forward,
    "attention": attention,
    "decoding": decoding,
    "window": window,
}


def quiet(function: Callable[[], object]) -> Callable[[], None]:
    """The same without gradients."""

    def run() -> None:
        with torch.inference_mode():
            function()

    return run


def timed(function: Callable[[], object]) -> float:
    """Seconds: on one core the processor's, which others on the machine do not add to."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    start = clock()
    function()
    return clock() - start


def measure(work: Work, repeats: int) -> dict[str, list[float]]:
    """Seconds of each turn of each, after one turn that does not count."""
    for function in work.values():
        function()
    turns = [{name: timed(function) for name, function in work.items()} for _ in range(repeats)]
    return {name: [turn[name] for turn in turns] for name in work}


def report(what: str, one: str, seconds: dict[str, list[float]]) -> None:
    one = one if one in seconds else "lib"
    print(f"\n**{what}** (1.00 = {one})\n")
    print("| who | ratio | quartiles | ms |")
    print("| --- | --- | --- | --- |")
    for name, taken in seconds.items():
        ratios = [a / b for a, b in zip(taken, seconds[one], strict=True)]
        low, _, high = statistics.quantiles(ratios, n=4)
        ms = 1e3 * statistics.median(taken)
        print(f"| {name} | {statistics.median(ratios):.2f} | {low:.2f} to {high:.2f} | {ms:.1f} |")


def versions() -> str:
    names = ("torch", "transformers", "x-transformers")
    found = {name: metadata.version(name) for name in names if name not in missing_packages()}
    return ", ".join(f"{name} {version}" for name, version in found.items())


def missing_packages() -> set[str]:
    return {{"Hugging Face": "transformers"}.get(name, name) for name in missing()}


def growth(rows: list[tuple[int, float]], what: str) -> None:
    """Print the exponent with which seconds grow."""
    fit = fit_power(*zip(*rows, strict=True))
    print(f"{what}: seconds grow as n^{fit.exponent:.2f} ({fit.low:.2f} to {fit.high:.2f})")


def memory() -> None:
    """Print what attention holds at once, with the weights and fused."""
    print("\n**memory of attention**, 8 heads, d_k 32, MiB at once\n")
    print("| n | with weights | fused | windowed |\n| --- | --- | --- | --- |")
    for n in (256, 1024, 2048):
        qkv = torch.randn(3, 1, 8, n, 32).unbind()
        held = (
            peak_bytes(lambda *x: scaled_dot_product_attention(*x, return_weights=True), *qkv),
            peak_bytes(scaled_dot_product_attention, *qkv),
            peak_bytes(lambda *x: windowed_attention(*x, 64), *qkv),
        )
        print(f"| {n} | " + " | ".join(f"{bytes_ / 2**20:.1f}" for bytes_ in held) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--only", default=",".join(GROUPS), help="groups, with commas between")
    given = parser.parse_args()
    torch.set_num_threads(given.cores)
    torch.manual_seed(0)
    print(f"{versions()}; {platform.machine()}, {given.cores} core(s)")
    for name in missing():
        print(f"not installed, left out: {name} (pip install -r requirements-bench.txt)")
    windows = []
    for group in given.only.split(","):
        for what, one, work in GROUPS[group]():
            seconds = measure(work, given.repeats)
            report(what, one, seconds)
            if group == "window":
                windows.append((int(what.split()[-1]), statistics.median(seconds["windowed"])))
        if group == "attention":
            memory()
    if windows:
        print()
        growth(windows, "windowed attention")


if __name__ == "__main__":
    main()
