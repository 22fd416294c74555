"""Files as tables: text by pandas, Parquet by pyarrow, workbooks by pandas and openpyxl."""

import io
import warnings
import zipfile
from pathlib import Path
from typing import IO, Any

from lisdd_jax.tables import dialect, frames, sources
from lisdd_jax.tables.dialect import Dialect, ReadOptions
from lisdd_jax.tables.errors import TableError, import_extra, import_pandas, list_some, one_line
from lisdd_jax.tables.sources import PARQUET_SUFFIXES, Source
from lisdd_jax.tables.table import Table, checked_names

_OLD_EXCEL = b"\xd0\xcf\x11\xe0"


def read_table(path: str | Path, options: ReadOptions | None = None) -> Table:
    """Read a table from a file.

    Args:
      path: text with one row of names (CSV and the like), Parquet, or an Excel workbook; each may
        be compressed (gzip, bzip2, xz, Zstandard, or a zip of one file). ``-`` is standard input.
      options: how it is written, where that is not to be found out.

    Returns:
      The table. What pandas takes for missing (an empty field, ``NA``, ``NaN``, ``null``) is.

    Raises:
      TableError: the file is missing, unreadable, empty, not what it seems, or can be read in
        several ways; names are repeated.

    Example:
      >>> import tempfile
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     path = Path(folder, "table.csv")
      ...     _ = path.write_text("x;y\\n1,5;2,5\\n3,5;4,5\\n")
      ...     read_table(path).read(["x"])["x"].tolist()
      [1.5, 3.5]
    """
    options = options or ReadOptions()
    source = sources.find_source(path)
    start = source.start()
    if start.startswith(b"PAR1") or Path(source.name).suffix.lower() in PARQUET_SUFFIXES:
        return _read_parquet(source)
    if start.startswith(_OLD_EXCEL):
        raise TableError(f"table {source.name!r} is an old Excel file; save it as .xlsx or CSV")
    if start.startswith(b"PK\x03\x04"):
        return _read_excel(source, options)
    if options.sheet is not None:
        raise TableError(f"table {source.name!r} is no Excel workbook and has no sheets")
    return _read_text(source, start, options)


def _read_text(source: Source, start: bytes, options: ReadOptions) -> Table:
    first: UnicodeDecodeError | None = None
    for encoding in dialect.encodings(source.name, start, options):
        try:
            found = dialect.find_dialect(
                source.name, start, encoding, len(start) < sources.SAMPLE, options
            )
            return _parse_text(source, found)
        except UnicodeDecodeError as error:
            first = first or error
    assert first is not None
    byte = first.object[first.start]
    raise TableError(
        f"table {source.name!r} is not text in {first.encoding} (byte 0x{byte:02x}); say how it is"
        " written by --encoding"
    )


def _exact_numbers(version: str) -> dict[str, Any]:
    """What makes a release of pandas read every number to its last bit."""
    # From 3.1 on it does so unasked, and asking is deprecated.
    release = tuple(map(int, version.split(".")[:2]))
    return {} if release >= (3, 1) else {"float_precision": "round_trip"}


def _parse_text(source: Source, found: Dialect) -> Table:
    pandas = import_pandas()
    common: dict[str, Any] = {
        "sep": found.separator,
        "encoding": found.encoding,
        "skipinitialspace": True,
    }
    try:
        with source.open() as stream:
            # As they are written: pandas would number repeated names.
            first = pandas.read_csv(
                stream, header=None, nrows=1, dtype=str, keep_default_na=False, **common
            )
        names = checked_names(source.name, first.iloc[0])
        with source.open() as stream, warnings.catch_warnings():
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            frame = pandas.read_csv(
                stream,
                header=0,
                names=list(names),
                decimal=found.decimal,
                # Else pandas takes a first column without a name for an index.
                index_col=False,
                low_memory=False,
                **_exact_numbers(pandas.__version__),
                **common,
            )
    except (UnicodeDecodeError, TableError):
        raise
    except pandas.errors.ParserWarning:
        raise TableError(
            f"table {source.name!r} has rows with more values than its first row has names"
        ) from None
    except ValueError as error:
        raise TableError(
            f"table {source.name!r} cannot be read as text: {one_line(error)}"
        ) from None
    return frames.from_pandas(frame, name=source.name, notes=found.notes)


def _read_parquet(source: Source) -> Table:
    parquet = import_extra("pyarrow.parquet", "pyarrow", "reading Parquet")
    try:
        file = parquet.ParquetFile(_seekable(source))
    except (ValueError, OSError) as error:
        raise _not_readable(source, "Parquet", error) from None
    given = list(file.schema_arrow.names)
    names = checked_names(source.name, given)

    def column(label: str) -> Any:
        try:
            return file.read(columns=[given[names.index(label)]]).column(0)
        except (ValueError, OSError, NotImplementedError) as error:
            raise _not_readable(source, "Parquet", error) from None

    return Table(
        name=source.name,
        names=names,
        num_rows=file.metadata.num_rows,
        fetch=lambda label: frames.arrow_values(source.name, label, column(label)),
        levels=frames.arrow_levels(dict(zip(names, file.schema_arrow.types, strict=True)), column),
    )


def _read_excel(source: Source, options: ReadOptions) -> Table:
    import_extra("openpyxl", "openpyxl", "reading Excel workbooks")
    pandas = import_pandas()
    try:
        with warnings.catch_warnings():
            # On parts of a workbook that hold no values, such as menus.
            warnings.simplefilter("ignore", UserWarning)
            with pandas.ExcelFile(_seekable(source), engine="openpyxl") as book:
                sheet = _choose_sheet(source.name, list(map(str, book.sheet_names)), options.sheet)
                cells = pandas.read_excel(book, sheet_name=sheet, header=None, dtype=object)
    except (ValueError, OSError, KeyError, TypeError, zipfile.BadZipFile) as error:
        if isinstance(error, TableError):
            raise
        raise _not_readable(source, "an Excel workbook", error) from None
    if cells.empty:
        raise TableError(f"sheet {sheet!r} of table {source.name!r} is empty")
    header = cells.iloc[0]
    frame = cells.iloc[1:].infer_objects()
    frame.columns = checked_names(source.name, header.where(header.notna(), ""))
    return frames.from_pandas(frame, name=source.name)


def _choose_sheet(name: str, sheets: list[str], wanted: str | None) -> str:
    if wanted is None:
        if len(sheets) == 1:
            return sheets[0]
        raise TableError(f"table {name!r} has the sheets {list_some(sheets)}: say which by --sheet")
    if wanted in sheets:
        return wanted
    if wanted.isdigit() and 1 <= int(wanted) <= len(sheets):
        return sheets[int(wanted) - 1]
    raise TableError(f"table {name!r} has no sheet {wanted!r}; it has {list_some(sheets)}")


def _seekable(source: Source) -> IO[bytes] | Path:
    """What a reader that goes back and forth can take; a plain file is not loaded for it."""
    with source.open() as stream:
        if source.path is not None and not _is_packed(stream):
            return source.path
        return io.BytesIO(stream.read())


def _is_packed(stream: IO[bytes]) -> bool:
    return not isinstance(stream, io.BufferedReader)


def _not_readable(source: Source, what: str, error: Exception) -> TableError:
    return TableError(f"table {source.name!r} cannot be read as {what}: {one_line(error)}")
