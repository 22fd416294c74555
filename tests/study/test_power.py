"""Power plans against SciPy, against themselves, and against simulation."""

import jax
import numpy as np
import pytest
from scipy import stats

from lisdd_jax.study.planning.power import (
    Effect,
    certificate_power,
    localization_power,
    plan_rows,
    power_curve,
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
        ({"num_terms": 0}, "num_terms must be a whole number of at least 1, got 0"),
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
        power_simulation.simulator(Effect(size=0.5, share=0.2, absorbed=0.3), 100)


@pytest.mark.parametrize("absorbed", [0.0, 0.1])
def test_simulated_certificate_has_the_planned_power(absorbed: float) -> None:
    effect = Effect(size=0.6, share=0.25, absorbed=absorbed)
    num_rows, num_replications = plan_rows(effect).num_rows_known_region, 120
    result = power_simulation.simulate_power(
        effect, num_rows, key=jax.random.key(0), num_replications=num_replications
    )
    expected = certificate_power(effect, num_rows)
    # Five binomial standard errors; the design is random where the plan takes its expectation.
    error = np.sqrt(expected * (1 - expected) / num_replications)
    assert result.mean("certificate")[0] == pytest.approx(expected, abs=5 * error + 0.01)


def test_layout_puts_whole_cells_in_the_region() -> None:
    edges = power_simulation.layout(Effect(size=0.5, share=0.3, cells_in_region=2), 14)
    assert edges.shape == (15,)
    np.testing.assert_allclose(np.asarray(edges)[[0, 1, 2, 14]], [0.0, 0.15, 0.3, 1.0])
