"""Recorded values of the published algorithm and of trimmed fits, made with NumPy and SciPy."""

import json
from functools import cache, partial

import jax
import numpy as np
import pytest

from lisdd_jax import Config, Status, f_test, fit_clean_regime, fit_trimmed, select_form, supports

LTS_CASES = [f"{kind}{i}" for kind in ("small", "mid", "wide", "testbed") for i in range(3)]
PIPELINE_CASES = range(6)
NUM_ROWS = 6000


@cache
def read(path):
    return json.loads(path.read_text())


# Twenty searches run for longer than optimising their program takes.
OPTIMISED = {"xla_backend_optimization_level": 1}


@partial(jax.jit, static_argnames="num_kept", compiler_options=OPTIMISED)
def fit_with_keys(design, response, keys, num_kept):
    trim = 1 - num_kept / response.shape[0] + 1e-9
    return jax.lax.map(lambda key: fit_trimmed(design, response, key=key, trim=trim), keys)


@pytest.mark.parametrize(
    ("name", "num_keys"),
    [(name, 3 if name.startswith("testbed") else 20) for name in LTS_CASES]
    + [pytest.param(name, 20, marks=pytest.mark.slow) for name in LTS_CASES if "testbed" in name],
)
def test_trimmed_fit_reaches_the_best_known_objective(shared, name, num_keys):
    cases = {case["name"]: case for case in read(shared / "reference" / "lts.json")["cases"]}
    case = cases[name]
    found = fit_with_keys(
        np.asarray(case["design"]),
        np.asarray(case["response"]),
        jax.random.split(jax.random.key(7), 20)[:num_keys],
        case["num_kept"],
    )
    assert (found.status == Status.OK).all()
    assert (found.kept.sum(axis=1) == case["num_kept"]).all()
    assert (found.objective <= case["objective"] * (1 + 1e-9)).all(), found.objective
    # No subset is better, so with the objective the coefficients are the same.
    np.testing.assert_allclose(
        found.coefficients, np.tile(case["coefficients"], (num_keys, 1)), rtol=1e-6, atol=1e-7
    )


class Case:
    """One recorded run; rows are padded to one shape and left out by masks."""

    def __init__(self, record: dict):
        self.record = record
        self.num = len(record["response"])
        x = np.asarray(record["x"])
        x1, x2 = x.T
        self.mask = np.arange(NUM_ROWS) < self.num
        self.axis = x1
        self.design = self.pad(-x)
        self.response = self.pad(np.asarray(record["response"]))
        self.features = self.pad(np.column_stack([x1**2, x1**3, x2**2, x2**3, x1 * x2, np.sin(x1)]))
        edges = np.asarray(record["edges"])
        num_cells = len(edges) - 1
        cell = np.minimum(np.searchsorted(edges, x1, side="right") - 1, num_cells - 1)
        self.cell = self.pad(cell, num_cells)
        self.num_cells = num_cells

    def pad(self, array: np.ndarray, value: float = 0) -> np.ndarray:
        widths = [(0, NUM_ROWS - self.num)] + [(0, 0)] * (array.ndim - 1)
        return np.pad(array, widths, constant_values=value)

    def half(self, name: str) -> np.ndarray:
        return self.pad(np.asarray(self.record[name], bool)) if self.record[name] else ~self.mask


@pytest.fixture(scope="module")
def cases(shared):
    records = read(shared / "reference" / "paper_pipeline.json")
    assert records["library"] == ["x1^2", "x1^3", "x2^2", "x2^3", "x1*x2", "sin(x1)"]
    return [Case(record) for record in records["cases"]]


def clean_regime(case: Case):
    record = case.record
    config = Config.paper(
        trim=record["trim"], alpha_cell=record["alpha_loc"], max_iterations=record["max_iterations"]
    )
    return fit_clean_regime(
        case.design,
        case.response,
        case.cell,
        np.asarray(record["lts_coefficients"]),
        num_cells=case.num_cells,
        config=config,
        mask=case.mask,
    )


@pytest.mark.parametrize("index", PIPELINE_CASES)
def test_clean_regime(cases, index):
    case = cases[index]
    found = clean_regime(case)
    np.testing.assert_allclose(found.coefficients, case.record["coefficients"], atol=1e-8)
    assert found.flagged.tolist() == case.record["flagged"]
    assert found.scale == pytest.approx(case.record["scale_last_test"], abs=1e-8)
    recorded = np.asarray(case.record["log_p_last_test"])
    finite = np.isfinite(recorded)
    np.testing.assert_allclose(np.asarray(found.log_p_value)[finite], recorded[finite], rtol=1e-8)
    # Where the record underflowed, the log does not.
    assert np.isfinite(found.log_p_value).all()
    assert (np.asarray(found.log_p_value)[~finite] < -700).all()


@pytest.mark.parametrize("index", PIPELINE_CASES)
def test_trimmed_start(cases, index):
    case, record = cases[index], cases[index].record
    found = fit_trimmed(
        case.design,
        case.response,
        key=jax.random.key(index),
        trim=record["trim"],
        num_starts=100,
        mask=case.mask,
    )
    # The objective has many minima as low as the recorded one to within a thousandth.
    squares = (case.response - case.design @ np.asarray(record["lts_coefficients"]))[case.mask] ** 2
    recorded = np.sort(squares)[: int(found.kept.sum())].sum()
    assert found.objective <= recorded * 1.001
    np.testing.assert_allclose(found.coefficients, record["lts_coefficients"], atol=0.02)


@pytest.mark.parametrize("index", PIPELINE_CASES)
def test_holdout_errors_and_selection(cases, index):
    case, record = cases[index], cases[index].record
    if record["selected"] is None:
        assert not any(record["flagged"])
        pytest.skip("nothing is flagged, so nothing is selected")
    flagged = np.append(record["flagged"], False)[case.cell]
    fit_half = case.half("fit_half")
    residuals = case.response - case.design @ record["coefficients"]
    found = select_form(
        case.features,
        residuals,
        flagged & fit_half,
        flagged & ~fit_half,
        max_terms=2,
        tolerance=0.15,
    )
    table = [np.flatnonzero(row).tolist() for row in supports(6, 2)]
    assert table == [entry["support"] for entry in record["holdout"]]
    np.testing.assert_allclose(
        found.errors, [entry["error"] for entry in record["holdout"]], atol=1e-9
    )
    assert np.flatnonzero(found.support).tolist() == record["selected"]


@pytest.mark.parametrize("index", PIPELINE_CASES)
def test_certificate(cases, index):
    case, record = cases[index], cases[index].record
    inside = np.isin(case.cell, record["test_cells"])
    (term,) = record["test_support"]
    extra = np.where(inside, case.features[:, term], 0.0)[:, None]
    found = f_test(case.design, extra, case.response, mask=case.half("test_half"))
    assert found.status == Status.OK
    assert found.statistic == pytest.approx(record["f_statistic"], abs=1e-8, rel=1e-10)
    if record["f_p_value"] > 0:
        assert found.p_value == pytest.approx(record["f_p_value"], rel=1e-8)
    else:
        assert found.log_p_value < -700
