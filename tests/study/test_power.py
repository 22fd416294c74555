"""Power plans against SciPy, against themselves, and against simulation."""

from typing import Any

import jax
import numpy as np
import pytest
from scipy import optimize, stats

from lisdd_jax.config import Config
from lisdd_jax.study.planning.power import (
    Effect,
    certificate_power,
    localization_power,
    plan_rows,
    power_curve,
)
from lisdd_jax.study.planning.power_simulation import (
    axis_simulator,
    edges_around,
    effect_simulator,
    simulate_power,
)
from lisdd_jax.study.planning.row_search import (
    RowSearchError,
    _bracket,
    probit_root,
    search_rows,
)

EFFECT = Effect(size=0.5, share=0.2)


@pytest.mark.parametrize("num_rows", [50, 200, 1001])
@pytest.mark.parametrize("num_terms", [1, 3])
@pytest.mark.parametrize("absorbed", [0.0, 0.15])
def test_certificate_is_the_noncentral_f_tail(
    num_rows: int, num_terms: int, absorbed: float
) -> None:
    effect = Effect(size=0.5, share=0.2, num_terms=num_terms, num_physics=3, absorbed=absorbed)
    held_out = num_rows // 2
    degrees = held_out - 3 - num_terms
    critical = stats.f.isf(0.05, num_terms, degrees)
    energy = held_out * 0.2 * 0.25 * (1 - absorbed)
    expected = stats.ncf.sf(critical, num_terms, degrees, energy)
    assert certificate_power(effect, num_rows) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("num_rows", [200, 2000, 20000])
