"""One data set with a known answer, its physics and its halves, for the stages that follow."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from lisdd_jax.config import PublishedConfig
from lisdd_jax.dataset import prepare
from lisdd_jax.published.certificate import certify
from lisdd_jax.published.form import choose_each, make_form
from lisdd_jax.published.physics import fit_physics
from lisdd_jax.statistics.splits import random_halves

NUM, CELLS, TERMS = 240, 6, 4
EDGES = np.linspace(-1, 1, CELLS + 1)
CONFIG = PublishedConfig(num_cells=CELLS, num_starts=50)
CHECKED = CONFIG.checked(jnp.float64)


def arrays(seed, weight=3.0):
    """Design, response, axis, features; the second term is missing beyond 1/3."""
    rng = np.random.default_rng(seed)
    x, other = rng.uniform(-1, 1, NUM), rng.normal(size=NUM)
    design = np.column_stack([x, other])
    features = np.column_stack([np.sin(3 * x), x**2, other**2, x * other])
    response = design @ [1.5, -1.0] + np.where(x > 1 / 3, weight * x**2, 0.0)
    return design, response + 0.2 * rng.normal(size=NUM), x, features


@jax.jit
def _fitted(key, design, response, x, features, mask):
    data, status = prepare(design, response, x, features, jax.device_put(EDGES), mask)
    return data, fit_physics(key, data, status, CHECKED)


def fitted(key, design, response, x, features, mask, block=None):
    """The data set and its physics, which knows nothing of blocks: one program without them."""
    data, physics = _fitted(key, design, response, x, features, mask)
    return dataclasses.replace(
        data, block=None if block is None else jax.device_put(block)
    ), physics


@jax.jit
def judged(key, data, physics):
    """The choice of terms, the form, and the certificate, of one program.

    The certificate is of a half of what all rows show: here choice and test need not be apart.
    """
    (terms,) = choose_each(key[None], [data], [physics], CHECKED)
    some = jnp.any(data.in_cells(physics.regime.flagged))
    halves = random_halves(key, data.mask, data.block)
    return terms, make_form(physics, terms, some), certify(data, halves, physics, terms, CHECKED)


def blocks(seed, size=3):
    """Neighbours along the record in blocks of about so many rows."""
    return np.repeat(np.random.default_rng(seed).permutation(NUM), size)[:NUM].astype(np.int32)
