"""Gives each built page a Content-Security-Policy: what may run on it, and what it may load.

A script is a file of the book, or stands in the page as it was built: its hash is in the policy. So
a text that gets into a page, from an address or from a stored answer, runs nothing, and nothing is
asked of another host. The theme's inline handlers (`onclick`), which no policy can tell from
injected ones, become names that `page.js` listens for.

The functions take a page's text and return it changed, as those of `pages`, and a page may
pass twice.
"""

import base64
import hashlib
import html
import re

from engine.text import LABORATORIES

POLICY = {
    "default-src": ["'none'"],  # frames, plug-ins, media and requests by scripts too
    "script-src": ["'self'"],  # in Chromium, Firefox and WebKit a file's too, where a page is one
    # Widths of tables and colours of cells stand in style attributes, which have no hash in a
    # policy. 'unsafe-inline' is for them alone: where browsers tell the two apart, and all recent
    # ones do, an element needs a hash. Older ones take this line for both.
    "style-src": ["'self'", "'unsafe-inline'"],
    "style-src-elem": ["'self'"],
    "img-src": ["'self'", "data:"],  # the theme's icons are data: addresses in its style sheets
    "font-src": ["'self'"],
    "worker-src": ["'none'"],  # would else be what scripts may be
    "form-action": ["'self'"],  # the search; these two do not follow from default-src
    "base-uri": ["'none'"],
}
# A page with a laboratory trains in a worker, made of text that the page loaded as a script, and in
# WebAssembly. No other page may.
TRAINS = re.compile(
    rf'<div class="book-widget" data-module="(?:{"|".join(LABORATORIES)})">'  # as base.py writes it
)
TRAINING = {"script-src": ["'self'", "'wasm-unsafe-eval'"], "worker-src": ["blob:"]}
# What the theme's inline handlers do, by the name that page.js knows.
ACTIONS = {"toggleFullScreen()": "fullscreen", "window.print()": "print"}

META = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>\n?')
HEAD = re.compile(r"<head\b[^>]*>\s*")
HEAD_END = re.compile(r"</head>")
INLINE = re.compile(r"[ \t]*<script\b((?![^>]*\bsrc=)[^>]*)>(.*?)</script>\n?", re.DOTALL)
STYLE = re.compile(r"<style\b[^>]*>(.*?)</style>", re.DOTALL)
DATA = re.compile(r'\btype="application/(?:ld\+)?json"')  # is read and never run
NEXT = re.compile(r'[ \t]*<link rel="next"[^>]*>\n?')
HANDLER = re.compile(r'(<[a-z][^<>]*?)\son[a-z]+="([^"]*)"')


def name_actions(text: str) -> str:
    """Put a name in the place of each inline handler.

    Errors: ValueError for a handler without a name.
    """

    def named(match: re.Match) -> str:
        call = html.unescape(match.group(2))
        if call not in ACTIONS:
            known = ", ".join(ACTIONS)
            raise ValueError(
                f"expected the theme's inline handlers {known}, got {call!r}: "
                "give it a name in policy.py and a listener in page.js"
            )
        return f'{match.group(1)} data-action="{ACTIONS[call]}"'

    return HANDLER.sub(named, text)


def join_scripts(text: str) -> str:
    """Make one script of those that stand in the page's head, so that the policy needs one hash.

    The one that reads the reader's theme comes last: where a browser refuses to keep anything it
    throws, and the others set what files need.
    """
    end = HEAD_END.search(text)
    head = text[: end.start()] if end else ""
    scripts = [match.group(2).strip() for match in INLINE.finditer(head) if runs(match)]
    if not scripts:
        return text
    ordered = sorted(dict.fromkeys(scripts), key=lambda script: "localStorage" in script)
    script = "\n".join(ordered)
    waiting = [f"<script>{script}</script>\n"]

    def replaced(match: re.Match) -> str:
        if not runs(match):
            return match.group()
        return waiting.pop() if waiting else ""

    return INLINE.sub(replaced, head) + text[len(head) :]


def runs(match: re.Match) -> bool:
    return not DATA.search(match.group(1))


def digest(text: str) -> str:
    """What a policy calls an inline script or style sheet."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def protect(text: str) -> str:
    """Put the policy first in the page's head, with the hashes of what stands in the page.

    A page with a laboratory may start a worker from a Blob, and compile WebAssembly.

    The link to the next page is taken out of the head: Firefox fetches it unasked, as what only
    `default-src` speaks of. The one that readers click stays.
    """
    text = NEXT.sub("", META.sub("", text))
    scripts = [digest(match.group(2)) for match in INLINE.finditer(text) if runs(match)]
    styles = [digest(match.group(1)) for match in STYLE.finditer(text)]
    added = {"script-src": scripts, "style-src-elem": styles}
    allowed = POLICY | TRAINING if TRAINS.search(text) else POLICY
    policy = "; ".join(
        " ".join([name, *dict.fromkeys(values + added.get(name, []))])
        for name, values in allowed.items()
    )
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
    head = HEAD.search(text)
    place = head.end() if head else 0  # a page that only leads to another one has no head
    return text[:place] + meta + text[place:]
