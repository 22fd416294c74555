"""The command line ``lisdd-jax``: an application on top of the library."""

import sys
from collections.abc import Callable, Sequence


def load_application() -> Callable[[list[str]], int]:
    """The function that runs a command line and returns its exit code; it takes a while to import.

    Raises:
      SystemExit: a package that the command line needs is not installed.
    """
    try:
        from lisdd_jax.cli import application
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich"):
            raise
        sys.exit("lisdd-jax: the command line needs more packages: pip install typer rich pandas")
    return application.run


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit with its code: 0 when it ran, 2 for bad input.

    Args:
      arguments: words after the name of the program; those of the process where None.
    """
    sys.exit(load_application()(list(sys.argv[1:] if arguments is None else arguments)))
