import jax
import numpy as np
import pytest

from lisdd_jax.statistics.trimmed import starts

NUM, SIZE, NUM_STARTS = 40, 2, 60
MAKE_COLUMNS, ROW_TABLE, SUBSAMPLE, MAKE_STARTS = map(
    jax.jit, (starts.make_columns, starts.row_table, starts.subsample, starts.make_starts)
)
DRAW = jax.jit(starts.draw, static_argnums=(1, 2, 3))


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    basis = np.column_stack([np.ones(NUM), rng.normal(size=NUM)])
    # So many equal rows that some pairs determine no line.
    basis[:15] = basis[0]
    response, mask = rng.normal(size=NUM), rng.random(NUM) < 0.8
    return basis, response, mask, MAKE_COLUMNS(*map(jax.device_put, (basis.T, response, mask)))


def test_products_of_all_pairs_of_columns(rows):
    basis, response, mask, columns = rows
    weights = np.random.default_rng(1).random(NUM)
    unpack = jax.jit(lambda products: starts.unpack(products @ weights, SIZE + 1))
    found = unpack(columns.products)
    whole = np.column_stack([basis, response])
    expected = np.zeros((SIZE + 1, SIZE + 1))
    for i in np.flatnonzero(mask):
        expected += weights[i] * np.outer(whole[i], whole[i])
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_table_lists_the_rows_in_use(rows):
    *_, mask, _ = rows
    table, count = ROW_TABLE(jax.device_put(mask))
    assert int(count) == mask.sum()
    assert table[: int(count)].tolist() == np.flatnonzero(mask).tolist()


def test_starts_run_through_as_many_rows_as_columns(rows):
    basis, response, mask, columns = rows
    draws = DRAW(jax.random.key(0), 0, NUM_STARTS, SIZE)
    table, count = ROW_TABLE(jax.device_put(mask))
    solutions, good = MAKE_STARTS(draws, columns, table, count)
    # A pair of equal rows is drawn again.
    assert good.all()
    for solution in np.asarray(solutions):
        left = np.abs(response - basis @ solution)[mask]
        assert np.sort(left)[1] < 1e-9


def test_starts_that_determine_nothing_are_given_up():
    basis, mask = np.ones((NUM, SIZE)), np.ones(NUM, bool)
    columns = MAKE_COLUMNS(*map(jax.device_put, (basis.T, np.arange(NUM, dtype=float), mask)))
    draws = DRAW(jax.random.key(0), 0, NUM_STARTS, SIZE)
    table, count = ROW_TABLE(jax.device_put(mask))
    _, good = MAKE_STARTS(draws, columns, table, count)
    assert not good.any()


def test_a_subsample_takes_one_row_of_each_stretch(rows):
    basis, _, mask, columns = rows
    table, count = ROW_TABLE(jax.device_put(mask))
    used = np.flatnonzero(mask)
    for seed in range(5):
        draws = DRAW(jax.random.key(seed), 10, NUM_STARTS, SIZE)
        found = SUBSAMPLE(draws, columns, table, count)
        assert found.usable.all()
        for k, value in enumerate(np.asarray(found.response)):
            (place,) = np.flatnonzero(np.asarray(columns.response)[used] == value)
            assert k * len(used) / 10 - 1 < place < (k + 1) * len(used) / 10


def test_a_subsample_of_few_rows_is_all_of_them(rows):
    *_, mask, columns = rows
    table, count = ROW_TABLE(jax.device_put(mask))
    draws = DRAW(jax.random.key(0), 50, NUM_STARTS, SIZE)
    found = SUBSAMPLE(draws, columns, table, count)
    assert found.usable.sum() == mask.sum()
    np.testing.assert_array_equal(found.response[found.usable], columns.response[mask])
