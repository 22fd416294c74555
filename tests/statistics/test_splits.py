import brute_force
import jax
import numpy as np
import pytest

from lisdd_jax.statistics import splits

NUM = 41
ranks = jax.jit(splits.unit_ranks)
halve = jax.jit(splits.random_halves)
deal = jax.jit(splits.dealt_folds, static_argnums=1)


def labels(seed, num_blocks=12):
    """Labels of any size and order; rows of a block need not be neighbours."""
    rng = np.random.default_rng(seed)
    names = rng.integers(-(2**31) + 1, 2**31 - 1, num_blocks)
    return names[rng.integers(num_blocks, size=NUM)].astype(np.int32), rng.random(NUM) < 0.8


@pytest.mark.parametrize("seed", range(4))
def test_units_are_ranked_by_their_first_row(seed):
    block, mask = labels(seed)
    for given in (None, block):
        expected = brute_force.unit_ranks(mask, given)
        found = np.asarray(ranks(mask, given))
        for i in np.flatnonzero(mask):
            assert found[i] == expected[i]


@pytest.mark.parametrize("seed", range(4))
def test_halves_are_those_of_the_coins(seed):
    block, mask = labels(seed)
    key = jax.random.key(seed)
    coins = np.asarray(jax.random.bernoulli(key, 0.5, (NUM // 2 + 1,)))
    for given in (None, block):
        expected = brute_force.halves(coins, mask, given)
        found = jax.device_get(halve(key, mask, given))
        assert np.flatnonzero(found.first).tolist() == expected[0]
        for rows, used, half in zip(found.rows, found.used, expected, strict=True):
            assert rows[used].tolist() == half


def test_no_split_divides_a_block():
    for seed in range(20):
        block, mask = labels(seed, num_blocks=1 + seed % 15)
        key = jax.random.key(seed)
        first = np.asarray(halve(key, mask, block).first)
        for label in np.unique(block[mask]):
            assert len(np.unique(first[mask & (block == label)])) == 1


def test_one_block_is_one_half():
    mask = np.ones(NUM, bool)
    found = halve(jax.random.key(0), mask, np.zeros(NUM, np.int32))
    assert sorted(found.used.sum(axis=1).tolist()) == [0, NUM]


@pytest.mark.parametrize("num_folds", [1, 3, 4, 5])
def test_every_fold_comes_once_in_so_many_units(num_folds):
    found = np.asarray(deal(np.arange(60, dtype=np.int32), num_folds))
    assert (np.sort(found.reshape(-1, num_folds), axis=1) == np.arange(num_folds)).all()


def test_folds_keep_time_with_no_factor_of_a_design():
    """Of 4,096 rows, any two folds together against factors that take turns, in any standard order:
    no correlation is larger than among coins."""
    num = 4096
    fold = np.asarray(deal(np.arange(num, dtype=np.int32), 4))
    row = np.arange(num)
    factors = [np.where(row // long % 2 == 0, 1, -1) for long in (1, 2, 3, 4, 5, 6, 7, 8, 12, 24)]
    halves = [np.where(np.isin(fold, pair), 1, -1) for pair in ((0, 1), (0, 2), (0, 3))]
    together = [half @ factor for half in halves for factor in factors]
    assert np.abs(together).max() < 4 * np.sqrt(num)
    assert np.abs(halves[0] @ halves[1]) == 0


def test_all_orders_are_dealt_alike():
    fold = np.asarray(deal(np.arange(24 * 4000, dtype=np.int32), 4)).reshape(-1, 4)
    _, count = np.unique(fold, axis=0, return_counts=True)
    assert len(count) == 24
    np.testing.assert_allclose(count, 1000, atol=5 * np.sqrt(1000))


def test_random_half_takes_one_of_every_two_rows_in_use():
    mask = np.arange(41) % 4 != 0
    keys = jax.random.split(jax.random.key(3), 2000)
    halves = np.asarray(jax.jit(jax.vmap(splits.random_half, (0, None)))(keys, mask))
    assert not halves[:, ~mask].any()
    pairs = halves[:, mask].reshape(2000, 15, 2)
    assert (pairs.sum(axis=2) == 1).all()
    error = 5 * np.sqrt(0.25 / 2000)
    np.testing.assert_allclose(pairs[:, :, 0].mean(axis=0), 0.5, atol=error)
    together = np.corrcoef(pairs[:, :, 0].T) - np.eye(15)
    np.testing.assert_allclose(together, 0, atol=5 / np.sqrt(2000))


def test_random_half_of_an_odd_number_of_rows():
    keys = jax.random.split(jax.random.key(3), 2000)
    halves = np.asarray(jax.jit(jax.vmap(splits.random_half, (0, None)))(keys, np.arange(41) < 31))
    counts = halves.sum(axis=1)
    assert set(counts) == {15, 16}
    assert np.mean(counts == 15) == pytest.approx(0.5, abs=5 * np.sqrt(0.25 / 2000))


def test_random_half_does_not_depend_on_padding():
    key, mask = jax.random.key(0), np.ones(41, bool)
    half = jax.jit(splits.random_half)
    padded = half(key, np.pad(mask, (30, 37)))
    np.testing.assert_array_equal(np.asarray(padded)[30:71], half(key, mask))


def test_gathered_halves_are_the_masked_ones():
    mask = np.random.default_rng(3).random(41) < 0.7
    values = np.arange(41.0) + 1

    @jax.jit
    def split(key, mask, values):
        halves = splits.random_halves(key, mask)
        return halves.first, halves.used, halves.take(values)

    for seed in range(5):
        first, used, taken = jax.device_get(split(jax.random.key(seed), mask, values))
        for half, chosen in zip(taken, (first, mask & ~first), strict=True):
            np.testing.assert_array_equal(np.sort(half[half > 0]), values[chosen])
        assert abs(int(used[0].sum()) - int(used[1].sum())) <= 1
