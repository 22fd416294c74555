"""CSV and Parquet files: what they hold, and in one sentence why they cannot be read."""

import collections
import csv
import io
import warnings
from pathlib import Path
from typing import Any

PARQUET_SUFFIXES = (".parquet", ".pq")
SUFFIXES = (".csv", *PARQUET_SUFFIXES)
_SAMPLE = 1 << 16
_SIGNATURES = {
    b"PK\x03\x04": "is a zip archive or a spreadsheet; export the sheet as CSV",
    b"\xd0\xcf\x11\xe0": "is a spreadsheet; export the sheet as CSV",
    b"\x1f\x8b": "is compressed; decompress it first",
    b"\xff\xfe": "is UTF-16 text; save it as UTF-8",
    b"\xfe\xff": "is UTF-16 text; save it as UTF-8",
}


class TableError(ValueError):
    """A table that cannot be read, or that does not hold what is asked of it."""


def first_bytes(path: Path) -> bytes:
    """The start of a file, refused where it cannot be read or is empty."""
    try:
        with path.open("rb") as file:
            start = file.read(_SAMPLE)
    except FileNotFoundError:
        raise TableError(f"table {str(path)!r} does not exist") from None
    except IsADirectoryError:
        raise TableError(f"table {str(path)!r} is a folder, not a file") from None
    except OSError as error:
        raise TableError(f"table {str(path)!r} cannot be read: {error.strerror or error}") from None
    if not start.strip():
        raise TableError(f"table {str(path)!r} is empty")
    return start


def csv_names(path: Path, start: bytes) -> tuple[list[str], str]:
    """Column names and separator from the start of a CSV file."""
    for signature, words in _SIGNATURES.items():
        if start.startswith(signature):
            raise TableError(f"table {str(path)!r} {words}")
    if b"\0" in start:
        raise TableError(f"table {str(path)!r} is not text, but binary data")
    text = _decode(path, start)
    lines = io.StringIO(text.lstrip("\r\n"))
    header = lines.readline()
    separator = max(",;\t", key=header.count)
    try:
        names = next(csv.reader([header, *lines], delimiter=separator, skipinitialspace=True))
    except csv.Error as error:
        raise TableError(f"table {str(path)!r} cannot be read as CSV: {error}") from None
    return [name.strip() for name in names], separator


def _decode(path: Path, start: bytes) -> str:
    try:
        return start.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # A character cut in two at the end of the sample is no fault of the file.
        if error.start >= len(start) - 3 and len(start) == _SAMPLE:
            return start[: error.start].decode("utf-8-sig")
        raise _wrong_encoding(path, error) from None


def _wrong_encoding(path: Path, error: UnicodeDecodeError) -> TableError:
    byte = error.object[error.start]
    return TableError(
        f"table {str(path)!r} is not UTF-8 text (byte 0x{byte:02x}); save it as UTF-8"
    )


def check_names(path: Path, names: list[str]) -> None:
    """Refuse repeated names, and a first row that holds none."""
    counts = collections.Counter(name for name in names if name)
    repeated = [f"{name!r} {count} times" for name, count in counts.items() if count > 1]
    if repeated:
        raise TableError(
            f"table {str(path)!r} must name each column once, got {', '.join(repeated)}"
        )
    if not counts:
        raise TableError(f"table {str(path)!r} has no column names in its first row")
    if all(is_number(name) for name in counts):
        raise TableError(
            f"table {str(path)!r} must have column names in its first row, got numbers only"
        )


def is_number(text: str) -> bool:
    """Whether a text reads as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def read_csv(path: Path, separator: str) -> Any:
    """All columns of a CSV file, as a data frame."""
    pandas = import_pandas()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            return pandas.read_csv(
                path,
                sep=separator,
                encoding="utf-8-sig",
                skipinitialspace=True,
                # All columns are read: with a selection pandas lets overlong rows pass.
                index_col=False,
                low_memory=False,
            )
    except UnicodeDecodeError as error:
        raise _wrong_encoding(path, error) from None
    except pandas.errors.ParserWarning:
        raise TableError(
            f"table {str(path)!r} has rows with more values than its first row has names"
        ) from None
    except (ValueError, OSError) as error:
        raise TableError(f"table {str(path)!r} cannot be read as CSV: {_sentence(error)}") from None


def parquet_names(path: Path) -> list[str]:
    """Column names of a Parquet file."""
    parquet = _pyarrow_parquet()
    try:
        return list(parquet.read_schema(path).names)
    except (ValueError, OSError) as error:
        raise TableError(
            f"table {str(path)!r} cannot be read as Parquet: {_sentence(error)}"
        ) from None


def read_parquet(path: Path, names: list[str]) -> Any:
    """Some columns of a Parquet file, as a data frame."""
    parquet = _pyarrow_parquet()
    try:
        # Stored pandas metadata would turn some columns into an index.
        table = parquet.read_table(path, columns=names)
        return table.to_pandas(ignore_metadata=True)
    except (ValueError, OSError, NotImplementedError) as error:
        raise TableError(
            f"table {str(path)!r} cannot be read as Parquet: {_sentence(error)}"
        ) from None


def _sentence(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")


def import_pandas() -> Any:
    """The module, or a sentence on how to install it."""
    try:
        import pandas
    except ModuleNotFoundError:
        raise TableError("reading tables needs pandas: pip install 'lisdd-jax[cli]'") from None
    return pandas


def _pyarrow_parquet() -> Any:
    try:
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise TableError("reading Parquet needs pyarrow: pip install 'lisdd-jax[cli]'") from None
    return pyarrow.parquet
