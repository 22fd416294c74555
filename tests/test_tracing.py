"""Changing a number does not compile again."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import testbed

from lisdd_jax import (
    Config,
    adjust_p_values,
    chi2_logsf,
    diagnose,
    f_logsf,
    f_test,
    fit_clean_regime,
    fit_trimmed,
    predict,
    select_form,
)

NUM = 47


def small(seed: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    design = np.column_stack([np.ones(NUM), rng.normal(size=NUM)])
    return design, design @ [1.0, 2.0] + rng.normal(size=NUM), rng.normal(size=(NUM, 3))


def trimmed(seed, number):
    design, response, _ = small(seed)
    return fit_trimmed(
        design,
        response,
        key=jax.random.key(seed),
        trim=0.2 + number / 10,
        num_starts=200,
        mask=np.arange(NUM) >= seed,
    )


def clean(seed, number):
    design, response, _ = small(seed)
    config = Config.paper(alpha_cell=0.01 + number / 10)
    cell = np.arange(NUM) % 8
    initial = np.array([number, 2.0])
    return fit_clean_regime(design, response, cell, initial, num_cells=8, config=config)


def selected(seed, number):
    _, response, features = small(seed)
    half = np.random.default_rng(seed).random(NUM) < 0.5
    return select_form(features, response, half, ~half, max_terms=2, tolerance=number)


def certified(seed, number):
    design, response, features = small(seed)
    return f_test(design * (1 + number), features, response)


def adjusted(seed, number):
    return adjust_p_values(np.random.default_rng(seed).random(5) * number, method="bh")


def tails(seed, number):
    return chi2_logsf(seed + number, 3.0 + number), f_logsf(seed + number, 2.0, 5.0 + number)


@pytest.mark.parametrize("call", [trimmed, clean, selected, certified, adjusted, tails])
def test_numbers_are_traced(call, compilations):
    call(1, 0.1)
    call(1, 0.1)
    before = len(compilations)
    call(2, 0.3)
    call(3, 0.7)
    assert len(compilations) == before


def test_settings_of_a_diagnosis_are_traced(compilations):
    design, response, axis, features, mask = testbed.oscillator(0)
    edges = np.linspace(-3.3, 3.3, 15)

    def call(seed, **changes):
        return diagnose(
            design,
            response + seed,
            axis,
            features,
            key=jax.random.key(seed),
            config=Config.paper(**changes),
            edges=edges * (1 + seed / 100),
            mask=mask,
        )

    found = call(0)
    predict(found, design, axis, features)
    before = len(compilations)
    for name, value in (
        ("trim", 0.25),
        ("alpha_cell", 0.01),
        ("alpha", 0.01),
        ("tolerance", 0.3),
        ("trim", np.float64(0.3)),
        ("alpha", 1),
        ("tolerance", 0),
    ):
        predict(call(1, **{name: value}), design, axis, features)
    assert len(compilations) == before


def test_a_batch_of_settings():
    """Numbers of a configuration may be arrays under vmap: a sweep over levels."""
    design, response, _ = small(0)
    cell = jnp.arange(NUM) % 8

    def flags(alpha):
        config = Config.paper(alpha_cell=alpha)
        return fit_clean_regime(
            design, response, cell, np.array([1.0, 2.0]), num_cells=8, config=config
        ).flagged.sum()

    counts = jax.vmap(flags)(jnp.array([1e-300, 0.05, 0.2, 0.4]))
    assert counts[0] == 0
    assert (np.diff(counts) >= 0).all()
