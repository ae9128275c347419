"""Write the tables of benchmarks/README.md from the records: `python benchmarks/report.py`.

A table stands between `<!-- record: NAME -->` and `<!-- end -->`, and NAME is a function of this
file that makes it of a record. What stands outside such marks is text, and is left as it is.
"""

import re
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "book"))

from measure.records import read_results

README = Path(__file__).with_name("README.md")
MARKED = re.compile(r"(<!-- record: (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
TABLES: dict[str, Callable[[], str]] = {}
NEARLY_ALL = 0.95  # of the positions: a run that has learned its task


def from_record(function: Callable[[Any], str]) -> Callable[[Any], str]:
    """Let a function make the table of the record of its own name."""
    TABLES[function.__name__] = lambda: function(read_results(function.__name__))
    return function


def table(header: str, rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown; the columns of the header stand between bars."""
    columns = header.split("|")
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(str(cell).strip() for cell in line)} |\n" for line in lines)


def share(x: float, digits: int = 3) -> str:
    """.522 and 1.000: a fraction without the zero before its point."""
    return f"{x:.{digits}f}".removeprefix("0")


def each(values: Iterable[float], digits: int = 3) -> str:
    return ", ".join(share(x, digits) for x in values)


def span(values: Iterable[float], digits: int = 3) -> str:
    """The smallest and the largest of some values, once if they are written alike."""
    low, high = (share(f(list(values)), digits) for f in (min, max))
    return low if low == high else f"{low} to {high}"


@from_record
def seq2seq_seeds(record: dict[str, Any]) -> str:
    shares = [
        name for name in record["runs"][0] if name not in ("model", "seed", "steps", "seconds")
    ]
    rows = [
        [f"{one['model']}, {one['steps']} steps", one["seed"], f"{one['seconds']:.1f}"]
        + [share(one[name]) for name in shares]
        for one in record["runs"]
    ]
    return table("|".join(["model", "seed", "s", *shares]), rows)


@from_record
def bottleneck(record: dict[str, Any]) -> str:
    shown = [
        ("last state only", 128, 600, 2e-3),
        ("attention", 128, 300, 2e-3),
        ("last state only", 32, 2500, 6e-3),
        ("attention", 32, 1250, 2e-3),
        ("last state only", 128, 1250, 2e-3),
        ("last state only", 128, 2500, 2e-3),
        ("last state only", 128, 1250, 6e-3),
        ("last state only", 256, 1250, 2e-3),
        ("last state only", 256, 2500, 2e-3),
        ("without gates", 128, 1250, 2e-3),
        ("without gates", 256, 1250, 2e-3),
        ("attention", 128, 600, 2e-3),
    ]
    runs = {
        (run["model"], run["d_hidden"], point["step"], run["lr"]): point
        for run in record["runs"]
        if run["seed"] == 0
        for point in run["checkpoints"]
    }
    long = slice(2, record["sets"]["trained_bins"])  # 11 tokens and more, as far as training goes
    counts = sum(record["sets"]["sentences_per_bin"][long])
    rows = []
    for model, d_hidden, step, lr in shown:
        point = runs[model, d_hidden, step, lr]
        items = [point["probes"][n - 1][1] for n in (1, 2, 3, 4, 6)]
        exact = share(sum(one[0] for one in point["bins"][long]) / counts, 2)
        rows.append([f"{model}, {d_hidden}", f"{step}, {lr:g}", *items, exact])
    header = "model | steps, rate | alone | of 2 | of 3 | of 4 | of 6 | 11 tokens and more, exact"
    return table(header, rows)


@from_record
def contexts(record: dict[str, Any]) -> str:
    edges = [edge for edge in record["settings"]["edges"] if edge <= 35]  # training ends at 33
    models = list(dict.fromkeys(run["model"] for run in record["runs"]))
    rows = []
    for model in models:
        last = [run["checkpoints"][-1] for run in record["runs"] if run["model"] == model]
        columns = zip(*(one["exact"][: len(edges) - 1] for one in last), strict=True)
        rows.append([model, *(span(seeds) for seeds in columns), span([x["long"] for x in last])])
    lengths = [f"{low + (low > 1)} to {high}" for low, high in pairwise(edges)]
    return table("|".join(["what the decoder reads", *lengths, "11 and more"]), rows)


@from_record
def norm_depth_seeds(record: dict[str, Any]) -> str:
    rows = []
    for name, seeds in record["runs"].items():
        exact = [one["exact"] for one in seeds]
        told = "" if None in exact else each(exact, 2)
        rows.append([name, span([one["losses"][-1] for one in seeds]), told])
    return table("setting | final loss | translated exactly", rows)


@from_record
def deep_networks(record: dict[str, Any]) -> str:
    others = record["other rates"]
    rows = [
        [name, each(right), *(each(by_stack[name]) for by_stack in others.values())]
        for name, right in record["right"].items()
    ]
    rows.append(
        ["always the commonest class"] + [each(record["commonest class"])] * (1 + len(others))
    )
    return table("|".join(["stack", f"right at a rate of {record['rate']}", *others]), rows)


@from_record
def damped_attention(record: dict[str, Any]) -> str:
    rows = [
        [
            name,
            each(of["loss"], 2),
            *(span([seed[-1] for seed in of[stack]], 2) for stack in ("encoder", "decoder")),
        ]
        for name, of in record["settings"].items()
    ]
    return table("times .3 | loss | encoder alike | decoder alike", rows)


@from_record
def norms_by_depth(record: dict[str, Any]) -> str:
    rows = [
        [name, each(right), ", ".join(f"{size:.3g}" for size in record["size"][name])]
        for name, right in record["right"].items()
    ]
    return table("setting | digits right | size before training", rows)


@from_record
def head_ablation(record: dict[str, Any]) -> str:
    names = {"e": "encoder", "d": "decoder", "c": "cross"}
    kinds = record["ablations"]
    rows = []
    for layer in kinds["zero"]["layers"]:
        row = [f"{names[layer[0]]} {layer[1:]}"]
        for found in (kinds["zero"], kinds["mean"]):
            heads = [one["exact"] for head, one in found["single"].items() if head[:2] == layer]
            row += [each(heads), share(found["layers"][layer]["exact"])]
        rows.append(row)
    header = "layer | zero: head 1, 2, 3, 4 | all four | mean: head 1, 2, 3, 4 | all four"
    return table(header, rows)


@from_record
def head_roles(record: dict[str, Any]) -> str:
    rows = []
    for head in ("", "e2.3", "d1.2"):
        exact = record["exact_by_items"][head].values()
        looks = record["where_items_look"].get(head, [])
        rows.append([head or "none", *map(share, exact), each([x["separator"] for x in looks], 2)])
    header = "head off | one item | two | three | its weight on separators, items 1, 2, 3"
    return table(header, rows)


@from_record
def head_cost(record: dict[str, Any]) -> str:
    rows = []
    for one in record["settings"]:
        wide = f" of d_k {one['d_head']}" if one["d_head"] else ""
        heads = f"{one['n_heads']}{wide}{', squares' if one['square'] else ''}"
        behind = "network" if one["network"] else "linear layer"
        rows.append([one["task"], heads, behind, each(one["both"], 2)])
    return table("task | heads | behind them | both answers right", rows)


@from_record
def head_counts(record: dict[str, Any]) -> str:
    rows = [
        [heads, share(statistics.mean(found)), span(found)]
        for heads, found in record["exact"].items()
    ]
    return table("heads | exact match, mean | of the seeds", rows)


@from_record
def head_times(record: dict[str, Any]) -> str:
    rows = [
        [d_model, name, *(f"{x:.2f}" for x in times.values())]
        for d_model, kernels in record["times"].items()
        for name, times in kernels.items()
    ]
    counts = next(iter(next(iter(record["times"].values())).values()))
    heads = [f"{n} heads" if n != "1" else "1 head" for n in counts]
    return table("|".join(["d_model", "torch's kernel", *heads]), rows)


@from_record
def positions_seeds(record: dict[str, Any]) -> str:
    rows = []
    for name, seeds in record["models"].items():
        for keys in seeds[0]:
            if keys != "training":
                stretches = zip(*(one[keys] for one in seeds), strict=True)
                label = name if keys == "all keys" else f"{name}, {keys}"
                rows.append([label, *(f"{min(x):.2f}–{max(x):.2f}" for x in stretches)])
    return table("scheme | 0–64 | 64–128 | 128–192 | 192–256", rows)


@from_record
def smoothing_seeds(record: dict[str, Any]) -> str:
    digits = {"perplexity": 3, "accuracy": 3, "exact match": 3}
    rows = [
        [task, smoothing.removeprefix("smoothing ")]
        + [each([one[name] for one in seeds], n) for name, n in digits.items()]
        + [span([one["best temperature"] for one in seeds], 2)]
        for task, settings in record["tasks"].items()
        for smoothing, seeds in settings.items()
    ]
    header = "task | smoothing | perplexity | accuracy per token | exact match | best temperature"
    return table(header, rows)


@from_record
def embedding_choices(record: dict[str, Any]) -> str:
    rows = [
        [name, span(found["loss"], 2), span(found["rows"], 2)]
        + [each(found.get(figure, [])) for figure in ("perplexity", "exact")]
        for name, found in record["settings"].items()
    ]
    return table("setting | loss | length of a row | perplexity | exact match", rows)


@from_record
def ablations(record: dict[str, Any]) -> str:
    settings = {name: found for name, found in record.items() if name != "measured"}
    rows = [(name, each(found["accuracy"])) for name, found in settings.items()]
    return table("setting | exact match", rows)


@from_record
def ablations_full(record: dict[str, Any]) -> str:
    return ablations(record)


@from_record
def ablation_limits(record: dict[str, Any]) -> str:
    return ablations(record)


@from_record
def memorising(record: dict[str, Any]) -> str:
    rows = [
        [name, ", ".join("-" if n is None else str(n) for n in row["updates"]), each(row["exact"])]
        for name, row in record.items()
        if name != "measured"
    ]
    return table("setting | updates | exact match at the end", rows)


@from_record
def resuming(record: dict[str, Any]) -> str:
    rows = [
        [
            name,
            "yes" if all(row["equal"]) else "no" if not any(row["equal"]) else "some",
            span(row["distance"], 2),
            each(row["loss"]),
        ]
        for name, row in record.items()
        if "equal" in row
    ]
    rows.append(["(unbroken)", "", "", each(record["unbroken"]["loss"])])
    return table("left out | bit for bit equal | distance at the end | held-out loss", rows)


@from_record
def beam_widths(record: dict[str, Any]) -> str:
    def mean(alpha: str, figure: str) -> list[float]:
        seeds = [one[figure] for one in record["by_alpha"][alpha]]
        return [statistics.mean(numbers) for numbers in zip(*seeds, strict=True)]

    rows = [
        ["BLEU, no length penalty", *(f"{x:.1f}" for x in mean("0.0", "bleu"))],
        ["BLEU, alpha 0.6", *(f"{x:.1f}" for x in mean("0.6", "bleu"))],
        ["tokens / tokens of the references, no penalty", *map(share, mean("0.0", "length"))],
        ["reference scores higher than what was found", *map(share, mean("0.0", "missed"))],
    ]
    return table("|".join(["beam", *map(str, record["beams"])]), rows)


@from_record
def beam_training(record: dict[str, Any]) -> str:
    rows = []
    for name, one in record["trainings"].items():
        for search, runs in one["found"][0].items():
            figures = {f: [run[search][f] for run in one["found"]] for f in runs}
            bleu = ", ".join(f"{points:.1f}" for points in figures["bleu"])
            shown = (each(figures[f]) for f in ("length", "shorter", "higher", "lower"))
            rows.append([name, search, bleu, *shown])
    return table("training|search|BLEU|length|shorter|likelier|less likely", rows)


@from_record
def two_processes(record: dict[str, Any]) -> str:
    rows = [
        (row["dropout"], *(f"{one['validation_loss']:.4f}" for one in row["runs"]), apart)
        for row in record["settings"]
        for apart in [share(row["difference"], 4)]
    ]
    return table("dropout | one process | two | difference", rows)


@from_record
def laboratories(record: dict[str, Any]) -> str:
    rows = []
    for row in record["settings"]:
        accuracy, loss, seconds = (
            [one[figure] for one in row["runs"]] for figure in ("accuracy", "loss", "seconds")
        )
        rows.append(
            [row["task"], row["name"], span(accuracy), span(loss, 2), f"{max(seconds):.1f}"]
        )
    return table("laboratory | setting | accuracy | loss | s", rows)


@from_record
def senses_seeds(record: dict[str, Any]) -> str:
    rows = [
        [row["name"], span([one["accuracy"] for one in row["runs"]]), span(long)]
        for row in record["settings"]
        for long in [[one["numbers"]["right among 32 words"] for one in row["runs"]]]
    ]
    return table("setting | short sentences | filled up to 32 words", rows)


@from_record
def playground(record: dict[str, Any]) -> str:
    played = (
        "clue before the word",
        "clue after the word",
        "? without a clue",
        "the same in another order",
    )
    rows = []
    for name, row in record["settings"].items():
        of_seeds = {what: [run["play"].get(what) for run in row["runs"]] for what in played}
        shown = [span(shares) if None not in shares else "" for shares in of_seeds.values()]
        rows.append([name, span([run["accuracy"] for run in row["runs"]]), *shown])
    return table(f"setting | right | {' | '.join(played)}", rows)


@from_record
def laboratory_seeds(record: dict[str, Any]) -> str:
    rows = []
    for row in record["settings"]:
        reached = dict(zip(record["seeds"], row["accuracy"], strict=True))
        below = [seed for seed, accuracy in reached.items() if accuracy < NEARLY_ALL]
        seeds = "all" if len(below) == len(reached) else ", ".join(map(str, below))
        good = f"{len(reached) - len(below)} of {len(reached)}"
        rows.append([row["name"], good, seeds, span([reached[seed] for seed in below or reached])])
    below = f"below {share(NEARLY_ALL, 2)}"
    return table(
        f"setting | above {share(NEARLY_ALL, 2)} | seeds {below} | what these (else all) reach",
        rows,
    )


@from_record
def take_out(record: dict[str, Any]) -> str:
    rows = []
    for without, runs in record["without"].items():
        right, words, seconds = (
            [one[figure] for one in runs] for figure in ("accuracy", "next", "seconds")
        )
        said = Counter(one["writes"]["73691"] or "no word" for one in runs)
        [(answer, times)] = said.most_common(1)
        rows.append(
            [without, span(right), span(words), f"{max(seconds):.1f}", f"{answer} ({times})"]
        )
    return table("without | numbers right | next words right | s | 73691, most often", rows)


@from_record
def copying(record: dict[str, Any]) -> str:
    """Of lists of up to twelve digits: digits right at some lengths, and lists of all lengths."""
    rows = []
    for model, by_state in record["models"].items():
        for state, by_longest in by_state.items():
            row = by_longest["12"]
            digits = [span(row["digits"][n]) for n in ("2", "4", "8", "12")]
            cells = [*digits, span(row["lists"]["12"]), f"{max(row['seconds']):.1f}"]
            rows.append([model, state, *cells])
    return table("model | state | 2 digits | 4 | 8 | 12 | lists of 12 | s", rows)


@from_record
def train_now(record: dict[str, Any]) -> str:
    rows = [
        [
            str(run["seed"]),
            str(run["enough_step"]),
            f"{run['enough_seconds']:.1f}",
            share(run["accuracy"]),
            f"{run['seconds']:.1f}",
        ]
        for run in record["runs"]
    ]
    return table("seed | 90 % right after step | s | right in the end | s", rows)


@from_record
def first_page(record: dict[str, Any]) -> str:
    rows = []
    for name, one in record["screens"].items():
        sizes = (one["bytes"], *(one["parts"][part] for part in ("page", "book", "theme", "fonts")))
        seconds = (one["ms"]["first_paint"] / 1000, one["ms"]["trainer"] / 1000)
        rows.append([name, *(f"{n / 1000:.0f}" for n in sizes), *(f"{s:.1f}" for s in seconds)])
    return table("screen | kB | page | book | theme | fonts | first paint, s | trainer, s", rows)


@from_record
def language(record: dict[str, Any]) -> str:
    rows = []
    for text, by_dropout in record["texts"].items():
        for dropout, row in by_dropout.items():
            below = [seconds for seconds in row["beaten"] if seconds is not None]
            after = f"{min(below):.0f} to {max(below):.0f} s" if below else "never"
            rows.append(
                [
                    text,
                    dropout,
                    f"{row['counted']:.3f}",
                    *(f"{min(row[k]):.3f} to {max(row[k]):.3f}" for k in ("least", "held")),
                    after if len(below) in (0, len(row["beaten"])) else f"{len(below)}: {after}",
                    f"{max(row['seconds']):.0f}",
                    f"{min(row['copied'])} to {max(row['copied'])}",
                    f"{min(row['taught']):.3f} to {max(row['taught']):.3f}",
                ]
            )
    header = "text | dropout | count | least loss | last loss | below after | whole run, s | copied"
    return table(f"{header} | training loss", rows)


@from_record
def byte_pairs(record: dict[str, Any]) -> str:
    names = ("merges", "seed", "kinds", "long", "held", "taught", "copied", "seconds")
    figures = {"held": ".3f", "taught": ".3f", "long": ".2f", "seconds": ".0f"}
    rows = [[format(run[name], figures.get(name, "")) for name in names] for run in record["runs"]]
    header = "merges | seed | pieces | characters each | held-out loss | training loss | copied | s"
    return table(header, rows)


@from_record
def own_data(record: dict[str, Any]) -> str:
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in record["runs"]:
        found.setdefault((run["corpus"], run["setting"]), []).append(run)
    rows = [
        [
            *names,
            ", ".join(f"{run['bleu']:.2f}" for run in runs),
            f"{runs[0]['updates']:,}",
            ", ".join(f"{run['best']:,}" for run in runs),
            span([run["seconds"] for run in runs], 0),
        ]
        for names, runs in found.items()
    ]
    return table("sentences | what is said | BLEU | updates | best after | s", rows)


def letters_by_position() -> str:
    """The laboratory of "longer": next letters right in each stretch, mean over the seeds."""
    settings = [row for row in read_results("laboratories")["settings"] if row["task"] == "longer"]
    stretches = [name for name in settings[0]["runs"][0]["numbers"] if name.startswith("positions")]
    rows = [
        [row["name"]]
        + [share(statistics.mean(one["numbers"][s] for one in row["runs"])) for s in stretches]
        for row in settings
    ]
    names = [stretch.removeprefix("positions ").replace(" to ", "–") for stretch in stretches]
    return table("|".join(["scheme", *names]), rows)


TABLES["letters_by_position"] = letters_by_position


@from_record
def families_seeds(record: dict[str, Any]) -> str:
    shown = {
        "the first word, hidden: encoder-only": "encoder-only gap",
        "the same: decoder-only, which sees nothing of it": "decoder-only gap",
        "exact translations: decoder-only": "decoder-only exact",
        "prefix mask": "prefix exact",
        "encoder-decoder": "encoder-decoder exact",
        "causal mask, loss on the translation alone": "asked less exact",
    }
    rows = [
        [text, *(share(one[name]) for one in record["by_seed"])] for text, name in shown.items()
    ]
    return table("|".join(["", *(f"seed {n}" for n in record["seeds"])]), rows)


@from_record
def families_causes(record: dict[str, Any]) -> str:
    shown = {
        ("encoder", "gap"): "the first word, hidden: encoder-only",
        ("encoder", "without its first word"): "if no source token may attend to its translation",
        ("encoder", "without translation"): "nor to the rest of the translation",
        ("encoder", "told the length, surest first"): "translations, if it is told their length",
        ("decoder", "exact"): "translations: decoder-only",
        ("decoder", "word 3 by scoring"): "word 3, hidden, by scoring",
    }
    rows = [
        [text, *(share(one[name]) for one in record["models"][model])]
        for (model, name), text in shown.items()
    ]
    return table("|".join(["", *(f"seed {n}" for n in record["seeds"])]), rows)


@from_record
def families_losses(record: dict[str, Any]) -> str:
    rows = [
        [name, "first words" if "gap" in one else "translations", *map(share, one[figure])]
        for name, one in record["settings"].items()
        for figure in ("exact" if "exact" in one else "gap",)
    ]
    return table("|".join(["", "right", *(f"seed {n}" for n in record["seeds"])]), rows)


@from_record
def modern_block(record: dict[str, Any]) -> str:
    settings = {row["name"]: row for row in record["settings"]}
    rows = []
    for name, row in settings.items():
        losses, before = row["held_out"], settings.get(row["after"], {}).get("held_out")
        change = ""
        if before:
            pairs = zip(losses, before, strict=True)
            change = f"{statistics.mean(now - then for now, then in pairs):+.3f}"
        cells = [name, row["after"] or "", *(f"{x:.3f}" for x in losses), change]
        cells += [
            f"{row['parameters']:,}",
            f"{row['cache_bytes'] / 1024:.1f}",
            f"{row['time']:.2f}",
        ]
        rows.append(cells)
    seeds = [f"seed {n}" for n in record["seeds"]]
    columns = ["step", "starts from", *seeds, "change", "parameters", "cache, KiB", "time"]
    return table("|".join(columns), rows)


@from_record
def modern_block_longer(record: dict[str, Any]) -> str:
    short = {row["name"]: row for row in read_results("modern_block")["settings"]}

    def change(settings: dict[str, Any], name: str) -> str:
        now, then = (settings[one]["held_out"] for one in (name, settings[name]["after"]))
        return ", ".join(f"{a - b:+.3f}" for a, b in zip(now, then, strict=True))

    rows = []
    for name, row in record["settings"].items():
        cells = [change(of, name) if row["after"] else "" for of in (short, record["settings"])]
        losses = ", ".join(f"{x:.3f}" for x in row["held_out"])
        rows.append([name, row["after"] or "", *cells, losses])
    return table("step|starts from|change, 300|change, 1,500|held-out loss, 1,500", rows)


@from_record
def modern_block_rates(record: dict[str, Any]) -> str:
    rows = [
        [name, *(f"{statistics.mean(losses):.3f}" for losses in one["rates"].values())]
        for name, one in record["settings"].items()
    ]
    rates = next(iter(record["settings"].values()))["rates"]
    return table("|".join(["step, updates", *rates]), rows)


@from_record
def number_translator(record: dict[str, Any]) -> str:
    rows = []
    for name, runs in record["settings"].items():
        figures = [
            [one["endings"]["teens"] for one in runs],
            [one["endings"]["others"] for one in runs],
            [one["curve"][-1]["accuracy"] for one in runs],
            [one["thousands"] for one in runs],
        ]
        longer = [one["longer"] for one in runs if "longer" in one]
        parts = ("right", "some_shorter_number", "first_digits") if longer else ()
        figures += [[one[part] for one in longer] for part in parts]
        cells = [span(x, 2) for x in figures]
        rows.append([name, *cells, *[""] * (7 - len(cells))])
    header = (
        "most digits, rate | 11 to 19 | 21 to 99 | held out | thousands | "
        "one digit more: right | a shorter number | the first digits"
    )
    return table(header, rows)


@from_record
def engine(record: dict[str, Any]) -> str:
    rows = []
    for name, row in record.items():
        ms, of_torch = row["milliseconds"], row["of_torch"]
        cells = [f"{ms[path]:.2f}" for path in ("wasm", "plain", "torch")]
        cells += [f"{of_torch['wasm']:.2f}", f"{of_torch['plain']:.2f}"]
        rows.append([name, f"{row['parameters']:,}", *cells, f"{row['plain_of_wasm']:.1f}"])
    header = (
        "model | parameters | WebAssembly, ms | plain, ms | torch, ms | WebAssembly / torch | "
        "plain / torch | plain / WebAssembly"
    )
    return table(header, rows)


@from_record
def kills(record: dict[str, Any]) -> str:
    rows = []
    kinds = dict.fromkeys((run["torchruns"], run["restarts"]) for run in record["runs"])
    for torchruns, restarts in kinds:
        runs = [
            run
            for run in record["runs"]
            if (run["torchruns"], run["restarts"]) == (torchruns, restarts)
        ]
        ended: Counter[str] = Counter()
        for run in runs:
            ended[run["ended"]] += run["kills"]
        seconds = [one["seconds"] for run in runs for one in run["killed"]]
        good = ("same bits", "one line", "hung")
        rows.append(
            [
                torchruns,
                restarts,
                ended.total(),
                *(ended[how] for how in good),
                sum(number for how, number in ended.items() if how not in good),
                f"{statistics.median(seconds):.0f}",
                f"{max(seconds):.0f}",
            ]
        )
    header = (
        "torchruns | restarts | kills | same bits | one line | hung | other | s, median | longest"
    )
    return table(header, rows)


@from_record
def communication(record: dict[str, Any]) -> str:
    rows = []
    for fit, sent in zip(record["fits"], record["sent"], strict=True):
        predicted = [
            f"{one['median_size']:.0%}, {one['largest_size']:.0%}"
            for one in record["predictions"]
            if (one["n"], one["kind"]) == (fit["n"], "all_reduce")
        ]
        rows.append(
            [
                fit["n"],
                f"{1e6 * fit['latency']:,.0f}",
                f"{fit['bandwidth'] / 1e9:.2f}",
                f"{fit['median_size']:.0%}, {fit['largest_size']:.0%}",
                *(predicted or [""]),
                " / ".join(f"{sent['counted'][k]:.3f}" for k in sent["formula"]),
            ]
        )
    header = (
        "processes | latency, µs | bandwidth, GB/s | error of the fit, median and largest | of the "
        "prediction from two | bytes sent by a rank per byte: all-reduce / all-gather / "
        "reduce-scatter"
    )
    return table(header, rows)


@from_record
def bench(record: dict[str, Any]) -> str:
    def cell(found: dict[str, Any]) -> str:
        ratios = {name: row["ratio"] for name, row in found["rows"].items()}
        del ratios[found["1.00"]]
        return ", ".join(f"{name} **{x:.2f}**" for name, x in ratios.items())

    cores = record["cores"]
    rows = [
        [what, found["1.00"], *(cell(each["work"][what]) for each in cores.values())]
        for what, found in cores["1"]["work"].items()
    ]
    grows = " / ".join(
        "n^{exponent:.2f} ({low:.2f} to {high:.2f})".format(
            **each["seconds of the window grow as n^"]
        )
        for each in cores.values()
    )
    held = ", ".join(f"{what} {mib}" for what, mib in cores["1"]["MiB at once"]["2048"].items())
    lines = table("work | 1.00 is | one core | two cores", rows)
    return (
        f"{lines}\nThe window's time grows as {grows}. What attention's tensors hold at once at "
        f"n = 2,048, with 8 heads of 32, in MiB: {held}. Versions: {record['versions']}.\n"
    )


@from_record
def decoding_speed(record: dict[str, Any]) -> str:
    rows = [
        [
            run["work"],
            size,
            *(f"{row['ratio']:.2f}" for row in found["rows"].values()),
            f"{found['fastest']['lib, 8 bits']:.2f}",
            found["rows"][found["1.00"]]["ms"],
            found["load"],
        ]
        for run in record["runs"]
        for size, found in run["found"].items()
    ]
    names = record["runs"][0]["found"]["base"]["rows"]
    columns = ["work", "size", *names, "8 bits, fastest turn", "Hugging Face, ms", "load"]
    return table(" | ".join(columns), rows)


@from_record
def eight_bits(record: dict[str, Any]) -> str:
    rows = [
        [
            run["model"],
            f"{run['parameters']:,}",
            way,
            f"{run[way]['same']} of {run[way]['sentences']}",
            *(f"{run[way][bits]['bleu']:.2f}" for bits in ("float32", "8 bits")),
        ]
        for run in record["runs"]
        for way in ("greedy", "beam 4")
    ]
    return table("model | parameters | search | same tokens | BLEU, float32 | BLEU, 8 bits", rows)


@from_record
def browser_forward(record: dict[str, Any]) -> str:
    ways = ["page", "page, traced", "the widget, pressed", "torch"]
    rows = [
        [
            one["d_model"],
            *(f"{one[way]['median']} ({one[way]['late']})" if way in one else "" for way in ways),
            one["page"]["first"],
        ]
        for one in record["milliseconds"]
    ]
    return table("d_model | " + " | ".join(ways) + ", one thread | first run in the page", rows)


@from_record
def pages(record: dict[str, Any]) -> str:
    def kilobytes(load: dict[str, int]) -> float:
        return load["bytes"] / 1000

    found = record["pages"]
    chapters = {name: page for name, page in found.items() if re.match(r"book/\d\d_", name)}
    marked = {"the first page": found["book/intro.html"]}
    for which, choose in (("lightest", min), ("heaviest", max)):
        for load in ("at first", "whole"):
            name = choose(chapters, key=lambda name: chapters[name][load]["bytes"])
            marked[f"{which} chapter {load}: {int(name[5:7])}"] = chapters[name]
    rows = [
        [
            name,
            " / ".join(str(page[load]["requests"]) for load in ("at first", "whole")),
            " / ".join(f"{kilobytes(page[load]):.0f}" for load in ("at first", "whole")),
            page["ms"]["first"],
            page["violations"],
        ]
        for name, page in marked.items()
    ]
    site = record["site"]
    lines = table(
        "page | requests, first / whole | kB gzip, first / whole | first paint, ms | axe finds",
        rows,
    )
    size = f"{site['bytes'] / 1e6:.1f} MB, {site['packed'] / 1e6:.1f} MB in gzip"
    return f"{lines}\nThe whole site: {site['files']} files, {size}.\n"


@from_record
def transformer_task(record: dict[str, Any]) -> str:
    found: dict[str, list[dict[str, Any]]] = {}
    for one in record["runs"]:
        found.setdefault(one["positions"], []).append(one)
    rows = [
        [name, each(run["exact"] for run in runs), span([run["seconds"] for run in runs], 0)]
        for name, runs in found.items()
    ]
    return table("positions | translated exactly | seconds of the processor", rows)


@from_record
def mask_seeds(record: dict[str, Any]) -> str:
    columns = ["loss", "accuracy", "alone", "batch", "20 pads", "differ"]
    rows = [
        [name, *(span([one[column] for one in runs]) for column in columns)]
        for name, runs in record["models"].items()
    ]
    header = (
        "model | final loss | accuracy, forced | exact match, one by one | in a batch | "
        "with 20 more pads | differ in the batch"
    )
    return table(header, rows)


@from_record
def leak_seeds(record: dict[str, Any]) -> str:
    reads = ["another source", "next hidden", "next alone", "foreign word"]
    rows = [
        [
            name,
            len(runs["loss"]),
            span(runs["loss"], 4),
            *(span(runs[column]) for column in ("accuracy", "alone", "batch")),
            span([masked[-1] for masked in runs["masked"]]),
            *(span(runs[column]) if column in runs else "" for column in reads),
        ]
        for name, runs in record["models"].items()
    ]
    header = (
        "model | seeds | final loss | accuracy, forced | exact match, one by one | in a batch | "
        "accuracy with the mask | with another source | next position hidden | nothing else | "
        "a random word there is predicted"
    )
    return table(header, rows)


def spread(values: Iterable[float], digits: int = 2) -> str:
    """The lowest, the median and the highest of many values; three and fewer as they are."""
    values = list(values)
    if len(values) <= 3:
        return each(values, digits)
    found = min(values), statistics.median(values), max(values)
    return " / ".join(share(x, digits) for x in found)


@from_record
def parts(record: dict[str, Any]) -> str:
    tasks = ("numbers", "translation")
    rows = []
    for part, name in record["parts"].items():
        row = [name]
        for task in tasks:
            figures = record["needed"].get(task, {}).get(part, {})
            row += [spread(figures.get(figure, ())) for figure in ("exact", "next_right")]
            row.append(spread(record["used"].get(task, {}).get(part, ())))
        rows.append(row)
    columns = [f"{task}: {x}" for task in ("numbers", "the book's task") for x in PARTS_COLUMNS]
    return table("|".join(["without", *columns]), rows)


PARTS_COLUMNS = ("trained without, exact", "next words right", "switched off")


def parts_numbers() -> str:
    """Where seeds differ most: exact match of each seed, in order of size."""
    record = read_results("parts")
    rows = [
        [told, record["parts"][part], each(sorted(found[part]["exact"]), 2)]
        for task, told in NUMBERS.items()
        for found in [record["needed"].get(task, {})]
        for part in ("nothing", "encoder_self_attention", "encoder")
        if part in found
    ]
    return table("numbers | without | exact, each seed", rows)


NUMBERS = {
    "numbers": "one hundred one",
    "numbers_end_hidden": "the same, the end mark hidden from the decoder",
    "numbers_and": "one hundred and one",
}
TABLES["parts_numbers"] = parts_numbers


@from_record
def parts_real_text(record: dict[str, Any]) -> str:
    needed, used = record["needed"]["real_text"], record["used"].get("real_text", {})
    first = {one["part"]: one["said"] for one in reversed(record["runs"])}
    shown = [pair["source"] for pair in record["shown"]["real_text"]].index(REAL_TEXT_SHOWN)
    rows = [
        [
            name,
            ", ".join(f"{x:.1f}" for x in needed[part]["bleu"]),
            each(needed[part]["next_right"], 2),
            ", ".join(f"{x:.1f}" for x in used.get(part, ())),
            f"*{said}*" if (said := first[part][shown].replace(" .", "")) else "nothing",
        ]
        for part, name in record["parts"].items()
        if part in needed
    ]
    header = "without | trained without, BLEU | next words right | switched off, BLEU | it writes"
    return table(header, rows)


REAL_TEXT_SHOWN = "ein fußballspieler läuft vor einem grünen zaun über den rasen ."


def written(text: str) -> str:
    """The text with each marked table as the records have it.

    Errors: ValueError for a mark that names no table.
    """

    def fill(found: re.Match[str]) -> str:
        begin, name, _, end = found.groups()
        if name not in TABLES:
            known = ", ".join(sorted(TABLES))
            raise ValueError(f"expected the name of a table ({known}), got {name!r}")
        return f"{begin}{TABLES[name]()}{end}"

    return MARKED.sub(fill, text)


def main() -> None:
    README.write_text(written(README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
