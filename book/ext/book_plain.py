"""Turns the MyST Markdown of a chapter into plain Markdown, which every notebook program shows.

The text is read by MyST's own parser, and only what plain Markdown does not know is replaced, where
it stands: all else stays as it was written. What has no plain form here is an error, so that no
reader ever sees raw markup.
"""

import html
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from docutils.nodes import make_id
from docutils.parsers.rst import Directive
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_inline import StateInline, image, link
from markdown_it.token import Token
from mdit_py_plugins.myst_role.index import myst_role
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.directives import parse_directive_text
from myst_parser.parsers.mdit import create_md_parser

from ext.book_places import GLOSSARY, Places, UnknownMarkup

EXTENSIONS = {"amsmath", "attrs_block", "attrs_inline", "colon_fence", "deflist", "dollarmath"}
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
ROLE_TARGET = re.compile(r"(?P<text>.+?)\s*<(?P<target>[^<>]+)>", re.DOTALL)

Edit = tuple[int, int, str]  # from here, to there, what stands there instead


class AnyDirective(Directive):
    """Lets MyST's parser take a directive's text apart, whatever the directive is."""

    optional_arguments, final_argument_whitespace, has_content = 1, True, True
    option_spec = {"label": str}  # noqa: RUF012


@dataclass
class Chapter:
    """A chapter on its way into plain Markdown: its page, its number, its exercises by label."""

    places: Places
    page: str
    number: int
    exercises: dict[str, str] = field(default_factory=dict)


def with_span(rule: Callable[[StateInline, bool], bool]) -> Callable[[StateInline, bool], bool]:
    """The rule, noting in the token that it makes where in the text it was found."""

    def spanned(state: StateInline, silent: bool) -> bool:
        start, made = state.pos, len(state.tokens)
        found = rule(state, silent)
        if found and not silent:
            token = next(t for t in state.tokens[made:] if t.type != "text")
            token.meta = {**(token.meta or {}), "span": (start, state.pos)}
        return found

    return spanned


def make_parser() -> MarkdownIt:
    parser = create_md_parser(MdParserConfig(enable_extensions=EXTENSIONS), RendererHTML)
    for name, rule in {"myst_role": myst_role, "link": link, "image": image}.items():
        parser.inline.ruler.at(name, with_span(rule))
    return parser


PARSER = make_parser()
HTML = MarkdownIt("commonmark")


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
            after = max(after, starts[token.map[0]])
            found, after = inline_edits(token, text, after, chapter)
            edits += found
            continue
        new = block(token, chapter)
        if new is not None:
            begin, end = starts[token.map[0]], min(starts[token.map[1]], len(text))
            edits.append((begin, end, indented(new, text[begin:end])))
    for begin, end, new in sorted(edits, reverse=True):
        text = text[:begin] + new + text[end:]
    return text


def indented(new: str, old: str) -> str:
    """The new lines where the old ones stood: as far to the right, and ended as they were.

    Errors: UnknownMarkup if the old ones stand in a quotation.
    """
    margin = old[: len(old) - len(old.lstrip())]
    if old.lstrip().startswith((">", "-", "*")):
        raise UnknownMarkup(f"expected this on lines of its own, got {old.splitlines()[0]!r}")
    end = "\n" if old.endswith("\n") else ""
    return "\n".join(f"{margin}{line}".rstrip() for line in new.split("\n")) + end


def block(token: Token, chapter: Chapter) -> str | None:
    """What stands in the place of a block; None if it is plain already."""
    if token.type in ("fence", "colon_fence"):
        name = re.match(r"\{([\w:-]+)\}(.*)", token.info.strip())
        if name:
            return directive(name[1], name[2].strip(), token.content, chapter)
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


def replacements(token: Token, chapter: Chapter) -> Iterator[Edit]:
    """What is replaced in the text of an inline token, by position in that text."""
    for child in token.children:
        kind = re.sub(r"_(open|close)$", "", child.type)
        if set(child.attrs) & {"class", "id"}:
            raise UnknownMarkup(f"no plain form for attributes {child.attrs}")
        if child.type == "myst_role":
            yield *child.meta["span"], role(child.meta["name"], child.content, chapter)
        elif child.type in ("link_open", "image") and child.markup != "autolink":
            begin, end = child.meta["span"]
            written = token.content[begin:end]
            target = re.match(r"[^\s>)]*", written[written.rindex("](") + 2 :].lstrip("<"))[0]
            at = begin + written.rindex(target, written.rindex("]("))
            yield at, at + len(target), address(child.type, target, chapter)
        elif kind not in PLAIN_INLINES | {"link"}:
            raise UnknownMarkup(f"no plain form for {kind} {child.content!r}")


