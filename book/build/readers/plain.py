"""Turns the MyST Markdown of a chapter into plain Markdown, which every notebook program shows.

The text is read by MyST's own parser, and only what plain Markdown does not know is replaced, where
it stands: all else stays as it was written. What has no plain form here is an error, so that no
reader ever sees raw markup.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from docutils.nodes import make_id
from markdown_it import MarkdownIt
from markdown_it.token import Token

from build.directives.questions import SEEN, SPLIT
from build.directives.records import recorded
from build.source.myst import PARSER, Fence, directive
from build.source.places import GLOSSARY, Places, UnknownMarkup

# What every notebook program knows; a token's name without _open and _close.
PLAIN_BLOCKS = {
    *("paragraph", "heading", "bullet_list", "ordered_list", "list_item", "blockquote", "hr"),
    *("table", "thead", "tbody", "tr", "th", "td", "fence", "math_block"),
}
PLAIN_INLINES = {
    *("text", "softbreak", "hardbreak", "em", "strong", "s", "code_inline", "math_inline"),
}
# The same lines without the number, inside $$: what KaTeX, in VS Code, and MathJax both set.
INSIDE_DOLLARS = {"align": "aligned", "gather": "gathered", "equation": ""}
AMS = re.compile(r"\\begin\{(\w+)\*?\}(.*)\\end\{\1\*?\}\s*", re.DOTALL)
TASK = re.compile(r"\s*\*([^*]+?)\.\*\s*")  # *Easy, 10 minutes, code.*
LINK_TARGET = re.compile(r"\]\(<?([^\s<>()]*)[^\[\]]*\)$")  # also with a title behind it
ROLE_TARGET = re.compile(r"(?P<text>.+?)\s*<(?P<target>[^<>]+)>", re.DOTALL)

HTML = MarkdownIt("commonmark")

Edit = tuple[int, int, str]  # from here, to there, what stands there instead


@dataclass
class Chapter:
    """A chapter on its way into plain Markdown: its page and number, what was counted so far."""

    places: Places
    page: str
    number: int
    exercises: dict[str, str] = field(default_factory=dict)  # the numbers by label
    predictions: dict[str, list[str]] = field(default_factory=dict)  # the options by name
    figures: int = 0
    tables: int = 0


def to_plain(text: str, chapter: Chapter) -> str:
    """Plain Markdown that says the same; exercises are counted in `chapter`.

    Errors: UnknownMarkup, which names the directive, role or other markup.
    """
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    edits: list[Edit] = []
    after = 0  # inline text stands in the order of its tokens
    for token in PARSER.parse(text):
        if token.type == "inline":
            after = max(after, starts[lines_of(token)[0]])
            found, after = inline_edits(token, text, after, chapter)
            edits += found
            continue
        new = block(token, chapter)
        if new is not None:
            first, last = lines_of(token)
            if token.type == "amsmath":  # its map leaves out the last line
                last = first + token.content.strip().count("\n") + 1
            begin, end = starts[first], min(starts[last], len(text))
            edits.append((begin, end, indented(new, text[begin:end])))
    for begin, end, new in sorted(edits, reverse=True):
        text = text[:begin] + new + text[end:]
    return text


def indented(new: str, old: str) -> str:
    """The new lines where the old ones stood: as far to the right, and ended as they were.

    Errors: UnknownMarkup if the old ones begin behind the mark of a list or a quotation.
    """
    margin = old[: len(old) - len(old.lstrip())]
    if not old.lstrip().startswith(("`", ":", "$", "\\", "(", "%", "+")):
        raise UnknownMarkup(f"expected lines of its own, got {old.splitlines()[0]!r}")
    end = "\n" if old.endswith("\n") else ""
    return "\n".join(f"{margin}{line}".rstrip() for line in new.split("\n")) + end


def block(token: Token, chapter: Chapter) -> str | None:
    """What stands in the place of a block; None if it is plain already."""
    if fence := directive(token):
        return convert(fence, chapter)
    if token.type == "math_block_label":
        return display(token.content)
    if token.type == "amsmath":
        return amsmath(token.content)
    if token.type in ("myst_target", "myst_line_comment", "myst_block_break"):
        return ""
    kind = re.sub(r"_(open|close)$", "", token.type)
    if kind not in PLAIN_BLOCKS or set(token.attrs) & {"class", "id"}:
        raise UnknownMarkup(f"no plain form for {kind} {token.attrs or ''}".rstrip())
    return None


def display(formula: str) -> str:
    return f"$$\n{formula.strip()}\n$$"


def amsmath(source: str) -> str:
    """An environment as a formula between $$, without numbers."""
    found = AMS.fullmatch(source.strip())
    if not found or found[1] not in INSIDE_DOLLARS:
        raise UnknownMarkup(f"no plain form for the environment in {source.splitlines()[0]!r}")
    inside = INSIDE_DOLLARS[found[1]]
    body = re.sub(r"\\label\{[^}]*\}", "", found[2]).strip()
    return display(f"\\begin{{{inside}}}\n{body}\n\\end{{{inside}}}" if inside else body)


# --- inside a line ----------------------------------------------------------------------------


def inline_edits(token: Token, text: str, after: int, chapter: Chapter) -> tuple[list[Edit], int]:
    """The edits of one piece of running text, which begins behind `after`, and where it ends."""
    offsets, place = [], 0  # where each line of the token's text begins, there and in the source
    for line in token.content.split("\n"):
        begin = text.find(line, after)
        if begin < 0:
            if any(True for _ in replacements(token, chapter)):
                raise UnknownMarkup(f"cannot find in the source: {line!r}")
            return [], after
        offsets.append((place, begin))
        place, after = place + len(line) + 1, begin + len(line)

    def source(position: int) -> int:
        there, here = max(pair for pair in offsets if pair[0] <= position)
        return here + position - there

    return [(source(a), source(b), new) for a, b, new in replacements(token, chapter)], after


def lines_of(token: Token) -> tuple[int, int]:
    """The first line of a block and the one behind its last."""
    if token.map is None:
        raise UnknownMarkup(f"expected a block that stands on lines, got {token.type}")
    return token.map[0], token.map[1]


def replacements(token: Token, chapter: Chapter) -> Iterator[Edit]:
    """What is replaced in the text of an inline token, by position in that text."""
    for child in token.children or []:
        kind = re.sub(r"_(open|close)$", "", child.type)
        if set(child.attrs) & {"class", "id"}:
            raise UnknownMarkup(f"no plain form for attributes {child.attrs}")
        if child.type == "myst_role":
            yield *child.meta["span"], role(child.meta["name"], child.content, chapter)
        elif child.type in ("link_open", "image") and child.markup != "autolink":
            begin, end = child.meta["span"]
            found = LINK_TARGET.search(token.content, begin, end)
            if not found:
                raise UnknownMarkup(f"expected (address) in {token.content[begin:end]!r}")
            yield *found.span(1), target(found[1], child.type == "image", chapter)
        elif kind not in PLAIN_INLINES | {"link"}:
            raise UnknownMarkup(f"no plain form for {kind} {child.content!r}")


def target(link: str, is_picture: bool, chapter: Chapter) -> str:
    return picture(link, chapter) if is_picture else chapter.places.follow(link, chapter.page)


def picture(path: str, chapter: Chapter) -> str:
    """Where the published book shows a picture of its own: it collects them in one folder."""
    if re.match(r"[a-z]+:", path):
        return path
    return f"{chapter.places.base}_images/{path.rsplit('/', 1)[-1]}"


def role(name: str, content: str, chapter: Chapter) -> str:
    """A role as text with a link.

    Errors: UnknownMarkup for a role without a plain form, or one that leads nowhere.
    """
    places = chapter.places
    if name in ("cite", "cite:p", "cite:t"):
        return places.cite(content, in_text=name == "cite:t")
    if name == "rec":
        return number(content)
    if name == "check":
        return ""  # the test stands below, folded
    explicit = ROLE_TARGET.fullmatch(content)
    text, named = (explicit["text"], explicit["target"]) if explicit else ("", content)
    if name in ("ref", "numref", "eq"):
        place = places.place(named)
        text = text or (place.title if name == "ref" else "") or "here"
        return f"[{text}]({places.address(place.page, place.anchor)})"
    if name == "term":
        return f"[{text or named}]({places.address(GLOSSARY, f'term-{make_id(named)}')})"
    if name == "doc":
        page = places.document(named, chapter.page)
        return f"[{text or places.title(page)}]({places.address(page)})"
    raise UnknownMarkup(f"no plain form for the role {{{name}}}")


def number(content: str) -> str:
    """A number of a record. Errors: UnknownMarkup if no record has it."""
    try:
        return recorded(content)[0]
    except ValueError as error:
        raise UnknownMarkup(f"{{rec}}: {error}") from None


# --- directives -------------------------------------------------------------------------------


def convert(fence: Fence, chapter: Chapter) -> str:
    """A directive as plain Markdown.

    Errors: UnknownMarkup for a directive, or an option of one, without a plain form.
    """
    if fence.name not in DIRECTIVES:
        raise UnknownMarkup(f"no plain form for the directive {{{fence.name}}}")
    form, options = DIRECTIVES[fence.name]
    problems = fence.problems + sorted({*fence.options} - options)
    if problems:
        raise UnknownMarkup(f"no plain form for options of {{{fence.name}}}: {problems}")
    return form(fence, chapter)


def exercise(fence: Fence, chapter: Chapter) -> str:
    """A heading with number, title, difficulty and minutes, then the task."""
    number = f"{chapter.number}.{len(chapter.exercises) + 1}"
    chapter.exercises[fence.options.get("label", number)] = number
    task = TASK.match(fence.body)
    if not task:
        raise UnknownMarkup(f"expected *Difficulty, minutes.* first in {fence.argument!r}")
    facts, text = task[1][0].lower() + task[1][1:], fence.body[task.end() :]
    return f"### Exercise {number}: {fence.argument} ({facts})\n\n{to_plain(text, chapter)}"


def solution(fence: Fence, chapter: Chapter) -> str:
    number = chapter.exercises.get(fence.argument)
    if number is None:
        raise UnknownMarkup(f"expected the label of an exercise above, got {fence.argument!r}")
    return folded(f"Solution of exercise {number}", to_plain(fence.body, chapter))


def hint(fence: Fence, chapter: Chapter) -> str:
    return folded("Hint", to_plain(whole(fence), chapter))


def margin(fence: Fence, chapter: Chapter) -> str:
    heading = f"**{fence.argument}**\n\n" if fence.argument else ""
    return quoted(heading + to_plain(fence.body, chapter))


def admonition(fence: Fence, chapter: Chapter) -> str:
    text = to_plain(fence.body, chapter)
    if "dropdown" in fence.options.get("class", "").split():
        return folded(fence.argument, text)
    return quoted(f"**{fence.argument}**\n\n{text}")


def named_admonition(fence: Fence, chapter: Chapter) -> str:
    """A note, a tip and the like: its name is its title, its text begins beside it."""
    title = fence.name.capitalize()
    return admonition(fence._replace(argument=title, body=whole(fence)), chapter)


def predict(fence: Fence, chapter: Chapter) -> str:
    """The question and its options, set off from the text."""
    tokens = PARSER.parse(fence.body)
    items = [lines_of(t) for t in tokens if t.type == "list_item_open" and t.level == 1]
    lines = fence.body.split("\n")
    options = (" ".join(map(str.strip, lines[begin:end])) for begin, end in items)
    chapter.predictions[fence.argument] = [re.sub(r"^[-*+]\s+", "", o).strip() for o in options]
    return quoted(f"**Predict, before you read on.** {to_plain(fence.body, chapter)}")


def outcome(fence: Fence, chapter: Chapter) -> str:
    """What happened, with the right answer, folded: a notebook keeps no prediction."""
    if fence.argument not in chapter.predictions:
        raise UnknownMarkup(f"expected the name of a prediction above, got {fence.argument!r}")
    options, right = chapter.predictions[fence.argument], str(fence.options["right"])
    answer = options[int(right) - 1] if options else right
    text = f"**Answer:** {to_plain(answer, chapter)}\n\n{to_plain(fence.body, chapter)}"
    return folded("What happened to your prediction", text)


def seen(fence: Fence, chapter: Chapter) -> str:
    return folded(fence.argument or SEEN, to_plain(fence.body, chapter))


def recall(fence: Fence, chapter: Chapter) -> str:
    """The question, which may hold a formula, and its answer folded below it."""
    question, answer = SPLIT.split(fence.body, maxsplit=1)
    return f"{to_plain(question.strip(), chapter)}\n\n{folded('Answer', to_plain(answer, chapter))}"


def math(fence: Fence, chapter: Chapter) -> str:
    return display(whole(fence))


def figure(fence: Fence, chapter: Chapter) -> str:
    """The picture with its alt text, and the caption below it."""
    shown = f"![{fence.options.get('alt', '')}]({picture(fence.argument, chapter)})"
    return f"{shown}\n\n{caption(fence.body, chapter)}" if fence.body else shown


def caption(text: str, chapter: Chapter) -> str:
    """A figure's caption with its number, in the order of the figures of the chapter."""
    chapter.figures += 1
    return f"**Figure {chapter.number}.{chapter.figures}.** {to_plain(text, chapter)}"


