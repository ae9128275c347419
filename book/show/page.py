"""Writes the page: one HTML file, and beside it the scripts, the styles and the models it loads."""

import html
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from build.directives.widgets import BOOK, JS, shared_script, write_widget
from build.pages import policy
from chapters.transformer.forward_tracer import ForwardTracer
from show.measured import Finished, Measured, Translated, extremes, in_numbers
from show.run_losses import RunLosses
from train.options import PLACES
from train.report import duration
from train.run import perplexity

PAGE = "index.html"
MARK = '<meta name="generator" content="python -m show">'
STYLE = Path(__file__).with_name("show.css")
EXAMPLES = 5  # translations of each kind
# Options that say where something was and not what was trained.
ELSEWHERE = {"out", "resume", "tensorboard", "threads", "device", "save_every"}


@dataclass(frozen=True)
class Shown:
    """A run with all that is measured of it, and its tracer or why there is none."""

    run: Finished
    measured: Measured
    bits: int
    tracer: ForwardTracer | None
    why_not: str


def write_page(shown: Sequence[Shown], folder: Path) -> None:
    """Write the page and all its files into a folder, which is there and empty.

    Errors: OSError.
    """
    scripts = folder / "widgets"
    (scripts / "models").mkdir(parents=True)
    (scripts / "shared.js").write_text(shared_script(), encoding="utf-8")
    shutil.copy(BOOK / "static" / "widget-host.js", scripts / "host.js")
    shutil.copy(JS / "base.css", scripts)
    shutil.copy(STYLE, scripts)
    for kind in (RunLosses, ForwardTracer):
        write_widget(kind._module, kind._folder, scripts)
    for one in shown:
        if one.tracer and one.tracer._packed:
            path = scripts / "models" / f"{one.tracer._packed.id}.js"
            path.write_text(one.tracer._packed.script(), encoding="utf-8")
    (folder / PAGE).write_text(policy.protect(text_of(shown)), encoding="utf-8")


def text_of(shown: Sequence[Shown]) -> str:
    """The page's HTML, without its policy."""
    names = " and ".join(one.run.name for one in shown)
    sheets = ("base", RunLosses._module, ForwardTracer._module, "show")
    scripts = ("host", "shared", RunLosses._module, ForwardTracer._module)
    head = [f'<link rel="stylesheet" href="widgets/{name}.css">' for name in sheets]
    head += [f'<script defer src="widgets/{name}.js"></script>' for name in scripts]
    title = "Your translator" if len(shown) == 1 else "Your translators"
    body = [tag("h1", f"{title}: {names}"), *_overview(shown)]
    if len(shown) == 1:
        body += [*_translate(shown[0], "h2"), *_losses(shown), *_about(shown[0], "h2", "h3")]
    else:
        body += [_what_differs(shown), *_losses(shown), *_where_they_differ(shown)]
        for one in shown:
            body.append(tag("h2", f"The run {one.run.name}"))
            body += [*_translate(one, "h3"), *_about(one, "h3", "h4")]
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n{MARK}\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'{tag("title", f"{title}: {names}")}\n<link rel="icon" href="data:,">\n'
        f"{chr(10).join(head)}\n</head>\n<body>\n<main>\n{chr(10).join(body)}\n</main>\n</body>\n"
        "</html>\n"
    )


def tag(name: str, text: str, kind: str = "") -> str:
    """An element with a text, escaped."""
    class_ = f' class="{kind}"' if kind else ""
    return f"<{name}{class_}>{html.escape(text)}</{name}>"


