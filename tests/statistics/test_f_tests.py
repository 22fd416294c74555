import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from lisdd_jax import Status, f_test
from lisdd_jax.statistics.f_tests import f_ratio, log_p_values

NUM = 60


def problem(seed: int, num: int = NUM) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    design = np.column_stack([np.ones(num), rng.normal(size=num)])
    extra = rng.normal(size=(num, 2))
    return design, extra, design @ [1.0, 2.0] + extra @ [0.2, 0.0] + rng.normal(size=num)


def expected_f(design, extra, response):
    """Difference of two residual sums, by numpy."""

    def residual_sum(columns):
        coefficients = np.linalg.lstsq(columns, response)[0]
        return np.sum((response - columns @ coefficients) ** 2)

    small, large = residual_sum(design), residual_sum(np.column_stack([design, extra]))
    df_num, df_den = extra.shape[1], len(response) - design.shape[1] - extra.shape[1]
    return ((small - large) / df_num) / (large / df_den), df_num, df_den


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_agrees_with_the_difference_of_residual_sums(dtype):
    for seed in range(5):
        design, extra, response = problem(seed)
        mask = np.random.default_rng(seed).random(NUM) < 0.8
        statistic, df_num, df_den = expected_f(design[mask], extra[mask], response[mask])
        for array in (design, extra, response):
            array[~mask] = np.nan
        found = f_test(design.astype(dtype), extra.astype(dtype), response.astype(dtype), mask=mask)
        tolerance = 1e-4 if dtype == np.float32 else 1e-11
        assert {leaf.dtype for leaf in jax.tree.leaves(found)} == {np.dtype(dtype), jnp.int32.dtype}
        assert found.status == Status.OK
        assert (found.df_num, found.df_den) == (df_num, df_den)
        assert found.statistic == pytest.approx(statistic, rel=tolerance)
        log_p = stats.f.logsf(statistic, df_num, df_den)
        assert found.log_p_value == pytest.approx(log_p, rel=tolerance)
        assert found.p_value == pytest.approx(np.exp(log_p), rel=tolerance)


def test_slope_of_a_line_is_a_squared_t():
    # scipy.stats.linregress is the other way to the same number.
    design, extra, response = problem(6)
    line = stats.linregress(extra[:, 0], response)
    found = f_test(np.ones((NUM, 1)), extra[:, :1], response)
    assert found.statistic == pytest.approx((line.slope / line.stderr) ** 2, rel=1e-10)
    assert found.p_value == pytest.approx(line.pvalue, rel=1e-9)


def test_strong_evidence_does_not_underflow():
    design, extra, response = problem(7)
    found = f_test(design, extra, extra @ [1e6, 1e6] + response)
    # 56 degrees of freedom: P(F > f) falls as (1 + 2 f / 56)^-28.
    assert found.log_p_value == pytest.approx(-28 * np.log1p(found.statistic / 28), rel=1e-12)
    assert found.log_p_value < -750


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    st.integers(0, 2**31),
    st.lists(st.floats(-30, 30), min_size=5, max_size=5),
    st.floats(-100, 100),
    st.floats(-100, 100),
)
def test_invariance(seed, powers, shift, slope):
    """Row order, units and what the design explains do not matter."""
    design, extra, response = problem(8)
    first = f_test(design, extra, response)
    units = 10.0 ** np.array(powers)
    order = np.random.default_rng(seed).permutation(NUM)
    moved = response + design @ [shift, slope]
    found = f_test(
        (design * units[:2])[order], (extra * units[2:4])[order], (moved * units[4])[order]
    )
    assert found.statistic == pytest.approx(float(first.statistic), rel=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0.0, 1e2, 1e4, 1e6, 1e8])
def test_an_offset_is_borne_or_refused(offset, dtype):
    """What matters is the exact statistic of the rounded data, in exact arithmetic."""
    design, extra, response = problem(9)
    design = (design + [0.0, offset]).astype(dtype)
    extra, response = extra.astype(dtype), (response + 300).astype(dtype)
    centered = design.astype(np.float64) - [0.0, offset]
    statistic, *_ = expected_f(
        centered, extra.astype(np.float64), response.astype(np.float64) - 300
    )
    found = f_test(design, extra, response)
    if found.status == Status.RANK_DEFICIENT_DESIGN:
        assert offset * np.finfo(dtype).eps > 1e-6
        assert jnp.isnan(found.statistic)
    else:
        assert found.status == Status.OK
        rounding = np.finfo(dtype).eps * (offset + 300)
        assert found.statistic == pytest.approx(statistic, rel=max(100 * float(rounding), 1e-10))


