"""What is said when a table, or what is asked of it, does not fit: one sentence each."""

from types import ModuleType


class TableError(ValueError):
    """A table that cannot be read, or that does not hold what is asked of it."""


class ProblemError(ValueError):
    """A diagnosis that cannot be set up from the table."""


class SpecError(ValueError):
    """A specification that cannot be read, or is not complete."""


def import_extra(module: str, package: str, purpose: str) -> ModuleType:
    """A module of an optional package.

    Args:
      module: to import.
      package: that has it, by the name that pip knows.
      purpose: what needs it, for the message.

    Raises:
      TableError: the package is not installed.
    """
    import importlib

    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != module.partition(".")[0]:
            raise
        raise TableError(f"{purpose} needs {package}: pip install {package}") from None


def import_pandas() -> ModuleType:
    """The module, or a sentence on how to get it."""
    return import_extra("pandas", "pandas", "reading tables")


def one_line(error: Exception) -> str:
    """The message of another library's error, fit to end a sentence of ours."""
    return " ".join(str(error).split()).rstrip(".")


def list_some(names: list[str], most: int = 12) -> str:
    """Names in quotes, and how many more there are."""
    more = len(names) - most
    return ", ".join(map(repr, names[:most])) + (f" and {more} more" if more > 0 else "")
