"""How schematics look: their colours, and the rules that give a shape its lines.

Colours are named here and nowhere else. A schematic that stands alone carries `standalone()` in
itself and follows the system's theme. A page has `page()` once, which names the colours as CSS
variables (`--sch-query`) and follows the theme of the page. Text has a contrast of 4.5 or more on
the ground and on the tint of its own kind, lines one of 3 or more.
"""

KINDS = ("plain", "query", "key", "value", "source", "target", "soft", "lit")
LIGHT = {
    "paper": "#ffffff",
    "ink": "#22262b",
    "plain": "#59636e",
    "soft": "#5c6670",
    "lit": "#14507f",
    "query": "#0b5cad",
    "key": "#a2430a",
    "value": "#1a6b3d",
    "source": "#6a3fa0",
    "target": "#a3195b",
}
DARK = {
    "paper": "#15181c",
    "ink": "#dde2e7",
    "plain": "#9aa4af",
    "soft": "#a6aeb8",
    "lit": "#8ec5f0",
    "query": "#7cc0ff",
    "key": "#ffb074",
    "value": "#7fdca4",
    "source": "#c6a8ff",
    "target": "#ff9cc9",
}
FORCED = dict.fromkeys(LIGHT, "CanvasText") | {"paper": "Canvas", "lit": "Highlight"}
TINT = 0.1  # of a shape's own colour on its ground
SHADE = 0.3  # the most on a cell with letters in it
SANS = 'system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif'
SERIF = 'Georgia,"Times New Roman",serif'

FORM = f"""\
.sch{{font:14px {SANS};text-anchor:middle}}
.sch .m{{font-family:{SERIF};font-style:italic}}
.sch .u{{font-family:{SERIF}}}
.sch .strong{{font-weight:600}}
.sch text,.sch .head{{fill:currentColor}}
.sch .box{{fill:currentColor;fill-opacity:{TINT};stroke:currentColor;stroke-width:1.5}}
.sch .line{{fill:none;stroke:currentColor;stroke-width:1.5;stroke-linejoin:round}}
.sch .thin{{stroke-width:1}}
.sch .stream{{stroke-width:5;stroke-linecap:round}}
.sch .dash{{stroke-dasharray:4 4}}
.sch .shade{{fill:currentColor}}
.sch .lit .box{{fill-opacity:1}}
"""


def colours(named: dict[str, str]) -> str:
    """The rules that hand each kind its colour; `named` gives a CSS colour for each name."""
    rules = [f".sch .paper{{fill:{named['paper']}}}"]
    rules += [f".sch .{kind}{{color:{named[kind]}}}" for kind in KINDS]
    rules.append(f".sch .lit text{{fill:{named['paper']}}}")
    rules.append(f".sch .plain text,.sch .ink{{fill:{named['ink']}}}")
    return "\n".join(rules) + "\n"


def variables(named: dict[str, str]) -> str:
    return "".join(f"--sch-{name}:{colour};" for name, colour in named.items())


def standalone() -> str:
    """The style of a schematic that stands alone; without variables, which old readers lack."""
    return f"{FORM}{colours(LIGHT)}@media (prefers-color-scheme:dark){{\n{colours(DARK)}}}\n"


def page() -> str:
    """The style of all schematics of a page, in its light and dark theme, printed, or forced."""
    light = f":root{{{variables(LIGHT)}}}\n"
    dark = f'html[data-theme="dark"]{{{variables(DARK)}}}\n'
    paper = f"@media print{{html[data-theme]{{{variables(LIGHT)}}}}}\n"
    forced = f"@media (forced-colors:active){{html[data-theme]{{{variables(FORCED)}}}}}\n"
    named = {name: f"var(--sch-{name})" for name in LIGHT}
    serif = ".sch .m,.sch .u{font-family:var(--book-serif)}\n"
    return light + dark + paper + forced + FORM + colours(named) + serif
