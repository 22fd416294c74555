import jax
import numpy as np
import references

from lisdd_jax import fit_trimmed
from lisdd_jax.statistics.trimmed.search import search_each, search_one


def samples():
    """Three samples of different length, the last one short enough to be judged on all rows."""
    rng = np.random.default_rng(5)
    for num in (2000, 1500, 400):
        basis = rng.normal(size=(num, 2))
        outlying = np.arange(num) < 0.2 * num
        response = basis @ [1.0, -2.0] + 0.1 * rng.normal(size=num) + 5.0 * outlying
        mask = rng.random(num) < 0.9
        yield tuple(map(jax.device_put, (basis, response, mask)))


def test_several_searches_at_once_find_what_each_finds_alone():
    parts, keys = list(samples()), jax.random.split(jax.random.key(0), 3)
    sizes = {"num_starts": 40, "num_candidates": 5}
    together = jax.jit(lambda keys, parts: search_each(keys, parts, 0.3, **sizes))(keys, parts)
    for key, part, found in zip(keys, parts, together, strict=True):
        alone = jax.jit(lambda key, part: search_one(key, part, 0.3, **sizes))(key, part)
        np.testing.assert_allclose(found.solution, alone.solution, rtol=1e-12)
        np.testing.assert_allclose(found.objective, alone.objective, rtol=1e-12)
        assert found.status == alone.status == 0
        np.testing.assert_allclose(found.solution, [1.0, -2.0], atol=0.03)


def test_finds_the_best_of_all_subsets():
    """Recorded by an exhaustive search."""
    case = references.read()["trimmed"]
    design, response = np.array(case["design"]), np.array(case["response"])
    trim = 1 - (case["num_kept"] - 0.5) / len(response)
    for key in jax.random.split(jax.random.key(1), 3):
        found = fit_trimmed(design, response, key=key, trim=trim, num_starts=200)
        np.testing.assert_allclose(found.objective, case["objective"], rtol=1e-12)
        np.testing.assert_allclose(found.coefficients, case["coefficients"], rtol=1e-10)
        assert np.flatnonzero(found.kept).tolist() == case["rows"]
