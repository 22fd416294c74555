"""Dates as numbers, in columns and in expressions."""

import datetime

import numpy as np
import pytest

from lisdd_jax import expressions
from lisdd_jax.expressions import ExpressionError
from lisdd_jax.tables import TableError, columns, dates, problem


def days(texts):
    return columns.numbers("t", np.array(texts, object)).tolist()


@pytest.mark.parametrize(
    "texts, expected",
    [
        (["1970-01-02", "1970-01-03"], [1, 2]),
        (["1970-01-02T12:00", "1970-01-03 06:00:00"], [1.5, 2.25]),
        (["1970-01-02T12:00Z", "1970-01-02T12:00+06:00"], [1.5, 1.25]),
        (["1970/01/02", "1970-01"], [1, 0]),
        (["02.01.1970", "03.01.1970"], [1, 2]),
        (["02.01.1970 12:00", "3.1.1970 18:00"], [1.5, 2.75]),
        (["13/01/1970", "02/01/1970"], [12, 1]),
        (["01/13/1970", "01/02/1970"], [12, 1]),
        (["13-01-1970 00:00:30"], [12 + 30 / 86400]),
        ([datetime.date(1970, 1, 2), datetime.datetime(1970, 1, 2, 6)], [1, 1.25]),
        (["1970-01-02", None], [1, np.nan]),
    ],
)
def test_dates_are_days_since_1970(texts, expected):
    np.testing.assert_allclose(days(texts), expected, rtol=1e-12)


@pytest.mark.parametrize(
    "texts, words",
    [
        (["01/02/1970", "03/04/1970"], "a date with the day or the month first"),
        (["1970-01-02", "yesterday"], "got '1970-01-02' in data row 1"),
        (["1970-13-02"], "got '1970-13-02' in data row 1"),
        (["1970-01-02", 5], "got '1970-01-02' in data row 1"),
        (["12:30"], "got '12:30' in data row 1"),
        ([datetime.time(12)], "got '12:00:00' in data row 1"),
    ],
)
def test_what_may_be_read_in_two_ways_is_refused(texts, words):
    with pytest.raises(TableError) as caught:
        days(texts)
    assert words in str(caught.value)


@pytest.mark.parametrize("unit", ["D", "h", "s", "ms", "us", "ns"])
def test_every_unit_of_numpy(unit):
    values = np.array(["1969-12-31", "NaT", "2020-01-01"], f"datetime64[{unit}]")
    np.testing.assert_array_equal(dates.days(values), [-1, np.nan, 18262])
    np.testing.assert_array_equal(dates.days(values - values[0]), [0, np.nan, 18263])


def test_numbers_of_days_are_written_as_dates():
    assert [dates.text(day) for day in (0.0, 18262.75, -1.0, 1 + 1 / 86400)] == [
        "1970-01-01",
        "2020-01-01T18:00",
        "1969-12-31",
        "1970-01-02T00:00:01",
    ]


def test_dates_in_expressions():
    found = expressions.parse("max(day - date('1970-01-03T12:00'), 0)")
    assert str(found) == "max(day - date('1970-01-03T12:00'), 0)"
    assert expressions.parse(str(found)) == found
    assert expressions.evaluate(found, {"day": np.array([2.0, 4.0])}, xp=np).tolist() == [0, 1.5]
    assert expressions.evaluate(expressions.parse("date('2020-01-01')"), {}) == 18262
    assert float(expressions.to_sympy(expressions.parse("date('2020-01-01')"))) == 18262
    assert expressions.to_latex(expressions.parse("date('2020-01-01')")) == r"\mathrm{2020-01-01}"
    zoned = expressions.parse("date('1970-01-01T06:00+06:00')")
    assert expressions.evaluate(zoned, {}) == 0


@pytest.mark.parametrize(
    "text, words",
    [
        ("date('soon')", "expected a date such as 2020-12-31 or 2020-12-31T13:45 at position 6"),
        ("date(day)", "expected a date in quotes, as in date('2020-12-31') at position 6"),
        ("date('2020-01-01', 1)", "expected ')' after the date"),
        ("day < '2020-01-01'", "or as date('2020-12-31')"),
        ("dat('2020-01-01')", "did you mean date"),
    ],
)
def test_wrong_dates_in_expressions(text, words):
    with pytest.raises(ExpressionError) as caught:
        expressions.parse(text)
    assert words in str(caught.value)


def test_a_column_may_be_called_date():
    found = expressions.parse("date < date('2020-01-01')", ["date"])
    assert expressions.column_names(found) == ("date",)
    assert expressions.evaluate(found, {"date": np.array([18261.0, 18262.0])}).tolist() == [1, 0]


def test_a_problem_over_dates_says_so():
    table = {
        "day": ["2020-01-01", "2020-01-02T12:00", "2020-01-03", None],
        "lag": np.array([1, 2, 3, 4], "timedelta64[h]"),
        "y": [1.0, 2.0, 4.0, 5.0],
    }
    found = problem.from_table(
        table,
        response="y",
        physics=["lag"],
        axis="day",
        library=["max(day - date('2020-01-02'), 0)"],
        where="day < date('2020-01-04')",
        time="day",
        trusted="day < date('2020-01-02')",
    )
    assert found.axis.tolist() == found.time.tolist() == [18262, 18263.5, 18264]
    assert found.features[:, 0].tolist() == [0, 0.5, 1]
    assert found.design[:, 0].tolist() == [1 / 24, 2 / 24, 3 / 24]
    assert found.trusted.tolist() == [True, False, False]
    assert found.dates == ("day", "lag")
    assert found.notes == (
        "dates in 'day' are days since 1970-01-01 UTC: 18262 (2020-01-01) to 18264 (2020-01-03)",
        "durations in 'lag' are in days",
    )
    assert found.rows.dropped == 1
