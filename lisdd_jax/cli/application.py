"""Commands, and what their end is: exit code 0 ran, 2 bad input, 1 a fault of the program."""

import os
import sys
import traceback
from typing import Annotated, Any

import typer

import lisdd_jax
from lisdd_jax.cli import arguments, check, diagnose, doctor, init, predict, studies
from lisdd_jax.cli.failure import TRACEBACK_VARIABLE, Failure, wants_traceback

#: The root of usage errors; its module differs between releases of Typer.
_UsageError: Any = typer.BadParameter.__mro__[2]

#: Exit code of a program that was interrupted; newer releases of Typer return it.
_INTERRUPTED = 130

app = typer.Typer(
    name="lisdd-jax",
    help="Where is a trusted physical model wrong, what is missing there, and is it real?",
    no_args_is_help=True,
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
app.command(name="predict", help=predict.HELP)(predict.command)
app.command(name="check", help=check.HELP)(check.command)
app.command(name="init", help=init.HELP)(init.command)
app.command(name="doctor", help=doctor.HELP)(doctor.command)
app.add_typer(studies.app)


def run(words: list[str]) -> int:
    """Run the command line.

    Args:
      words: after the name of the program.

    Returns:
      The exit code: 0 ran, 1 a fault of the program, 2 bad input, 130 interrupted.
    """
    try:
        result = app(
            args=arguments.repeat_options(words), prog_name="lisdd-jax", standalone_mode=False
        )
        sys.stdout.flush()
        if result == _INTERRUPTED:
            raise KeyboardInterrupt
        return result if isinstance(result, int) else 0
    except Failure as failure:
        return _complain(str(failure), failure)
    except _UsageError as error:
        message = error.format_message()
        return _complain(message, error) if message else 2
    except (KeyboardInterrupt, typer.Abort):
        print("lisdd-jax: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader went away, as `head` does; nothing is left to say, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        kind = type(error).__name__
        hint = "" if wants_traceback() else f"; {TRACEBACK_VARIABLE}=1 shows where"
        _complain(f"a fault of the program, not of the input: {kind}: {error}{hint}", error)
        return 1


def _complain(text: str, error: BaseException) -> int:
    if wants_traceback():
        traceback.print_exception(error)
    sentence = " ".join(text.split())
    print(f"lisdd-jax: {sentence}", file=sys.stderr)
    return 2
