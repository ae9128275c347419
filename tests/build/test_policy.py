"""The policy that each page gets: which scripts it names, what it makes of the theme's handlers."""

import base64
import hashlib

import pytest

from build.pages.policy import POLICY, join_scripts, name_actions, protect
from engine.text import LABORATORIES
from tests.paths import BOOK

PAGE = """<!DOCTYPE html>
<html>
  <head>
    <meta charset="utf-8" />
    <script>localStorage.theme;</script>
    <noscript><style>.a { color: red }</style></noscript>
    <script>const A = 1;</script>
    <script defer src="a.js"></script>
    <script>const A = 1;</script>
    <script type="application/ld+json">{"a": 1}</script>
    <link rel="next" title="b" href="b.html" />
  </head>
  <body><script type="application/json">{}</script><p>onclick="no()"</p></body>
</html>"""
META = '<meta http-equiv="Content-Security-Policy" content="'


def policy_of(page: str) -> dict[str, list[str]]:
    _, _, rest = page.partition(META)
    parts = [part.split() for part in rest.split('"')[0].split("; ")]
    return {name: values for name, *values in parts}


def sha256(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_scripts_of_the_head_become_one_and_the_one_that_may_fail_is_last():
    page = join_scripts(PAGE)
    assert page.count("<script>") == 1
    assert "<script>const A = 1;\nlocalStorage.theme;</script>" in page
    assert page.index("localStorage") < page.index("noscript"), "before anything is painted"
    assert '<script defer src="a.js">' in page
    assert page.count('<script type="application/') == 2
    assert join_scripts(page) == page


def test_policy_stands_first_and_names_what_is_in_the_page():
    page = protect(join_scripts(PAGE))
    assert page.index("<head>") < page.index(META) < page.index("<meta charset")
    policy = policy_of(page)
    assert policy == POLICY | {
        "script-src": ["'self'", sha256("const A = 1;\nlocalStorage.theme;")],
        "style-src-elem": ["'self'", sha256(".a { color: red }")],
    }
    assert 'rel="next"' not in page, "Firefox would fetch it, and the policy refuse it"
    assert protect(page) == page, "a page may pass twice"


def test_no_policy_allows_unnamed_scripts():
    allowed = [value for name in ("default-src", "script-src") for value in POLICY[name]]
    assert allowed == ["'none'", "'self'"]
    assert [name for name, values in POLICY.items() if "'unsafe-inline'" in values] == ["style-src"]


def test_only_a_page_with_a_laboratory_may_train():
    """It starts a worker from a Blob and compiles WebAssembly; all else is as on other pages."""
    body = '<div class="book-widget" data-module="{}">'
    names = (*LABORATORIES, "map")
    pages = {name: PAGE.replace("<p>", body.format(name) + "<p>") for name in names}
    policies = {name: policy_of(protect(page)) for name, page in pages.items()}
    assert policies["map"] == policy_of(protect(PAGE))
    assert policies["take_out"] == policies["laboratory"]
    changed = {n for n, values in policies["map"].items() if policies["laboratory"][n] != values}
    assert changed == {"script-src", "worker-src"}
    assert policies["laboratory"]["worker-src"] == ["blob:"]
    added = set(policies["laboratory"]["script-src"]) - set(policies["map"]["script-src"])
    assert added == {"'wasm-unsafe-eval'"}
    named = PAGE.replace("onclick", 'data-module=&quot;laboratory&quot; class="book-widget"')
    assert "wasm" not in protect(named), "text about one is none"
    assert protect(protect(pages["laboratory"])) == protect(pages["laboratory"])


def test_script_in_the_text_is_named_too():
    page = "<html><head></head><body><script>a\n</script><script type='module'>b</script></body>"
    assert policy_of(protect(page))["script-src"] == ["'self'", sha256("a\n"), sha256("b")]


def test_page_that_only_leads_elsewhere_has_a_policy():
    page = protect('<meta http-equiv="Refresh" content="0; url=a.html" />\n')
    assert page.startswith(META)
    assert policy_of(page) == POLICY


def test_handlers_become_names_that_the_script_knows():
    page = (
        '<p onclick="window.print()"\n class="a"><i></i><b class="b" onclick="toggleFullScreen()">'
    )
    assert name_actions(page) == (
        '<p data-action="print"\n class="a"><i></i><b class="b" data-action="fullscreen">'
    )
    script = (BOOK / "static" / "page.js").read_text(encoding="utf-8")
    assert '["print", ' in script
    assert '["fullscreen", ' in script
    assert name_actions(PAGE) == PAGE, "text is left alone"


def test_handler_without_a_name_stops_the_build():
    with pytest.raises(ValueError, match=r"got 'steal\(\)': give it a name"):
        name_actions('<img src="x" onerror="steal()">')
