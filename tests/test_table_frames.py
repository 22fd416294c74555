"""Data frames and arrays as tables: the same columns whatever holds them."""

import datetime
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lisdd_jax.tables import TableError, as_table, problem
from lisdd_jax.tables.columns import Kind, kind, missing, numbers

CONTENT = {
    "n": [1, None, 3],
    "x": [1.5, None, -2.0],
    "flag": [True, None, False],
    "kind": ["a", None, "b"],
    "day": [datetime.date(1970, 1, 2), None, datetime.date(1970, 1, 4)],
    "when": [datetime.datetime(1970, 1, 2, 12), None, datetime.datetime(1970, 1, 3)],
    "lag": [datetime.timedelta(hours=12), None, datetime.timedelta(days=2)],
    "price": [decimal.Decimal("1.25"), None, decimal.Decimal("2.5")],
}
NUMBERS = {
    "n": [1, np.nan, 3],
    "x": [1.5, np.nan, -2.0],
    "flag": [1, np.nan, 0],
    "day": [1, np.nan, 3],
    "when": [1.5, np.nan, 2],
    "lag": [0.5, np.nan, 2],
    "price": [1.25, np.nan, 2.5],
}
HOLDERS = {
    "pandas": pd.DataFrame,
    "pandas with Arrow": lambda content: pa.table(content).to_pandas(types_mapper=pd.ArrowDtype),
    "pandas nullable": lambda content: pd.DataFrame(content).convert_dtypes(),
    "polars": pl.DataFrame,
    "arrow": pa.table,
    "dict of series": lambda content: {k: pd.Series(v) for k, v in content.items()},
    "dict of lists": dict,
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_every_holder_gives_the_same_columns(holder):
    table = as_table(HOLDERS[holder](CONTENT))
    assert table.names == tuple(CONTENT)
    assert table.num_rows == 3
    found = table.read(table.names)
    for name, expected in NUMBERS.items():
        np.testing.assert_array_equal(numbers(name, found[name]), expected, err_msg=name)
    assert missing(found["kind"]).tolist() == [False, True, False]
    assert found["kind"][[0, 2]].tolist() == ["a", "b"]
    kinds = [Kind.NUMBER, Kind.NUMBER, Kind.BOOLEAN, Kind.TEXT]
    kinds += [Kind.DATE, Kind.DATE, Kind.DURATION, Kind.NUMBER]
    got = [kind(found[name]) for name in CONTENT]
    if holder in ("pandas with Arrow", "pandas nullable"):
        kinds[2] = Kind.NUMBER  # a boolean with a missing value is 0, 1 and NaN
    assert got == kinds


@pytest.mark.parametrize("holder", ["pandas", "polars", "arrow"])
def test_the_declared_order_of_levels_is_kept(holder):
    levels = ["small", "medium", "large"]
    values = ["large", None, "small"]
    data = {
        "pandas": lambda: pd.DataFrame({"s": pd.Categorical(values, categories=levels)}),
        "polars": lambda: pl.DataFrame({"s": pl.Series(values, dtype=pl.Enum(levels))}),
        "arrow": lambda: pa.table(pd.DataFrame({"s": pd.Categorical(values, categories=levels)})),
    }[holder]()
    table = as_table(data)
    assert table.levels == {"s": tuple(levels)}
    assert table.fetch("s").tolist() == values


def test_masked_values_are_missing():
    masks = [False, True, False]
    table = as_table(
        {
            "i": np.ma.masked_array([1, 2, 3], masks),
            "t": np.ma.masked_array(["a", "b", "c"], masks),
            "d": np.ma.masked_array(np.array(["1970-01-02"] * 3, "datetime64[D]"), masks),
            "whole": np.ma.masked_array([1, 2, 3], [False] * 3),
        }
    )
    for name in ("i", "t", "d"):
        assert missing(table.fetch(name)).tolist() == masks
    np.testing.assert_array_equal(numbers("i", table.fetch("i")), [1, np.nan, 3])
    assert table.fetch("whole").dtype.kind == "i"


def test_an_index_with_a_name_is_a_column():
    frame = pd.DataFrame({"y": [1.0, 2.0]}, index=pd.Index([5, 6], name="t"))
    assert as_table(frame).names == ("t", "y")
    both = frame.set_index(pd.MultiIndex.from_arrays([[1, 2], [3, 4]], names=["a", None]))
    assert as_table(both).names == ("a", "y")
    assert as_table(pd.DataFrame({"y": [1.0]}, index=[7])).names == ("y",)


def test_times_with_a_zone_are_in_utc():
    frame = pd.DataFrame({"t": pd.to_datetime(["1970-01-02 01:00"]).tz_localize("Europe/Paris")})
    for data in (frame, pa.table(frame), pl.from_pandas(frame)):
        assert numbers("t", as_table(data).fetch("t")).tolist() == [1.0]


def test_periods_start_where_they_start():
    frame = pd.DataFrame({"q": pd.period_range("1970Q1", periods=2, freq="Q")})
    assert numbers("q", as_table(frame).fetch("q")).tolist() == [0.0, 90.0]


@pytest.mark.parametrize(
    "data, words",
    [
        ({"x": [1, 2], "y": [1]}, "columns must have one length, got 2 for 'x' and 1 for 'y'"),
        ({"x": np.ones((2, 2))}, "column 'x' must have one axis, got shape (2, 2)"),
        ({"x": [[1], [2, 3]]}, "column 'x' must have one axis, got ragged lists"),
        ({}, "has no column names"),
        (pd.DataFrame(np.ones((2, 2))), "must name its columns"),
        (pd.DataFrame([[1, 2]], columns=["x", "x"]), "must name each column once, got 'x' 2 times"),
        (
            pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "b")])),
            "must have one name per column, got several levels",
        ),
    ],
)
def test_unusable_data_are_refused(data, words):
    with pytest.raises(TableError) as caught:
        as_table(data)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "data, words",
    [(3, "got int"), ([1, 2], "got list"), (pl.LazyFrame({"x": [1]}), "LazyFrame; collect it")],
)
def test_what_is_no_table(data, words):
    with pytest.raises(TypeError, match=words):
        as_table(data)