def table(fence: Fence, chapter: Chapter) -> str:
    """The table with its caption above it, and its number in the chapter."""
    chapter.tables += 1
    number = f"**Table {chapter.number}.{chapter.tables}.**"
    return f"{number} {to_plain(fence.argument, chapter)}\n\n{to_plain(fence.body, chapter)}"


def whole(fence: Fence) -> str:
    """The text of a directive that has no argument: it may begin beside the name."""
    return f"{fence.argument}\n{fence.body}".strip()


def folded(title: str, text: str) -> str:
    """Text that opens on demand. Blank lines around it: so what is inside is Markdown again."""
    summary = HTML.renderInline(title)
    return f"<details>\n<summary>{summary}</summary>\n\n{text.strip()}\n\n</details>"


def quoted(text: str) -> str:
    """A block quotation. Each paragraph and formula is one line: Jupyter takes the > of a second
    line for a part of the formula that runs over the line's end."""
    lines = text.strip().split("\n")
    for token in reversed(PARSER.parse("\n".join(lines))):
        if token.type in ("paragraph_open", "math_block"):
            begin, end = lines_of(token)
            first, *others = lines[begin:end]
            lines[begin:end] = [" ".join([first.rstrip(), *map(str.strip, others)])]
    return "\n".join(f"> {line}".rstrip() for line in lines)


NAMED = ("attention", "caution", "danger", "important", "note", "seealso", "tip", "warning")
PICTURE = {"alt", "name", "width", "height", "scale", "align", "class"}
# The form of each directive, and the options that change nothing here or that it heeds.
DIRECTIVES = {
    "exercise": (exercise, {"label", "class"}),
    "solution": (solution, {"label", "class"}),
    "hint": (hint, {"class"}),
    "margin": (margin, {"class"}),
    "predict": (predict, {"number"}),
    "outcome": (outcome, {"right", "within"}),
    "seen": (seen, set()),
    "recall": (recall, set()),
    "admonition": (admonition, {"class", "name"}),
    **{name: (named_admonition, {"class", "name"}) for name in NAMED},
    "math": (math, {"label", "name"}),
    "table": (table, {"name"}),
    "figure": (figure, PICTURE),
    "image": (figure, PICTURE),
}
