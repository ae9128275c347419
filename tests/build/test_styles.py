"""The theme's style sheets keep each rule that something in the book can use, and no other."""

import pytest

from build.pages.fonts import give_range
from build.pages.styles import Names, cut, cut_all

PAGE = """<body class="wide"><p id='first' class="tip a-1 sd-1/2">text</p>
<svg><linearGradient/></svg><i class=icon></i></body>"""
SCRIPT = 'node.classList.add("show"); name = `toggle-${state}`; side = "bs-tooltip-" + place;'
NAMES = Names([PAGE], [SCRIPT])


@pytest.mark.parametrize(
    "rule",
    [
        "*{a:b}",
        "p>.tip:hover::before{a:b}",
        "body.wide #first,svg{a:b}",
        "lineargradient{a:b}",
        ".icon{a:b}",
        ".tip.show{a:b}",  # the script adds it
        ".toggle-hidden .bs-tooltip-top{a:b}",  # the script puts their names together
        ".tip:not(.gone){a:b}",
        ":is(.gone,.tip){a:b}",
        'p[class="gone, {}"]{a:b}',
        r".sd-1\/2{a:b}",
        '@charset "UTF-8";',
        '@import "../basic.css";',
        "@font-face{font-family:a;src:url(data:font/woff2;base64,a{b)}",
        "@keyframes gone{0%{a:b}to{a:c}}",
        '.tip{a:"}/*";b:url(data:a;b)}',
        "/*! by whom */p{a:b}",
    ],
)
def test_what_something_may_match_stays_as_it_is(rule):
    assert cut(rule, NAMES) == rule


@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        (".gone{a:b}", ""),
        ("table{a:b}", ""),
        ("#gone .tip{a:b}", ""),
        (".tip .gone:not(.tip){a:b}p{c:d}", "p{c:d}"),
        (".a{a:b}", ""),  # a-1 is another class
        (".gone, .tip,\n.tip > .gone{a:b}", ".tip{a:b}"),
        (".tip:is(.a,.b),.gone:is(p,i){a:b}", ".tip:is(.a,.b){a:b}"),
        ("@media print{.gone{a:b}.tip{a:b}}", "@media print{.tip{a:b}}"),
        ("@media print{@supports (a:b){.gone{a:b}}}", ""),
        ("/* a remark */p{a:b}/* the end */", "p{a:b}"),
    ],
)
def test_what_nothing_can_match_goes(rule, kept):
    assert cut(rule, NAMES) == kept


def test_a_rule_that_a_browser_throws_away_stays_void():
    """One unknown selector makes a rule void; without it the rule would begin to work."""
    rule = ".gone::-moz-focus-inner,.tip{a:b}"
    assert cut(rule, NAMES) == rule
    assert cut(".gone::-moz-focus-inner,.gone{a:b}", NAMES) == ""


@pytest.mark.parametrize("sheet", ["a{b:c}}", "a{b:c}d", "@media print{a}"])
def test_a_sheet_that_cannot_be_read_is_refused(sheet):
    with pytest.raises(ValueError, match="expected a style sheet, got one with an error"):
        cut(sheet, NAMES)


def test_only_the_sheets_of_others_are_cut(tmp_path):
    for name in ("basic.css", "book.css", "styles/theme.css"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("p{a:b}.gone{a:b}.late{a:b}", encoding="utf-8")
    (tmp_path / "a.js").write_text('"late"', encoding="utf-8")
    for _ in range(2):  # a folder may pass twice
        cut_all(tmp_path, [PAGE])
        assert (tmp_path / "basic.css").read_text(encoding="utf-8") == "p{a:b}.late{a:b}"
        assert (tmp_path / "styles/theme.css").read_text(encoding="utf-8") == "p{a:b}.late{a:b}"
        assert ".gone" in (tmp_path / "book.css").read_text(encoding="utf-8")


def test_faces_with_a_range_get_the_letters_of_their_file():
    style = "@font-face{src:a}@font-face{src:b;unicode-range: U+A0-17F;}"
    ranged = "@font-face{src:a}@font-face{src:b;unicode-range: U+E1-E3, U+141-141;}"
    assert give_range(style, "áŁâã") == ranged
    assert give_range(ranged, "áŁâã") == ranged