def test_complex_numbers_and_nested_values_are_refused():
    table = as_table({"c": np.array([1j, 2.0]), "l": np.array([[1], [2, 3]], object)})
    with pytest.raises(TableError, match="column 'c' must hold real numbers, got complex128"):
        numbers("c", table.fetch("c"))
    with pytest.raises(TableError, match="column 'l' must hold numbers, got"):
        numbers("l", table.fetch("l"))


def test_an_unknown_column_is_answered_with_the_nearest():
    table = as_table({"temperature": [1.0], "load": [2.0]})
    with pytest.raises(TableError, match="unknown column 'temprature'; did you mean 'temperature'"):
        table.read(["temprature"])


def test_a_problem_is_the_same_from_every_holder(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=20), "kind": ["a", "b"] * 10})
    frame["y"] = frame["x"] ** 2
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_excel(tmp_path / "t.xlsx", index=False)
    holders = [frame, pl.from_pandas(frame), pa.table(frame), frame.to_dict("list")]
    files = [tmp_path / f"t.{suffix}" for suffix in ("csv", "parquet", "xlsx")]
    found = [
        problem.from_table(
            data, response="y", physics=["x", "kind"], axis="x", library=["x^2"], intercept=True
        )
        for data in (*holders, *files)
    ]
    for other in found:
        # A workbook keeps 15 to 17 digits.
        np.testing.assert_allclose(other.design, found[0].design, rtol=1e-14)
        np.testing.assert_allclose(other.features, found[0].features, rtol=1e-14)
        assert other.physics == found[0].physics
