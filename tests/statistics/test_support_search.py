import numpy as np
import pytest

from lisdd_jax import select_form, supports
from lisdd_jax.statistics.support_search import search_supports


def problem(seed, num_terms=9, rows=160):
    """Terms that correlate, three of them true, and two equal ones."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(rows, num_terms)) + 0.7 * rng.normal(size=(rows, 1))
    features[:, -1] = features[:, 0]
    residuals = features[:, :3] @ [1.0, -0.5, 0.3] + 0.5 * rng.normal(size=rows)
    half = rng.permutation(rows) < rows // 2
    return features, residuals, half, ~half


@pytest.mark.parametrize("tolerance", [0.0, 0.15, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_chooses_what_the_full_search_chooses(seed, tolerance):
    arrays = problem(seed)
    full = select_form(*arrays, max_terms=4, tolerance=tolerance)
    found = search_supports(*arrays, max_terms=4, tolerance=tolerance)
    assert found.exact
    assert found.support.sum() == full.support.sum()
    # Of equal columns either may be named.
    assert found.error == pytest.approx(float(full.error), rel=1e-10)
    assert found.num_scored < len(supports(9, 4))
    columns, response, fitted, scored = arrays
    left = response - columns @ found.coefficients
    assert np.mean(left[scored] ** 2) == pytest.approx(found.error, rel=1e-10)
    np.testing.assert_allclose(columns[fitted][:, found.support].T @ left[fitted], 0, atol=1e-9)


def test_a_library_beyond_all_supports():
    arrays = problem(0, num_terms=40, rows=400)
    with pytest.raises(ValueError, match="max_terms must leave at most"):
        select_form(*arrays, max_terms=5, tolerance=0.1)
    found = search_supports(*arrays, max_terms=5, tolerance=0.1)
    assert found.exact
    # Equal columns: the first or the last.
    assert (found.support | np.roll(found.support, 1))[:3].all()
    assert found.support.sum() == 3


def test_says_that_it_did_not_finish():
    arrays = problem(0)
    found = search_supports(*arrays, max_terms=4, tolerance=0.0, max_scored=2)
    assert not found.exact
    assert found.num_scored == 2
    assert found.support.any()


def test_refuses_what_does_not_fit():
    features, residuals, fitted, scored = problem(0)
    for bad, message in (
        ((features, residuals, fitted, fitted), "disjoint"),
        ((features, residuals[1:], fitted, scored), "residuals"),
        ((features, residuals, np.zeros_like(fitted), scored), "rows to fit"),
        ((0 * features, residuals, fitted, scored), "a term that can be fitted"),
    ):
        with pytest.raises(ValueError, match=message):
            search_supports(*bad, max_terms=2, tolerance=0.1)
