"""The published method on one data set: all stages, as printed.

The physics is fitted and the cells are flagged on all rows. For the certificate the same stages run
on a random half, and the other half tests what they chose.

References:
  docs/method.md, algorithm 1.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lisdd_jax.config import PublishedConfig
from lisdd_jax.dataset import Dataset
from lisdd_jax.numerics.compilation import compiled
from lisdd_jax.numerics.hosted import is_known
from lisdd_jax.numerics.precision import full_precision
from lisdd_jax.published.certificate import certify
from lisdd_jax.published.form import Terms, choose_each, choose_terms, make_form
from lisdd_jax.published.physics import Physics, fit_about, fit_each, search_start
from lisdd_jax.published.regions import make_cells, make_regions
from lisdd_jax.results import (
    Certificate,
    Dependence,
    Diagnosis,
    Exactness,
    Form,
    Place,
    Rival,
    Verdict,
    verdict_unless_failed,
)
from lisdd_jax.statistics.splits import Halves, random_halves
from lisdd_jax.statistics.trimmed.search import FULL_SEARCH_ROWS
from lisdd_jax.status import Status, is_failure


def decide(status: jax.Array, form: Form, test: Certificate, flagged: jax.Array) -> jax.Array:
    """The verdict of a diagnosis.

    Args:
      status: of the stages before the form.
      form: the missing mechanism.
      test: the certificate.
      flagged: ``(R,)`` bool, cells called discrepant on all rows.

    Returns:
      int32, a ``Verdict``.
    """
    any_flagged = jnp.any(flagged)
    found = jnp.where(test.reject, int(Verdict.DISCREPANCY), int(Verdict.NOT_CERTIFIED))
    found = jnp.where(is_failure(form.status), int(Verdict.NOT_IDENTIFIABLE), found)
    verdict = jnp.where(any_flagged | test.reject, found, int(Verdict.CLEAN))
    # A certificate for a region that the full data do not show is no certificate of the report.
    verdict = jnp.where(test.reject & ~any_flagged, int(Verdict.NOT_CERTIFIED), verdict)
    # Half of the rows could not even be fitted, so nothing was tried on them.
    untried = test.status == Status.TOO_FEW_ROWS.value
    verdict = jnp.where(untried, int(Verdict.INSUFFICIENT_DATA), verdict)
    return verdict_unless_failed(status, verdict)


def _not_asked(data: Dataset, lower: jax.Array) -> dict[str, Any]:
    """Answers to what only the default method asks: unknown; ``lower (K,)`` of the regions."""
    dtype = data.response.dtype
    unknown, no = jnp.full((), jnp.nan, dtype), jnp.zeros((), bool)
    return {
        "place": Place(
            p_value=unknown,
            log_p_value=unknown,
            certified=no,
            region_log_p_value=jnp.full_like(lower, jnp.nan),
        ),
        "exactness": Exactness(
            statistic=unknown, p_value=unknown, log_p_value=unknown, lower=unknown, upper=unknown
        ),
        "law_scatter": unknown,
        "rival": Rival(
            share=unknown,
            coefficients=jnp.full(data.design.shape[1], jnp.nan, dtype),
            gap=unknown,
        ),
        "everywhere": jnp.zeros(data.features.shape[1], bool),
        "dependence": Dependence(
            axis_correlation=unknown,
            record_correlation=unknown,
            rows=unknown,
            repeated=unknown,
            significant=no,
        ),
        "outliers": jnp.zeros(data.response.shape, bool),
        "row_noise": jnp.ones(data.response.shape, dtype),
        "noise_exponents": jnp.zeros((data.design.shape[1] + 2, 2), dtype),
    }


class _Sample(NamedTuple):
    """Keys of the starts, and of the choice of terms, for all rows and for a half; the half.

    Attributes:
      fits, choices: two typed keys each.
      halves: of the rows.
      half: the rows of the first.
    """

    fits: tuple[jax.Array, ...]
    choices: tuple[jax.Array, ...]
    halves: Halves
    half: Dataset


@compiled(static_argnames=("pad",))
@full_precision
def _draw_half(key: jax.Array, data: Dataset, pad: bool) -> _Sample:
    """Draw a half of the rows; ``pad`` fills it up to the shape of all."""
    # One call for all stages: every call of the generator costs time to compile.
    keys = jax.random.split(key, 5)
    halves = random_halves(keys[4], data.mask, data.block)
    rows, used = halves.rows[0], halves.used[0]
    num_rows, length = data.mask.shape[0], rows.shape[0]
    # Starts are judged in another way on few rows, which padding is not to change.
    if pad and (num_rows > FULL_SEARCH_ROWS) == (length > FULL_SEARCH_ROWS):
        rows, used = (jnp.pad(part, (0, num_rows - length)) for part in (rows, used))
    return _Sample((keys[0], keys[2]), (keys[1], keys[3]), halves, data.take(rows, used))


_search = compiled(full_precision(search_start))
_fit = compiled(full_precision(fit_about))
_choose = compiled(full_precision(choose_terms))


def _without_terms(data: Dataset) -> Dataset:
    """What the physics depends on, so that data sets with other libraries share its program."""
    none: Any = np.zeros((data.mask.shape[0], 0), data.features.dtype)
    return dataclasses.replace(data, features=none, block=None)


def run(key: jax.Array, data: Dataset, before: jax.Array, config: PublishedConfig) -> Diagnosis:
    """Diagnose a data set.

    Args:
      key: typed key of starts and splits.
      data: the data set.
      before: its status.
      config: settings, numbers of the dtype of the data.

    Returns:
      A ``Diagnosis``.
    """
    # Rows have been divided by it: without it, weighted data share the programs of others.
    data = dataclasses.replace(data, noise_scale=None)
    # Where values are known all rows and the half go through one program of each stage, which is
    # compiled once; in a trace both run each stage as one batch.
    known = is_known((key, data, config))
    drawn = _draw_half(key, data, pad=known)
    samples = [data, drawn.half]
    if known:
        bare = [_without_terms(part) for part in samples]
        starts = [_search(key, part, config) for key, part in zip(drawn.fits, bare, strict=True)]
        physics = [
            _fit(part, start, before, config) for part, start in zip(bare, starts, strict=True)
        ]
        parts = zip(drawn.choices, samples, physics, strict=True)
        terms = [_choose(*part, config) for part in parts]
    else:
        physics = fit_each(drawn.fits, samples, before, config)
        terms = choose_each(drawn.choices, samples, physics, config)
    return _conclude(data, drawn.halves, physics, terms, config)


def make_ahead(key: jax.Array, data: Dataset, before: jax.Array, config: PublishedConfig) -> None:
    """Make the programs of ``run`` in the background, from shapes in place of arrays."""
    data = dataclasses.replace(data, noise_scale=None)
    drawn = _draw_half.ahead(key, data, pad=True)
    samples, physics, terms = [data, drawn.half], [], []
    for part, start, choice in zip(samples, drawn.fits, drawn.choices, strict=True):
        bare = _without_terms(part)
        found = _search.ahead(start, bare, config)
        physics.append(_fit.ahead(bare, found, before, config))
        terms.append(_choose.ahead(choice, part, physics[-1], config))
    _conclude.ahead(data, drawn.halves, physics, terms, config)


@compiled
@full_precision
def _conclude(
    data: Dataset,
    halves: Halves,
    physics: Sequence[Physics],
    terms: Sequence[Terms],
    config: PublishedConfig,
) -> Diagnosis:
    """The results from the stages on all rows and on the first half."""
    regime = physics[0].regime
    form = make_form(physics[0], terms[0], jnp.any(regime.flagged & (regime.count > 0)))
    test = certify(data, halves, physics[1], terms[1], config)
    regions = make_regions(data, regime, form)
    return Diagnosis(
        coefficients=regime.coefficients,
        covariance=regime.covariance,
        scale=regime.scale,
        cells=make_cells(data, regime),
        regions=regions,
        form=dataclasses.replace(form, certified=test.reject),
        test=test,
        **_not_asked(data, regions.lower),
        num_rows=data.num_rows,
        num_iterations=regime.num_iterations,
        verdict=decide(regime.status, form, test, regime.flagged),
        status=regime.status,
    )
