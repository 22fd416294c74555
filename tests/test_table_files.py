"""Files as people have them: real ones, made here by the programs that usually make them."""

import bz2
import gzip
import io
import lzma
import os
import subprocess
import sys
import zipfile

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pyarrow
import pytest
from hypothesis import given, settings

from lisdd_jax.tables import ReadOptions, TableError, read_table
from lisdd_jax.tables.columns import numbers

FRAME = pd.DataFrame({"x": [1.5, -2.25, 0.125], "y": [1, 2, 3], "kind": ["a", "b", "a"]})
CSV = FRAME.to_csv(index=False).encode()


def write(tmp_path, content, name="t.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def check(table, frame=FRAME):
    assert table.names == tuple(frame)
    assert table.num_rows == len(frame)
    found = table.read(table.names)
    for name in frame:
        assert found[name].tolist() == frame[name].tolist()


def zstandard(content):
    sink = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return sink.getvalue().to_pybytes()


def zipped(content, name="data.csv"):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, content)
        archive.writestr("__MACOSX/._data.csv", "junk")
    return buffer.getvalue()


COMPRESS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": zstandard}
PACKED = {
    **{suffix: compress(CSV) for suffix, compress in COMPRESS.items()},
    "zip": zipped(CSV),
}


@pytest.mark.parametrize("suffix", PACKED)
@pytest.mark.parametrize("named", [True, False])
def test_compressed_files_are_known_by_their_content(tmp_path, suffix, named):
    check(read_table(write(tmp_path, PACKED[suffix], f"t.csv.{suffix}" if named else "t.csv")))


