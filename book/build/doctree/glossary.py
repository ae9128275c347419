"""Links words of a chapter to the glossary and shows what they mean, while notebooks stay plain.

A chapter's `words.yml` names the words that are worth a link on its page. The first time that such
a word stands in the page's running text it becomes a link to its entry, with the entry's
text as a tooltip: hidden, shown by the style sheet while the word has the pointer or the focus, and
read out by a screen reader as the link's description. A word that the page lacks, or the glossary,
stops the build.
"""

import re
from collections.abc import Iterator
from html import escape
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.errors import ExtensionError
from sphinx_exercise.nodes import exercise_node, solution_node

from build.directives.questions import ask
from build.source.rooms import PAGE, folder_of, read_words, words_file

GLOSSARY = "book/glossary"
# Running text is a paragraph that stands in none of these, and in it what is not marked up.
ASIDE = (nodes.Admonition, nodes.sidebar, nodes.table, exercise_node, solution_node, ask)


class term_link(nodes.General, nodes.Inline, nodes.TextElement):
    """A word with `uri`, where its entry stands, and `tip`, the entry's identifier and text."""


def word_pattern(form: str) -> re.Pattern:
    """Finds a whole word, also at the beginning of a sentence and in the plural."""
    first = f"[{form[0].lower()}{form[0].upper()}]" if form[0].islower() else form[0]
    stem = re.escape(form[1:-1]).replace(r"\ ", r"\s+")
    last = "(?:y|ies)" if form[-1] == "y" else rf"{re.escape(form[-1])}(?:s|es)?"
    return re.compile(rf"(?<![\w-]){first}{stem}{last}(?![\w-])")


def entries(doctree: nodes.document) -> dict[str, tuple[str, str]]:
    """Each term of the glossary: the identifier of its entry, and its text without its links."""
    found = {}
    for item in doctree.findall(nodes.definition_list_item):
        paragraph = next(item.findall(nodes.paragraph))
        links = (addnodes.pending_xref, nodes.reference)
        text = "".join(part.astext() for part in paragraph if not isinstance(part, links))
        for term in item.findall(nodes.term):
            found[term.astext()] = (term["ids"][0], " ".join(text.split()))
    return found


def running_text(doctree: nodes.document) -> Iterator[nodes.Text]:
    """The pieces of text in which a word may become a link; neighbours are joined to one piece."""
    for paragraph in list(doctree.findall(nodes.paragraph)):
        above, inside = paragraph.parent, False
        while above is not None and not inside:
            above, inside = above.parent, isinstance(above, ASIDE)
        if inside:
            continue
        for place in range(len(paragraph) - 1, 0, -1):
            if all(isinstance(part, nodes.Text) for part in paragraph[place - 1 : place + 1]):
                paragraph[place - 1 : place + 1] = [
                    nodes.Text(paragraph[place - 1] + paragraph[place])
                ]
        yield from (part for part in paragraph if isinstance(part, nodes.Text))


def link_words(doctree: nodes.document, words: dict[str, term_link]) -> list[str]:
    """Put each link around the first use of its word; return the words that were not found."""
    missing = []
    for form, link in words.items():
        pattern = word_pattern(form)
        for text in running_text(doctree):
            match = pattern.search(text)
            if match:
                link += nodes.Text(match.group())
                before, after = text[: match.start()], text[match.end() :]
                pieces = [nodes.Text(before), link, nodes.Text(after)]
                text.parent.replace(text, [piece for piece in pieces if piece.astext()])
                break
        else:
            missing.append(form)
    return missing


def on_read(app, doctree) -> None:
    """A chapter is read again when its words have changed, or the glossary to which they link."""
    if PAGE.fullmatch(app.env.docname):
        folder = folder_of(Path(app.srcdir, app.env.docname))
        app.env.note_dependency(str(words_file(folder)))
        if read_words(folder).glossary:
            app.env.note_dependency(app.env.doc2path(GLOSSARY))


def on_resolved(app, doctree, page) -> None:
    if not PAGE.fullmatch(page) or app.builder.format != "html":
        return
    folder = folder_of(Path(app.srcdir, page))
    words = read_words(folder).glossary
    if not words:
        return
    known = entries(app.env.get_doctree(GLOSSARY))
    unknown = [term for term in words.values() if term not in known]
    if unknown:
        raise ExtensionError(
            f"{words_file(folder)}: expected terms of the glossary, got {unknown}; "
            "write {word: term} where the glossary has the word under another name"
        )
    uri = app.builder.get_relative_uri(page, GLOSSARY)
    links = {
        form: term_link(uri=f"{uri}#{known[term][0]}", tip=known[term])
        for form, term in words.items()
    }
    missing = link_words(doctree, links)
    if missing:
        raise ExtensionError(
            f"{words_file(folder)}: expected words of the running text of {page}, got {missing}, "
            "which stand nowhere in it"
        )


def visit_link(translator, node: term_link) -> None:
    tip = f"tip-{node['tip'][0]}"
    translator.body.append(
        f'<span class="term"><a href="{escape(node["uri"])}" aria-describedby="{tip}">'
    )


def depart_link(translator, node: term_link) -> None:
    name, text = node["tip"]
    tip = f'<span class="term-tip" role="tooltip" id="tip-{name}" hidden>{escape(text)}</span>'
    translator.body.append(f"</a>{tip}</span>")
