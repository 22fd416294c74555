"""``lisdd-jax init``: commented templates of the two kinds of files."""

import enum
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from lisdd_jax.cli import options, outputs
from lisdd_jax.cli.failure import Failure, in_sentences

HELP = r"""
Write a commented template: of a diagnosis (for diagnose --spec) or of a study.

[bold]Example[/bold]

    lisdd-jax init diagnosis --out pipe.toml
"""


class Template(enum.StrEnum):
    """Kinds of templates, by what they are of."""

    DIAGNOSIS = "diagnosis"
    STUDY = "study"


_Template = Annotated[
    Template, typer.Argument(metavar="diagnosis|study", help="What to write down.")
]
_Out = Annotated[
    str,
    typer.Option(
        "--out",
        help="File to write; it must not exist. - for stdout.",
        metavar="FILE.toml",
        rich_help_panel=options.OUTPUT,
    ),
]


@in_sentences
def command(kind: _Template = Template.DIAGNOSIS, *, out: _Out = outputs.STANDARD_OUTPUT) -> None:
    """Write the template."""
    if out != outputs.STANDARD_OUTPUT and Path(out).exists():
        raise Failure(f"--out {out!r} exists already; remove it or choose another name")
    outputs.check_outputs({"--out": out}, [])
    outputs.write_text(out, read_template(kind))
    outputs.say_written(Console(), out)


def read_template(kind: Template) -> str:
    """The template of a kind."""
    return (resources.files("lisdd_jax.cli") / "templates" / f"{kind.value}.toml").read_text(
        "utf-8"
    )
