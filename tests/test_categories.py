"""Categories as indicators, and conditions, blocks and scales over the rows."""

import numpy as np
import pandas as pd
import pytest

from lisdd_jax.expressions import ExpressionError
from lisdd_jax.tables import ProblemError, TableError, categories, problem

TABLE = {
    "y": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    "x": [1.0, 2.0, 3.0, 4.0, 5.0, 7.0],
    "kind": ["b", "a", "c", "a", "b", "b"],
    "floor": [1, 2, 1, 1, 2, 3],
    "flag": [True, False, True, True, False, False],
    "name": ["p", "q", "r", "s", "t", "7"],
    "day": ["2020-01-01", "2020-01-01", "2020-01-02", "2020-01-02", "2020-01-03", "2020-01-03"],
    "gap": ["u", None, "u", "v", "v", "v"],
}
PARTS = {"response": "y", "physics": ["x"], "axis": "x", "library": ["x^2"]}


def read(table=TABLE, **changes):
    return problem.from_table(table, **{**PARTS, **changes})


@pytest.mark.parametrize("written", ["kind", "C(kind)", "C( `kind` )"])
def test_the_first_level_is_the_baseline_beside_an_intercept(written):
    found = read(physics=[written, "x"], intercept=True)
    assert found.physics.names == ("intercept", "kind[b]", "kind[c]", "x")
    assert found.design[:, 1].tolist() == [1, 0, 0, 0, 1, 1]
    assert found.levels == {"kind": ("a", "b", "c")}
    assert found.notes == (
        "physics: 3 levels of 'kind' stand as kind[b] to kind[c] beside the baseline a",
    )


def test_without_a_constant_the_first_category_has_all_levels_and_later_ones_a_baseline():
    found = read(physics=["kind", "C(floor)"])
    assert found.physics.names == ("kind[a]", "kind[b]", "kind[c]", "floor[2]", "floor[3]")
    assert np.linalg.matrix_rank(found.design) == 5
    ones = read(physics=["1", "kind"])
    assert ones.physics.names == ("1", "kind[b]", "kind[c]")


def test_in_the_library_every_level_is_a_candidate():
    found = read(library=["C(floor)", "x*(kind == 'b')"])
    assert found.library.names == ("floor[1]", "floor[2]", "floor[3]", "x*(kind == 'b')")
    assert found.features.sum(axis=0).tolist() == [3, 2, 1, 13]


def test_declared_levels_keep_their_order_and_unused_ones_are_left_out():
    frame = pd.DataFrame(TABLE)
    frame["kind"] = pd.Categorical(frame["kind"], categories=["c", "b", "a", "unused"])
    assert read(frame, physics=["kind"], intercept=True).levels == {"kind": ("c", "b", "a")}
    assert read(frame, physics=["kind"], intercept=True).physics.names[1:] == ("kind[b]", "kind[a]")


def test_text_and_numbers_in_one_column_are_text():
    table = {**TABLE, "pipe": np.array([1, "S", 2, 1, "S", 2], object)}
    found = read(table, physics=["C(pipe)"], where="pipe != '2'", intercept=True)
    assert found.physics.names == ("intercept", "pipe[S]")
    assert found.design[:, 1].tolist() == [0, 1, 0, 1]
    assert read(table, block="pipe").block.tolist() == [0, 2, 1, 0, 2, 1]


def test_levels_are_those_of_the_rows_in_use():
    found = read(physics=["kind"], intercept=True, where="kind != 'c'")
    assert found.physics.names == ("intercept", "kind[b]")


