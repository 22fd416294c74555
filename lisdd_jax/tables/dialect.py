"""How a text file writes a table: its encoding, separator and decimal mark.

What is not given is taken from the start of the file where that leaves one reading only. Where two
readings would give different numbers, none is chosen: a sentence asks which is meant.
"""

import codecs
import csv
import io
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from lisdd_jax.expressions import tree
from lisdd_jax.tables.errors import TableError

#: Reads text of Western Europe that is not UTF-8; it holds Latin-1.
FALLBACK_ENCODING = "cp1252"
WHITESPACE = r"\s+"
_WORDS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar", WHITESPACE: "blanks"}
#: Names of separators that are awkward to type.
_NAMED_SEPARATORS = {"tab": "\t", r"\t": "\t", "space": WHITESPACE, "blank": WHITESPACE}
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

_EXPONENT = r"(?:[eE][+-]?\d+)?"
_WHOLE = re.compile(r"[+-]?\d+" + _EXPONENT)
_POINT = re.compile(r"[+-]?\d*\.\d+" + _EXPONENT + r"|[+-]?\d+\.")
_COMMA = re.compile(r"[+-]?\d*,\d+" + _EXPONENT)
#: A comma before three digits: a decimal or a thousand. A point there is the usual decimal mark.
_EITHER = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")
_GROUPED_BY_COMMA = re.compile(r"[+-]?[1-9]\d{0,2}(?:(?:,\d{3})+\.\d*|(?:,\d{3}){2,})")
_GROUPED_BY_POINT = re.compile(r"[+-]?[1-9]\d{0,2}(?:(?:\.\d{3})+,\d*|(?:\.\d{3}){2,})")


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """What is said about how a table is written; None where it is to be found out.

    Attributes:
      sep: separator of the values of a row: one character, ``tab`` or ``space``.
      decimal: decimal mark, a point or a comma.
      encoding: of the text, by a name that Python knows.
      sheet: of a workbook, by name, or by number from 1.

    Example:
      >>> ReadOptions(sep=";", decimal=",").sep
      ';'
    """

    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    sheet: str | None = None

    def __post_init__(self) -> None:
        """Refuse what no table can be read with."""
        separator = self.separator
        if separator is not None and separator != WHITESPACE and len(separator) != 1:
            raise TableError(f"sep must be one character, tab or space, got {self.sep!r}")
        if self.decimal not in (None, ".", ","):
            raise TableError(f"decimal must be a point or a comma, got {self.decimal!r}")
        if self.encoding is not None:
            try:
                b" ".decode(self.encoding, "ignore")
            except LookupError:
                raise TableError(
                    f"encoding must be one that Python knows, such as utf-8, latin-1 or utf-16,"
                    f" got {self.encoding!r}"
                ) from None

    @property
    def separator(self) -> str | None:
        """The separator as pandas takes it."""
        if self.sep == " ":
            return WHITESPACE
        return _NAMED_SEPARATORS.get(self.sep, self.sep) if self.sep else self.sep


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How a table is written.

    Attributes:
      encoding, separator, decimal: as pandas takes them.
      notes: sentences on what was found out and is worth a look.
    """

    encoding: str
    separator: str
    decimal: str
    notes: tuple[str, ...] = ()


def encodings(name: str, start: bytes, options: ReadOptions) -> list[str]:
    """Encodings to try, one after the other.

    Args:
      name: of the table, for messages.
      start: first bytes.
      options: what is said.

    Raises:
      TableError: the bytes are no text.
    """
    for mark, encoding in _MARKS:
        if start.startswith(mark):
            # A mark at the start is no part of the first name.
            given = codecs.lookup(options.encoding or encoding).name
            return [encoding if given.startswith("utf-") else given]
    if options.encoding:
        return [options.encoding]
    if b"\0" in start:
        raise TableError(
            f"table {name!r} is not text, but binary data (or UTF-16: --encoding utf-16)"
        )
    return ["utf-8", FALLBACK_ENCODING]


def find_dialect(
    name: str, start: bytes, encoding: str, whole: bool, options: ReadOptions
) -> Dialect:
    """The dialect of a table from its first bytes.

    Args:
      name: of the table, for messages.
      start: first bytes.
      encoding: of the text.
      whole: whether these are all bytes; else a last line cut in two is left out.
      options: what is said.

    Raises:
      UnicodeDecodeError: the bytes are not of this encoding.
      TableError: more than one reading is left.
    """
    text = codecs.getincrementaldecoder(encoding)("strict").decode(start, whole)
    notes = []
    if encoding == FALLBACK_ENCODING and not options.encoding:
        notes.append(
            f"the table is not UTF-8; it is read as Western European text ({encoding}), which"
            " concerns letters with accents only (--encoding)"
        )
    separator = options.separator or _find_separator(name, text, whole)
    fields = [text for row in _rows(text, separator, whole)[1:] for text in row]
    decimal = options.decimal or _find_decimal(name, fields)
    if decimal == "," and options.decimal is None:
        notes.append("numbers are read with decimal commas (--decimal)")
    return Dialect(encoding=encoding, separator=separator, decimal=decimal, notes=tuple(notes))


class _Fit(NamedTuple):
    """How well a separator explains the sample; the larger the better."""

    consistent: bool
    numeric: float


def _rows(text: str, separator: str, whole: bool) -> list[list[str]]:
    """Rows with any value; the last is left out where it may be cut."""
    if separator == WHITESPACE:
        rows = [line.split() for line in text.splitlines()]
    else:
        stream = io.StringIO(text, newline="")
        try:
            rows = list(csv.reader(stream, delimiter=separator, skipinitialspace=True))
        except csv.Error:
            return []
    return [row for row in (rows if whole else rows[:-1]) if any(cell.strip() for cell in row)]


def _fit(rows: list[list[str]]) -> _Fit:
    width = len(rows[0])
    body = [cell.strip() for row in rows[1:] for cell in row if cell.strip()]
    numeric = sum(map(looks_numeric, body)) / len(body) if body else 1.0
    return _Fit(all(len(row) == width for row in rows[1:]), numeric)


def _find_separator(name: str, text: str, whole: bool) -> str:
    candidates = {s: _rows(text, s, whole) for s in (",", ";", "\t", "|")}
    fits = {s: _fit(rows) for s, rows in candidates.items() if rows and len(rows[0]) > 1}
    if not fits:
        rows = _rows(text, WHITESPACE, whole)
        several = bool(rows) and len(rows[0]) > 1
        return WHITESPACE if several and _fit(rows) == _Fit(True, 1.0) else ","
    best = max(fits.values())
    chosen = [separator for separator, fit in fits.items() if fit == best]
    if len(chosen) == 1:
        return chosen[0]
    if best.consistent:
        words = " or ".join(_WORDS[separator] for separator in chosen)
        raise TableError(f"table {name!r} may be separated by {words}: say which by --sep")
    # No reading is sound; pandas says what is wrong with the likeliest.
    return max(chosen, key=lambda separator: len(candidates[separator][0]))


def looks_numeric(text: str) -> bool:
    """Whether a text reads as a number with a decimal point or a decimal comma."""
    patterns = (_WHOLE, _POINT, _COMMA, _GROUPED_BY_COMMA, _GROUPED_BY_POINT)
    return any(pattern.fullmatch(text) for pattern in patterns)


def _find_decimal(name: str, fields: Iterable[str]) -> str:
    point = comma = either = ""
    for cell in map(str.strip, fields):
        if _EITHER.fullmatch(cell):
            either = either or cell
        elif _POINT.fullmatch(cell) or _GROUPED_BY_COMMA.fullmatch(cell):
            point = point or cell
        elif _COMMA.fullmatch(cell) or _GROUPED_BY_POINT.fullmatch(cell):
            comma = comma or cell
    if point and comma:
        raise TableError(
            f"table {name!r} holds both {tree.shorten(point, width=40)!r} and"
            f" {tree.shorten(comma, width=40)!r}: say by --decimal which mark is the decimal one"
        )
    if either and not (point or comma):
        raise TableError(
            f"table {name!r} holds {either!r}, which may have a decimal comma or a mark of"
            " thousands: say by --decimal , or --decimal . which it is"
        )
    return "," if comma else "."
