"""Reads MyST Markdown with MyST's own parser, outside the build.

The tokens of roles, links and pictures know where in their line they stand, so that one of them can
be replaced and all else stays as it was written.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from docutils.parsers.rst import Directive
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_inline import StateInline, image, link
from markdown_it.token import Token
from mdit_py_plugins.myst_role.index import myst_role
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.directives import parse_directive_text
from myst_parser.parsers.mdit import create_md_parser

# As in _config.yml, less what only changes the look of letters.
EXTENSIONS = {
    *("amsmath", "attrs_block", "attrs_inline", "colon_fence", "deflist"),
    *("dollarmath", "substitution"),
}
Rule = Callable[[StateInline, bool], bool]


class AnyDirective(Directive):
    """Lets MyST's parser take a directive's text apart, whatever the directive is."""

    optional_arguments, final_argument_whitespace, has_content = 1, True, True
    option_spec = {"label": str}  # noqa: RUF012 (docutils declares it so)


class Fence(NamedTuple):
    """A directive: what stands behind its name, its options, its lines, what is wrong with it."""

    name: str
    argument: str
    options: dict[str, str]
    body: str
    problems: list[str]


def with_span(rule: Rule) -> Rule:
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


def directive(token: Token) -> Fence | None:
    """The directive that a fence is, None if it is code."""
    name = re.match(r"\{([^}]+)\}(.*)", token.info.strip()) if "fence" in token.type else None
    if name is None:
        return None
    first_line = name[2].strip()
    parsed = parse_directive_text(AnyDirective, first_line, token.content, validate_options=False)
    problems = [warning.msg for warning in parsed.warnings]
    return Fence(name[1], first_line, parsed.options, "\n".join(parsed.body), problems)


def labels(text: str) -> dict[str, tuple[str, str]]:
    """Each label in a text, with what its place is called on the page and its title, if any."""
    found: dict[str, tuple[str, str]] = {}
    waiting: list[str] = []
    tokens = PARSER.parse(text)
    for i, token in enumerate(tokens):
        if token.type == "myst_target":
            waiting.append(token.content)
        elif token.type == "heading_open":
            found |= {name: (name, tokens[i + 1].content) for name in waiting}
            waiting = []
        elif token.type == "math_block_label":
            found[token.info] = (f"equation-{token.info}", "")
        elif fence := directive(token):
            name = fence.options.get("label") or fence.options.get("name")
            if name and fence.name == "math":
                found[name] = (f"equation-{name}", "")
            elif name:
                found[name] = (name, fence.argument if fence.name == "exercise" else "")
            found |= labels(fence.body)
    return found | {name: (name, "") for name in waiting}
