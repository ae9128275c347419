"""Makes the index: the directive `{book-index}` sets the table book/index.yml as a list of links.

The table maps a word, or "word; narrower word", to the sections that explain it, each written as
chapter#title, as in `6#Nothing leaks`. Nothing of it stands in the notebooks. What is written here
is Markdown, so a section that no chapter has stops the build as any dead link does.
"""

import re
from itertools import groupby
from pathlib import Path

import yaml
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

Table = dict[tuple[str, str], list[tuple[int, str]]]


def read_table(path: Path) -> Table:
    """For (word, narrower word or nothing), the number and the section's title of each place."""
    table = {}
    for words, places in yaml.safe_load(path.read_text(encoding="utf-8")).items():
        word, _, narrower = (part.strip() for part in words.partition(";"))
        pairs = (place.split("#", 1) for place in places)
        table[word, narrower] = [(int(number), title) for number, title in pairs]
    return table


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
        folder = Path(self.env.doc2path(self.env.docname)).parent
        self.env.note_dependency(str(folder / "index.yml"))
        pages = {int(path.name[:2]): path.name for path in folder.glob("[0-9]*.ipynb")}
        jump = nodes.paragraph(classes=["index-letters"])
        result: list[nodes.Node] = [jump]
        for letter, text in letters(read_table(folder / "index.yml"), pages).items():
            name = f"index-{letter.lower()}"
            jump += nodes.reference(text=letter, refid=name, internal=True)
            words = self.parse_text_to_nodes(text)
            result.append(nodes.section("", nodes.title(text=letter), *words, ids=[name]))
        return result