def test_a_small_noise_on_a_large_offset_is_no_exact_fit():
    rng = np.random.default_rng(10)
    design, extra = np.ones((NUM, 1)), rng.normal(size=(NUM, 1))
    response = 1e4 + rng.normal(size=NUM)
    double = f_test(design, extra, response)
    single = f_test(*(array.astype(np.float32) for array in (design, extra, response)))
    assert single.status == double.status == Status.OK
    assert single.statistic == pytest.approx(float(double.statistic), rel=0.01, abs=0.01)


def test_collinear_terms_are_counted_once_and_named():
    design, extra, response = problem(11)
    first = f_test(design, extra, response)
    both = np.column_stack([extra, extra @ [1.0, 1.0], design[:, 1]])
    found = f_test(design, both, response)
    assert found.status == Status.RANK_DEFICIENT_TERMS
    assert (found.df_num, found.df_den) == (2, NUM - 4)
    assert found.statistic == pytest.approx(float(first.statistic), rel=1e-10)


def test_twin_columns_of_the_design_are_refused():
    design, extra, response = problem(11)
    found = f_test(np.column_stack([design[:, 1], 2 * design[:, 1]]), extra, response)
    assert found.status == Status.RANK_DEFICIENT_DESIGN
    assert jnp.isnan(found.statistic)


def failures() -> dict[str, tuple]:
    design, extra, response = problem(12)
    everyone = np.ones(NUM, bool)
    exact = design @ [1.0, 2.0]
    return {
        "nothing added": (design, design, response, everyone, Status.NO_USABLE_TERMS),
        "zero terms": (design, 0 * extra, response, everyone, Status.NO_USABLE_TERMS),
        "no rows": (design, extra, response, ~everyone, Status.TOO_FEW_TEST_ROWS),
        "no rows left": (design, extra, response, np.arange(NUM) < 4, Status.TOO_FEW_TEST_ROWS),
        "exact physics": (design, extra, exact, everyone, Status.ZERO_SCALE),
        "zero response": (design, extra, 0 * response, everyone, Status.ZERO_SCALE),
    }


@pytest.mark.parametrize("name", list(failures()))
def test_failures_are_undefined(name):
    *arrays, mask, expected = failures()[name]
    found = f_test(*arrays, mask=mask)
    assert found.status == expected
    numbers = [found.statistic, found.df_num, found.df_den, found.p_value, found.log_p_value]
    assert jnp.isnan(jnp.stack(numbers)).all()


@pytest.mark.parametrize("shape", [(5, 0), (0, 2), (0, 0)])
def test_an_empty_design_is_refused_in_a_sentence(shape):
    num = shape[0]
    words = r"design must have at least one row and one column, got shape"
    with pytest.raises(ValueError, match=words):
        f_test(np.zeros(shape), np.zeros((num, 1)), np.zeros(num))


def test_an_exact_larger_model_is_infinite_evidence():
    design, extra, _ = problem(13)
    found = f_test(design, extra, design @ [1.0, 2.0] + extra @ [1.0, 0.0])
    assert found.status == Status.EXACT_FIT
    assert (found.statistic, found.p_value) == (np.inf, 0)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_values_that_are_not_finite_end_in_a_status_under_jit(place):
    arrays = list(problem(14))
    arrays[place][5] = np.nan
    found = jax.jit(f_test)(*arrays)
    assert found.status == Status.NONFINITE_INPUT
    assert jnp.isnan(found.p_value)
    with pytest.raises(ValueError, match="must be finite in the rows in use"):
        f_test(*arrays)


@jax.jit
def evidence(arrays, tangents, mask):
    """Statistic and log p-value, their changes along tangents, and gradients, from one program."""

    def values(*arrays):
        found = f_test(*arrays, mask=mask)
        return jnp.stack([found.statistic, found.log_p_value])

    numbers, linear = jax.linearize(values, *arrays)
    gradients = jax.vmap(jax.linear_transpose(linear, *arrays))(jnp.eye(2))
    return numbers, linear(*tangents), gradients


