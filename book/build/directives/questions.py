"""Lets the book ask its reader: predictions and their outcomes, what was to be seen, recall.

    ```{predict} pr-layer-largest
    How much weight will the best of 16 keys get?
    - about 0.1
    - about 0.5
    - about 0.95
    ```

A prediction is a choice from the list that ends it, or a number (`:number:` and no list). Later on
the same page `{outcome} pr-layer-largest` comes back to it: `:right: 3` counts the options from
one, `:right: 0.95` and `:within: 0.1` judge a number, and its text explains. `{seen}` folds what a
widget should have shown. `{recall} rc-layer-variance` is a question, a line `---`, and its answer.
`{review}` collects all of these on a page of its own.

The built page holds every question and answer as text that needs no script: static/questions.js
keeps what a reader answers. A name that is used twice, and a prediction without its outcome, stop
the build.
"""

import re
from collections.abc import Iterator

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx import addnodes
from sphinx.errors import ExtensionError
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.docutils import SphinxDirective

REVIEW = "book/review"
NAME = {"predict": r"pr-[a-z0-9]+(?:-[a-z0-9]+)*", "recall": r"rc-[a-z0-9]+(?:-[a-z0-9]+)*"}
SPLIT = re.compile(r"^---[ \t]*$", re.MULTILINE)
SEEN = "What you should have seen"


class ask(nodes.General, nodes.Element):
    """A part of the page with `tag`, the name of its element, and `facts`, its attributes."""


class ask_line(nodes.General, nodes.TextElement):
    """The same for text alone: a label, a summary, an option."""


def part(tag: str, *children: nodes.Node, classes: tuple = (), **facts: str) -> ask:
    """An element that holds others; `data_name` in `facts` is its attribute data-name."""
    return ask("", *children, tag=tag, classes=[*classes], facts=attributes(facts))


def line(tag: str, *children: nodes.Node, classes: tuple = (), **facts: str) -> ask_line:
    return ask_line("", "", *children, tag=tag, classes=[*classes], facts=attributes(facts))


def attributes(facts: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in facts.items()}


def label(text: str) -> ask_line:
    return line("p", nodes.Text(text), classes=("ask-label",))


def folded(kind: str, summary: list[nodes.Node], content: list[nodes.Node], **facts: str) -> ask:
    """What opens on demand: the summary is one line of text."""
    inside = part("div", *content, classes=("ask-inside",))
    return part("details", line("summary", *summary), inside, classes=("ask", kind), **facts)


def visit(translator, node: ask | ask_line) -> None:
    translator.body.append(translator.starttag(node, node["tag"], "", **node["facts"]))


def depart(translator, node: ask | ask_line) -> None:
    translator.body.append(f"</{node['tag']}>")


# --- the directives ---------------------------------------------------------------------------


class Asking(SphinxDirective):
    """What the directives with a name have in common."""

    has_content = True
    kind = ""

    def named(self, kind: str) -> str:
        """The argument. Errors: a message at its line if it is no name of this kind."""
        name = self.arguments[0]
        if not re.fullmatch(NAME[kind], name):
            example = "pr-layer-largest" if kind == "predict" else "rc-layer-variance"
            raise self.error(f"expected a name such as {example}, got {name!r}")
        return name

    def placed(self, node: ask, kind: str, name: str) -> list[nodes.Node]:
        """The node with its place in the source and what the checks and the review ask of it."""
        self.set_source_info(node)
        node["asks"], node["name"] = kind, name
        return [node]

    def text(self, source: str) -> list[nodes.Node]:
        return self.parse_text_to_nodes(source, offset=self.content_offset)


class Predict(Asking):
    """A question to which the reader commits an answer before reading on."""

    required_arguments = 1
    option_spec = {"number": directives.flag}  # noqa: RUF012 (docutils declares it so)

    def run(self) -> list[nodes.Node]:
        name = self.named("predict")
        *question, last = self.text("\n".join(self.content)) or [nodes.paragraph()]
        options = last if isinstance(last, nodes.bullet_list) else None
        is_number = "number" in self.options
        if options is None:
            question.append(last)
        if is_number == (options is not None):
            raise self.error(f"{name}: expected either a list at the end or :number:")
        if not any(node.astext().strip() for node in question):
            raise self.error(f"{name}: expected a question")
        body = part("div", *question, classes=("ask-question",))
        body["ids"] = [f"{name}-question"]
        facts = {"data_name": name, "data_kind": "number" if is_number else "choice"}
        node = part("div", label("Predict"), body, classes=("ask", "predict"), **facts)
        if options is not None:
            if len(options) < 2 or any(map(many, options)):
                raise self.error(f"{name}: expected two options or more, each of one paragraph")
            options["classes"].append("ask-options")
            node += options
            node["facts"]["data-options"] = str(len(options))
        node["ids"] = [name]
        return self.placed(node, "predict", name)


