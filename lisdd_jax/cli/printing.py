"""Printing on a terminal or into a pipe: within its width, nothing cut, no blanks at line ends."""

import re

from rich.console import Console, RenderableType

MAX_WIDTH = 100


def show(*parts: RenderableType, stderr: bool = False) -> None:
    """Print parts one below the other.

    Args:
      parts: texts and tables; plain strings are printed as they are, without markup.
      stderr: whether to stderr instead of stdout.
    """
    console = Console(stderr=stderr)
    # A pipe has 80 columns.
    width = min(console.width, MAX_WIDTH)
    with console.capture() as capture:
        for part in parts:
            console.print(part, width=width, markup=False, highlight=False, emoji=False)
    # Rich fills lines with blanks, which a file or a pipe has no use for.
    console.file.write(re.sub(r" +\n", "\n", capture.get()))
