"""Ends, terms and the law beside them by turns."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import stages as passes

from lisdd_jax import Config
from lisdd_jax.default import turns
from lisdd_jax.default.ends import Placed
from lisdd_jax.default.form import ChosenForm
from lisdd_jax.numerics.hosted import to_host

CONFIG = Config()


def found(theta, known=True):
    """The turns from a law ``theta`` on."""
    start = passes.stages()
    members = np.asarray(start.region.spans.cells)
    numbers = (np.asarray(theta), np.asarray(start.look.scale) ** 2)
    if known:
        run = turns.find_form
    else:
        run, numbers = jax.jit(turns.find_form, static_argnums=(6,)), map(jax.device_put, numbers)
    return to_host(
        run(start.rows, start.region, start.sums, *numbers, members, passes.LAYOUT, CONFIG)
    )


def test_the_law_is_that_of_the_rows_outside():
    start = passes.stages()
    after = found(start.theta + np.array([0.05, -0.02, 0.01]))
    columns, axis = np.asarray(start.rows.columns), np.asarray(start.rows.axis)
    begin = int(after.placed.start[0])
    assert abs(axis[begin] - 7) < 0.1
    outside = np.arange(len(axis)) < begin
    # The first cell neither obeys the law nor lies where an end may move.
    outside &= (np.asarray(start.look.cells.of_row) > 0) & (np.asarray(start.region.weight) > 0)
    law = np.linalg.lstsq(columns[passes.LAYOUT.physics][:, outside].T, columns[-1, outside])[0]
    np.testing.assert_allclose(after.outside, law, rtol=1e-9)
    # The last turns are about the law that the turns before had left outside.
    np.testing.assert_allclose(after.theta, law, rtol=1e-9)


def by_turns(turn, theta, first, second):
    """Where a second column counts as more than a level."""
    known = isinstance(theta, np.ndarray)
    loop, xp = (turns._take_turns, np) if known else (turns._trace_turns, jnp)
    return loop(
        turns._Plan(turn, lambda found: xp.any(found.form.use[..., 1:]), theta, first, second)
    )


def test_turns_that_have_not_settled_say_so():
    """A turn that never begins as it ended, and one that does at the second time."""

    def run(takes, dtype):
        ends = dtype.asarray([0, 0, 0])

        def turn(theta, begin):
            after = begin._replace(start=dtype.minimum(begin.start + 1, takes))
            placed = Placed(after.start, ends, ends, ends)
            form = ChosenForm(*[ends] * len(ChosenForm._fields))
            form = form._replace(use=ends, shared=ends)
            settled = dtype.all(begin.start == after.start)
            return turns.Turned(placed, form, theta, theta + 1, settled, dtype.zeros(()))

        start = turns.Start(ends, ends, ends, ends)
        return by_turns(turn, dtype.zeros(1), start, start)

    for dtype in (np, jnp):
        assert not run(100, dtype).settled
        assert run(1, dtype).settled
        # Three turns about either law, and about the second one the law is that of the first.
        assert run(100, dtype).placed.start[0] == 6
        assert run(100, dtype).theta[0] == 1


@pytest.mark.parametrize("dtype", [np, jnp])
@pytest.mark.parametrize("costs, taken", [((1.0, 2.0), 0), ((2.0, 1.0), 1), ((2.0, np.nan), 0)])
def test_the_cheaper_of_two_starts(dtype, costs, taken):
    """Turns that stay with the start that they begin with."""
    ends, no = dtype.asarray([0]), dtype.zeros((), bool)
    first, second = (
        turns.Start(dtype.asarray([[True, more]]), no, ends + k, ends)
        for k, more in enumerate((True, False))
    )

    def turn(theta, begin):
        placed = Placed(begin.start, ends, ends, ends)
        form = ChosenForm(*[ends] * len(ChosenForm._fields))
        form = form._replace(use=begin.use, shared=no)
        cost = dtype.where(begin.start[0] == 0, costs[0], costs[1])
        return turns.Turned(placed, form, theta, theta, dtype.ones((), bool), cost)

    found = by_turns(turn, dtype.zeros(1), first, second)
    assert found.placed.start[0] == taken
    # Levels need no second start.
    found = by_turns(turn, dtype.zeros(1), second, second._replace(start=ends))
    assert found.placed.start[0] == 1


def test_columns_that_are_level():
    level = turns._are_level(np.asarray(passes.stages().sums.gram).sum((0, 1)))
    # The constant, that of the physics, and that of the library.
    assert np.flatnonzero(level).tolist() == [0, 2, 5]


@pytest.mark.parametrize("shared", [False, True])
def test_the_cost_is_that_of_the_rows(shared):
    """Least squares row by row, in the order of the record."""
    start = passes.stages()
    physics, num = passes.LAYOUT.physics, int(start.rows.num_rows)
    spans, columns = start.region.spans, np.asarray(start.rows.columns)
    begin, end = int(spans.start[0]), int(spans.stop[0])
    use = np.zeros((4, len(columns) - 1), bool)
    use[0, [0, 6]] = True
    placed = Placed(np.asarray(spans.start), np.asarray(spans.stop), None, None)
    form = ChosenForm(*[None] * len(ChosenForm._fields))
    form = form._replace(use=use, shared=np.asarray(shared))
    sums = to_host(start.sums)
    theta = np.asarray(start.theta)
    outside = turns.law_outside(sums, theta, passes.LAYOUT)
    args = (placed, form, theta, outside, np.int32(num), np.float64(0.7), passes.LAYOUT)
    counts = np.asarray(start.region.weight) > 0
    inside = np.zeros_like(counts)
    inside[begin:end] = True
    law = counts & ~inside & np.asarray(start.region.sound)
    left = columns[-1] - theta @ columns[physics]
    about = (columns[[0, 6]].T, left), (columns[physics].T, columns[-1])
    expected = 0.7 * np.log(sums.num_rows.sum()) * (2 + 2 * (begin > 0) + 2 * (end < num))
    for (basis, response), rows in zip(about, (inside & counts, law), strict=True):
        expected += np.linalg.lstsq(basis[rows], response[rows])[1][0]
    np.testing.assert_allclose(turns.cost_of(sums, *args), expected, rtol=1e-9)


def test_an_undetermined_law_stays():
    sums = passes.stages().sums
    nothing = sums._replace(gram=np.zeros_like(sums.gram))
    theta = np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(turns.law_outside(nothing, theta, passes.LAYOUT), theta)


def test_traced_alike():
    theta = passes.stages().theta + np.array([0.05, -0.02, 0.01])
    both = []
    for known in (True, False):
        turned = found(theta, known)
        # The first column of the physics is a level too, and rounding decides between the two.
        form = turned.form._replace(change=turned.form.change[:, 1])
        both.append(jax.tree.leaves(turned._replace(form=form)))
    for known, traced in zip(*both, strict=True):
        np.testing.assert_allclose(known, traced, rtol=1e-7, atol=1e-9)
