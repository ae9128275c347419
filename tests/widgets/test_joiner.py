"""Scripts with imports become one text without any, in which each keeps its names to itself."""

import json
import shutil
import subprocess

import pytest

from widgets.joiner import default_of, join, modules, styles


@pytest.fixture
def folder(tmp_path):
    """Writes scripts: text by name."""

    def write(**texts: str):
        for name, text in texts.items():
            (tmp_path / f"{name}.js").write_text(text, encoding="utf-8")
        return tmp_path

    return write


CHAIN = {
    "low": "const own = 1;\nexport const one = own;\nexport function two() { return 2 * own; }\n",
    "middle": 'import * as low from "./low.js";\n\nconst own = 10;\n'
    "export class Ten { get value() { return own * low.one; } }\n",
    "top": 'import { Ten } from "./middle.js";\n'
    'import {\n  one, two as twice,\n} from "./low.js";\n'
    "\nconst own = 100;\nexport default { sum: own + new Ten().value + one + twice() };\n",
}


def test_each_module_stands_once_and_after_its_own(folder):
    found = [module.name for module in modules(folder(**CHAIN) / "top.js")]
    assert found == ["$low", "$middle", "$top"]
    several = modules(folder() / "middle.js", folder() / "low.js", folder() / "top.js")
    assert [module.name for module in several] == found


@pytest.mark.skipif(not shutil.which("node"), reason="needs node")
def test_the_joined_text_computes_what_the_modules_do(folder):
    entry = folder(**CHAIN) / "top.js"
    script = f"{join(entry)}console.log(JSON.stringify([{default_of(entry)}.sum, typeof own]))"
    found = subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True)
    assert json.loads(found.stdout) == [113, "undefined"]


def test_what_is_given_is_left_out(folder):
    here = folder(**CHAIN)
    text = join(here / "top.js", given={here / "low.js"})
    assert "const $low" not in text
    assert "const low = $low;\n" in text
    assert "const { one, two: twice } = $low;\n" in text
    assert text.index("const $middle") < text.index("const $top")


def test_a_script_without_exports_only_runs(folder):
    here = folder(worker='import { one } from "./low.js";\npostMessage(one);\n', low=CHAIN["low"])
    assert join(here / "worker.js").endswith(
        "(() => {\nconst { one } = $low;\npostMessage(one);\n})();\n"
    )


def test_styles_come_in_the_order_of_their_scripts(folder):
    here = folder(**CHAIN)
    (here / "low.css").write_text(".low {}\n")
    (here / "top.css").write_text(".top {}\n")
    assert styles(here / "top.js") == ".low {}\n\n.top {}\n"
    assert styles(here / "top.js", given={here / "low.js"}) == ".top {}\n"


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (
            {"a": 'import x from "./b.js";\n'},
            r"a\.js: expected `import \{ a \}.*'import x",
        ),
        ({"a": 'import "./b.js";\n'}, r"a\.js: expected `import"),
        ({"a": 'import { b } from "pkg";\n'}, r"a\.js: expected `import.*got 'import \{ b \} from"),
        ({"a": "export let b = 1;\n"}, r"a\.js: expected .*got 'export let b"),
        ({"a": 'export * from "./b.js";\n'}, r"a\.js: expected .*got 'export \*"),
        ({"a": "export { b };\n"}, r"a\.js: expected .*got 'export \{ b"),
        ({"a": "export const [b, c] = [1, 2];\n"}, r"a\.js: expected .*got 'export const \["),
        ({"a": "export default 1;\nexport default 2;\n"}, r"one export of each name.*default"),
        ({"a": 'import * as b from "./b.js";\n'}, r"a\.js: expected a file at .*b\.js"),
        (
            {"a": 'import { d, c } from "./b.js";\n', "b": "export const c = 1;\n"},
            r"a\.js: expected exports of b\.js, which are c, got d",
        ),
        (
            {"a": 'import * as b from "./b.js";\n', "b": 'import * as a from "./a.js";\n'},
            r"without a circle, got a\.js -> b\.js -> a\.js",
        ),
    ],
)
def test_what_cannot_be_joined_is_refused(folder, texts, message):
    with pytest.raises(ValueError, match=message):
        join(folder(**texts) / "a.js")


def test_two_scripts_of_one_name_are_refused(folder, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "b.js").write_text("export const c = 2;\n")
    here = folder(
        a='import * as b from "./b.js";\nimport { c } from "./other/b.js";\n',
        b="export const d = 1;\n",
    )
    with pytest.raises(ValueError, match="expected scripts with different names on one page, got"):
        join(here / "a.js")


def test_an_entry_without_a_default_is_refused(folder):
    with pytest.raises(ValueError, match=r"expected a\.js to hold `export default .* got .* none"):
        default_of(folder(a="const b = 1;\n") / "a.js")