def test_derivatives_are_those_of_differences():
    arrays, direction = problem(15), np.random.default_rng(1)
    tangents, mask = [direction.normal(size=array.shape) for array in arrays], np.ones(NUM, bool)
    _, slopes, gradients = evidence(arrays, tangents, mask)
    step = 1e-6
    up, down = (
        evidence(
            tuple(a + s * step * t for a, t in zip(arrays, tangents, strict=True)), tangents, mask
        )[0]
        for s in (1, -1)
    )
    np.testing.assert_allclose(slopes, (up - down) / (2 * step), rtol=1e-6)
    for k in range(2):
        total = sum(np.sum(g[k] * t) for g, t in zip(gradients, tangents, strict=True))
        assert total == pytest.approx(float(slopes[k]), rel=1e-10)


def test_derivatives_are_finite_for_collinear_and_zero_terms():
    design, extra, response = problem(16)
    extra = np.column_stack([extra[:, 0], np.zeros(NUM), 2 * extra[:, 0]])
    slope_of = jax.jit(jax.grad(lambda *a: f_test(*a).log_p_value, argnums=(0, 1, 2)))
    slopes = slope_of(design, extra, response)
    alone = jax.jit(jax.grad(lambda y: f_test(design, extra[:, :1], y).log_p_value))
    assert all(np.isfinite(slope).all() for slope in slopes)
    np.testing.assert_allclose(slopes[2], alone(response), rtol=1e-8, atol=1e-12)


def test_rows_out_of_use_carry_no_derivative():
    arrays, mask = problem(17), np.arange(NUM) < 50
    slope = evidence(arrays, arrays, mask)[2][2][1]
    assert np.isfinite(slope).all()
    assert not slope[50:].any()


def test_size_under_normal_noise():
    """2000 data sets without an effect: 5 % rejections within five standard errors."""
    design, extra, _ = problem(18, num=30)
    noise = np.random.default_rng(0).normal(size=(2000, 30))
    p_values = jax.jit(jax.vmap(lambda y: f_test(design, extra, y).p_value))(noise)
    for level in (0.01, 0.05, 0.5):
        error = np.sqrt(level * (1 - level) / 2000)
        assert np.mean(p_values < level) == pytest.approx(level, abs=5 * error)
    assert stats.kstest(p_values, "uniform").pvalue > 1e-4


@jax.jit
def tails_of(*sets):
    """Ratios of gains with their degrees of freedom, and their tails."""
    ratios = [f_ratio(*one, variance=0.5) for one in sets]
    return ratios, log_p_values(*ratios)


def test_undefined_ratios_have_no_tail():
    given = (np.array([4.0, 4.0, 4.0]), np.array([2, 0, 2]), np.array([10, 10, 0]))
    (ratio,), (log_p,) = jax.device_get(tails_of(given))
    assert ratio.defined.tolist() == [True, False, False]
    assert log_p[0] == pytest.approx(stats.f.logsf(4.0, 2, 10), rel=1e-12)
    assert np.isnan(log_p[1:]).all()


def test_several_sets_of_ratios_keep_their_shapes():
    rng = np.random.default_rng(0)
    shapes = ((3,), (2, 2), ())
    sets = [
        (np.asarray(rng.gamma(2.0, size=shape)), np.full(shape, 2), np.full(shape, 30))
        for shape in shapes
    ]
    ratios, log_p = jax.device_get(tails_of(*sets))
    for found, ratio, shape in zip(log_p, ratios, shapes, strict=True):
        assert np.shape(ratio.statistic) == shape
        np.testing.assert_allclose(found, stats.f.logsf(ratio.statistic, 2, 30), rtol=1e-12)


@pytest.mark.parametrize("df_num, df_den", [(1, 20), (4, 60), (10, 1000)])
def test_score_is_nearly_the_normal_quantile(df_num, df_den):
    """Paulson's approximation is good to a few hundredths of a standard deviation."""
    tails = np.array([0.3, 0.05, 0.01, 1e-3, 1e-4])
    statistic = stats.f.isf(tails, df_num, df_den)
    shape = statistic.shape
    given = (df_num * statistic, np.full(shape, df_num), np.full(shape, df_den))
    score = jax.jit(lambda *given: f_ratio(*given).score())(*given)
    np.testing.assert_allclose(score, stats.norm.isf(tails), atol=0.1)
