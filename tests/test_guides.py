"""The Python blocks of a guide run one after the other, as a reader would type them."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.mark.parametrize("name", ["tables.md"])
def test_blocks_run(name):
    blocks = re.findall(
        r"^```python\n(.*?)^```", (DOCS / name).read_text(), re.DOTALL | re.MULTILINE
    )
    assert blocks
    scope, shown = {}, 0
    for block in blocks:
        exec(block, scope)
        # What a line gives is written behind it.
        for line, expected in re.findall(r"^([^#\n]+?)\s+# (\(.*\))$", block, re.MULTILINE):
            assert repr(eval(line, scope)) == expected
            shown += 1
    assert shown >= 2
