"""Makes the built pages light and quick to show.

The theme loads on every page what only some pages need, and lets scripts hold up the first paint.
Here a page keeps the files that it uses, and its scripts wait until the text stands.
"""

import re
from pathlib import Path

SCRIPT = re.compile(r'[ \t]*<script\b([^>]*?)\bsrc="([^"]*)"([^>]*)></script>\n?')
SHEET = re.compile(r'[ \t]*<link\b[^>]*\bhref="([^"]*\.css[^"]*)"[^>]*>\n?')
# What a page must hold for a file to be of use on it. The theme's search box opens search.html.
NEEDED = {
    "searchtools.js": r"search-results",
    "language_data.js": r"search-results",
    "searchindex.js": r"search-results",
    "fontawesome.js": r"(?!)",  # an empty stand-in: the icons come from a font
    "sphinx-design.min.css": r'class="(?:[^"]* )?sd-',
    "design-tabs.js": r'class="(?:[^"]* )?sd-tab',
    "clipboard.min.js": r'class="highlight',
    "copybutton.js": r'class="highlight',
    "copybutton.css": r'class="highlight',
    "exercise.css": r'class="(?:[^"]* )?(?:exercise|solution)',
}
# Until a script says which theme it is, it is the light one: without scripts there were no colours.
PLAIN = re.compile(r'(<html\b[^>]*\bdata-theme=)"auto"')
OPTIONS = "documentation_options.js"  # 0.3 kB that a script inside the page asks for at once


def file_name(address: str) -> str:
    return address.split("?")[0].rsplit("/", 1)[-1]


def lighten_page(text: str, options: str) -> str:
    """The page without files that it does not use, and with no script that holds up its text.

    Args: text, the page; options, the text of `documentation_options.js`.
    """

    def wanted(name: str) -> bool:
        return name not in NEEDED or re.search(NEEDED[name], text) is not None

    def script(match: re.Match) -> str:
        before, address, after = match.groups()
        name = file_name(address)
        if name == OPTIONS:
            return f"<script>{options.strip()}</script>\n"
        if not wanted(name):
            return ""
        held = re.search(r"\b(?:defer|async)\b", before + after)
        return match.group() if held else match.group().replace("<script", "<script defer", 1)

    def sheet(match: re.Match) -> str:
        return match.group() if wanted(file_name(match.group(1))) else ""

    text = PLAIN.sub(r'\1"light"', text, count=1)
    return SHEET.sub(sheet, SCRIPT.sub(script, text))


def lighten_all(app, exception) -> None:
    if exception is not None or app.builder.format != "html":
        return
    out = Path(app.outdir)
    options = (out / "_static" / OPTIONS).read_text(encoding="utf-8")
    for path in out.rglob("*.html"):
        if "_static" not in path.relative_to(out).parts:
            text = path.read_text(encoding="utf-8")
            path.write_text(lighten_page(text, options), encoding="utf-8")


def setup(app):
    app.connect("build-finished", lighten_all)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
