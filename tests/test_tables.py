"""Tables and named problems: what is read, what is counted, what is refused."""

import numpy as np
import pandas as pd
import pytest

from lisdd_jax import tables
from lisdd_jax.expressions import ExpressionError
from lisdd_jax.tables import ProblemError, TableError, columns, problem
from lisdd_jax.tables.problem import Rows

PARTS = {"response": "y", "physics": ["x"], "axis": "x", "library": ["x^2"]}


def write(tmp_path, content, name="table.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(data, **changes):
    return problem.from_table(data, **{**PARTS, **changes})


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_separators_and_byte_order_mark(tmp_path, separator, mark):
    text = mark + "x, y\n1,2.5\n-3e-2,4\n".replace(",", separator)
    table = tables.read_table(write(tmp_path, text))
    assert table.names == ("x", "y")
    columns = table.read(["y", "x"])
    assert columns["x"].tolist() == [1.0, -0.03]
    assert columns["y"].tolist() == [2.5, 4.0]


def test_numbers_survive_the_way_through_text(tmp_path):
    values = np.random.default_rng(0).normal(size=200) * 1e7 + 1.7e9
    pd.DataFrame({"x": values, "y": 1}).to_csv(tmp_path / "t.csv", index=False)
    found = tables.read_table(tmp_path / "t.csv").read(["x"])["x"]
    assert found.tolist() == values.tolist()


def test_parquet_equals_csv(tmp_path):
    frame = pd.DataFrame(
        {"x": [1.0, 2.0, np.nan, 4.0], "y": [1, 2, 3, 5], "kind": ["a", "b", None, "a"]}
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.set_index("kind").to_parquet(tmp_path / "t.parquet")
    csv, parquet = (tables.read_table(tmp_path / name) for name in ("t.csv", "t.parquet"))
    assert set(csv.names) == set(parquet.names)
    for name in ("x", "y"):
        np.testing.assert_array_equal(csv.read([name])[name], parquet.read([name])[name])
    assert columns.missing(parquet.read(["kind"])["kind"]).tolist() == [False, False, True, False]


@pytest.mark.parametrize(
    "content, words",
    [
        (b"", "is empty"),
        (b"\n\n \n", "is empty"),
        (bytes(range(256)), "is not text"),
        (
            b"x \x81,y\n1,2\n",
            "is not text in utf-8 (byte 0x81); say how it is written by --encoding",
        ),
        ("x,y\n1,2\n".encode("utf-16-le"), "binary data (or UTF-16: --encoding utf-16)"),
        (b"PK\x03\x04....", "cannot be decompressed: File is not a zip file"),
        (b"\xd0\xcf\x11\xe0....", "is an old Excel file; save it as .xlsx or CSV"),
        (b"\x1f\x8b\x08....", "cannot be decompressed"),
        (b"x,y,x\n1,2,3\n", "got 'x' 2 times"),
        (b"1,2\n3,4\n", "got numbers only"),
        (b"x,y\n1,2\n1,2,3\n3,4\n", "Expected 2 fields in line 3, saw 3"),
        (b"x,y\n1,2,3\n1,2,3\n", "more values than"),
        (b'x,y\n"1,2\n3,4\n', "EOF inside string"),
        (b"x,y\n", "has no rows"),
        (b"PAR1 and nothing else", "cannot be read as Parquet"),
    ],
)
def test_unusable_files_are_refused(tmp_path, content, words):
    with pytest.raises((TableError, ProblemError)) as caught:
        read(write(tmp_path, content))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(TableError, match="does not exist"):
        tables.read_table(tmp_path / "none.csv")
    with pytest.raises(TableError, match="is a folder"):
        tables.read_table(tmp_path)


@pytest.mark.parametrize(
    "cell, words",
    [
        ("abc", "column 'x' must hold numbers, got 'abc' in data row 2"),
        ("2020-01-01", "got '2020-01-01' in data row 2"),
        ("1 000", "got '1 000' in data row 2; write numbers without marks of thousands"),
        ("1_000", "got '1_000' in data row 2"),
        ("inf", "column 'x' must be finite, got inf in data row 2"),
        ("-Infinity", "column 'x' must be finite, got -inf in data row 2"),
    ],
)
def test_bad_cells_are_named(tmp_path, cell, words):
    with pytest.raises((TableError, ProblemError)) as caught:
        read(write(tmp_path, f"x,y\n1,2\n{cell},3\n4,5\n"))
    assert words in str(caught.value)


def test_bad_cells_outside_the_filter_do_not_matter(tmp_path):
    path = write(tmp_path, "x,y,ok\n1,2,1\nabc,3,0\ninf,3,0\n4,5,1\n")
    assert read(path, where="ok == 1").axis.tolist() == [1.0, 4.0]


def test_complete_cases_are_counted(tmp_path):
    text = "x,y,z,unused\n1,2,,\n,3,1,\n4,,1,\n5,6,1,\n7,8,1,\n,9,1,\n"
    found = read(write(tmp_path, text), library=["x^2", "z"])
    assert found.rows == Rows(read=6, used=2, dropped=4, excluded=0)
    assert found.missing == {"y": 1, "x": 2, "z": 1}
    assert found.response.tolist() == [6.0, 8.0]


def test_filter_counts_apart_from_missing_values(tmp_path):
    text = "x,y,kind\n1,2,a\n2,3,b\n3,,a\n,5,b\n5,6,\n6,7,a\n"
    found = read(write(tmp_path, text), where="kind == 'a'")
    # The row without a kind cannot be judged: it is missing, not excluded.
    assert found.rows == Rows(read=6, used=2, dropped=2, excluded=2)
    assert sum(found.rows[1:]) == found.rows.read
    assert found.axis.tolist() == [1.0, 6.0]


def test_parts_are_named_and_ordered(tmp_path):
    path = write(tmp_path, "temp,load\n15,1\n18,2\n20,4\n")
    found = read(
        path,
        response="log10(load)",
        physics=["temp", "sin(temp)"],
        axis="temp/10",
        library=["maximum(temp-18,0)", "temp**2"],
        intercept=True,
    )
    assert found.response_name == "log10(load)"
    assert found.physics.names == ("intercept", "temp", "sin(temp)")
    assert found.library.names == ("max(temp - 18, 0)", "temp^2")
    assert found.design[:, 0].tolist() == [1, 1, 1]
    assert found.features.tolist() == [[0, 225], [0, 324], [2, 400]]
    assert found.axis.tolist() == [1.5, 1.8, 2.0]


@pytest.mark.parametrize("name", ["wall temp", "p-ac", "e", "x^2", "θ"])
def test_any_column_name_stands_for_itself(tmp_path, name):
    found = read(write(tmp_path, f"{name},y\n1,2\n3,4\n"), physics=[name], axis=name, library=["y"])
    assert found.axis.tolist() == [1.0, 3.0]


def test_text_columns_can_be_compared_in_a_term(tmp_path):
    path = write(tmp_path, "x,y,kind\n1,2,a\n3,4,b\n5,6,NA\n")
    found = read(path, library=["x*(kind == 'b')"])
    assert found.features.tolist() == [[0.0], [3.0]]
    assert found.rows.dropped == 1


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"response": "yy"}, "response: unknown column 'yy'"),
        ({"physics": ["x", "x"]}, "physics must name each expression once, got 'x'"),
        ({"library": ["x^2", "x**2"]}, "library must name each expression once, got 'x^2'"),
        ({"library": ["2x"]}, "library: expected an operator or the end at position 2"),
        ({"physics": ["1"], "intercept": True}, "the intercept is one of them"),
        ({"physics": []}, "physics must have at least one expression or an intercept"),
        ({"library": []}, "library must have at least one expression"),
        ({"library": ["log(x - 1)"]}, "'log(x - 1)' must be finite, got -inf in data row 1"),
        ({"where": "x > 10"}, "3 do not meet the row filter"),
        ({"where": "x == 'a'"}, "where: column 'x' must hold text"),
        ({"response": "1", "physics": ["2"], "axis": "3", "library": ["4"]}, "names a column"),
    ],
)
def test_bad_parts_are_refused(tmp_path, changes, words):
    with pytest.raises((ExpressionError, ProblemError)) as caught:
        read(write(tmp_path, "x,y\n1,2\n3,4\n5,7\n"), **changes)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "body, words",
    [
        ("1,2\n", "got 1 row in use for 1 of the physics and up to 1 term of the library"),
        ("1,2\n2,3\n", "got 2 rows in use"),
        ("1,7\n2,7\n3,7\n", "response 'y' is constant (7 in all 3 rows in use)"),
        ("2,1\n2,2\n2,3\n", "axis 'x' is constant (2 in all 3 rows in use)"),
    ],
)
def test_nothing_to_diagnose(tmp_path, body, words):
    found = read(write(tmp_path, "x,y\n" + body))
    with pytest.raises(ProblemError) as caught:
        problem.check_problem(found, max_terms=2)
    assert words in str(caught.value)


def test_enough_to_diagnose(tmp_path):
    problem.check_problem(read(write(tmp_path, "x,y\n1,2\n2,3\n3,5\n")), max_terms=2)