@pytest.mark.parametrize("suffix", PACKED)
def test_damaged_archives_are_refused(tmp_path, suffix):
    content = PACKED[suffix]
    if suffix != "zip":
        noise = np.random.default_rng(0).bytes(3000).hex().encode()
        content = COMPRESS[suffix](noise)
    with pytest.raises(TableError, match="cannot be (read|decompressed): ") as caught:
        read_table(write(tmp_path, content[: len(content) * 2 // 3]))
    assert "\n" not in str(caught.value)


def test_archives_hold_one_table(tmp_path):
    path = tmp_path / "t.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.csv", "x\n1\n")
        archive.writestr("b.csv", "x\n1\n")
    with pytest.raises(TableError, match=r"must hold one file, got 'a.csv', 'b.csv'"):
        read_table(path)
    with zipfile.ZipFile(path, "w"):
        pass
    with pytest.raises(TableError):
        read_table(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("content.xml", "<office/>")
    with pytest.raises(TableError, match="spreadsheet of another program; save it as .xlsx"):
        read_table(path)


def test_parquet_may_be_compressed_as_well(tmp_path):
    FRAME.to_parquet(tmp_path / "t.parquet")
    packed = write(tmp_path, gzip.compress((tmp_path / "t.parquet").read_bytes()), "t.parquet.gz")
    check(read_table(packed))


def test_parquet_with_nulls_and_categories(tmp_path):
    frame = pd.DataFrame(
        {
            "n": pd.array([1, None, 3], "Int64"),
            "flag": pd.array([True, None, False], "boolean"),
            "size": pd.Categorical(["small", None, "large"], categories=["small", "large", "huge"]),
            "day": pd.to_datetime(["2020-01-01", None, "2020-01-02T12:00"], format="ISO8601"),
            "price": pd.Series([1.5, np.nan, 2.5], dtype="float32"),
        }
    )
    frame.to_parquet(tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    assert table.levels == {"size": ("small", "large", "huge")}
    found = {name: values for name, values in table.read(table.names).items() if name != "size"}
    expected = {
        "n": [1, np.nan, 3],
        "flag": [1, np.nan, 0],
        "day": [18262.0, np.nan, 18263.5],
        "price": [1.5, np.nan, 2.5],
    }
    for name, values in expected.items():
        np.testing.assert_array_equal(numbers(name, found[name]), values)
    assert table.read(["size"])["size"].tolist() == ["small", None, "large"]


@pytest.mark.parametrize("sheet", [None, "1", "Sheet1"])
def test_a_workbook_with_one_sheet(tmp_path, sheet):
    frame = FRAME.assign(day=pd.to_datetime(["2020-01-01", None, "2020-01-03"]), empty=np.nan)
    frame.to_excel(tmp_path / "t.xlsx", index=False)
    table = read_table(tmp_path / "t.xlsx", ReadOptions(sheet=sheet))
    assert table.names == tuple(frame)
    found = table.read(table.names)
    for name in FRAME:
        assert found[name].tolist() == FRAME[name].tolist()
    np.testing.assert_array_equal(numbers("day", found["day"]), [18262, np.nan, 18264])
    assert pd.isna(found["empty"]).all()


def test_a_workbook_with_several_sheets_asks_for_one(tmp_path):
    path = tmp_path / "t.xlsx"
    with pd.ExcelWriter(path) as book:
        FRAME.head(1).to_excel(book, sheet_name="first", index=False)
        FRAME.to_excel(book, sheet_name="second", index=False)
        pd.DataFrame().to_excel(book, sheet_name="blank", index=False)
    with pytest.raises(TableError, match="has the sheets 'first', 'second', 'blank': say which"):
        read_table(path)
    check(read_table(path, ReadOptions(sheet="second")))
    check(read_table(path, ReadOptions(sheet="2")))
    with pytest.raises(TableError, match="has no sheet 'third'; it has 'first'"):
        read_table(path, ReadOptions(sheet="third"))
    with pytest.raises(TableError, match="sheet 'blank' of table .* is empty"):
        read_table(path, ReadOptions(sheet="blank"))
    with pytest.raises(TableError, match="is no Excel workbook and has no sheets"):
        read_table(write(tmp_path, CSV), ReadOptions(sheet="1"))


def test_repeated_names_in_a_workbook(tmp_path):
    pd.DataFrame([[1, 2]], columns=["x", "x"]).to_excel(tmp_path / "t.xlsx", index=False)
    with pytest.raises(TableError, match="must name each column once, got 'x' 2 times"):
        read_table(tmp_path / "t.xlsx")


@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_separator_and_decimal_mark_are_found_out(tmp_path, separator, decimal, end):
    text = FRAME.to_csv(index=False, sep=separator, decimal=decimal, lineterminator=end)
    table = read_table(write(tmp_path, text))
    check(table)
    assert any("decimal commas" in note for note in table.notes) == (decimal == ",")


def test_blanks_part_the_columns_of_aligned_tables(tmp_path):
    check(
        read_table(write(tmp_path, "  x   y\n 1.5  1\n-2.25 2\n", "t.dat")), FRAME[["x", "y"]][:2]
    )
    text = "x y\n1 a\n2 b\n"
    with pytest.raises(TableError, match="unknown column 'y'; available columns: x y"):
        read_table(write(tmp_path, text)).read(["y"])
    assert read_table(write(tmp_path, text), ReadOptions(sep="space")).names == ("x", "y")


@pytest.mark.parametrize(
    "text, words",
    [
        ("x;y\n1,5;2.5\n", "holds both '2.5' and '1,5': say by --decimal which mark"),
        ("x;y\n1,234;2\n", "holds '1,234', which may have a decimal comma or a mark of thousands"),
        ("a;b,c\nd;e,f\n", "may be separated by comma or semicolon: say which by --sep"),
    ],
)
def test_a_guess_that_could_be_wrong_is_a_question(tmp_path, text, words):
    with pytest.raises(TableError) as caught:
        read_table(write(tmp_path, text))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "text, options, expected",
    [
        ("x;y\n1,234;2\n", {"decimal": ","}, 1.234),
        ("x;y\n0,234;1,234\n", {}, 0.234),
        ("x;y\n1234,5;2\n", {}, 1234.5),
        ("x;y\n-,5;2\n", {}, -0.5),
        ("x;y\n1,5e3;2\n", {}, 1500.0),
        ('x,y\n"1,5",a\n', {}, 1.5),
        ("x;y\n1.234;2\n", {}, 1.234),
        ("x, y;z\n1.5;2\n", {"sep": ";"}, 1.5),
    ],
)
def test_decimals(tmp_path, text, options, expected):
    table = read_table(write(tmp_path, text), ReadOptions(**options))
    assert table.fetch(table.names[0]).tolist() == [expected]


def test_a_mark_of_thousands_is_never_dropped(tmp_path):
    table = read_table(write(tmp_path, "x;y\n1,234;2.5\n"), ReadOptions(decimal="."))
    with pytest.raises(TableError, match="got '1,234' in data row 1; write decimals with a point"):
        numbers("x", table.fetch("x"))
    table = read_table(write(tmp_path, "x;y\n1.234,5;2,5\n"))
    with pytest.raises(TableError, match="write numbers without marks of thousands"):
        numbers("x", table.fetch("x"))


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "latin-1", "cp1252", "utf-16", "utf-32", "utf-16-le"]
)
def test_encodings(tmp_path, encoding):
    text = "Wärme °C,y\n1.5,2\n"
    given = ReadOptions(encoding=encoding) if encoding == "utf-16-le" else None
    table = read_table(write(tmp_path, text.encode(encoding)), given)
    assert table.names == ("Wärme °C", "y")
    guessed = encoding in ("latin-1", "cp1252")
    assert any("Western European" in note for note in table.notes) == guessed


def test_a_given_encoding_counts_and_is_checked(tmp_path):
    path = write(tmp_path, "температура,y\n1,2\n".encode("koi8-r"))
    assert read_table(path, ReadOptions(encoding="koi8-r")).names == ("температура", "y")
    with pytest.raises(TableError, match="not text in utf-8 .byte 0xd4"):
        read_table(path, ReadOptions(encoding="utf-8"))
    marked = write(tmp_path, "x,y\n1,2\n".encode("utf-8-sig"))
    assert read_table(marked, ReadOptions(encoding="utf8")).names == ("x", "y")


def test_an_encoding_is_found_beyond_the_sample(tmp_path):
    rows = b"1,abcdefgh\n" * 10_000
    table = read_table(write(tmp_path, b"x,kind\n" + rows + "2,Größe\n".encode("latin-1")))
    assert table.fetch("kind")[-1] == "Größe"
    assert table.num_rows == 10_001


@pytest.mark.parametrize(
    "given, words",
    [
        ({"sep": "ab"}, "sep must be one character, tab or space, got 'ab'"),
        ({"sep": ""}, "sep must be one character, tab or space, got ''"),
        ({"decimal": ";"}, "decimal must be a point or a comma, got ';'"),
        ({"encoding": "latin9000"}, "encoding must be one that Python knows"),
        ({"encoding": "base64"}, "encoding must be one that Python knows"),
    ],
)
def test_impossible_options(given, words):
    with pytest.raises(TableError) as caught:
        ReadOptions(**given)
    assert words in str(caught.value)


def test_an_archive_of_a_mac_and_a_trailing_separator(tmp_path):
    table = read_table(write(tmp_path, "x;y;\n1;2;\n3;4;\n"))
    assert table.names == ("x", "y", "unnamed 3")


READ = "from lisdd_jax.tables import read_table; print(read_table('{}').fetch('x').tolist())"


@pytest.mark.parametrize("content", [CSV, PACKED["gz"]], ids=["text", "gz"])
def test_standard_input(content):
    words = [sys.executable, "-c", READ.format("-")]
    done = subprocess.run(words, input=content, capture_output=True)
    assert done.stdout == b"[1.5, -2.25, 0.125]\n", done.stderr


def test_a_pipe_is_read_like_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    words = [sys.executable, "-c", READ.format(tmp_path / "pipe")]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as reader:
        (tmp_path / "pipe").write_bytes(PACKED["xz"])
        assert reader.communicate()[0] == b"[1.5, -2.25, 0.125]\n"


TEXT = st.text(
    st.characters(codec="latin-1", exclude_categories=["C", "Z"]), min_size=1, max_size=6
)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=32)


@settings(deadline=None, max_examples=60)
@given(
    values=st.lists(st.tuples(NUMBERS, st.integers(-9999, 9999)), min_size=2, max_size=8),
    separator=st.sampled_from(";\t|"),
    decimal=st.sampled_from(".,"),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "latin-1", "utf-16"]),
    pack=st.sampled_from([bytes, gzip.compress, lzma.compress]),
)
def test_what_pandas_writes_is_read_back_or_asked_about(
    tmp_path_factory, values, separator, decimal, encoding, pack
):
    frame = pd.DataFrame(values, columns=["größe", "n"])
    text = frame.to_csv(index=False, sep=separator, decimal=decimal)
    path = tmp_path_factory.mktemp("t") / "t"
    path.write_bytes(pack(text.encode(encoding)))
    try:
        table = read_table(path)
    except TableError as error:
        table = read_table(path, ReadOptions(sep=separator, decimal=decimal))
        asked = str(error)
    else:
        asked = "--"
    assert "--" in asked
    for name in frame:
        assert table.fetch(name).tolist() == frame[name].tolist()
