"""Running a diagnosis as a specification asks for it."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from lisdd_jax.config import Config, PublishedConfig
from lisdd_jax.fitting.execution import Diagnosed, diagnose_problem
from lisdd_jax.statistics import partition
from lisdd_jax.tables.problem import Problem
from lisdd_jax.tables.spec import Spec


def run(data: Problem, plan: Spec, config: Config | PublishedConfig) -> Diagnosed:
    """Diagnose the rows of a problem.

    Args:
      data: the problem.
      plan: its seed and cells.
      config: settings.

    Raises:
      ProblemError: no diagnosis can be made from the problem, or the method cannot take a part of
        it into account.
    """
    edges = _edges(data.axis, plan, config)
    return diagnose_problem(data, config, seed=plan.seed or 0, edges=edges)


def _edges(axis: np.ndarray, plan: Spec, config: Config | PublishedConfig) -> Any:
    """Cell edges; None leaves equal widths to the library."""
    if not (plan.edges or plan.quantile_cells or plan.min_rows_per_cell):
        return None
    values = jnp.asarray(axis)
    used = jnp.ones(values.shape, bool)
    if plan.edges:
        edges = jnp.asarray(plan.edges, values.dtype)
    elif plan.quantile_cells:
        edges = partition.quantile_edges(values, plan.quantile_cells, used)
    else:
        edges = partition.equal_width_edges(values, config.num_cells, used)
    if plan.min_rows_per_cell:
        edges = partition.merge_small_cells(values, edges, used, plan.min_rows_per_cell)
    return edges
