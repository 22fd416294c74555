"""Every public function under ``jit`` and ``vmap`` gives what single, eager calls give."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import testbed
from testbed import assert_trees_close

from lisdd_jax import (
    Config,
    Status,
    Verdict,
    adjust_p_values,
    diagnose,
    f_test,
    fit_clean_regime,
    fit_trimmed,
    predict,
    select_form,
)

NUM, CELLS = 60, 5
CONFIG = Config.paper()
KEY = jax.random.key(3)


def data(seed: int) -> dict[str, np.ndarray]:
    """One small problem; of seed 2 all rows and of seed 3 some are out of use, seed 4 is exact."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, NUM)
    design = np.column_stack([np.ones(NUM), x])
    noise = 0.0 if seed == 4 else 0.1
    response = design @ [1.0, 2.0] + np.where(x > 0.6, 3 * x**2, 0.0) + noise * rng.normal(size=NUM)
    mask = np.full(NUM, seed != 2)
    mask[: 5 * (seed == 3)] = False
    return {
        "design": design,
        "response": response,
        "features": np.column_stack([x**2, x**3, np.zeros(NUM) if seed == 1 else np.sin(3 * x)]),
        "cell": np.minimum(((x + 1) / 2 * CELLS).astype(np.int32), CELLS - 1),
        "mask": mask,
        "half": np.arange(NUM) % 2 == 0,
    }


def trimmed(d):
    """A trimmed fit; of an exact law the rows that it keeps are chosen by rounding, and counted."""
    options = {"key": KEY, "trim": 0.3, "num_starts": 20, "mask": d["mask"]}
    fit = fit_trimmed(d["design"], d["response"], **options)
    exact = fit.status == Status.EXACT_FIT.value
    return replace(fit, kept=jnp.where(exact, jnp.sort(fit.kept), fit.kept))


def clean(d):
    return fit_clean_regime(
        d["design"],
        d["response"],
        d["cell"],
        jnp.array([1.0, 2.0]),
        num_cells=CELLS,
        config=CONFIG,
        mask=d["mask"],
    )


def selected(d):
    return select_form(
        d["features"],
        d["response"],
        d["half"] & d["mask"],
        ~d["half"] & d["mask"],
        max_terms=2,
        tolerance=0.15,
    )


def certified(d):
    return f_test(d["design"], d["features"], d["response"], mask=d["mask"])


def adjusted(d):
    return adjust_p_values(jnp.where(d["mask"], jnp.abs(d["design"][:, 1]), jnp.nan), method="by")


FUNCTIONS = [trimmed, clean, selected, certified, adjusted]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_jit_equals_eager(function):
    one = data(0)
    assert_trees_close(jax.jit(function)(one), function(one), rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("function", FUNCTIONS)
def test_jit_equals_one_operation_at_a_time(function):
    one = data(0)
    with jax.disable_jit():
        stepwise = function(one)
    assert_trees_close(jax.jit(function)(one), stepwise, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_vmap_equals_a_loop(function):
    """Problems that stop after different numbers of passes, and some that fail."""
    several = [data(seed) for seed in range(5)]
    batch = jax.tree.map(lambda *leaves: np.stack(leaves), *several)
    found = jax.device_get(jax.jit(jax.vmap(function))(batch))
    for i, one in enumerate(several):
        alone = function(one)
        assert_trees_close(jax.tree.map(lambda leaf, i=i: leaf[i], found), alone, 1e-9, 1e-12)


def bad_and_good() -> list[testbed.Table]:
    good = testbed.oscillator(0)
    missing = testbed.oscillator(1)
    missing.response[7] = np.nan
    hidden = testbed.oscillator(1)
    hidden.response[7], hidden.features[7] = np.nan, np.inf
    hidden.mask[7] = False
    return [
        good,
        missing,
        hidden,
        good._replace(mask=np.zeros(testbed.NUM_ROWS, bool)),
        good._replace(response=np.zeros(testbed.NUM_ROWS)),
        testbed.oscillator(3, beta=0.0),
    ]


@pytest.fixture(scope="module")
def batch():
    """Diagnoses of six data sets at once, each with its key."""
    several = bad_and_good()
    stacked = testbed.Table(*(np.stack(arrays) for arrays in zip(*several, strict=True)))
    edges = np.linspace(-3.3, 3.3, 15)

    def one(key, design, response, axis, features, mask):
        return diagnose(
            design, response, axis, features, key=key, config=CONFIG, edges=edges, mask=mask
        )

    found = jax.jit(jax.vmap(one))(jax.random.split(KEY, len(several)), *stacked)
    return several, edges, jax.device_get(found)


def test_diagnoses_in_a_batch_equal_single_ones(batch):
    several, edges, found = batch
    for i, key in enumerate(jax.random.split(KEY, len(several))):
        if i == 1:
            continue  # Refused outside a trace.
        *arrays, mask = several[i]
        alone = diagnose(*arrays, key=key, config=CONFIG, edges=edges, mask=mask)
        assert_trees_close(jax.tree.map(lambda leaf, i=i: leaf[i], found), alone, 1e-8, 1e-11)


def test_statuses_in_a_batch(batch):
    *_, found = batch
    assert found.status.tolist() == [
        Status.OK,
        Status.NONFINITE_INPUT,
        Status.OK,
        Status.TOO_FEW_ROWS,
        Status.ZERO_SCALE,
        Status.OK,
    ]
    assert found.verdict.tolist() == [
        Verdict.DISCREPANCY,
        Verdict.INSUFFICIENT_DATA,
        Verdict.DISCREPANCY,
        Verdict.INSUFFICIENT_DATA,
        Verdict.INSUFFICIENT_DATA,
        Verdict.CLEAN,
    ]


def test_a_failed_diagnosis_asserts_nothing(batch):
    """A value that is not finite, met inside a trace: no number and no flag may survive it."""
    *_, found = batch
    failed = jax.tree.map(lambda leaf: leaf[1], found)
    assert np.isnan(failed.coefficients).all()
    assert np.isnan(failed.scale)
    assert not failed.test.reject
    assert np.isnan(failed.test.p_value)
    assert not failed.form.support.any()
    assert not failed.regions.present.any()
    assert not failed.cells.flagged.any()


def test_predictions_in_a_batch(batch):
    several, _, found = batch
    design, _, axis, features, _ = several[0]
    many = jax.vmap(predict, (0, None, None, None))(found, design, axis, features)
    for i in (0, 2, 5):
        alone = predict(jax.tree.map(lambda leaf, i=i: leaf[i], found), design, axis, features)
        np.testing.assert_allclose(many[i], alone, rtol=1e-12)
    assert np.isnan(many[1]).all()
    assert np.isnan(many[3]).all()
