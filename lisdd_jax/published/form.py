"""The missing mechanism: every support fitted and scored on halves of the rows of the regions.

References:
  docs/method.md, equations 9 to 11.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax.config import PublishedConfig
from lisdd_jax.dataset import Dataset
from lisdd_jax.numerics.batches import each
from lisdd_jax.published.physics import Physics
from lisdd_jax.results import Form
from lisdd_jax.statistics import half_sums, holdout
from lisdd_jax.status import Status, first_failure, is_failure, status_if


class Terms(NamedTuple):
    """The support chosen by holdout, and its terms fitted to all rows of the regions."""

    selection: holdout.Selection
    fit: holdout.TermFit


def choose_each(
    keys: Sequence[jax.Array],
    samples: Sequence[Dataset],
    found: Sequence[Physics],
    config: PublishedConfig,
) -> list[Terms]:
    """Choose the terms of several samples.

    Args:
      keys: as many typed keys, of the halves.
      samples: as many data sets, which may differ in their numbers of rows.
      found: the physics of each.
      config: settings, numbers of the dtype of the data.

    Returns:
      ``Terms`` for each.
    """
    sums = [
        half_sums.sum_halves(
            key,
            data.features,
            physics.residuals,
            data.in_cells(physics.regime.flagged),
            data.block,
        )
        for key, data, physics in zip(keys, samples, found, strict=True)
    ]
    chosen = each(lambda part: holdout.choose(part, config.max_terms, config.tolerance), sums)
    return [Terms(*pair) for pair in chosen]


def choose_terms(key: jax.Array, data: Dataset, found: Physics, config: PublishedConfig) -> Terms:
    """``choose_each`` for one sample."""
    return choose_each([key], [data], [found], config)[0]


def make_form(physics: Physics, terms: Terms, some_rows: jax.Array) -> Form:
    """The reported form; ``some_rows`` says whether flagged cells hold any row."""
    chosen, before = terms.selection, physics.regime.status
    nothing = ~some_rows
    # Where nothing is flagged there is nothing to select, which is no failure of the selection.
    status = jnp.where(
        nothing & ~is_failure(before),
        jnp.int32(Status.NOTHING_FLAGGED),
        first_failure(before, status_if(nothing, Status.NOTHING_FLAGGED), chosen.status),
    )
    return Form(
        support=chosen.support & ~nothing,
        coefficients=terms.fit.coefficients,
        stderr=terms.fit.stderr,
        error=chosen.error,
        errors=chosen.errors,
        equivalent=chosen.equivalent & ~nothing,
        certified=jnp.zeros((), bool),
        status=status,
    )
