"""Keeps what answers a prediction apart, so that a page can hide it until the reader has answered.

What stands between a `{predict}` and its `{outcome}` is the evidence. On the page both stand in one
element of class `evidence`, which `static/questions.js` hides and opens; without scripts and on
paper it changes nothing. Text that a reader needs is never hidden:

- A laboratory shows nothing before somebody trains in it. So it stays open, and with it what stands
  before it: what to try.
- Where a heading or another question stands between the two, only the code cells directly behind
  the prediction are hidden, and the outcome.
"""

from docutils import nodes
from sphinx.transforms import SphinxTransform

from build.directives.questions import asked
from build.doctree.outputs import is_cell
from engine.text import LABORATORIES

DIVS = [f'data-module="{name}"' for name in LABORATORIES]


class evidence(nodes.General, nodes.Element):
    """What answers the prediction `name`."""


def answers(predict: nodes.Element, outcome: nodes.Element) -> list[list[nodes.Node]]:
    """The runs of neighbours that are hidden until `predict` is answered."""
    siblings = predict.parent.children
    after = siblings[siblings.index(predict) + 1 :]
    if outcome in after:
        between = after[: after.index(outcome)]
        if not any(True for node in between for _ in asked(node, "predict", "outcome")):
            open_until = [at for at, node in enumerate(between, 1) if is_laboratory(node)]
            return [after[max(open_until, default=0) : len(between) + 1]]
    cells = []
    for node in after:
        if not is_cell(node):
            break
        cells.append(node)
    return [run for run in (cells, [outcome]) if run]


def is_laboratory(node: nodes.Node) -> bool:
    texts = [raw.astext() for raw in node.findall(nodes.raw)] if is_cell(node) else []
    return any(div in text for div in DIVS for text in texts)


class KeepEvidence(SphinxTransform):
    """Puts the answers to each prediction of a page into an element of their own."""

    default_priority = 840  # before the cells are gathered

    def apply(self, **kwargs) -> None:
        outcomes = {node["name"]: node for node in asked(self.document, "outcome")}
        for predict in list(asked(self.document, "predict")):
            name = predict["name"]
            for run in answers(predict, outcomes[name]) if name in outcomes else ():
                kept, parent = evidence(name=name), run[0].parent
                at = parent.index(run[0])
                parent.insert(at, kept)
                for node in run:
                    parent.remove(node)
                    kept += node


def visit(translator, node: evidence) -> None:
    facts = {"data-name": node["name"]}
    translator.body.append(translator.starttag(node, "div", "", CLASS="evidence", **facts))


def depart(translator, node: evidence) -> None:
    translator.body.append("</div>\n")


def setup(app) -> None:
    app.add_node(evidence, html=(visit, depart))
    app.add_transform(KeepEvidence)
