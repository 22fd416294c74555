"""The regressor: scikit-learn's conventions, and the numbers of ``fit``."""

import pickle

import jax
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import lisdd_jax
from lisdd_jax import DiscrepancyRegressor
from lisdd_jax.library import Library

# Tables of at most 64 rows share their programs; these checks fit larger ones as well.
LARGER = {
    "check_fit_check_is_fitted",
    "check_fit_idempotent",
    "check_n_features_in",
    "check_positive_only_tag_during_fit",
    "check_regressor_data_not_an_array",
    "check_regressors_train",
}
# No check fails; scikit-learn itself skips the one on array libraries unless SciPy is set up so.
EXPECTED_FAILURES: dict[str, str] = {}


def checks():
    """scikit-learn's own: of one physics column at once, and of every column in the slow set."""
    for estimator, in_time in ((DiscrepancyRegressor(physics=[0]), True),
                               (DiscrepancyRegressor(), False)):  # fmt: skip
        found = estimator_checks_generator(
            estimator, legacy=True, expected_failed_checks=EXPECTED_FAILURES, mark="xfail"
        )
        for given, check in found:
            name = check.func.__name__
            if in_time and name in LARGER:
                continue
            marks = () if in_time else pytest.mark.slow
            which = "one column" if in_time else "all columns"
            yield pytest.param(given, check, marks=marks, id=f"{name}, {which}")


@pytest.mark.parametrize("estimator, check", list(checks()))
def test_conventions(estimator, check):
    check(estimator)


def draw(seed=0):
    rng = np.random.default_rng(seed)
    t = rng.permutation(np.linspace(0, 30, 64))
    y = 3 + 0.5 * t + 6 * np.maximum(t - 23, 0) + 0.1 * rng.normal(size=64)
    return t[:, None], y


X, Y = draw()


def steep(columns):
    """A candidate that is no text."""
    return np.asarray(columns["t"])


@pytest.fixture(scope="module")
def fitted():
    return DiscrepancyRegressor(axis=0).fit(X, Y)


def test_the_numbers_are_those_of_fit(fitted):
    found = lisdd_jax.fit("y ~ x0 | x0", {"x0": X[:, 0], "y": Y}, library=["1", "x0"])
    for one, other in zip(
        jax.tree.leaves(fitted.result_.arrays), jax.tree.leaves(found.arrays), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    new = np.linspace(1, 29, 7)[:, None]
    np.testing.assert_array_equal(fitted.predict(new), found.predict({"x0": new[:, 0]}))
    assert fitted.result_.verdict == "discrepancy"
    assert fitted.score(X, Y) > 0.99


def test_terms_of_every_kind_say_the_same(fitted):
    frame = pd.DataFrame({"t": X[:, 0]})
    expected = fitted.predict(X)
    for parts in (
        {"axis": "t", "physics": "t", "library": ["1", "t"]},
        {"axis": -1, "physics": [0], "library": ["1", 0]},
        {"axis": "t", "physics": ["1", "t"], "library": Library.from_expressions(["1", "t"])},
        {"axis": "t", "physics": [steep], "library": ["1", steep]},
    ):
        model = DiscrepancyRegressor(**parts).fit(frame, pd.Series(Y, name="t"))
        np.testing.assert_array_equal(model.predict(frame), expected)
        assert list(model.feature_names_in_) == ["t"]
    assert model.result_.terms.term.tolist() == ["1", "steep"]
    pysindy = pytest.importorskip("pysindy")
    features = pysindy.PolynomialLibrary(degree=1)
    model = DiscrepancyRegressor(axis=0, library=features).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), expected)


def test_it_is_kept_whole(fitted):
    model = DiscrepancyRegressor(physics=[steep], library=["1", steep], axis="t")
    model.fit(pd.DataFrame({"t": X[:, 0]}), Y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(pd.DataFrame({"t": X[:, 0]})), fitted.predict(X))
    assert again.result_.summary() == model.result_.summary()
    new = clone(DiscrepancyRegressor(config=lisdd_jax.Config(alpha=0.01), random_state=7))
    assert (float(new.config.alpha), new.random_state) == (0.01, 7)
    with pytest.raises(NotFittedError):
        new.predict(X)


def test_pipelines_and_cross_validation():
    corrected = cross_val_score(DiscrepancyRegressor(), X, Y, cv=3)
    assert corrected.min() > cross_val_score(LinearRegression(), X, Y, cv=3).max()
    piped = make_pipeline(StandardScaler(), DiscrepancyRegressor())
    np.testing.assert_allclose(cross_val_score(piped, X, Y, cv=3), corrected, atol=2e-2)
    search = GridSearchCV(DiscrepancyRegressor(), {"fit_intercept": [True]}, cv=3).fit(X, Y)
    assert search.best_score_ == pytest.approx(corrected.mean())


@pytest.mark.slow
def test_what_is_known_of_the_rows_reaches_the_diagnosis():
    labels = np.array([f"day {k // 8}" for k in range(len(Y))])
    model = DiscrepancyRegressor(trusted="x0 < 15", random_state=None)
    problem = model.fit(X, Y, block=labels, noise_scale=np.full(len(Y), 2.0)).result_.problem
    assert problem.block.max() == 7
    np.testing.assert_array_equal(problem.trusted, X[:, 0] < 15)
    np.testing.assert_array_equal(problem.noise_scale, 2.0)


def test_where_seeds_come_from():
    seeds = [DiscrepancyRegressor(random_state=np.random.RandomState(3))._seed() for _ in "ab"]
    assert seeds[0] == seeds[1] != DiscrepancyRegressor(random_state=None)._seed()
    assert DiscrepancyRegressor(random_state=5)._seed() == 5


@pytest.mark.parametrize(
    "changes, error, message",
    [
        ({"axis": 1}, ValueError, "axis must be the place of one of 1 columns, got 1"),
        ({"axis": "t"}, ValueError, "unknown column 't'"),
        ({"physics": [-2]}, ValueError, "physics must be the place of one of 1 columns, got -2"),
        ({"library": 0.5}, TypeError, "library must hold places of columns, texts, expressions"),
        ({"library": [Library.from_callables({"x0": steep})]}, ValueError,
         "a function must not have the name of a column, got 'x0'"),
        ({"random_state": -1}, ValueError, "seed must be"),
        ({"config": 3}, TypeError, "config must be lisdd_jax.Config"),
        ({"physics": "u"}, ValueError, "physics: unknown column 'u'"),
        ({"trusted": "x0 > 99"}, ValueError, "trusted: no row in use meets the condition"),
    ],
)  # fmt: skip
def test_bad_parameters_are_one_sentence(changes, error, message):
    with pytest.raises(error) as caught:
        DiscrepancyRegressor(**changes).fit(X, Y)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "rows, message",
    [
        ({"block": np.arange(3)}, "inconsistent numbers of samples"),
        ({"block": np.full(64, "a", object)}, "block must part the rows in use into at least two"),
        ({"noise_scale": np.zeros(64)}, "noise_scale must be positive, got 0 in data row 1"),
        ({"noise_scale": np.ones((64, 2))}, "should be a 1d array"),
    ],
)
def test_what_is_known_of_the_rows_must_fit_them(rows, message):
    with pytest.raises(ValueError, match=message):
        DiscrepancyRegressor().fit(X, Y, **rows)
