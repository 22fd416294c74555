"""Single precision agrees with double precision, also on tables on which it once did not.

The tables of this module have one shape, and two programs of each stage.
"""

import jax
import jax.numpy as jnp
import numpy as np
import rows_data as data

from lisdd_jax import Status, Verdict, diagnose


@jax.jit
def draw(seed):
    """Arrays of a diagnosis, and its key."""
    draw_x, draw_noise, key = jax.random.split(jax.random.key(seed), 3)
    x = jax.random.uniform(draw_x, (6000, 2), jnp.float32, minval=-3.3, maxval=3.3)
    position = x[:, 0]
    in_band = (abs(position) > 1.7) & (abs(position) < 2.7)
    rate = -position - 0.3 * x[:, 1] + jnp.where(in_band, 0.2 * position**3, 0)
    rate = rate + 0.3 * jax.random.normal(draw_noise, (6000,), jnp.float32)
    terms = jnp.stack([position**2, position**3, jnp.sin(position)], axis=1)
    return (-x, rate, position, terms), key


def oscillator(seed, dtype):
    """6000 rows; a cubic in two bands; narrow cells hide it behind a line in single precision."""
    arrays, key = draw(seed)
    return diagnose(*(np.asarray(part, dtype) for part in arrays), key=key)


def test_a_term_that_cells_do_not_resolve_is_no_direction_of_theirs():
    single, double = (oscillator(9, dtype) for dtype in (np.float32, np.float64))
    for found in (single, double):
        assert found.verdict == Verdict.DISCREPANCY.value
        assert found.status == Status.OK.value
    np.testing.assert_allclose(single.coefficients, double.coefficients, atol=1e-3)
    np.testing.assert_allclose(single.regions.lower[:2], [-2.7, 1.7], atol=0.01)
    np.testing.assert_allclose(double.regions.lower[:2], [-2.7, 1.7], atol=0.01)


def test_a_step_is_found_alike():
    table = data.straight(1, data.step(2.0, 7), num=6000)
    table = table._replace(design=table.design[:, :2], features=table.features[:, :3])
    single, double = (
        data.run(data.Table(*(part.astype(dtype) for part in table)))
        for dtype in (np.float32, np.float64)
    )
    assert single.coefficients.dtype == jnp.float32
    assert single.verdict == double.verdict == Verdict.DISCREPANCY.value
    np.testing.assert_allclose(single.coefficients, double.coefficients, rtol=1e-3)
    np.testing.assert_allclose(single.regions.lower, double.regions.lower, rtol=1e-3)
