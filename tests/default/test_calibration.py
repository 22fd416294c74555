"""Size and power of the default method over replications; the full figures are marked slow."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lisdd_jax import Config, diagnose
from lisdd_jax.results import Verdict
from lisdd_jax.study.engine import run_study
from lisdd_jax.study.experiments.scenarios import oscillator

EDGES = np.linspace(-3.3, 3.3, 15)
CUBIC = 1


def evaluate(config):
    """Metrics of one diagnosis against the truth of its sample."""

    def metrics(sample, key, **_):
        edges = jnp.asarray(EDGES, sample.axis.dtype)
        arrays = sample.design, sample.response, sample.axis, sample.features
        found = diagnose(*arrays, key=key, edges=edges, config=config)
        regions = found.regions
        truth = jnp.minimum(jnp.abs(jnp.concatenate([sample.lower, sample.upper])), 3.3)
        truth = truth * jnp.sign(jnp.concatenate([sample.lower, sample.upper]))
        ends = jnp.concatenate([regions.lower, regions.upper])
        edge_error = jnp.nanmin(
            jnp.where(jnp.isnan(ends)[None], jnp.inf, jnp.abs(truth[:, None] - ends[None])), axis=1
        )
        only_cubic = jnp.arange(sample.features.shape[1]) == CUBIC
        right = jnp.all((regions.support == only_cubic[None]) | ~regions.present[:, None])
        form = jnp.any(regions.present) & right
        discrepancy = found.verdict == Verdict.DISCREPANCY
        testable = ~jnp.isnan(found.cells.p_value)
        return {
            "bias": jnp.abs(found.coefficients[0] - sample.coefficients[0]),
            "form": form,
            "edge_error": jnp.median(edge_error),
            "reject": found.test.reject,
            "clean": found.verdict == Verdict.CLEAN,
            "discrepancy": discrepancy,
            "confident_error": discrepancy & ~form,
            "flag_rate": jnp.sum(found.cells.flagged & testable) / jnp.sum(testable),
            "status": found.status,
        }

    return metrics


def study(num_replications, num_rows, library="six", config=None, **grid):
    simulate = oscillator(num_rows, library)
    config = Config() if config is None else config
    return run_study(
        simulate,
        evaluate(config),
        grid=dict(zip(grid, np.broadcast_arrays(*map(np.atleast_1d, grid.values())), strict=True)),
        num_replications=num_replications,
        key=jax.random.key(2024),
        paired=True,
    )


def worst(result, name, pick=np.min):
    return float(pick(np.asarray(result.mean(name))))


def test_band_is_found_in_every_replication():
    result = study(10, 2000, beta=0.2)
    assert worst(result, "form") == 1.0
    assert worst(result, "discrepancy") == 1.0
    # The mean of 10 absolute errors of a slope fitted on some 1400 rows, standard error 0.006.
    assert worst(result, "bias", np.max) < 0.012


@pytest.mark.slow
def test_published_testbed_at_full_size():
    result = study(200, 6000, beta=0.2)
    assert worst(result, "bias", np.max) <= 0.003
    assert worst(result, "edge_error", np.max) <= 0.005
    assert worst(result, "form") >= 0.99
    assert worst(result, "reject") == 1.0


@pytest.mark.slow
def test_phase_grid():
    widths, betas = np.meshgrid([0.6, 1.0, 1.4], [0.1, 0.15, 0.2, 0.3])
    result = study(200, 6000, beta=betas.ravel(), width=widths.ravel())
    assert worst(result, "form") >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("library", ["eight_linear_cosine", "eight_saturation_sign", "ten"])
def test_distractors_do_not_win(library):
    result = study(200, 6000, library, beta=[0.1, 0.2])
    assert worst(result, "form") >= 0.95


@pytest.mark.slow
def test_most_of_the_axis_may_be_wrong():
    shares, betas = np.meshgrid([0.5, 0.36, 0.25], [0.1, 0.2])
    result = study(200, 6000, beta=betas.ravel(), lower=3.3 * shares.ravel(), width=9.0)
    assert worst(result, "form") >= 0.95
    assert worst(result, "bias", np.max) <= 0.06


@pytest.mark.slow
@pytest.mark.parametrize("num_rows", [150, 600, 6000])
def test_null_is_clean_and_flags_at_the_nominal_rate(num_rows):
    result = study(200, num_rows, beta=0.0)
    assert worst(result, "reject", np.max) <= 0.05
    for alpha in (0.01, 0.05):
        config = Config(alpha_cell=alpha, alpha_search=max(alpha, 0.01))
        rate = worst(study(200, num_rows, beta=0.0, config=config), "flag_rate")
        # Five binomial standard errors of 200 replications of 14 cells.
        assert abs(rate - alpha) <= 5 * np.sqrt(alpha * (1 - alpha) / (200 * 14))
