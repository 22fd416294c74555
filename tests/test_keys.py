import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lisdd_jax import published, trimmed_search
from lisdd_jax.config import Config
from lisdd_jax.numerics import batches, columns, keys
from lisdd_jax.prepared import prepare, take

DTYPES = (jnp.float32, jnp.float64)


@pytest.mark.parametrize("dtype", DTYPES)
def test_keys_are_in_the_order_of_floats(dtype):
    tiny = float(jnp.finfo(dtype).tiny)
    largest = float(jnp.finfo(dtype).max)
    values = jnp.array(
        [-jnp.inf, -largest, -1.5, -tiny, 0.0, tiny, 1e-3, 2.0, largest, jnp.inf], dtype
    )
    found = keys.to_key(values)
    assert (found[1:] > found[:-1]).all()
    np.testing.assert_array_equal(keys.from_key(found, dtype), values)
    assert keys.to_key(jnp.array(-0.0, dtype)) == keys.to_key(jnp.array(0.0, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_extremes_keep_subnormals(dtype):
    smallest = np.finfo(dtype).smallest_subnormal
    values = np.array([3.0, smallest, 2 * smallest, -smallest], dtype)
    assert np.asarray(keys.least(values[:3])).tobytes() == smallest.tobytes()
    assert np.asarray(keys.least(values)).tobytes() == (-smallest).tobytes()
    assert np.asarray(keys.greatest(values[1:])).tobytes() == values[2].tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_extremes_by_keys(dtype):
    values = np.random.default_rng(0).standard_cauchy((3, 41)).astype(dtype)
    values[1, 4], values[2, 7] = np.inf, -np.inf
    chosen = np.arange(41) % 3 == 1
    np.testing.assert_array_equal(keys.least(values), values.min(axis=1))
    np.testing.assert_array_equal(keys.greatest(values), values.max(axis=1))
    np.testing.assert_array_equal(keys.least(values, chosen), values[:, chosen].min(axis=1))
    np.testing.assert_array_equal(keys.greatest(values, chosen), values[:, chosen].max(axis=1))
    nothing = np.zeros(41, bool)
    assert (keys.least(values, nothing) == np.inf).all()
    assert (keys.greatest(values, nothing) == -np.inf).all()
    values[0, 3] = np.nan
    assert np.isnan(keys.greatest(np.abs(values))).tolist() == [True, False, False]


@pytest.mark.parametrize("num", [1, 3, 4, 5, 9])
def test_combined_columns(num):
    rng = np.random.default_rng(num)
    weights, values = rng.normal(size=num), rng.normal(size=(50, num))
    tall = columns.along_rows(jnp.asarray(values))
    np.testing.assert_allclose(columns.combine(weights, tall), values @ weights, rtol=1e-12)


def test_each_is_a_loop():
    parts = [{"a": jnp.arange(3.0) + i, "b": jnp.float64(i)} for i in range(4)]
    found = batches.each(lambda part: (part["a"] * part["b"], jnp.sum(part["a"])), parts)
    assert len(found) == 4
    for i, (product, total) in enumerate(found):
        np.testing.assert_array_equal(product, parts[i]["a"] * i)
        assert total == 3 + 3 * i
    assert batches.each(lambda part: part, []) == []


def problems():
    """Three fits of different length, the last one short enough to be judged on all its rows."""
    rng = np.random.default_rng(5)
    for i, num in enumerate((2000, 1500, 400)):
        basis = rng.normal(size=(num, 2))
        outlying = np.arange(num) < 0.2 * num
        response = basis @ [1.0, -2.0] + 0.1 * rng.normal(size=num) + 5.0 * outlying
        mask = jnp.asarray(rng.random(num) < 0.9)
        yield trimmed_search.Problem(
            jax.random.key(i), jnp.asarray(basis), jnp.asarray(response), mask
        )


def test_several_searches_at_once_find_what_each_finds_alone():
    parts = list(problems())
    sizes = {"num_starts": 40, "num_candidates": 5}
    together = jax.jit(lambda parts: trimmed_search.search_each(parts, 0.3, **sizes))(parts)
    for part, found in zip(parts, together, strict=True):
        alone = jax.jit(lambda part: trimmed_search.search(part, 0.3, **sizes))(part)
        np.testing.assert_allclose(found.solution, alone.solution, rtol=1e-12)
        np.testing.assert_allclose(found.objective, alone.objective, rtol=1e-12)
        assert found.status == alone.status == 0
        np.testing.assert_allclose(found.solution, [1.0, -2.0], atol=0.03)


def test_rows_taken_give_the_fit_of_rows_masked():
    rng = np.random.default_rng(6)
    axis = rng.uniform(size=900)
    design = np.column_stack([np.ones(900), axis])
    features = np.column_stack([axis**2, axis**3])
    response = design @ [1.0, 2.0] + 0.1 * rng.normal(size=900) + 3.0 * (axis > 0.8) * axis**2
    edges, mask = jnp.linspace(0, 1, 11), jnp.ones(900, bool)
    arrays = map(jnp.asarray, (design, response, axis, features))
    data, status = prepare(*arrays, edges, mask)
    chosen = np.arange(900) % 2 == 0
    rows = jnp.asarray(np.append(np.flatnonzero(chosen), 0))
    used = jnp.arange(451) < 450
    config = Config.paper().checked(jnp.float64)
    key = jax.random.key(0)
    fit = jax.jit(published.fit_physics)
    taken = fit(key, take(data, rows, used), status, config)
    masked = fit(key, data._replace(mask=jnp.asarray(chosen)), status, config)
    np.testing.assert_array_equal(taken.flagged, masked.flagged)
    np.testing.assert_array_equal(taken.count, masked.count)
    assert taken.flagged.any()
    for name in ("coefficients", "covariance", "scale", "mean", "rms", "statistic"):
        np.testing.assert_allclose(getattr(taken, name), getattr(masked, name), rtol=1e-9)
