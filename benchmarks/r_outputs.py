"""Outputs of the blocks of R in docs/comparison.md, from R itself.

``python benchmarks/r_outputs.py`` runs the blocks in one session and writes what each prints in the
block of text behind it. It needs R with the packages that the page names.
"""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "comparison.md"
BLOCK = re.compile(r"^```r\n(.*?)^```\n\n```text\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
MARK = "-- next block --"


def run(blocks: list[str]) -> list[str]:
    """What each block prints."""
    program = f'cat("{MARK}\\n")\n'.join(blocks)
    command = ["Rscript", "--vanilla", "-e", f"suppressPackageStartupMessages({{{program}}})"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    lines = (line.rstrip() for line in done.stdout.strip("\n").splitlines())
    return [part.strip("\n") + "\n" for part in "\n".join(lines).split(MARK)]


def main() -> None:
    """Write the page."""
    text = PAGE.read_text()
    found = list(BLOCK.finditer(text))
    for block, printed in reversed(list(zip(found, run([b[1] for b in found]), strict=True))):
        start, end = block.span(2)
        text = text[:start] + printed + text[end:]
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
