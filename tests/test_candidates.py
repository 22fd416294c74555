"""Regions named beforehand: evidence, false-discovery control, and a form for each."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from lisdd_jax.candidates import CandidateRegions, diagnose_regions
from lisdd_jax.config import Config
from lisdd_jax.prediction import predict
from lisdd_jax.status import Status
from lisdd_jax.study.experiments import scenarios

LOWER, UPPER = np.array(scenarios.CANDIDATE_REGIONS).T
CONFIG = Config.paper(num_starts=10)


@functools.cache
def drawn() -> scenarios.Sample:
    return jax.jit(scenarios.several_regions(3000))(jax.random.key(0))


def run(sample: scenarios.Sample | None = None, **changes: Any) -> CandidateRegions:
    sample = drawn() if sample is None else sample
    arguments = {"lower": LOWER, "upper": UPPER, "key": jax.random.key(1), "config": CONFIG}
    arguments |= changes
    return diagnose_regions(
        sample.design, sample.response, sample.axis, sample.features, **arguments
    )


@pytest.fixture(scope="module")
def declared() -> CandidateRegions:
    return run()


def test_declares_the_two_discrepant_regions_with_their_own_terms(
    declared: CandidateRegions,
) -> None:
    names = scenarios.LIBRARIES["six"].names
    assert declared.regions.present.tolist() == [False, True, False, True]
    chosen = [[names[i] for i in np.flatnonzero(row)] for row in declared.regions.support]
    assert chosen == [[], ["x1^3"], [], ["x1*x2"]]
    # Five standard errors of the amplitudes.
    for k, value in ((1, 0.2), (3, 0.4)):
        weights, errors = declared.regions.coefficients[k], declared.regions.stderr[k]
        term = int(np.flatnonzero(declared.regions.support[k])[0])
        assert abs(weights[term] - value) < 5 * errors[term]
    assert int(declared.status) == 0


def test_evidence_is_the_chi_square_tail_of_the_energy() -> None:
    found = run()
    residual = np.asarray(drawn().response - drawn().design @ found.coefficients)
    axis = np.asarray(drawn().axis)
    for k in range(4):
        inside = (axis >= LOWER[k]) & (axis < UPPER[k])
        energy = np.sum(residual[inside] ** 2) / float(found.scale) ** 2
        assert int(found.regions.count[k]) == inside.sum()
        assert float(found.regions.statistic[k]) == pytest.approx(energy, rel=1e-9)
        # SciPy's log tail is the log of a tail that can underflow.
        expected = stats.chi2.logsf(energy, inside.sum())
        if np.isfinite(expected):
            assert float(found.regions.log_p_value[k]) == pytest.approx(expected, rel=1e-6)


def test_evidence_against_the_clean_rows_is_the_f_test_of_dummies() -> None:
    """One dummy per row of the region takes its rows out: the classical predictive F."""
    found = run(scale="clean")
    axis = np.asarray(drawn().axis)
    edges = np.append(found.cells.lower, found.cells.upper[-1])
    cell = np.clip(np.searchsorted(edges, axis, side="right") - 1, 0, len(edges) - 2)
    clean = ~np.asarray(found.cells.flagged)[cell]
    design, response = np.asarray(drawn().design), np.asarray(drawn().response)

    def residual_sum(rows: np.ndarray) -> float:
        return float(np.linalg.lstsq(design[rows], response[rows], rcond=None)[1][0])

    for k in range(4):
        inside = (axis >= LOWER[k]) & (axis < UPPER[k])
        rest = clean & ~inside
        dof, without = rest.sum() - 2, residual_sum(rest)
        gain = (residual_sum(rest | inside) - without) / inside.sum()
        statistic = gain / (without / dof)
        assert float(found.regions.statistic[k]) == pytest.approx(
            statistic * inside.sum(), rel=1e-8
        )
        expected = stats.f.logsf(statistic, inside.sum(), dof)
        if np.isfinite(expected):
            assert float(found.regions.log_p_value[k]) == pytest.approx(expected, rel=1e-6)
    assert float(found.scale) == pytest.approx(
        np.sqrt(residual_sum(clean) / (clean.sum() - 2)), rel=1e-9
    )


def test_the_published_scale_is_inflated_and_that_of_the_clean_cells_is_not() -> None:
    deviations = [float(run(scale=scale).scale) for scale in ("all", "clean")]
    assert deviations[0] > 0.45
    # Five standard errors of the standard deviation of about 1500 normal values.
    assert deviations[1] == pytest.approx(0.3, abs=5 * 0.3 / np.sqrt(2 * 1500))


@pytest.mark.parametrize("method", ["bh", "by"])
def test_declared_are_those_with_an_adjusted_p_value_up_to_q(method: str) -> None:
    found = run(method=method, q=0.2, scale="clean")
    adjusted = np.asarray(found.regions.adjusted_p_value)
    assert found.regions.present.tolist() == (adjusted <= 0.2).tolist()
    order = np.argsort(found.regions.p_value)
    factor = sum(1 / k for k in range(1, 5)) if method == "by" else 1.0
    raw = np.asarray(found.regions.p_value)[order] * 4 / np.arange(1, 5) * factor
    expected = np.minimum(np.minimum.accumulate(raw[::-1])[::-1], 1)
    np.testing.assert_allclose(adjusted[order], expected, rtol=1e-12)


def test_an_empty_region_is_undefined_and_not_declared() -> None:
    found = run(lower=np.array([1.3, 4.6, 0.0, 2.3]), upper=np.array([2.1, 4.7, 0.5, 2.6]))
    assert np.isnan(found.regions.p_value).tolist() == [False, True, False, False]
    assert found.regions.present.tolist() == [True, False, False, False]


def test_corrected_forecast_uses_the_declared_regions(declared: CandidateRegions) -> None:
    forecast = predict(declared, drawn().design, drawn().axis, drawn().features)
    error = np.sqrt(np.mean((np.asarray(forecast) - np.asarray(drawn().response)) ** 2))
    assert error == pytest.approx(0.3, abs=0.02)


def test_rows_out_of_use_do_not_matter() -> None:
    mask = np.arange(3000) < 2500
    wild = jnp.where(jnp.asarray(mask), drawn().response, 1e6)
    sample = jax.tree.map(lambda leaf: leaf, drawn())
    edges = np.linspace(0, 4.5, 15)
    object.__setattr__(sample, "response", wild)
    same = run(mask=mask, edges=edges)
    np.testing.assert_array_equal(
        run(sample, mask=mask, edges=edges).regions.p_value, same.regions.p_value
    )


def test_rows_outside_the_edges_are_told_under_a_trace() -> None:
    edges = jnp.linspace(0.0, 4.0, 11)

    @jax.jit
    def told(sample: scenarios.Sample) -> tuple[jax.Array, jax.Array]:
        found = run(sample, edges=edges)
        return found.status, found.cells.count

    status, count = told(drawn())
    assert int(status) == Status.ROWS_OUTSIDE_EDGES
    assert int(count.sum()) == int(np.sum(np.asarray(drawn().axis) <= 4.0))


def test_settings_of_the_default_method_are_refused() -> None:
    with pytest.raises(TypeError, match="config must be settings of the published method"):
        run(config=Config())


def test_the_evidence_is_of_regions_fixed_beforehand(declared: CandidateRegions) -> None:
    assert not declared.regions.same_rows


def test_a_failure_leaves_no_number() -> None:
    found = run(
        dataclasses.replace(drawn(), design=drawn().design.at[:, 1].set(drawn().design[:, 0]))
    )
    assert int(found.status) == Status.RANK_DEFICIENT_DESIGN
    for value in (found.scale, found.regions.statistic, found.regions.p_value, found.coefficients):
        assert np.isnan(value).all()
    assert not found.regions.present.any()


def test_levels_are_traced() -> None:
    from lisdd_jax.candidates import declare_regions

    run(q=0.05)
    size = declare_regions._cache_size()
    run(q=0.1)
    assert declare_regions._cache_size() == size


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lower": [0.0], "upper": [0.0]}, "lower must be less than upper"),
        ({"lower": [0.0, 0.5], "upper": [1.0, 2.0]}, "regions must be disjoint"),
        ({"lower": [0.0, 1.0], "upper": [1.0]}, r"upper must have shape \(K,\)"),
        ({"lower": [], "upper": []}, "at least one region"),
        ({"q": 1.5}, "q must lie between 0 and 1"),
        ({"scale": "some"}, "scale must be one of"),
        ({"method": "holm"}, 'method must be "bh" or "by"'),
        ({"edges": np.zeros((2, 2))}, "edges must have 1 axes"),
        ({"edges": [0.0, 4.5]}, "edges must bound at least 2 cells, got 2 edges"),
        ({"edges": [0.0, 3.0, 2.0, 4.5]}, "edges must not decrease"),
        ({"edges": [0.0, 1.0, 2.0]}, "edges must cover the axis, but .* rows in use lie outside"),
        ({"block": np.zeros(3, int)}, r"block must have shape \(3000,\)"),
        ({"noise_scale": np.zeros(3000)}, "noise_scale must be positive in the rows in use"),
    ],
)
def test_bad_arguments(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(**changes)
