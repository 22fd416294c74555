import brute_force
import jax
import numpy as np
import published_sample as sample
import pytest

from lisdd_jax.status import Status

KEY = jax.random.key(9)


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_partial_f_test_on_the_second_half(seed, given):
    arrays = sample.arrays(seed)
    mask = np.random.default_rng(seed).random(sample.NUM) < 0.9
    block = sample.blocks(seed) if given else None
    data, physics = sample.fitted(KEY, *arrays, mask, block)
    terms, _, found = sample.judged(KEY, data, physics)
    design, response, x, features = arrays
    coins = np.asarray(jax.random.bernoulli(KEY, 0.5, (sample.NUM // 2 + 1,)))
    _, rows = brute_force.halves(coins, mask, block)
    flagged = [bool(physics.regime.flagged[brute_force.cell_of(x[i], sample.EDGES)]) for i in rows]
    support = np.flatnonzero(terms.selection.support)
    extra = np.where(np.array(flagged)[:, None], features[rows][:, support], 0.0)
    statistic, df_num, df_den, log_p = brute_force.f_test(design[rows], extra, response[rows])
    assert found.statistic == pytest.approx(statistic, rel=1e-9)
    assert (found.df_num, found.df_den) == (df_num, df_den)
    assert found.log_p_value == pytest.approx(log_p, rel=1e-9)
    assert bool(found.reject)
    assert found.status == Status.OK
    assert np.isnan(found.p_value_robust)


def test_nothing_flagged_is_not_tested():
    data, physics = sample.fitted(KEY, *sample.arrays(1, weight=0.0), np.ones(sample.NUM, bool))
    *_, found = sample.judged(KEY, data, physics)
    assert found.status == Status.NOTHING_FLAGGED
    assert not found.reject
    for value in (found.statistic, found.df_num, found.df_den, found.p_value):
        assert np.isnan(value)
