"""The base of every widget of the book: one module, alive in a notebook and in the published page.

A widget is a pair of files: `NAME.py` holds its data and checks them, `NAME.js` draws it and
computes in the browser (`NAME.css` is optional). With a kernel, anywidget carries both to the
notebook. The published page has no kernel, so the output also stores the data as `text/html`, and
a small script of the page (`book/static/widget-host.js`) hands them to the same module.

Stored are data only, never code, and the same bytes on every run.

Its traits say what it may hold: traitlets checks every assignment, and the page learns them.
"""

import html
import inspect
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import anywidget
import traitlets

from widgets import domain, joiner

STYLE = Path(__file__).parent / "js" / "base.css"
MAX_BYTES = 200_000
_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


class BookWidget(anywidget.AnyWidget):
    """A widget that also lives in the published page.

    A subclass sets `_module`, the name of its `.js` file, and declares its traits, of which the
    browser gets all: `Fixed` data, which are plain lists, numbers and text, and the state that the
    reader's controls change. Its constructor takes the state, the first `_positional` of it without
    names. It may override `limits`, `summary` (one line, also the repr) and `static_html` (what a
    reader without scripts sees).

    Errors: ValueError for a value outside the domain of its trait, at each assignment; and if the
    data are not plain JSON, or larger than 200 kB.
    """

    # Of the state, by name, where it is a list or a range of numbers
    domains = domain.Fixed().tag(sync=True)

    _module: ClassVar[str]
    _folder: ClassVar[Path]
    _declared: ClassVar[dict[str, traitlets.TraitType]] = {}
    _positional: ClassVar[int] = 0
    _built = False
    _heard = False  # while the browser's values come in

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Make one ES module of the script and what it imports, and one sheet of their styles."""
        own = {
            name: trait
            for name, trait in vars(cls).items()
            if isinstance(trait, traitlets.TraitType) and not name.startswith("_")
        }
        for trait in own.values():
            trait.tag(sync=True)
        cls._declared = {**cls._declared, **own}
        if "_module" in cls.__dict__:  # anywidget makes further subclasses, which inherit the rest
            if "_folder" not in cls.__dict__:
                cls._folder = Path(inspect.getfile(cls)).parent
            entry = cls._folder / f"{cls._module}.js"
            cls._esm = f"{joiner.join(entry)}export default {joiner.default_of(entry)};\n"
            cls._css = f"{STYLE.read_text(encoding='utf-8')}\n{joiner.styles(entry)}"
            if "__init__" not in cls.__dict__:
                kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
                state = [trait for trait in own.items() if not isinstance(trait[1], domain.Fixed)]
                parameters = [
                    inspect.Parameter(name, kinds[i < cls._positional], default=trait.default_value)
                    for i, (name, trait) in enumerate(state)
                ]
                cls.__signature__ = inspect.Signature(parameters)
        super().__init_subclass__(**kwargs)

    def __init__(self, *args: Any, **traits: Any) -> None:
        if type(self).__init__ is BookWidget.__init__:
            traits = self.__signature__.bind(*args, **traits).arguments
        if unknown := [name for name in traits if not self.has_trait(name)]:
            raise TypeError(f"{type(self).__name__} got unexpected arguments: {unknown}")
        super().__init__(**traits)
        for name in traits:  # traitlets has passed over one that equals its default
            setattr(self, name, getattr(self, name))
        self._built = True
        self._follow()
        self.data_json()  # a mistake in the data shows where the widget is made

    @traitlets.default("domains")
    def _domains(self) -> dict[str, Any]:
        return self.declared()

    def declared(self) -> dict[str, Any]:
        """By trait, the domains that the browser learns: lists, and ranges of numbers."""
        return {
            name: found
            for name, trait in self._declared.items()
            if (found := domain.exported(trait, self)) is not None
        }

    def limits(self) -> Iterator[tuple[str, int]]:
        """Name and largest value of each `Place`, after those it depends on."""
        yield from ()

    def __setattr__(self, name: str, value: Any) -> None:
        """Every assignment passes here: what a trait refuses, is said as a ValueError."""
        trait = self._declared.get(name)
        try:
            super().__setattr__(name, domain.plain(trait, self, value) if trait else value)
        except domain.Refused:
            raise
        except (traitlets.TraitError, OverflowError):
            if trait is None:
                raise
            domain.refuse(name, domain.expected(trait, self), repr(value))

    def set_trait(self, name: str, value: Any) -> None:
        """Assign what comes from the browser, or is taken back."""
        setattr(self, name, value)

    @traitlets.observe(traitlets.All)
    def _follow(self, change: Any = None) -> None:
        """Where a limit has come down, a place past the end becomes the last one."""
        for name, high in self.limits() if self._built else ():
            if getattr(self, name) > high:
                setattr(self, name, high)

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Take over the browser's values. It shows a place past the end as the last one."""
        self._heard = True
        try:
            super().set_state(sync_data)
        finally:
            self._heard = False

    def data(self) -> dict[str, Any]:
        """The traits of this widget that the browser gets, by name."""
        names = ["domains", *self._declared] if self.domains else self._declared
        return {name: getattr(self, name) for name in sorted(names)}

    def data_json(self) -> str:
        """The data as JSON that is safe inside a page: it holds no `<`.

        Errors: ValueError if a value is not plain JSON (NaN is not), or for more than 200 kB.
        """
        try:
            text = json.dumps(
                self.data(), ensure_ascii=False, allow_nan=False, separators=(",", ":")
            )
        except (TypeError, ValueError) as error:
            message = (
                f"expected plain lists, finite numbers and text as data of {type(self).__name__}, "
                f"got a value that JSON cannot hold ({error}); pass tensors through `quantise`"
            )
            raise ValueError(message) from error
        text = text.replace("<", "\\u003c")
        size = len(text.encode())
        if size > MAX_BYTES:
            raise ValueError(
                f"expected at most {MAX_BYTES:,} bytes of data in {type(self).__name__}, got "
                f"{size:,}; show fewer examples, or keep fewer digits with `quantise`"
            )
        return text

    def summary(self) -> str:
        """One line that says what the widget shows; the same on every run."""
        return f"{type(self).__name__} widget"

    def static_html(self) -> str:
        """What a reader without scripts sees: made of `static_paragraph` and `static_table`."""
        return static_paragraph(self.summary())

    def __repr__(self) -> str:
        return self.summary()

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The widget view for a live notebook, and beside it the data for the published page."""
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        fallback = (
            f'<div class="book-widget" data-module="{self._module}">\n'
            f'<script type="application/json">{self.data_json()}</script>\n'
            f'<div class="book-widget-static">{self.static_html()}</div>\n</div>'
        )
        view = {_WIDGET_VIEW: data[_WIDGET_VIEW]} if _WIDGET_VIEW in data else {}
        return {"text/plain": repr(self), "text/html": fallback, **view}, metadata


def static_paragraph(text: str) -> str:
    """A paragraph of static text, escaped."""
    return f"<p>{html.escape(text)}</p>"


def static_table(caption: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A static table, escaped; the first column names the row.

    Args: caption; header, one text a column; rows, each as long as the header.
    Errors: ValueError for a row of another length.
    """
    lines = []
    for row in rows:
        if len(row) != len(header):
            raise ValueError(
                f"expected rows of {len(header)} cells, as in the header, got one of {len(row)}"
            )
        first, *others = (html.escape(str(cell)) for cell in row)
        cells = "".join(f"<td>{cell}</td>" for cell in others)
        lines.append(f'<tr><th scope="row">{first}</th>{cells}</tr>')
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in header)
    return (
        f"<table><caption>{html.escape(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table>"
    )
