"""A look over a table, and the optional arguments that a problem brings along."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lisdd_jax.tables import ProblemError, as_table, overview, problem
from lisdd_jax.tables.arguments import optional_arguments
from lisdd_jax.tables.columns import Kind

TABLE = {
    "x": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 5.0, 2.0],
    "twice": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 5.0, 2.0],
    "wrong": [1.0, 2.0, 3.0, -999.0, 5.0, 6.0, 5.0, 2.0],
    "same": [7.0] * 8,
    "kind": ["a", "b", "a", None, "a", "c", "a", "b"],
    "mixed": ["1", "2", "three", "4", "5", "6", "5", "2"],
    "blank": [None] * 8,
    "day": ["2020-01-01", "2020-01-02"] * 4,
}


def test_every_column_is_described():
    found = overview.look_over(as_table(TABLE))
    columns = {column.name: column for column in found.columns}
    assert (found.num_rows, found.complete, found.repeated) == (8, 0, 2)
    x = columns["x"]
    assert (x.kind, x.lower, x.median, x.upper, x.distinct) == (Kind.NUMBER, 1.0, 3.5, 6.0, 6)
    assert (columns["twice"].same_as, columns["x"].same_as) == ("x", "")
    assert columns["wrong"].outliers == (4,)
    assert columns["same"].distinct == 1
    assert columns["kind"].levels == (("a", 4), ("b", 2), ("c", 1))
    assert (columns["kind"].kind, columns["kind"].missing) == (Kind.TEXT, 1)
    assert columns["mixed"].kind is Kind.MIXED
    assert "got 'three' in data row 3" in columns["mixed"].fault
    assert (columns["blank"].kind, columns["blank"].missing) == (Kind.EMPTY, 8)
    assert (columns["day"].kind, columns["day"].upper) == (Kind.DATE, 18263.0)


def test_columns_of_no_use_and_tables_without_rows_are_described_too():
    nested = pa.table({"l": [[1], [1, 2], None, [1]], "c": [1.0, 2.0, 3.0, 1.0]})
    found = overview.look_over(as_table(nested))
    assert (found.columns[0].kind, found.columns[0].distinct, found.repeated) == (Kind.OTHER, 2, 1)
    assert found.columns[0].missing == 1
    schema = {"x": pa.float64(), "d": pa.date32(), "b": pa.bool_(), "s": pa.string()}
    empty = overview.look_over(as_table(pa.schema(schema).empty_table()))
    assert empty.num_rows == empty.repeated == 0
    assert {column.kind for column in empty.columns} == {Kind.EMPTY}
    odd = overview.look_over(as_table({"z": np.array([1j, 2j]), "i": np.array([1.0, np.inf])}))
    assert odd.columns[0].kind is Kind.OTHER
    assert odd.columns[1].outliers == (2,)


def test_rows_that_come_again_are_counted():
    rows = {"x": [1.0, 1.0, np.nan, 1.0, np.nan], "k": ["a", "a", "b", "c", "b"]}
    found = overview.look_over(as_table(rows))
    assert (found.repeated, found.complete) == (2, 3)


@pytest.mark.parametrize(
    "values, far",
    [
        ([*range(40), -999], [40]),
        ([*range(40), 9999, -999], [40, 41]),
        ([*range(40), 1e6, 1.1e6], [40, 41]),
        ([*range(40), np.inf, np.nan], [40]),
        (list(range(40)), []),
        # A long tail is no fault, and neither is a group.
        (list(np.exp(np.linspace(0, 12, 60))), []),
        ([*range(20), *range(1000, 1020)], []),
        ([0.0] * 50 + [1.0], []),
        ([1.0], []),
        ([], []),
        ([np.nan, np.nan], []),
    ],
)
def test_values_far_from_all_others(values, far):
    assert np.flatnonzero(overview.far_off(np.array(values, float))).tolist() == far


@given(
    st.lists(st.integers(-640, 640), min_size=20, max_size=60),
    st.integers(-20, 20),
    st.integers(-1000, 1000),
    st.randoms(),
)
def test_far_values_depend_on_neither_order_nor_unit(values, power, shift, random):
    # Where all others are equal, a single other value may be the second of two that there are.
    assume(np.ptp(values) > 0)
    # Sixty-fourths, powers of two and whole shifts, so that no rounding makes ties or breaks them.
    values = np.array([*values, 32000]) / 64
    found = overview.far_off(values)
    assert found[-1]
    order = random.sample(range(len(values)), len(values))
    np.testing.assert_array_equal(overview.far_off(values[order]), found[order])
    np.testing.assert_array_equal(overview.far_off((values + shift) * 2.0**power), found)


def test_rows_per_cell_close_the_last_cell():
    assert overview.rows_per_cell(
        np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 2.0])
    ).tolist() == [
        1,
        2,
    ]


def test_optional_arguments_are_passed_where_they_are_known():
    data = problem.from_table(
        {"x": [1.0, 2.0, 3.0], "b": [1, 1, 2]},
        response="x",
        physics=["1"],
        axis="x",
        library=["x"],
        block="b",
        trusted="x < 3",
    )

    def knows(design, *, block=None, trusted=None, noise_scale=None): ...

    def knows_less(design, *, trusted=None): ...

    found = optional_arguments(data, knows)
    assert {name: values.tolist() for name, values in found.items()} == {
        "block": [0, 0, 1],
        "trusted": [True, True, False],
    }
    with pytest.raises(ProblemError, match="block cannot be taken into account by this version"):
        optional_arguments(data, knows_less)