def address(kind: str, target: str, chapter: Chapter) -> str:
    if kind == "image":
        return picture(target, chapter)
    return chapter.places.follow(target, chapter.page)


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
    explicit = ROLE_TARGET.fullmatch(content)
    text, target = (explicit["text"], explicit["target"]) if explicit else ("", content)
    if name in ("ref", "numref", "eq"):
        place = places.place(target)
        text = text or (place.title if name == "ref" else "") or "here"
        return f"[{text}]({places.address(place.page, place.anchor)})"
    if name == "term":
        return f"[{text or target}]({places.address(GLOSSARY, f'term-{make_id(target)}')})"
    if name == "doc":
        where = places.follow(f"{target}.md", chapter.page)
        return f"[{text or target}]({where})"
    raise UnknownMarkup(f"no plain form for the role {{{name}}}")


# --- directives -------------------------------------------------------------------------------


def directive(name: str, first_line: str, content: str, chapter: Chapter) -> str:
    """A directive as plain Markdown.

    Errors: UnknownMarkup for a directive, or an option of one, without a plain form.
    """
    if name not in DIRECTIVES:
        raise UnknownMarkup(f"no plain form for the directive {{{name}}}")
    parsed = parse_directive_text(AnyDirective, first_line, content, validate_options=False)
    convert, options = DIRECTIVES[name]
    unknown = sorted({*parsed.options} - options)
    if unknown or parsed.warnings:
        what = unknown or [warning.msg for warning in parsed.warnings]
        raise UnknownMarkup(f"no plain form for options of {{{name}}}: {what}")
    argument = (parsed.arguments or [""])[0]
    return convert(argument, parsed.options, "\n".join(parsed.body), chapter)


def exercise(title: str, options: dict, body: str, chapter: Chapter) -> str:
    """A heading with number, title, difficulty and minutes, then the task."""
    number = f"{chapter.number}.{len(chapter.exercises) + 1}"
    chapter.exercises[options["label"]] = number
    task = TASK.match(body)
    if not task:
        raise UnknownMarkup(f"expected *Difficulty, minutes.* at the head of exercise {title!r}")
    facts = task[1][0].lower() + task[1][1:]
    return f"### Exercise {number}: {title} ({facts})\n\n{to_plain(body[task.end() :], chapter)}"


def solution(label: str, options: dict, body: str, chapter: Chapter) -> str:
    if label not in chapter.exercises:
        raise UnknownMarkup(f"expected the label of an exercise above the solution, got {label!r}")
    return folded(f"Solution of exercise {chapter.exercises[label]}", to_plain(body, chapter))


def hint(first: str, options: dict, body: str, chapter: Chapter) -> str:
    return folded("Hint", to_plain(f"{first}\n{body}".strip(), chapter))


def margin(title: str, options: dict, body: str, chapter: Chapter) -> str:
    heading = f"**{title}**\n\n" if title else ""
    return quoted(heading + to_plain(body, chapter))


def admonition(title: str, options: dict, body: str, chapter: Chapter) -> str:
    text = to_plain(body, chapter)
    if "dropdown" in options.get("class", "").split():
        return folded(title, text)
    return quoted(f"**{title}**\n\n{text}")


def named_admonition(name: str, first: str, options: dict, body: str, chapter: Chapter) -> str:
    return admonition(name, options, f"{first}\n{body}".strip(), chapter)


def math(first: str, options: dict, body: str, chapter: Chapter) -> str:
    return display(f"{first}\n{body}")


def figure(path: str, options: dict, body: str, chapter: Chapter) -> str:
    """The picture with its alt text, and the caption below it."""
    return f"![{options.get('alt', '')}]({picture(path, chapter)})\n\n{to_plain(body, chapter)}".strip()


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
            begin, end = token.map
            lines[begin:end] = [
                " ".join([lines[begin].rstrip(), *map(str.strip, lines[begin + 1 : end])])
            ]
    return "\n".join(f"> {line}".rstrip() for line in lines)


NAMED = ("attention", "caution", "danger", "important", "note", "seealso", "tip", "warning")
DIRECTIVES = {
    "exercise": (exercise, {"label", "class"}),
    "solution": (solution, {"class", "label"}),
    "hint": (hint, {"class"}),
    "margin": (margin, {"class"}),
    "admonition": (admonition, {"class", "name"}),
    **{n: (partial(named_admonition, n.capitalize()), {"class", "name"}) for n in NAMED},
    "math": (math, {"label", "name"}),
    "figure": (figure, {"alt", "name", "width", "height", "scale", "align", "class"}),
    "image": (figure, {"alt", "name", "width", "height", "scale", "align", "class"}),
}