def test_booleans_are_0_and_1_and_dates_are_no_category():
    found = read(physics=["flag", "day"])
    assert found.physics.names == ("flag", "day")
    assert found.design[:, 0].tolist() == [1, 0, 1, 1, 0, 0]


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"physics": ["C(x)*2"]}, "physics: C(...) must hold the name of a column and stand alone"),
        ({"physics": ["C(x + 1)"]}, "C(...) must hold the name of a column and stand alone"),
        ({"physics": ["2*C(kind)"]}, "unknown function 'C'"),
        ({"physics": ["C(knd)"]}, "physics: unknown column 'knd' in 'knd'; did you mean 'kind'?"),
        (
            {"physics": ["1", "kind", "C(kind)"]},
            "got \"kind == 'b'\", \"kind == 'c'\" more than once",
        ),
        ({"physics": ["C(kind)"], "where": "kind == 'a'"}, "C(kind) must have at least two levels"),
        (
            {"physics": ["name"]},
            "column 'name' must hold numbers, got 'p' in data row 1 and 4 more",
        ),
        ({"axis": "kind"}, "column 'kind' must hold numbers, got 'b' in data row 1"),
        ({"physics": "x"}, "physics must be a list of expressions, got the single text 'x'"),
        ({"physics": [3]}, "physics must hold expressions over columns of the table, got 3"),
    ],
)
def test_what_is_no_category_is_refused(changes, words):
    with pytest.raises((ExpressionError, ProblemError, TableError)) as caught:
        read(**changes)
    assert words in str(caught.value)


@pytest.mark.parametrize("value", ["1,5", "12 %", "$5", "1'000", "1 000"])
def test_numbers_that_were_not_read_are_no_category(value):
    table = {"y": [1.0, 2.0, 3.0], "x": [1.0, 2.0, 3.0], "k": [value, "a", value]}
    with pytest.raises(TableError, match="column 'k' must hold numbers, got"):
        read(table, physics=["k"])
    assert len(read(table, physics=["C(k)"]).physics) == 2


def test_a_column_of_notes_is_no_category():
    table = {"y": np.arange(100.0), "x": np.arange(100.0), "note": [f"n{k}" for k in range(100)]}
    with pytest.raises(ProblemError, match=r"'note' holds 100 different .* at most 64"):
        read(table, physics=["note"])


def test_blocks_are_labels_of_any_type():
    assert read(block="kind").block.tolist() == [1, 0, 2, 0, 1, 1]
    assert read(block="floor").block.tolist() == [0, 1, 0, 0, 1, 2]
    assert read(block="day").block.tolist() == [0, 0, 1, 1, 2, 2]
    assert read(block="floor(x/4)").block.tolist() == [0, 0, 0, 1, 1, 1]
    gap = read(block="gap")
    assert (gap.block.tolist(), gap.rows.dropped, gap.missing) == ([0, 0, 1, 1, 1], 1, {"gap": 1})
    assert gap.positions.tolist() == [0, 2, 3, 4, 5]


def test_trusted_rows_and_what_is_unknown_of_them():
    assert read(trusted="x < 3").trusted.tolist() == [True, True, False, False, False, False]
    assert read(trusted="flag").trusted.tolist() == TABLE["flag"]
    found = read(trusted="gap == 'u'")
    assert found.trusted.tolist() == [True, False, True, False, False, False]
    assert found.rows.dropped == 0
    assert "is unknown in 1 of 6 rows in use" in found.notes[0]
    with pytest.raises(ProblemError, match="trusted: no row in use meets the condition 'x > 9'"):
        read(trusted="x > 9")


def test_scales_of_the_noise_are_positive():
    found = read(noise_scale="0.1*x", library=["x^2"])
    np.testing.assert_allclose(found.noise_scale, 0.1 * found.axis)
    problem.check_problem(found, max_terms=1)
    with pytest.raises(ProblemError, match="noise_scale must be positive, got 0 in data row 3"):
        problem.check_problem(read(noise_scale="abs(x - 3)"), max_terms=1)
    with pytest.raises(ProblemError, match="block must part the rows in use into at least two"):
        problem.check_problem(read(block="0*x"), max_terms=1)


def test_unknown_levels_of_another_table():
    text = np.array(["a", "z", None], object)
    assert categories.unknown("k", text, ("a", "b")).tolist() == [False, True, False]
    assert categories.unknown("k", np.array([1.0, 4.0, np.nan]), (1.0, 2.0)).tolist() == [
        False,
        True,
        False,
    ]
