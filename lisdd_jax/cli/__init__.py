"""The command line ``lisdd-jax``: an application on top of the library."""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit with its code: 0 when it ran, 2 for bad input.

    Args:
      arguments: words after the name of the program; those of the process where None.
    """
    try:
        from lisdd_jax.cli import application
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich"):
            raise
        sys.exit("lisdd-jax: the command line needs more packages: pip install 'lisdd-jax[cli]'")
    sys.exit(application.run(list(sys.argv[1:] if arguments is None else arguments)))
