"""Python on the pages of the documentation and in the scripts under examples/, and what it prints.

A block of text right behind a block of Python is what that prints. ``python tests/pages.py`` writes
all of these anew, after a change of the library; ``python tests/pages.py docs/python.md`` or
``examples/outliers.py`` those of one page or script.
"""

import contextlib
import importlib.util
import io
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# A block under a comment that says why it is not run is left alone.
BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<reason>.+) -->\n)?"
    r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<text>.*?)^```\n)?",
    re.DOTALL | re.MULTILINE,
)
# The value of a line that is not indented, written behind it.
VALUE = re.compile(r"^(\S[^#\n]*?)\s+# (\(.*\))$", re.MULTILINE)
RUN = re.compile(
    r"^python examples/(?P<name>\w+)\.py\n```\n\n```text\n(?P<text>.*?)^```\n",
    re.DOTALL | re.MULTILINE,
)


class Printed(NamedTuple):
    """What a piece of code printed, and the place of a page that shows it.

    Attributes:
      shown: the text on the page; None where it shows none.
      span: start and end of that text.
      printed: what was printed now.
    """

    shown: str | None
    span: tuple[int, int]
    printed: str


@contextlib.contextmanager
def user_settings() -> Iterator[None]:
    """Settings of JAX that users have, in a folder that holds the examples and can be written."""
    before = Path.cwd()
    with (
        tempfile.TemporaryDirectory() as folder,
        jax.numpy_rank_promotion("allow"),
        jax.numpy_dtype_promotion("standard"),
    ):
        Path(folder, "examples").symlink_to(EXAMPLES)
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def captured(code: Any, scope: dict[str, Any]) -> str:
    """What code prints, without blanks at the ends of lines."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, scope)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def run_page(page: Path) -> list[Printed]:
    """Run the blocks of a page one after the other, as a reader would type them."""
    scope: dict[str, Any] = {"__name__": page.stem}
    found = []
    for block in BLOCK.finditer(page.read_text()):
        if block["reason"]:
            continue
        printed = captured(compile(block["code"], page.name, "exec"), scope)
        for line, expected in VALUE.findall(block["code"]):
            assert repr(eval(line, scope)) == expected, f"{page.name}: {line}"
        found.append(Printed(block["text"], block.span("text"), printed))
    return found


def load(name: str) -> Any:
    """A script under examples/ as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_script(name: str) -> str:
    """What a script under examples/ prints."""
    return captured("load(name).main()", {"load": load, "name": name})


def listed_scripts() -> dict[str, tuple[str, tuple[int, int]]]:
    """Outputs that examples/README.md shows, and their places, by script."""
    text = (EXAMPLES / "README.md").read_text()
    return {run["name"]: (run["text"], run.span("text")) for run in RUN.finditer(text)}


def rewrite(page: Path, outputs: list[Printed]) -> None:
    """Put what was printed in the places of a page that show it."""
    text = page.read_text()
    for output in reversed([output for output in outputs if output.shown is not None]):
        start, end = output.span
        text = text[:start] + output.printed + text[end:]
    page.write_text(text)


def main(chosen: list[str]) -> None:
    """Write the outputs of all pages and scripts anew, or of those named."""
    jax.config.update("jax_enable_x64", True)
    for page in PAGES:
        if not chosen or str(page.relative_to(ROOT)) in chosen:
            with user_settings():
                rewrite(page, run_page(page))
    for name in listed_scripts():
        if not chosen or f"examples/{name}.py" in chosen:
            with user_settings():
                printed = run_script(name)
            rewrite(EXAMPLES / "README.md", [Printed(*listed_scripts()[name], printed)])


if __name__ == "__main__":
    main(sys.argv[1:])
