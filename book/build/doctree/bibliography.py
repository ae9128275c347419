"""The list of references: authors and year first, as the text cites them, and a link at the end."""

import re

from docutils import nodes
from pybtex.richtext import Text
from pybtex.style import FormattedEntry
from pybtex.style.formatting import BaseStyle, toplevel
from pybtex.style.formatting.unsrt import pages
from pybtex.style.template import (
    field,
    first_of,
    href,
    join,
    names,
    optional,
    sentence,
    tag,
    words,
)

NAME = "author-year"  # of the style, in `bibliography.md`


def bare(address: Text) -> Text:
    """An address as it is printed: without its scheme and its `www`."""
    return Text(re.sub(r"^https?://(www\.)?", "", str(address)))


NUMBERS = join[
    " ", field("volume"), optional["(", field("number"), ")"], optional[", pages ", pages]
]
VENUE = first_of[
    optional[join[tag("em")[field("journal")], optional[NUMBERS]]],
    optional[join["In ", tag("em")[field("booktitle")], optional[", pages ", pages]]],
    optional[join["PhD thesis, ", field("school")]],
    optional[field("institution")],
]
# The paper where everybody can read it comes before the publisher's page.
LINK = first_of[
    optional[
        href(join["https://arxiv.org/abs/", field("eprint", raw=True)])[
            join["arXiv:", field("eprint", raw=True)]
        ]
    ],
    optional[
        href(join["https://doi.org/", field("doi", raw=True)])[join["doi:", field("doi", raw=True)]]
    ],
    optional[href(field("url", raw=True))[field("url", raw=True, apply_func=bare)]],
]
REFERENCE = toplevel[
    words[
        names("author", sep=", ", sep2=" and ", last_sep=" and "), join["(", field("year"), ")."]
    ],
    sentence[field("title")],
    optional[sentence[VENUE]],
    optional[sentence[field("note")]],
    LINK,
]


class AuthorYear(BaseStyle):
    """One form for every kind of entry: authors (year). Title. Where it appeared. A link."""

    default_name_style = "lastfirst"
    default_sorting_style = "author_year_title"

    def __init__(self, **options):
        super().__init__(**{"abbreviate_names": True, **options})

    def format_entry(self, label, entry, bib_data=None) -> FormattedEntry:
        context = {"entry": entry, "style": self, "bib_data": bib_data}
        return FormattedEntry(entry.key, REFERENCE.format_data(context), label)


def on_resolved(app, doctree: nodes.document, page: str) -> None:
    """Make the list a plain one: the labels of its entries are no part of author-year citations."""
    entries = list(doctree.findall(nodes.citation))
    items = [
        nodes.list_item("", *entry.findall(nodes.paragraph), ids=entry["ids"]) for entry in entries
    ]
    if items:
        entries[0].parent.replace_self(nodes.bullet_list("", *items))
