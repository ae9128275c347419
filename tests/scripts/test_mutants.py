"""The list of changes that no test can see: it speaks of the library as it is."""

import json

import pytest

from scripts.mutants import EQUIVALENT, change, is_equivalent
from tests.paths import LIB

KNOWN = json.loads(EQUIVALENT.read_text(encoding="utf-8"))
DIFF = """# lib.training.x_update__mutmut_3: survived
--- lib/training.py
+++ lib/training.py
@@ -1,5 +1,5 @@
 def update(
-    optimizer.zero_grad(set_to_none=True)
+    optimizer.zero_grad(set_to_none=None)
     sums, counts = [], []
-    two
-      lines
"""


def squeezed(text: str) -> str:
    return "".join(text.split())


def test_a_change_is_what_goes_and_what_comes():
    before = "optimizer.zero_grad(set_to_none=True) two lines"
    after = "optimizer.zero_grad(set_to_none=None)"
    assert change(DIFF) == (before, after)
    name, known = "lib.training.x_update__mutmut_3", {"before": before, "after": after}
    assert is_equivalent(name, DIFF, [known | {"where": "lib.training.x_update"}])
    assert not is_equivalent(name, DIFF, [known | {"where": "lib.training.x_train"}])
    assert not is_equivalent(name, DIFF, [known | {"where": "lib.training.x_update", "after": ""}])


@pytest.mark.parametrize("one", KNOWN, ids=lambda one: f"{one['where']} {one['after']}")
def test_each_line_of_the_list_is_one_of_the_library(one):
    """A line that was changed is looked at anew."""
    _, module, _ = one["where"].split(".")
    source = (LIB / f"{module}.py").read_text(encoding="utf-8")
    assert squeezed(one["before"]) in squeezed(source)
    assert one["before"] != one["after"]
    assert one["why"]