def many(item: nodes.list_item) -> bool:
    """Whether an option is not just one paragraph."""
    return len(item) != 1 or not isinstance(item[0], nodes.paragraph)


class Outcome(Asking):
    """What happened, after a prediction: it is judged, and the text explains."""

    required_arguments = 1
    option_spec = {  # noqa: RUF012 (docutils declares it so)
        "right": directives.unchanged_required,
        "within": directives.unchanged_required,
    }

    def run(self) -> list[nodes.Node]:
        name = self.named("predict")
        facts = {"data_name": name}
        for option in ("right", "within"):
            if option in self.options:
                facts[f"data_{option}"] = self.options[option]
                if not re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", self.options[option]):
                    got = self.options[option]
                    raise self.error(f"{name}: expected :{option}: to be a number, got {got!r}")
        if "right" not in self.options:
            raise self.error(f"{name}: expected :right:, the number of the option or the value")
        if not "".join(self.content).strip():
            raise self.error(f"{name}: expected an explanation")
        content = self.text("\n".join(self.content))
        node = part("div", label("Outcome"), *content, classes=("ask", "outcome"), **facts)
        node["ids"] = [f"{name}-outcome"]
        return self.placed(node, "outcome", name)


class Seen(Asking):
    """What a widget should have shown, folded; the argument is the line that stays visible."""

    optional_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        if not "".join(self.content).strip():
            raise self.error("expected a text, found none")
        title = self.arguments[0] if self.arguments else SEEN
        summary, messages = self.parse_inline(title)
        node = folded("seen", summary, self.text("\n".join(self.content)))
        return [*self.placed(node, "seen", ""), *messages]


