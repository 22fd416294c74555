"""Where the bytes of a table come from: a file or standard input, compressed or not."""

import bz2
import gzip
import io
import lzma
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from lisdd_jax.tables.errors import TableError, import_extra, list_some, one_line

#: Stands for standard input where a path is asked for.
STANDARD_INPUT = "-"
SAMPLE = 1 << 16
"""Bytes that are looked at before a table is read."""

EXCEL_SUFFIXES = (".xlsx", ".xlsm")
PARQUET_SUFFIXES = (".parquet", ".pq")
_TEXT_SUFFIXES = (".csv", ".tsv", ".tab", ".txt", ".dat")
_COMPRESSED_SUFFIXES = (".gz", ".bz2", ".xz", ".zst", ".zip")
#: What the name of a table ends in; a file of another name is read as well.
SUFFIXES = (*_TEXT_SUFFIXES, *PARQUET_SUFFIXES, *EXCEL_SUFFIXES, *_COMPRESSED_SUFFIXES)

_ZIP = b"PK\x03\x04"


def _open_zstandard(stream: IO[bytes]) -> Any:
    # It refuses a file that was cut off, which other readers of the format pass in silence.
    arrow = import_extra("pyarrow", "pyarrow", "reading .zst files")
    return arrow.CompressedInputStream(stream, "zstd")


# By the first bytes, which tell more than the name.
_OPENERS: dict[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"\x28\xb5\x2f\xfd": _open_zstandard,
}


@dataclass(frozen=True)
class Source:
    """A table's bytes, which can be opened again and again.

    Attributes:
      name: of the table, for messages.
      path: of a regular file; None where the bytes can be read only once.
      content: those bytes.
    """

    name: str
    path: Path | None
    content: bytes

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """The decompressed bytes from the start; a workbook stays packed.

        Raises:
          TableError: they cannot be read or decompressed.
        """
        try:
            with self._raw() as raw:
                start = raw.read(8)
                raw.seek(0)
                with _decompressed(self.name, raw, start) as stream:
                    yield stream
        except OSError as error:
            reason = error.strerror or one_line(error)
            raise TableError(f"table {self.name!r} cannot be read: {reason}") from None
        except (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile) as error:
            raise TableError(
                f"table {self.name!r} cannot be decompressed: {one_line(error)}"
            ) from None

    def _raw(self) -> IO[bytes]:
        return io.BytesIO(self.content) if self.path is None else self.path.open("rb")

    def start(self) -> bytes:
        """The first ``SAMPLE`` bytes; refused where there are none.

        Raises:
          TableError: the table cannot be read, or is empty.
        """
        with self.open() as stream:
            start = stream.read(SAMPLE)
        if not start.strip():
            raise TableError(f"table {self.name!r} is empty")
        return start


def find_source(path: str | Path) -> Source:
    """The source that a path stands for; ``-`` is standard input.

    Raises:
      TableError: there is no such file, or it cannot be read.
    """
    if str(path) == STANDARD_INPUT:
        return Source("standard input", None, sys.stdin.buffer.read())
    path, name = Path(path), str(path)
    if path.is_dir():
        raise TableError(f"table {name!r} is a folder, not a file")
    try:
        # A pipe gives its bytes only once.
        content = b"" if path.is_file() else path.read_bytes()
    except FileNotFoundError:
        raise TableError(f"table {name!r} does not exist") from None
    except OSError as error:
        raise TableError(f"table {name!r} cannot be read: {error.strerror or error}") from None
    return Source(name, path if path.is_file() else None, content)


@contextmanager
def _decompressed(name: str, raw: IO[bytes], start: bytes) -> Iterator[IO[bytes]]:
    if start.startswith(_ZIP):
        with zipfile.ZipFile(raw) as archive:
            member = _only_member(name, archive)
            if member is None:
                raw.seek(0)
                yield raw
                return
            with archive.open(member) as stream:
                yield stream
        return
    for signature, opener in _OPENERS.items():
        if start.startswith(signature):
            with opener(raw) as stream:
                yield stream
            return
    yield raw


def is_workbook(archive: zipfile.ZipFile) -> bool:
    """Whether a zip archive is an Excel workbook."""
    return "xl/workbook.xml" in archive.namelist()


def _only_member(name: str, archive: zipfile.ZipFile) -> str | None:
    """The one file in an archive; None for a workbook, which is an archive itself."""
    if is_workbook(archive):
        return None
    files = [
        entry
        for entry in archive.infolist()
        if not entry.is_dir() and not entry.filename.startswith("__MACOSX/")
    ]
    names = [entry.filename for entry in files]
    if "content.xml" in names or "Index/Document.iwa" in names:
        raise TableError(f"table {name!r} is a spreadsheet of another program; save it as .xlsx")
    if len(files) != 1:
        listed = list_some(names) if names else "none"
        raise TableError(f"archive {name!r} must hold one file, got {listed}")
    if files[0].flag_bits & 1:
        raise TableError(f"archive {name!r} needs a password; unpack it first")
    return names[0]
