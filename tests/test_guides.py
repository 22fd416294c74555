"""The Python blocks of a guide run one after the other, as a reader would type them."""

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"


@pytest.mark.parametrize("name", ["tables.md", "python.md"])
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


def test_the_readme_prints_what_it_shows(monkeypatch):
    """The block on a data frame, and the output that stands behind it."""
    monkeypatch.chdir(ROOT)
    text = (ROOT / "README.md").read_text()
    pairs = re.findall(
        r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", text, re.DOTALL | re.MULTILINE
    )
    (block, shown), *_ = (pair for pair in pairs if "lisdd_jax.fit(" in pair[0])
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(block, {})
    assert [line.rstrip() for line in printed.getvalue().splitlines()] == shown.splitlines()
