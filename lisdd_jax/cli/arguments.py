"""Options that the command line adds to what Typer offers."""

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from lisdd_jax import tables
from lisdd_jax.cli import options
from lisdd_jax.config import MODES, Settings
from lisdd_jax.tables import spec

#: Options that take several values, after one name or after several.
REPEATED = ("--physics", "--library", "--edges")
#: Names on the command line where they differ from the field's own.
_SHORT_NAMES = {"num_cells": "--cells"}
#: Settings that a user chooses by knowledge of the problem; the rest tunes the algorithm.
_CHOSEN_BY_USERS = ("num_cells", "max_terms", "alpha", "negligible")


def repeat_options(words: Sequence[str]) -> list[str]:
    """Write ``--physics a b`` as ``--physics a --physics b``.

    Values end at the next word that starts with ``--``, or at the name of a table file. Values are
    never split, so that an expression may hold commas and blanks.

    Args:
      words: of the command line.

    Returns:
      The words with one value per option.

    Example:
      >>> repeat_options(["--library", "x^2", "max(x, 0)", "--axis", "x"])
      ['--library', 'x^2', '--library', 'max(x, 0)', '--axis', 'x']
    """
    written: list[str] = []
    option, num_values = "", 0
    for word in words:
        if word.startswith("--"):
            name, _, value = word.partition("=")
            option, num_values = (name if name in REPEATED else ""), int(bool(value))
            written.append(word)
            continue
        if option and num_values:
            if word == tables.STANDARD_INPUT or word.lower().endswith(tables.SUFFIXES):
                option = ""
            else:
                written.append(option)
        written.append(word)
        num_values += 1
    return written


def with_settings(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command one option per setting of either method, in the place of its ``**settings``.

    Names, types, defaults and help are those of the settings, so that the two cannot disagree.
    """
    signature = inspect.signature(command)
    kept = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in _setting_options().items()
    ]
    command.__signature__ = signature.replace(parameters=[*kept, *added])  # type: ignore[attr-defined]
    command.__annotations__.pop("settings", None)
    return command


def _setting_options() -> dict[str, Any]:
    helps = _field_helps()
    found = {}
    for name, kind in spec.setting_kinds().items():
        shown = _shown_default(name)
        text = re.sub(r" \(static\)|static, |``", "", helps.get(name, "")).rstrip(".")
        flag = _SHORT_NAMES.get(name, "--" + name.replace("_", "-"))
        if kind is bool:
            flag += f"/--no-{name.replace('_', '-')}"
        option = typer.Option(
            flag,
            help=f"{text[:1].upper()}{text[1:]}. ".lstrip(". ") + shown.replace("[", r"\["),
            rich_help_panel=options.METHOD if name in _CHOSEN_BY_USERS else options.ADVANCED,
            show_default=False,
        )
        found[name] = Annotated[kind | None, option]
    return found


def _shown_default(name: str) -> str:
    """Defaults of a setting under the methods that have it."""
    found = {mode: getattr(kind, name) for mode, kind in MODES.items() if hasattr(kind, name)}
    if len(found) == 1:
        mode, value = found.popitem()
        return f"[{value}; {'with' if mode == 'paper' else 'without'} --paper]"
    default, paper = found["default"], found["paper"]
    return f"[{default}]" if default == paper else f"[{default}; {paper} with --paper]"


def _field_helps() -> dict[str, str]:
    """Descriptions of the settings, from the ``Attributes`` parts of their docstrings."""
    docs = [inspect.cleandoc(kind.__doc__ or "") for kind in (Settings, *MODES.values())]
    text = "\n".join(doc.partition("Attributes:")[2] for doc in docs)
    found = re.findall(r"^  (\w[\w, ]*): (.*(?:\n {4,}.*)*)", text, flags=re.MULTILINE)
    return {
        name.strip(): " ".join(words.split()) for names, words in found for name in names.split(",")
    }