def table(caption: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, escaped; the first column names the row."""
    lines = []
    for first, *cells in rows:
        inner = "".join(tag("td", cell) for cell in cells)
        lines.append(f'<tr><th scope="row">{html.escape(first)}</th>{inner}</tr>')
    head = "".join(
        f'<th scope="col">{html.escape(name)}</th>' if name else "<td></td>" for name in header
    )
    return (
        f'<div class="wide"><table>{tag("caption", caption)}<thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


# --- all runs -----------------------------------------------------------------------------------


def _overview(shown: Sequence[Shown]) -> list[str]:
    """What the runs came to, beside each other."""
    columns = [key_figures(one) for one in shown]
    rows = list(dict.fromkeys(name for column in columns for name in column))
    return [
        tag("p", "This page needs no network: the model is in a file beside it.", "lead"),
        table(
            "What training came to",
            ("", *(one.run.name for one in shown)),
            [(name, *(column.get(name, "–") for column in columns)) for name in rows],
        ),
    ]


def _losses(shown: Sequence[Shown]) -> list[str]:
    curves = [
        {
            "name": one.run.name,
            "training": one.run.losses.training,
            "validation": one.run.losses.validation,
            "best": (one.run.progress.best_step, one.run.progress.best_loss),
        }
        for one in shown
    ]
    together = len(shown) if len(shown) > 1 else 0
    return [tag("h2", "Losses"), embedded(RunLosses(curves, shown=together))]


def key_figures(one: Shown) -> dict[str, str]:
    """The run in a few lines, by what each says."""
    run, measured = one.run, one.measured
    config = run.model.config
    counted = len(measured.translated)
    some = f"{counted:,} sentences" if counted == measured.of else f"{counted:,} of {measured.of:,}"
    figures = {
        f"BLEU on {name}, as the run was scored": f"{score} on {count} sentences, {how}"
        for name, score, count, how in run.scores
    }
    figures[f"BLEU on {run.test[0]}, greedy"] = f"{measured.exact_bleu:.2f} on {some}"
    if one.tracer and one.bits < 32:
        figures[f"the same with {one.bits} bits a parameter, as on this page"] = (
            f"{measured.bleu:.2f}; {measured.alike:,} of {counted:,} translations are the same"
        )
    loss = run.progress.best_loss
    return figures | {
        "lowest validation loss": f"{loss:.3f}, {perplexity(loss)}",
        "after update": f"{run.progress.best_step:,} of {run.losses.training[-1][0]:,}",
        "time of training": duration(run.progress.seconds),
        "parameters": f"{run.parameters:,}",
        "layers": f"{config.n_layers} in the encoder, {config.n_layers} in the decoder",
        "d_model, heads, d_ff": f"{config.d_model}, {config.n_heads}, {config.d_ff}",
        "pairs for training": f"{len(run.corpus.train):,}",
    }


def _what_differs(shown: Sequence[Shown]) -> str:
    """The options in which the runs differ."""
    options = [dict(options_of(one.run)) for one in shown]
    rows = [
        (name, *(column.get(name, "–") for column in options))
        for name in dict.fromkeys(name for column in options for name in column)
        if len({column.get(name) for column in options}) > 1
    ]
    if not rows:
        return tag("p", "The runs were given the same options.")
    return table("Options that differ", ("", *(one.run.name for one in shown)), rows)


def _where_they_differ(shown: Sequence[Shown]) -> list[str]:
    """The test sentences on which one run is better than the other by most."""
    body = [tag("h2", "Where the translations differ most")]
    first, second = ({x.source + x.reference: x for x in s.measured.translated} for s in shown)
    if first.keys() != second.keys():
        return [*body, tag("p", "The two runs were scored on different sentences.")]
    names = [one.run.name for one in shown]
    for name, sign in zip(names, (1, -1), strict=True):
        ahead = {key: sign * (first[key].score - second[key].score) for key in first}
        ranked = sorted(first, key=ahead.__getitem__, reverse=True)[:EXAMPLES]
        lines = [
            (
                *_lines_of(first[key])[:2],
                _said(names[0], first[key]),
                _said(names[1], second[key]),
            )
            for key in ranked
            if ahead[key] > 0
        ]
        found = _pairs(lines) if lines else tag("p", "On no sentence.")
        body += [tag("h3", f"{name} comes nearer to the reference"), found]
    return body


# --- one run ------------------------------------------------------------------------------------


def _translate(one: Shown, part: str) -> list[str]:
    """The tracer under a heading, or why there is none. Args: part, the element of the heading."""
    body = [tag(part, "Translate with it")]
    if not one.tracer:
        return [*body, tag("p", one.why_not, "why-not")]
    how = (
        f"Each parameter has {one.bits} bits here instead of 32."
        if one.bits < 32
        else "The parameters are those of the run."
    )
    text = (
        "Type a sentence. The model writes its translation word by word, each time the likeliest "
        f"word; a word that it does not know is named. {how} Then walk through the layers, look at "
        "the map of every head, and choose a cell to see the numbers behind its weight."
    )
    return [*body, tag("p", text), embedded(one.tracer)]


def _about(one: Shown, part: str, smaller: str) -> list[str]:
    """Translations, data and options. Args: the elements of the headings."""
    run, measured = one.run, one.measured
    body = [
        tag(part, "The best, the median and the worst translations"),
        tag(
            "p",
            f"Of {len(measured.translated):,} sentences of {run.test[0]}, translated greedily. "
            "They are ordered by chrF, the number beside each translation: of the letters in runs "
            "of one to six, how many the translation and its reference share, from 0 to 100.",
        ),
    ]
    for kind, some in extremes(measured.translated, EXAMPLES).items():
        body += [tag(smaller, kind.capitalize()), _pairs(map(_lines_of, some))]
    body += [
        tag(part, "The data in numbers"),
        table(_counted(run), ("", "source", "target"), in_numbers(run)),
        tag(part, "The options"),
        table("All that fixed the run", ("option", "value"), options_of(run)),
    ]
    if run.reasons:
        chosen = "".join(tag("li", reason) for reason in run.reasons)
        body.append(f"{tag('p', 'Chosen by the sentences:')}<ul>{chosen}</ul>")
    summary = f"{tag('summary', 'What the run itself said at its end')}{tag('pre', run.summary)}"
    return [*body, f"<details>{summary}</details>"]


def _counted(run: Finished) -> str:
    corpus = run.corpus
    tests = ", ".join(f"{len(pairs):,} in {name}" for name, pairs in corpus.tests.items())
    left = f", {len(corpus.left_out):,} too long ones left out" if corpus.left_out else ""
    return (
        f"{len(corpus.train):,} pairs for training{left}; {len(corpus.valid):,} for validation; "
        f"{tests}"
    )


def options_of(run: Finished) -> list[tuple[str, str]]:
    """The options that were set, or had a default, by their flags; of files only the names."""
    rows = []
    for name, value in vars(run.options).items():
        if name in ELSEWHERE or value in (None, [], False):
            continue
        if name in PLACES and name not in ("source", "target"):
            value = ", ".join(
                Path(path).name for path in ([value] if isinstance(value, str) else value)
            )
        rows.append((f"--{name.replace('_', '-')}", "yes" if value is True else str(value)))
    return rows


def _lines_of(one: Translated) -> tuple[tuple[str, str], ...]:
    return (
        ("source", " ".join(one.source)),
        ("reference", " ".join(one.reference)),
        _said("translation", one),
    )


def _said(name: str, one: Translated) -> tuple[str, str]:
    return f"{name}, {one.score:.0f}", " ".join(one.words)


def _pairs(items: Iterable[Sequence[tuple[str, str]]]) -> str:
    """A list of translations, each a few named lines; what a model wrote stands out."""
    found = []
    for lines in items:
        inner = "".join(
            tag("dt", name) + tag("dd", text, "" if name in ("source", "reference") else "said")
            for name, text in lines
        )
        found.append(f"<li><dl>{inner}</dl></li>")
    return f'<ol class="pairs">{"".join(found)}</ol>'


def embedded(widget: Any) -> str:
    """A widget as a page without a kernel holds it."""
    return widget._repr_mimebundle_()[0]["text/html"]


def is_page(folder: Path) -> bool:
    """Whether a folder holds a page that was written here."""
    path = folder / PAGE
    if not path.is_file():
        return False
    with path.open(encoding="utf-8", errors="replace") as stream:
        return MARK in stream.read(4096)


def size(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