class Recall(Asking):
    """A question to be answered without looking, and its answer, folded."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        name = self.named("recall")
        halves = SPLIT.split("\n".join(self.content), maxsplit=1)
        if len(halves) != 2 or not all(half.strip() for half in halves):
            raise self.error(f"{name}: expected a question, a line ---, and its answer")
        question, answer = self.text(halves[0]), self.text(halves[1])
        if len(question) != 1 or not isinstance(question[0], nodes.paragraph):
            raise self.error(f"{name}: expected a question of one paragraph")
        node = folded("recall", question[0].children, answer, data_name=name)
        node["ids"] = [name]
        return self.placed(node, "recall", name)


class Review(SphinxDirective):
    """All recall questions of the book, by chapter; a page that is read again with any chapter."""

    def run(self) -> list[nodes.Node]:
        for page in self.env.found_docs:
            self.env.note_dependency(self.env.doc2path(page))
        return [nodes.comment("", "review", review=True)]


# --- checks -----------------------------------------------------------------------------------


def asked(doctree: nodes.Node, *kinds: str) -> Iterator[ask]:
    return (node for node in doctree.findall(ask) if node.get("asks") in kinds)


def place(node: nodes.Node) -> str:
    """File and line; in a notebook, cell and line, which myst-nb writes as one number."""
    cell, row = divmod(node.line or 0, 10_000)
    return f"{node.source}, " + (f"cell {cell}, line {row}" if cell else f"line {row}")


def problems(doctree: nodes.document) -> list[str]:
    """What is wrong with the questions of a page; what is right is tied together."""
    found: list[str] = []
    predictions: dict[str, nodes.Element] = {}
    recalls: set[str] = set()
    settled: set[str] = set()
    known = {node["name"] for node in asked(doctree, "predict")}
    for node in asked(doctree, "predict", "recall", "outcome"):
        kind, name = node["asks"], node["name"]
        message = ""
        if kind == "outcome":
            if name not in predictions:
                where = "stands before its prediction" if name in known else "has no prediction"
                message = f"the outcome of {name} {where} on this page"
            elif name in settled:
                message = f"{name} has a second outcome"
            else:
                settled.add(name)
                message = judge(predictions[name], node)
        elif name in predictions or name in recalls:
            message = f"the name {name} is used twice"
        elif kind == "predict":
            predictions[name] = node
        else:
            recalls.add(name)
        if message:
            found.append(f"{place(node)}: {message}")
    found += [
        f"{place(node)}: the prediction {name} has no outcome on this page"
        for name, node in predictions.items()
        if name not in known & {outcome["name"] for outcome in asked(doctree, "outcome")}
    ]
    return found


def judge(prediction: ask, outcome: ask) -> str:
    """Say the right answer in the outcome; what is wrong if there is none."""
    right, within = (outcome["facts"].get(f"data-{key}") for key in ("right", "within"))
    answer: list[nodes.Node]
    if prediction["facts"]["data-kind"] == "number":
        answer = [nodes.Text(right)]
        prediction["facts"] |= {"data-right": right, "data-within": within or "0"}
    else:
        options = next(prediction.findall(nodes.bullet_list))
        if within or not right.isdigit() or not 1 <= int(right) <= len(options):
            return f"expected :right: from 1 to {len(options)} and no :within: in {outcome['name']}"
        answer = [child.deepcopy() for child in options[int(right) - 1][0].children]
        prediction["facts"]["data-right"] = right
    start = line("span", nodes.Text("Answer: "))
    outcome.insert(1, line("p", start, *answer, classes=("ask-right",)))
    return ""


def on_read(app, doctree: nodes.document) -> None:
    """Stop for what is wrong on a page, and remember its names. Errors: ExtensionError."""
    if found := problems(doctree):
        raise ExtensionError("\n".join(found))
    names = {node["name"]: place(node) for node in asked(doctree, "predict", "recall")}
    app.env.metadata[app.env.docname]["questions"] = names


def on_check(app, env) -> None:
    """Stop for a name that two pages use. Errors: ExtensionError."""
    seen: dict[str, str] = {}
    for page in sorted(env.found_docs):
        for name, where in env.metadata[page].get("questions", {}).items():
            if name in seen:
                raise ExtensionError(f"{where}: the name {name} is used before, in {seen[name]}")
            seen[name] = where


# --- the page that brings them back -----------------------------------------------------------


class FillReview(SphinxPostTransform):
    """Puts the questions of all pages into the review, before links and formulas are settled."""

    default_priority = 1

    def run(self, **kwargs) -> None:
        for node in list(self.document.findall(nodes.comment)):
            if node.get("review"):
                node.parent.replace(node, self.review())

    def review(self) -> list[nodes.Node]:
        """A panel for the script, the questions, and the predictions, which the script shows."""
        missed, chapters = [], []
        for page in sorted(self.env.found_docs):
            if self.env.metadata[page].get("questions"):
                doctree = self.env.get_doctree(page)
                missed += [self.missed(node, page) for node in asked(doctree, "predict")]
                if recalls := [self.copied(node, page) for node in asked(doctree, "recall")]:
                    name = f"review-{nodes.make_id(page.rsplit('/', 1)[-1])}"
                    heading = nodes.title("", "", self.link(page))
                    chapters.append(nodes.section("", heading, *recalls, ids=[name]))
        heading = line("h2", nodes.Text("Predictions that turned out differently"))
        predictions = part("div", heading, *missed, classes=("review-missed",), hidden="hidden")
        return [part("div", classes=("ask", "review")), *chapters, predictions]

    def link(self, page: str, anchor: str = "") -> nodes.reference:
        """The number and the title of a page, which lead there."""
        number = self.env.toc_secnumbers.get(page, {}).get("", ())
        start = "".join(f"{part}." for part in number)
        text = f"{start} {self.env.titles[page].astext()}".strip()
        address = self.app.builder.get_relative_uri(self.env.docname, page) + anchor
        return nodes.reference("", text, refuri=address, internal=True)

    def copied(self, node: ask, page: str) -> ask:
        """A node of `page` for this one: links lead where they led, identifiers stay behind."""
        copy = node.deepcopy()
        for inner in copy.findall(nodes.Element):
            inner["ids"] = []
            if isinstance(inner, addnodes.pending_xref):
                inner["refdoc"] = self.env.docname
            elif "refid" in inner:
                address = self.app.builder.get_relative_uri(self.env.docname, page)
                inner["refuri"] = f"{address}#{inner.attributes.pop('refid')}"
        return copy

    def missed(self, node: ask, page: str) -> ask:
        """A prediction's question, and the way to what happened."""
        question = self.copied(next(child for child in node if isinstance(child, ask)), page)
        where = self.link(page, f"#{node['name']}-outcome")
        way = line("p", nodes.Text("What happened: "), where, classes=("ask-note",))
        return part("div", question, way, classes=("ask", "missed"), **node["facts"])


def setup(app) -> None:
    """Register the directives, the nodes and the checks; `book_build` calls this."""
    for node in (ask, ask_line):
        app.add_node(node, html=(visit, depart))
    for directive in (Predict, Outcome, Seen, Recall, Review):
        app.add_directive(directive.__name__.lower(), directive)
    app.add_post_transform(FillReview)
    app.connect("doctree-read", on_read)
    app.connect("env-check-consistency", on_check)
