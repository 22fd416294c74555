"""What a result says beyond its estimates: tests, intervals, checks of the residuals, formulas."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
from report_data import CONFIG, NAN, OUTCOMES, diagnosis, searched, summary_of, write_problem
from scipy import stats

from lisdd_jax.fitting import Result, diagnostics, intervals
from lisdd_jax.report.inference import degrees_of_freedom, infer
from lisdd_jax.report.summary import Estimate
from lisdd_jax.tables import ProblemError

SCALE = 0.3


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_problem(tmp_path_factory.mktemp("tables") / "t.csv")


def result_of(found, problem, **config):
    labels = problem.positions
    return Result(problem=problem, arrays=found, config={**CONFIG, **config}, labels=labels)


def weighted(matrix, problem):
    return matrix if problem.noise_scale is None else matrix / problem.noise_scale[:, None]


def least_squares(problem):
    """As maps from the response: physics outside of the region, then the term inside."""
    inside = problem.axis >= 1.0
    design = weighted(problem.design, problem)
    term = weighted(problem.features[:, [1]], problem)
    identity = np.eye(len(inside))
    physics = np.linalg.pinv(design[~inside]) @ identity[~inside]
    missing = np.linalg.pinv(term[inside]) @ (identity[inside] - design[inside] @ physics)
    return np.concatenate([physics, missing])


def with_errors(found, covariance, stderr):
    table = found.regions.stderr.copy()
    table[0, 1] = stderr
    regions = dataclasses.replace(found.regions, stderr=table)
    return dataclasses.replace(found, covariance=covariance, regions=regions)


@pytest.mark.parametrize("noise_scale", [None, np.linspace(0.5, 2.0, 39)])
def test_covariance_is_that_of_least_squares_in_two_steps(data, noise_scale):
    problem = dataclasses.replace(data, noise_scale=noise_scale)
    both = least_squares(problem)
    expected = SCALE**2 * both @ both.T
    found = with_errors(diagnosis(), expected[:2, :2], math.sqrt(expected[2, 2]))
    joint = intervals.joint_covariance(found, problem, 0)
    np.testing.assert_allclose(joint, expected, rtol=1e-10)
    # Larger errors of the terms, for whatever reason, leave the correlation.
    doubled = with_errors(found, expected[:2, :2], 2 * math.sqrt(expected[2, 2]))
    scaling = np.array([1.0, 1.0, 2.0])
    wider = intervals.joint_covariance(doubled, problem, 0)
    np.testing.assert_allclose(wider, expected * scaling * scaling[:, None], rtol=1e-10)


@pytest.mark.filterwarnings("ignore:.*rows lie beyond:UserWarning")
@pytest.mark.filterwarnings("ignore:.*no prediction:UserWarning")
def test_intervals_of_predictions(data):
    found = with_errors(diagnosis(), np.diag([1e-4, 4e-4]), 0.013)
    result = result_of(found, data)
    new = pd.DataFrame({"x": [-1.0, 0.99, 1.005, 1.5, NAN], "v": 0.0}, index=list("abcde"))
    mean = result.predict(new, interval="confidence")
    assert list(mean.index) == list("abcde")
    np.testing.assert_array_equal(mean.predicted, result.predict(new))
    assert mean.loc["e"].isna().all()
    assert mean.stderr["a"] == pytest.approx(math.sqrt(1e-4 + 4e-4))
    factor = stats.t.ppf(0.975, 37)
    assert mean.upper["a"] - mean.predicted["a"] == pytest.approx(factor * mean.stderr["a"])
    row = np.array([1.0, 1.5, 1.5**3])
    joint = intervals.joint_covariance(found, data, 0)
    assert mean.stderr["d"] == pytest.approx(math.sqrt(row @ joint @ row))
    assert mean.lower["d"] == pytest.approx(mean.predicted["d"] - factor * mean.stderr["d"])
    # The region begins somewhere from 0.98 to 1.01: there the interval spans both of its sides.
    physics = result.predict(new, corrected=False, interval="confidence")
    assert mean.lower["c"] <= physics.lower["c"] < physics.predicted["c"]
    assert mean.upper["b"] > physics.upper["b"] + 0.15
    pd.testing.assert_series_equal(mean.loc["a"], physics.loc["a"])
    # One more measurement has noise; a law that holds only nearly has its scatter.
    other = result.predict(new, interval="prediction", level=0.5)
    np.testing.assert_allclose(other.stderr[:4], np.hypot(mean.stderr, SCALE)[:4])
    assert other.upper["a"] - other.predicted["a"] == pytest.approx(
        stats.t.ppf(0.75, 37) * other.stderr["a"]
    )
    nearly = dataclasses.replace(found, law_scatter=np.array(0.4))
    mean = result_of(nearly, data).predict(new, interval="confidence")
    assert mean.stderr["a"] == pytest.approx(math.sqrt(5e-4 + 0.16))


def test_noise_of_the_rows_to_predict(data):
    problem = dataclasses.replace(data, noise_scale=np.ones(39))
    result = result_of(diagnosis(), problem, noise_scale="1 + v")
    found = result.predict({"x": [0.0, 0.0], "v": [0.0, 2.0]}, interval="prediction")
    np.testing.assert_allclose(found.stderr, np.hypot(0.01, [SCALE, 3 * SCALE]))
    with pytest.raises(ValueError, match="unknown column 'v'"):
        result.predict({"x": [0.0]}, interval="prediction")


def test_what_no_interval_is_given_for(data):
    result = result_of(diagnosis(), data)
    table = {"x": [0.0], "v": [0.0]}
    with pytest.raises(ValueError, match=r"interval must be one of \('confidence', 'prediction'\)"):
        result.predict(table, interval="credible")
    with pytest.raises(ValueError, match="level must"):
        result.predict(table, interval="confidence", level=1.5)
    with pytest.raises(ProblemError, match="predicts nothing"):
        result_of(OUTCOMES["insufficient_data"], data).predict(table, interval="confidence")


def test_student_t_against_a_regression_of_scipy():
    rng = np.random.default_rng(0)
    x = rng.normal(size=15)
    line = stats.linregress(x, 0.4 * x + rng.normal(size=15))
    slope = Estimate(name="x", coefficient=line.slope, stderr=line.stderr)
    found = infer(slope, 13)
    assert found.p_value == pytest.approx(line.pvalue, rel=1e-9)
    assert (found.lower < 0 < found.upper) == (line.pvalue > 0.05)
    undefined = infer(dataclasses.replace(slope, stderr=0.0), 13)
    assert math.isnan(undefined.statistic)
    assert math.isnan(undefined.p_value)


def test_degrees_of_freedom_count_independent_rows(data):
    assert degrees_of_freedom(diagnosis(), data) == 37
    outliers = np.arange(39) < 4
    assert degrees_of_freedom(diagnosis(outliers=outliers), data) == 33
    dependent = searched()
    depends = dataclasses.replace(dependent.dependence, rows=np.array(3.0))
    dependent = dataclasses.replace(dependent, dependence=depends)
    assert degrees_of_freedom(dependent, data) == 11
    blocks = dataclasses.replace(data, block=np.arange(39) // 10)
    assert degrees_of_freedom(diagnosis(), blocks) == 3
    frame = result_of(diagnosis(), blocks).physics
    np.testing.assert_allclose(
        frame.upper - frame.coefficient, stats.t.ppf(0.975, 3) * frame.stderr
    )


def checks(data, residuals, cell):
    rows = diagnostics.check_residuals(summary_of("holds_nearly", data), residuals, cell)
    return pd.DataFrame(rows).set_index("check")


def test_checks_of_residuals(data):
    rng = np.random.default_rng(0)
    cell = np.arange(400) // 50
    sound = rng.normal(scale=SCALE, size=400)
    found = checks(data, sound, cell)
    assert found.p_value.min() > 0.001
    assert found.value["rows that count as one"] == 1.0
    far = checks(data, SCALE * rng.standard_t(2, size=400), cell)
    assert far.p_value["excess kurtosis"] < 1e-6
    assert far.value["share beyond 3 noise scales"] > 5 * 0.0027
    unequal = checks(data, sound * np.where(cell == 3, 5.0, 1.0), cell)
    assert unequal.p_value["largest over smallest noise of a cell"] < 1e-6
    assert unequal.value["largest over smallest noise of a cell"] > 3
    few = checks(data, np.full(5, NAN), cell[:5])
    assert few.value["excess kurtosis":].isna().sum() == 2


def test_formulas(data):
    result = result_of(diagnosis(), data)
    assert result.to_latex() == (
        r"y = 1 - 2 \, \left(x + 0 \, v\right) + \begin{cases} 0.2 \, x^{3} & x \ge 1 \\ 0 &"
        r" \text{otherwise} \end{cases}"
    )
    sympy = pytest.importorskip("sympy")
    x, v = sympy.symbols("x v", real=True)
    function = sympy.lambdify((x, v), result.to_sympy())
    points = np.array([-1.0, 0.99, 1.0, 1.5])
    expected = result.predict({"x": points, "v": np.zeros(4)})
    np.testing.assert_allclose([float(function(p, 0.0)) for p in points], expected, rtol=1e-14)
    clean = result_of(OUTCOMES["clean"], data)
    assert clean.to_latex(digits=2) == r"y = 1 - 2 \, \left(x + 0 \, v\right)"
    found = diagnosis()
    everywhere = dataclasses.replace(found.regions, open_below=np.array([True, False]))
    whole = result_of(dataclasses.replace(found, regions=everywhere), data)
    assert whole.to_latex() == r"y = 1 - 2 \, \left(x + 0 \, v\right) + 0.2 \, x^{3}"
    assert "Piecewise" not in str(whole.to_sympy())
    with pytest.raises(ProblemError):
        result_of(OUTCOMES["insufficient_data"], data).to_latex()
