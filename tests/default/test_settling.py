"""The final ends, and which rows serve what."""

import functools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import stages as passes

from lisdd_jax.default import rows, settling
from lisdd_jax.default.cells import MOST_CELLS
from lisdd_jax.default.ends import Placed, Spans
from lisdd_jax.default.narrow_runs import MOST_RUNS, NarrowRun
from lisdd_jax.default.rows import Apart
from lisdd_jax.default.settling import settle

NO_RUNS = NarrowRun(*np.zeros((2, MOST_RUNS), np.int32), np.zeros(MOST_RUNS))


def settle_stages(unkept=(), runs=NO_RUNS):
    """Ends and rows, some of which ``unkept`` by their cells though the law holds there."""
    found = passes.stages()
    region = found.region
    weight = np.array(region.weight)
    weight[np.asarray(unkept, int)] = 0
    region = region._replace(weight=jax.device_put(weight))
    use = np.zeros((4, passes.LAYOUT.size - 1), bool)
    use[0, 0] = True
    begin = (found.region.spans.start, found.region.spans.stop)
    placed, _ = rows.move_ends(
        found.rows,
        region,
        found.theta,
        np.asarray(use),
        np.zeros((), bool),
        begin,
        passes.LAYOUT,
    )
    law = (found.theta, found.look.scale**2)
    apart = Apart(jax.device_put(runs), jnp.full(MOST_CELLS, found.look.scale))
    return settle(found.rows, found.look, region, apart, law, placed, passes.LAYOUT)


@functools.lru_cache(maxsize=1)
def settled():
    return settle_stages()


def test_the_end_is_where_the_step_is():
    found = jax.device_get(settled())
    assert abs(float(found.lower[0]) - 7) < 0.1
    assert np.isinf(found.upper[0])
    assert found.lower_interval[0, 0] <= 7.05
    assert found.lower_interval[0, 1] >= 6.95
    assert np.isnan(found.upper_interval[0]).all()
    assert np.isnan(found.lower[1])


def test_every_row_serves_one_side():
    found, before = jax.device_get((settled(), passes.stages()))
    axis = np.asarray(before.rows.axis)
    inside = np.asarray(found.slot) == 0
    used = np.isfinite(axis)
    np.testing.assert_array_equal(inside[used], axis[used] >= float(found.lower[0]))
    assert int(found.num_rows[0]) == (inside & used).sum()
    assert not (np.asarray(found.law) & inside).any()
    law = axis[np.asarray(found.law)]
    assert law.max() < float(found.lower_interval[0, 1])


def test_outliers_are_named_in_the_order_of_the_record():
    outlier = np.flatnonzero(np.asarray(settled().outlier))
    assert passes.BAD in outlier
    assert len(outlier) <= 3


def test_every_row_in_use_is_kept_or_named():
    before = passes.stages()
    used, order = np.isfinite(before.rows.axis), np.asarray(before.rows.order)
    # Outside of the region and in it, beside rows of a run that no region was found for.
    unkept, run = [100, 101, 300, 430], [200, 201, 202]
    runs = NO_RUNS._replace(start=NO_RUNS.start + 200, stop=NO_RUNS.stop + 203)
    found = jax.device_get(settle_stages([*unkept, *run], runs))
    named = found.outlier[order]
    assert not (found.kept & named).any()
    np.testing.assert_array_equal(found.kept | named, used)
    assert named[run].all()
    assert not named[unkept].any()
    assert found.law[[100, 101, 300]].all()
    assert found.slot[430] == 0
    assert found.outlier[passes.BAD]


def test_a_level_correction_ends_in_a_jump():
    found = settled()
    assert not np.asarray(found.is_kink).any()
    inside = np.arange(6)[None] >= 2
    placed = Placed(np.array([2]), np.array([6]), np.array([[2.0, 1.0]]), np.zeros((1, 7)))
    columns = np.array([[0.0] * 6, [9.0, 9.0, 0.1, 1.0, 2.0, 3.0], [np.nan] * 6])
    size = np.sqrt(np.mean(np.array([0.1, 1.0, 2.0, 3.0]) ** 2))
    height_of = jax.jit(settling._height)
    height = np.asarray(height_of(columns[1], inside, placed, columns))[:, 0]
    np.testing.assert_allclose(height, [0.1 / size, 3 / size], rtol=1e-9)
    level = np.ones((2, 6))
    height = np.asarray(height_of(3 * level[0], inside, placed, level))
    assert height[:, 0].tolist() == [1, 1]


def test_rows_of_a_correction_beyond_its_kink_serve_no_law():
    """The end is a soft kink at 5 that lies in 4 to 6, and the correction begins at 2."""
    num = 10
    axis = np.arange(num) + 0.5
    one = np.ones(1, np.int32)
    spans = Spans(one > 0, 5 * one, num * one, 0 * one, num * one, np.ones((1, 2), bool))
    place, soft = np.array([[5.0], [np.inf]]), np.array([[1.0], [0.0]])
    # What is only possible keeps no row from the law.
    interval, wider = (np.array([[ends], [[np.nan, np.nan]]]) for ends in ([4.0, 6.0], [2.0, 9.0]))

    @jax.jit
    def found(spans, ends, axis, begun):
        return settling._doubtful(SimpleNamespace(axis=axis), spans, ends, begun)

    def doubtful(first):
        begun = np.arange(num)[None] >= first
        ends = settling._Ends(np.zeros((2, 1), int), place, wider, interval, soft > 0, soft)
        return np.flatnonzero(found(spans, ends, axis, begun)).tolist()

    assert doubtful(5) == [*range(4, num)]
    assert doubtful(2) == [*range(2, num)]


def test_ends_that_are_hardly_known_leave_the_law_its_rows():
    outside = np.arange(12) >= 4

    rows_of_law = jax.jit(settling._rows_of_law)

    def served(first):
        return np.flatnonzero(rows_of_law(outside, np.arange(12) < first)).tolist()

    assert served(6) == [*range(6, 12)]
    assert served(10) == [10, 11]
    assert served(11) == served(12) == [*range(4, 12)]
