import brute_force
import jax
import numpy as np
import published_sample as sample
import pytest

from lisdd_jax.status import Status

KEY = jax.random.key(4)


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_form_is_that_of_two_halves_of_the_flagged_rows(seed, given):
    arrays = sample.arrays(seed)
    mask = np.random.default_rng(seed).random(sample.NUM) < 0.9
    block = sample.blocks(seed) if given else None
    data, physics = sample.fitted(KEY, *arrays, mask, block)
    terms, form, _ = sample.judged(KEY, data, physics)
    design, response, x, features = arrays
    flagged = physics.regime.flagged
    inside = [
        bool(mask[i]) and bool(flagged[brute_force.cell_of(x[i], sample.EDGES)])
        for i in range(sample.NUM)
    ]
    residual = response - design @ np.asarray(physics.regime.coefficients)
    coins = np.asarray(jax.random.bernoulli(KEY, 0.5, (sample.NUM // 2 + 1,)))
    fit, score = brute_force.halves(coins, inside, block)
    errors, chosen = brute_force.holdout(features, residual, fit, score, 2, 0.15)
    support = brute_force.all_supports(sample.TERMS, 2)[chosen]
    np.testing.assert_allclose(form.errors, errors, rtol=1e-10)
    assert np.flatnonzero(form.support).tolist() == support == [1]
    assert form.error == pytest.approx(errors[chosen], rel=1e-10)
    rows = np.flatnonzero(inside)
    weights, stderr = brute_force.fit_terms(features[rows][:, support], residual[rows])
    np.testing.assert_allclose(form.coefficients[1], weights[0], rtol=1e-10)
    np.testing.assert_allclose(form.stderr[1], stderr[0], rtol=1e-9)
    assert form.status == Status.OK
    assert terms.selection.status == Status.OK


def test_nothing_flagged_is_no_failure():
    data, physics = sample.fitted(KEY, *sample.arrays(1, weight=0.0), np.ones(sample.NUM, bool))
    assert not physics.regime.flagged.any()
    _, form, _ = sample.judged(KEY, data, physics)
    assert form.status == Status.NOTHING_FLAGGED
    assert not form.support.any()
    assert not form.equivalent.any()


def test_a_failed_physics_fails_the_form():
    _, response, x, features = sample.arrays(0)
    twins = np.column_stack([x, 2 * x])
    data, physics = sample.fitted(KEY, twins, response, x, features, np.ones(sample.NUM, bool))
    _, form, _ = sample.judged(KEY, data, physics)
    assert form.status == Status.RANK_DEFICIENT_DESIGN
    assert not form.support.any()
