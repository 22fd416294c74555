"""Ends, terms and the law beside them by turns."""

import jax
import jax.numpy as jnp
import numpy as np
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
        run, numbers = jax.jit(turns.find_form, static_argnums=(6,)), map(jnp.asarray, numbers)
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
            return turns.Turned(placed, form, theta, theta + 1, settled)

        loop = turns._take_turns if dtype is np else turns._trace_turns
        return loop(turn, dtype.zeros(1), turns.Start(ends, ends, ends, ends))

    for dtype in (np, jnp):
        assert not run(100, dtype).settled
        assert run(1, dtype).settled
        # Three turns about either law, and about the second one the law is that of the first.
        assert run(100, dtype).placed.start[0] == 6
        assert run(100, dtype).theta[0] == 1


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
