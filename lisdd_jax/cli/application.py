"""Commands, and how a failure reaches the user: one sentence on stderr, no traceback."""

import os
import sys
from typing import Annotated, Any

import typer

import lisdd_jax
from lisdd_jax.cli import arguments, diagnose, studies
from lisdd_jax.cli.failure import Failure

#: The root of usage errors; its module differs between releases of Typer.
_UsageError: Any = typer.BadParameter.__mro__[2]

app = typer.Typer(
    name="lisdd-jax",
    help="Where is a trusted physical model wrong, what is missing there, and is it real?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lisdd-jax {lisdd_jax.__version__}")
        raise typer.Exit()


@app.callback()
def _common(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Diagnose physical models against data."""


app.command(name="diagnose", help=diagnose.HELP)(diagnose.command)
app.add_typer(studies.app)


def run(words: list[str]) -> int:
    """Run the command line.

    Args:
      words: after the name of the program.

    Returns:
      The exit code: 0 ran, 2 bad input, 130 interrupted.
    """
    try:
        result = app(
            args=arguments.repeat_options(words), prog_name="lisdd-jax", standalone_mode=False
        )
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except Failure as failure:
        return _complain(str(failure))
    except _UsageError as error:
        message = error.format_message()
        return _complain(message) if message else 2
    except (KeyboardInterrupt, typer.Abort):
        print("lisdd-jax: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader went away, as `head` does; nothing is left to say, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _complain(text: str) -> int:
    sentence = " ".join(text.split())
    print(f"lisdd-jax: {sentence}", file=sys.stderr)
    return 2
