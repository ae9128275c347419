"""Makes the index: the directive `{book-index}` sets the words of all chapters as a list of links.

Each chapter's `words.yml` maps a word, or "word; narrower word", to the headings of the sections
that explain it. Nothing of it stands in the notebooks. What is written here is Markdown, so a
section that the chapter does not have stops the build as any dead link does.
"""

import re
from itertools import groupby
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from build.source.rooms import Room, rooms, words_file

Table = dict[tuple[str, str], list[tuple[int, str]]]


def gather(chapters: list[Room]) -> Table:
    """For (word, narrower word or nothing), the number and the section's title of each place.

    They stand in the order of the chapters; behind them those of chapters that explain the word in
    passing.
    """
    gathered: dict[tuple[str, str], list[tuple[bool, int, str]]] = {}
    for chapter in chapters:
        own = chapter.words
        for words, titles in own.index.items():
            word, _, narrower = (part.strip() for part in words.partition(";"))
            late = words in own.in_passing
            places = ((late, chapter.number, title) for title in titles)
            gathered.setdefault((word, narrower), []).extend(places)
    return {
        words: [(number, title) for _, number, title in sorted(places, key=lambda place: place[:2])]
        for words, places in gathered.items()
    }


def sort_key(word: str) -> str:
    """Letters and digits alone: a name of the library stands among the words."""
    return re.sub(r"[^a-z0-9 ]", "", word.lower())


def slug(title: str) -> str:
    """The title of a section as it stands in links to it; formulas are left out there."""
    return re.sub(r"\$[^$]*\$|[^\w -]", "", title.lower()).replace(" ", "-")


def entry(word: str, places: list[tuple[int, str]], pages: dict[int, str]) -> str:
    """The word and its links, which tell the chapter's number and the section's title."""
    links = (
        f', [<span class="index-number">{number}</span> {title}]({pages[number]}#{slug(title)})'
        for number, title in places
    )
    return word + "".join(links)


def letters(table: Table, pages: dict[int, str]) -> dict[str, str]:
    """For each letter a list of its words, in it the narrower ones; `pages` has the chapters."""
    order = sorted(table, key=lambda words: (sort_key(words[0]), words[0], sort_key(words[1])))
    lists = {}
    for letter, group in groupby(order, key=lambda words: sort_key(words[0])[0].upper()):
        lines = ["{.index-words}"]
        for word, forms in groupby(group, key=lambda words: words[0]):
            lines.append(f"- {entry(word, table.get((word, ''), []), pages)}\n")
            narrower = (form for _, form in forms if form)
            lines += (f"  - {entry(form, table[word, form], pages)}\n" for form in narrower)
        lists[letter] = "\n".join(lines)
    return lists


class BookIndex(SphinxDirective):
    """The letters as links, then a section for each."""

    def run(self) -> list[nodes.Node]:
        chapters = rooms(Path(self.env.srcdir))
        for chapter in chapters:
            self.env.note_dependency(str(words_file(chapter.folder)))
        pages = {chapter.number: chapter.notebook.name for chapter in chapters}
        jump = nodes.paragraph(classes=["index-letters"])
        result: list[nodes.Node] = [jump]
        for letter, text in letters(gather(chapters), pages).items():
            name = f"index-{letter.lower()}"
            jump += nodes.reference(text=letter, refid=name, internal=True)
            words = self.parse_text_to_nodes(text)
            result.append(nodes.section("", nodes.title(text=letter), *words, ids=[name]))
        return result
