"""One data set through all stages of a method: where, what, whether, and a verdict."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from lisdd_jax import dataset
from lisdd_jax.config import Config, PublishedConfig, check_config
from lisdd_jax.default import method as default
from lisdd_jax.default import programs
from lisdd_jax.numerics.compilation import (
    MOST_ROWS_QUICK,
    compiled,
    describe_call,
    made_ahead,
)
from lisdd_jax.numerics.hosted import is_known
from lisdd_jax.numerics.memory import return_free_memory
from lisdd_jax.numerics.precision import full_precision
from lisdd_jax.published import method as published
from lisdd_jax.results import Diagnosis
from lisdd_jax.statistics import padding

METHODS: dict[type, Callable[..., Diagnosis]] = {
    Config: default.run,
    PublishedConfig: published.run,
}
"""What runs under settings of a type."""

_MAKE_AHEAD: dict[type, Callable[..., None]] = {
    Config: programs.make_ahead,
    PublishedConfig: published.make_ahead,
}
"""What makes its programs in the background, from shapes."""


def run(key: jax.Array, arrays: dict[str, Any], config: Config | PublishedConfig) -> Diagnosis:
    """The traced body of ``diagnose``.

    Args:
      key: typed key.
      arrays: arguments of ``dataset.prepare`` by name.
      config: settings, numbers of the dtype of the arrays.

    Returns:
      A ``Diagnosis``.
    """
    data, status = dataset.prepare(**arrays)
    return METHODS[type(config)](key, data, status, config)


_diagnose = jax.jit(full_precision(run))
_prepare = compiled(full_precision(dataset.prepare))


def _plan(key: jax.Array, arrays: dict[str, Any], config: Config | PublishedConfig) -> None:
    """Make the programs of ``_run_once`` in the background."""
    _MAKE_AHEAD[type(config)](key, *_prepare.ahead(**arrays), config)


def _run_once(
    key: jax.Array, arrays: dict[str, Any], config: Config | PublishedConfig
) -> Diagnosis:
    """``run`` where all values are known: rows are padded, so that near tables share programs.

    Stages are compiled one by one, and quickly where rows are few; small work of the default method
    runs in NumPy. ``arrays`` is emptied, so that none of its rows is held longer than it serves.
    """
    num_rows = arrays["response"].shape[0]
    # Rows are dropped as soon as they stand in another form: of many, each copy counts.
    given, arrays = arrays, padding.pad_rows(arrays)
    given.clear()
    task = describe_call(run, (key, arrays, config), {})
    # As silent as a trace: what is undefined ends in a status.
    with made_ahead(task, lambda: _plan(key, arrays, config)), np.errstate(all="ignore"):
        prepared = list(_prepare(**arrays))
        arrays.clear()
        status = prepared.pop()
        found = METHODS[type(config)](key, prepared.pop(), status, config)
    per_row: dict[str, Any] = {
        name: np.asarray(getattr(found, name))[:num_rows] for name in ("outliers", "row_noise")
    }
    found = dataclasses.replace(found, **per_row)
    if num_rows > MOST_ROWS_QUICK:
        # The allocator keeps what each pass over many rows has done with, three times the data.
        return_free_memory()
    return jax.device_put(found)


def diagnose(
    design: Any,
    response: Any,
    axis: Any,
    features: Any,
    *,
    key: jax.Array,
    config: Config | PublishedConfig | None = None,
    edges: Any = None,
    mask: Any = None,
    block: Any = None,
    trusted: Any = None,
    noise_scale: Any = None,
) -> Diagnosis:
    """Find where a trusted model is wrong, which term is missing there, and whether it is real.

    The model is ``response = design coefficients + 1[axis in region] features weights + noise``.

    Differentiable in all arrays and edges, forward and reverse: the derivative is that of the
    selected estimator, with trimmed rows, flags, supports and places of ends held as they are; in
    the default method the evidence of places, held-out errors, and what the scatter of the law and
    unnoticed changes of it add to the errors of estimates are held too.

    Args:
      design: ``(n, p)`` known regressors of the trusted physics.
      response: ``(n,)`` measurements.
      axis: ``(n,)`` operating variable along which the model may fail.
      features: ``(n, L)`` candidate terms.
      key: typed key of starts and splits of the published method; the default one draws nothing.
      config: settings, whose type chooses the method: ``Config()``, the default where None, or
        ``Config.paper()`` for the published one.
      edges: ``(R + 1,)`` non-decreasing cell edges; equal widths over the rows in use where None.
      mask: ``(n,)`` bool, rows to use; all where None.
      block: ``(n,)`` integer labels; rows of one label depend on each other, and no split
        divides them. Independent rows where None.
      trusted: ``(n,)`` bool, rows on which the law is vouched for (default method).
      noise_scale: ``(n,)`` relative measurement errors, positive: noise of a row is so many times
        ``Diagnosis.scale``. One for all where None. Residuals, statistics and errors of the result
        are those of the rows divided by it; coefficients and predictions are in the units given.

    Returns:
      A ``Diagnosis``; ``status`` and ``verdict`` say what could not be decided, and the estimates
      concerned are NaN. Under a trace, where values cannot be refused, rows outside the edges are
      left out under the note ``ROWS_OUTSIDE_EDGES``, and values that are not finite fail.

    Raises:
      ValueError, TypeError: shapes, types or concrete values do not fit, or ``trusted`` is given to
        the published method.

    Example:
      >>> import numpy as np
      >>> from lisdd_jax import Verdict
      >>> t = np.linspace(0.0, 1.0, 60)
      >>> y = 2 * t + np.where(t > 0.7, 5 * (t - 0.7), 0.0) + 0.05 * np.sin(997 * t**2)
      >>> columns = np.stack([np.ones(60), t], axis=1)
      >>> found = diagnose(columns, y, t, columns, key=jax.random.key(0))
      >>> Verdict(int(found.verdict)).name, round(float(found.regions.lower[0]), 1)
      ('DISCREPANCY', 0.7)

    References:
      Wang, Localized and identifiable discovery of model discrepancy, algorithm 1.
    """
    config = check_config(config)
    if trusted is not None and isinstance(config, PublishedConfig):
        raise ValueError(
            "trusted must be None under the published method, which has no use for trusted rows;"
            " use settings of the default method, lisdd_jax.Config(...)"
        )
    per_row = {"mask": mask, "block": block, "trusted": trusted, "noise_scale": noise_scale}
    key, arrays, config = dataset.check_call(
        key, config, design, response, axis, features, edges=edges, **per_row
    )
    diagnosed = _run_once if is_known((key, arrays, config)) else _diagnose
    return diagnosed(key, arrays, config)