def test_localization_is_the_noncentral_chi_square_tail(num_rows: int) -> None:
    effect = Effect(size=0.5, share=0.2, cells_in_region=2)
    count = int(num_rows // 2 * 0.2 / 2)
    expected = stats.ncx2.sf(stats.chi2.isf(1e-3, count), count, count * 0.25)
    assert localization_power(effect, num_rows) == pytest.approx(expected, rel=1e-7)


def test_power_starts_at_alpha_for_a_tiny_effect() -> None:
    tiny = Effect(size=1e-6, share=0.2)
    assert certificate_power(tiny, 1000) == pytest.approx(0.05, abs=1e-6)
    assert localization_power(tiny, 1000) == pytest.approx(1e-3, abs=1e-6)


@pytest.mark.parametrize("power", [0.5, 0.8, 0.95])
def test_plan_is_the_least_even_number(power: float) -> None:
    plan = plan_rows(EFFECT, power=power)
    known = plan.num_rows_known_region
    assert certificate_power(EFFECT, known) >= power > certificate_power(EFFECT, known - 2)
    assert plan.certificate * plan.localization >= power
    assert plan.num_rows >= known


def test_smaller_effects_and_regions_need_more_rows() -> None:
    plans = [
        plan_rows(Effect(size=size, share=share)).num_rows
        for size, share in ((0.5, 0.2), (0.25, 0.2), (0.25, 0.1))
    ]
    assert plans == sorted(plans)
    assert len(set(plans)) == 3


def test_curve_is_the_product() -> None:
    curve = power_curve(EFFECT, [100, 1000, 10000])
    np.testing.assert_allclose(curve["whole"], curve["certificate"] * curve["localization"])
    assert np.all(np.diff(curve["whole"]) > 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 0.0}, r"size must lie in \(0, inf\)"),
        ({"size": float("nan")}, "size must lie in"),
        ({"share": 1.5}, r"share must lie in \(0, 1\], got 1.5"),
        ({"absorbed": 1.0}, r"absorbed must lie in \[0, 1\)"),
        ({"alpha": 0.0}, "alpha must lie in"),
        ({"num_terms": 0}, "num_terms must be an integer of at least 1, got 0"),
    ],
)
def test_effects_out_of_range_are_refused(changes: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Effect(**({"size": 0.5, "share": 0.2} | changes))  # type: ignore[arg-type]


def test_powers_out_of_reach_are_refused() -> None:
    with pytest.raises(ValueError, match="power must lie in"):
        plan_rows(EFFECT, power=1.0)
    with pytest.raises(ValueError, match="large enough"):
        plan_rows(Effect(size=1e-6, share=0.2))


def test_more_than_the_share_cannot_be_absorbed_in_a_simulation() -> None:
    with pytest.raises(ValueError, match="absorbed must be at most share"):
        effect_simulator(Effect(size=0.5, share=0.2, absorbed=0.3), 100)


@pytest.mark.parametrize("absorbed", [pytest.param(0.0, marks=pytest.mark.slow), 0.1])
def test_simulated_certificate_has_the_planned_power(absorbed: float) -> None:
    effect = Effect(size=0.6, share=0.25, absorbed=absorbed)
    num_rows, num_replications = plan_rows(effect).num_rows_known_region, 120
    result = simulate_power(
        effect, num_rows, key=jax.random.key(0), num_replications=num_replications
    )
    expected = certificate_power(effect, num_rows)
    # Five binomial standard errors; the design is random where the plan takes its expectation.
    error = np.sqrt(expected * (1 - expected) / num_replications)
    assert result.mean("certificate")[0] == pytest.approx(expected, abs=5 * error + 0.01)


def test_layout_puts_whole_cells_in_the_region() -> None:
    edges = edges_around(Effect(size=0.5, share=0.3, cells_in_region=2), 14)
    assert edges.shape == (15,)
    np.testing.assert_allclose(np.asarray(edges)[[0, 1, 2, 14]], [0.0, 0.15, 0.3, 1.0])


def curve(level: float, slope: float, count: int = 10**6) -> list[dict[str, float]]:
    """Shares without noise along a probit curve."""
    rows = [100, 150, 250, 400]
    shares = stats.norm.cdf(level + slope * np.log(rows))
    return [
        {"num_rows": n, "found": share, "count": count}
        for n, share in zip(rows, shares, strict=True)
    ]


@pytest.mark.parametrize("power", [0.5, 0.8, 0.9])
def test_the_root_of_a_probit_curve_is_found(power: float) -> None:
    root, error = probit_root(curve(-12.0, 2.2), power)
    assert root == pytest.approx(np.exp((stats.norm.ppf(power) + 12.0) / 2.2), rel=1e-4)
    assert 0 < error < 0.01 * root


def test_the_error_of_the_root_is_that_of_repeated_simulation() -> None:
    rng = np.random.default_rng(0)
    truth = curve(-12.0, 2.2, count=200)
    roots, errors = [], []
    for _ in range(400):
        drawn = [{**e, "found": rng.binomial(200, e["found"]) / 200} for e in truth]
        root, error = probit_root(drawn, 0.8)
        roots.append(root)
        errors.append(error)
    # A standard deviation of 400 values has a relative standard error of 1 / sqrt(800).
    assert np.std(roots) == pytest.approx(np.mean(errors), rel=5 / np.sqrt(800))


def test_the_fit_is_the_maximum_of_the_likelihood() -> None:
    tried = [
        {**e, "found": f} for e, f in zip(curve(0, 1, 200), (0.1, 0.3, 0.55, 0.9), strict=True)
    ]
    rows, found = (np.array([e[name] for e in tried]) for name in ("num_rows", "found"))
    hits, count = 200 * found + 0.5, 201

    def loss(weights: np.ndarray) -> float:
        line = weights[0] + weights[1] * np.log(rows / 200)
        return -np.sum(hits * stats.norm.logcdf(line) + (count - hits) * stats.norm.logsf(line))

    level, slope = optimize.minimize(loss, [0.0, 1.0], method="Nelder-Mead", tol=1e-12).x
    expected = 200 * np.exp((stats.norm.ppf(0.8) - level) / slope)
    assert probit_root(tried, 0.8)[0] == pytest.approx(expected, rel=1e-5)


def test_shares_that_fall_have_no_root() -> None:
    falling = [{**e, "found": 1 - e["found"]} for e in curve(-12.0, 2.2)]
    with pytest.raises(RowSearchError, match="must rise with the number of rows"):
        probit_root(falling, 0.8)


@pytest.mark.parametrize("enough", [100, 300, 1000])
def test_programs_for_twice_as_many_rows_are_tried_until_the_power_is_surpassed(
    enough: int,
) -> None:
    calls: list[tuple[int, list[int]]] = []

    def simulate(capacity: int, counts: list[int]) -> dict[str, float]:
        calls.append((capacity, counts))
        return {"num_rows": counts[-1], "found": min(counts[-1] / enough, 1.0), "stderr": 0.01}

    capacity = _bracket(simulate, 26, 0.8, 4096)
    assert [size for size, _ in calls] == [2**k for k in range(7, capacity.bit_length())]
    tried = [count for _, counts in calls for count in counts]
    # No number of rows is simulated twice, and each program is used up to its capacity.
    assert tried == sorted(set(tried))
    assert all(counts[-1] == size for size, counts in calls)
    assert 0.82 * enough < capacity
    assert capacity == 128 or capacity // 2 <= 0.82 * enough


PAPER = Config.paper(num_starts=5)


def test_rows_are_found_by_simulation() -> None:
    found = search_rows(
        Effect(size=2.6, share=0.2), key=jax.random.key(0), num_replications=60, config=PAPER
    )
    assert found.num_data_sets == 60 * len(found.tried)
    last = found.tried[-1]
    assert last["found"] == pytest.approx(0.8, abs=5 * np.sqrt(0.16 / 60))
    assert abs(last["num_rows"] - found.num_rows) < 5 * found.standard_error
    shares = [entry["found"] for entry in found.tried]
    assert min(shares) < 0.8 < max(shares)


@pytest.mark.parametrize(
    ("effect", "message"),
    [
        (Effect(size=0.1, share=0.2), r"in at most 4096 rows, but even region and form given"),
        (Effect(size=2.0, share=0.2, absorbed=0.1), "absorbed must be 0"),
        (Effect(size=2.0, share=0.2, cells_in_region=14), "must leave a clean cell of 14"),
    ],
)
def test_searches_without_an_end_are_refused(effect: Effect, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        search_rows(
            effect,
            key=jax.random.key(0),
            num_replications=2,
            config=PAPER,
            most_rows=4096,
        )


@pytest.mark.parametrize("simulator", [effect_simulator, axis_simulator])
@pytest.mark.parametrize("num_terms", [1, 3])
def test_simulated_effects_have_the_planned_size(simulator: Any, num_terms: int) -> None:
    effect = Effect(size=0.7, share=0.3, num_terms=num_terms)
    sample = jax.jit(simulator(effect, 200_000))(jax.random.key(1))
    inside = np.asarray(sample.axis) < effect.share
    assert inside.mean() == pytest.approx(0.3, abs=5 * np.sqrt(0.21 / 200_000))
    squares = np.asarray(sample.discrepancy)[inside] ** 2
    assert squares.mean() == pytest.approx(0.49, abs=5 * squares.std() / np.sqrt(inside.sum()))
    assert not np.any(np.asarray(sample.discrepancy)[~inside])


@pytest.mark.slow
def test_the_rows_of_the_default_mode_have_the_power_that_was_asked_for() -> None:
    effect = Effect(size=1.0, share=0.2)
    found = search_rows(effect, key=jax.random.key(2))
    again = search_rows(effect, key=jax.random.key(3))
    spread = np.hypot(found.standard_error, again.standard_error)
    assert abs(found.num_rows - again.num_rows) < 5 * spread
