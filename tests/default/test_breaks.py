"""Changes of the whole law, against least squares on the rows themselves."""

import numpy as np
import pytest
import scipy.stats
from brute_force_default import fit
from cell_data import assert_traced_alike, cell_rows

from lisdd_jax.default import breaks

SIZES = (20, 14, 25, 18, 3)
PHYSICS = slice(2, 4)
WEIGHT = np.array([1.0, 4.0, 0.25, 1.0, 0.4])


def test_two_laws_are_those_of_least_squares_on_rows():
    rows = cell_rows(3, SIZES, noise=(1.0, 0.5, 2.0, 1.0, 1.5))
    root = np.sqrt(WEIGHT[rows.cell])
    design, response = rows.columns[:, PHYSICS] * root[:, None], rows.columns[:, -1] * root
    law, left = fit(design, response)
    found = breaks.fit_breaks(rows.gram, rows.count, WEIGHT, PHYSICS)
    np.testing.assert_allclose(found.whole, law, rtol=1e-9)
    # Three rows show two coefficients, but no noise of their own.
    assert found.df_num.tolist() == [2, 2, 2, 0]
    assert found.df_den[3] == 0
    share = np.cumsum(WEIGHT * SIZES) / np.sum(WEIGHT * SIZES)
    for bound in range(3):
        before = rows.cell <= bound
        first, rest = fit(design[before], response[before])
        second, other = fit(design[~before], response[~before])
        saved = np.sum(left**2) - np.sum(rest**2) - np.sum(other**2)
        assert found.gain[bound] == pytest.approx(saved, rel=1e-9)
        degrees = [len(rest) - 2, len(other) - 2]
        one = (1 - share[bound]) * np.sum(rest**2) / degrees[0]
        two = share[bound] * np.sum(other**2) / degrees[1]
        assert found.variance[bound] == pytest.approx(one + two, rel=1e-9)
        welch = (one + two) ** 2 / (one**2 / degrees[0] + two**2 / degrees[1])
        assert found.df_den[bound] == pytest.approx(welch, rel=1e-9)
        np.testing.assert_allclose(found.theta[:, bound], [first, second], rtol=1e-8)


@pytest.mark.parametrize("df_num", [2, 3, 6, 11, 20])
@pytest.mark.parametrize("df_den", [10, 30, 100, 1000])
def test_the_tail_is_on_the_safe_side(df_num, df_den):
    for p_value in (0.01, 1e-3, 1e-4, 1e-6, 1e-10):
        ratio = scipy.stats.f.isf(p_value, df_num, df_den)
        found = breaks.log_upper_f(np.float64(ratio), np.float64(df_num), np.float64(df_den))
        assert found > np.log(0.99 * p_value)
        # Of the digits of a tiny p-value three quarters at least are seen.
        assert found < 0.75 * np.log(p_value) + np.log(1.1)


@pytest.mark.parametrize("df_den", [1, 2, 3, 5])
def test_the_tail_of_few_degrees_of_freedom_is_on_the_safe_side(df_den):
    for df_num in (1, 2, 3, 6, 20):
        for p_value in (0.05, 0.01, 1e-4):
            ratio = scipy.stats.f.isf(p_value, df_num, df_den)
            found = breaks.log_upper_f(np.float64(ratio), np.float64(df_num), np.float64(df_den))
            assert found > np.log(0.98 * p_value)


def test_traced_alike():
    rows = cell_rows(4, SIZES)

    def both(gram, count, weight):
        found = breaks.fit_breaks(gram, count, weight, PHYSICS)
        return found, breaks.log_upper_f(count, count + 1, count + 3)

    assert_traced_alike(both, rows.gram, rows.count, WEIGHT)
