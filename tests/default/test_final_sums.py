"""The sums that the results are made of, against loops."""

import jax.numpy as jnp
import numpy as np
import stages as passes
from test_settling import settled

from lisdd_jax.default.cells import MOST_CELLS
from lisdd_jax.default.final_sums import sum_final

NUM_MAP = 8


def test_sums_of_law_regions_and_map():
    found, ends = passes.stages(), settled()
    weights = jnp.linspace(1.0, 2.0, MOST_CELLS)
    final = sum_final(
        found.rows, found.look, found.region, ends, found.theta, weights, passes.LAYOUT, NUM_MAP
    )
    columns = np.asarray(found.rows.columns)
    used = np.isfinite(np.asarray(found.rows.axis))
    kept = used & (np.asarray(found.region.weight) > 0)
    law, slot = np.asarray(ends.law), np.asarray(ends.slot)
    cell, fold = np.asarray(found.look.cells.of_row), np.asarray(found.rows.fold)
    physics = columns[[2, 3, 4, -1]]
    np.testing.assert_allclose(
        final.law.gram.sum(0), physics[:, law] @ physics[:, law].T, atol=1e-9
    )
    size = np.append(np.asarray(weights), 0.0)[cell]
    axis, theta = columns[1], np.asarray(found.rows.initial / found.rows.unit + found.theta)
    predicted = theta @ columns[2:5]
    powers = [axis**power for power in range(2, 4)]
    bent = np.stack([*powers, *(axis * columns[2:5]), predicted**2])
    wide = np.concatenate([columns[:-1], bent, columns[-1:]])
    for k in range(4):
        own = kept & (slot == 0) & (fold == k)
        np.testing.assert_allclose(
            final.regions.gram[0, k], columns[:, own] @ columns[:, own].T, atol=1e-9
        )
        for side, there in enumerate([slot < 4, slot == 4]):
            own = kept & there & (fold == k)
            np.testing.assert_allclose(
                final.curved[side, k], wide[:, own] @ wide[:, own].T, rtol=1e-9, atol=1e-9
            )
        own = kept & (slot == 0) & (fold == k)
        np.testing.assert_allclose(
            final.weighted.gram[0, k],
            (columns[:, own] * size[own]) @ columns[:, own].T,
            atol=1e-9,
        )
    short = columns[[0, 1, 2, 3, 4, -1]]
    place = np.asarray(found.rows.map_cell)
    for k in range(NUM_MAP):
        own = kept & (place == k)
        np.testing.assert_allclose(final.map_all[k], short[:, own] @ short[:, own].T, atol=1e-9)
        counts = [used & (place == k), own, law & (place == k), used & (slot < 4) & (place == k)]
        np.testing.assert_array_equal(final.map_rows[k], [each.sum() for each in counts])


def test_weights_of_rows_are_in_every_column_once():
    """Those along which the law would bend are products of columns."""
    found, ends = passes.stages(), settled()
    weights = jnp.ones(MOST_CELLS)
    share = jnp.where(jnp.arange(len(found.rows.axis)) % 2 == 0, 0.0, 1.0)

    def sums(size):
        part = found.rows._replace(columns=found.rows.columns * size[None])
        arguments = (part, found.look, found.region, ends, found.theta, weights)
        return sum_final(*arguments, passes.LAYOUT, NUM_MAP).curved

    whole, odd, mixed = sums(jnp.ones_like(share)), sums(share), sums(0.5 + 0.5 * share)
    np.testing.assert_allclose(mixed, 0.25 * (whole - odd) + odd, rtol=1e-9, atol=1e-9)


def test_gradual_onsets_are_no_part_of_what_a_curve_must_explain():
    found, ends = passes.stages(), settled()
    soft = ends._replace(softness=ends.softness.at[0, 0].set(1.5))
    weights = jnp.ones(MOST_CELLS)

    def rows_of(ends):
        arguments = (found.rows, found.look, found.region, ends, found.theta, weights)
        return np.asarray(sum_final(*arguments, passes.LAYOUT, NUM_MAP).curved)[:, :, 0, 0].sum(1)

    axis = np.asarray(found.rows.axis)
    kept = np.isfinite(axis) & (np.asarray(found.region.weight) > 0)
    lower = float(ends.lower[0])
    sharp, gradual = rows_of(ends), rows_of(soft)
    assert gradual[0] == sharp[0]
    assert sharp[1] - gradual[1] == (kept & (axis >= lower - 1.5) & (axis < lower)).sum() > 0
