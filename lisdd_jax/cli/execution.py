"""Running a diagnosis on the rows of a problem."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lisdd_jax import diagnosis
from lisdd_jax.config import Config, PublishedConfig
from lisdd_jax.results import Diagnosis
from lisdd_jax.statistics import partition
from lisdd_jax.tables.arguments import optional_arguments
from lisdd_jax.tables.problem import Problem
from lisdd_jax.tables.spec import Spec


def run(data: Problem, plan: Spec, config: Config | PublishedConfig) -> Diagnosis:
    """Diagnose the rows of a problem.

    The rows are padded to one of a few lengths, so that tables of similar size share one compiled
    program; a mask keeps the padding out.

    Args:
      data: the problem.
      plan: its seed and cells.
      config: settings.

    Returns:
      What ``lisdd_jax.diagnose`` returns.

    Raises:
      ProblemError: the diagnosis cannot take a part of the problem into account.
    """
    num_rows = len(data.response)
    padding = padded_length(num_rows) - num_rows
    mask = np.arange(num_rows + padding) < num_rows

    def pad(values: np.ndarray) -> np.ndarray:
        # Repeating a row, unlike zeros, leaves the range of every column as it is.
        return np.pad(values, [(0, padding)] + [(0, 0)] * (values.ndim - 1), mode="edge")

    axis = pad(data.axis)
    optional = optional_arguments(data, diagnosis.diagnose)
    return diagnosis.diagnose(
        pad(data.design),
        pad(data.response),
        axis,
        pad(data.features),
        key=jax.random.key(plan.seed or 0),
        config=config,
        edges=_edges(axis, mask, plan, config),
        mask=mask,
        **{name: pad(values) for name, values in optional.items()},
    )


def padded_length(num_rows: int) -> int:
    """The next length of the form ``2^k`` or ``3 2^k``, at least 64.

    Example:
      >>> [padded_length(n) for n in (3, 65, 97, 244)]
      [64, 96, 128, 256]
    """
    power = 64
    while power < num_rows:
        power *= 2
    shorter = power * 3 // 4
    return shorter if power > 64 and shorter >= num_rows else power


def _edges(axis: np.ndarray, mask: np.ndarray, plan: Spec, config: Config | PublishedConfig) -> Any:
    """Cell edges; None leaves equal widths to the library."""
    if not (plan.edges or plan.quantile_cells or plan.min_rows_per_cell):
        return None
    values, used = jnp.asarray(axis), jnp.asarray(mask)
    if plan.edges:
        edges = jnp.asarray(plan.edges, values.dtype)
    elif plan.quantile_cells:
        edges = partition.quantile_edges(values, plan.quantile_cells, used)
    else:
        edges = partition.equal_width_edges(values, config.num_cells, used)
    if plan.min_rows_per_cell:
        edges = partition.merge_small_cells(values, edges, used, plan.min_rows_per_cell)
    return edges
