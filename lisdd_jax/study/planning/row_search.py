r"""Rows that a mode needs to find an effect, by simulation.

There is no formula for a method that searches for regime, place and form. So data sets are drawn at
several numbers of rows around the analytic plan, and the share in which the effect is found is
fitted by

.. math:: P(\text{found} \mid n) = \Phi(a + b \log n),

whose root at the power wanted is the number of rows. Its standard error is that of the maximum
likelihood estimate, by the delta method.
"""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from lisdd_jax.config import Config, PublishedConfig
from lisdd_jax.results import Verdict
from lisdd_jax.study.engine import run_study
from lisdd_jax.study.experiments import pipeline
from lisdd_jax.study.experiments.scenarios import Sample
from lisdd_jax.study.planning.power import Effect, plan_rows
from lisdd_jax.study.planning.power_simulation import (
    axis_simulator,
    check_cells,
    edges_around,
    effect_simulator,
)

_LEAST_ROWS = 32
# One program serves all numbers of rows up to its capacity, the rest being masked out.
_STEPS = (0.25, 0.35, 0.5, 0.7, 1.0)


class RowSearchError(ValueError):
    """No number of rows within reach finds the effect with the power wanted."""


@dataclass(frozen=True, kw_only=True)
class SimulatedPlan:
    """How many rows a mode needs.

    Attributes:
      power: the power wanted.
      num_rows: estimate of the least number of rows that reaches it.
      standard_error: of that estimate, from the number of data sets.
      tried: per number of rows the share of data sets in which the effect was found, its standard
        error and their number, as dicts with ``num_rows``, ``found``, ``stderr`` and ``count``.
    """

    power: float
    num_rows: int
    standard_error: float
    tried: list[dict[str, float]]

    @property
    def num_data_sets(self) -> int:
        """Data sets drawn in all."""
        return int(sum(entry["count"] for entry in self.tried))


@lru_cache
def _search_evaluator(
    effect: Effect, config: Config | PublishedConfig
) -> Callable[..., dict[str, jax.Array]]:
    """Whether a discrepancy is certified in a region that overlaps the true one."""

    def evaluate(
        sample: Sample, key: jax.Array, num_rows: jax.Array, **_: Any
    ) -> dict[str, jax.Array]:
        used = jnp.arange(len(sample.response)) < num_rows
        edges = edges_around(effect, config.num_cells)
        found = pipeline.diagnose_sample(key, sample, config=config, edges=edges, mask=used)
        regions = found.regions
        overlaps = regions.present & (regions.lower < sample.upper) & (regions.upper > sample.lower)
        certified = found.verdict == Verdict.DISCREPANCY
        return {"found": certified & jnp.any(overlaps), "status": found.status}

    return evaluate


def search_rows(
    effect: Effect,
    *,
    power: float = 0.8,
    along_axis: bool = True,
    key: jax.Array,
    num_replications: int = 200,
    config: Config | PublishedConfig | None = None,
    most_rows: int = 1 << 15,
    **options: Any,
) -> SimulatedPlan:
    """Estimate the rows that a mode needs, by simulation.

    An effect counts as found where the verdict is a discrepancy and a region overlaps the true one.
    Data sets have the effect's numbers of coefficients and terms, three more candidates, standard
    normal noise, and cells of which some make up the region exactly.

    Args:
      effect: what is to be found.
      power: probability of finding it.
      along_axis: whether the missing terms are functions of the axis, or of variables of their own,
        whose mean in every cell is zero.
      key: typed key.
      num_replications: data sets per number of rows; about six numbers of rows are tried.
      config: settings, whose level is set to that of the effect; the library's default where None.
      most_rows: give up beyond.
      options: of ``run_study``.

    Returns:
      A ``SimulatedPlan``.

    Raises:
      RowSearchError: the power is not reached within ``most_rows``.
      ValueError: an argument is out of range, or the effect cannot be simulated.

    References:
      Finney (1971), Probit Analysis, chapter 3: the fit, and the error of its root.
    """
    config = Config() if config is None else config
    config = dataclasses.replace(config, alpha=effect.alpha)
    check_cells(effect, config)
    # About so many rows certify region and form where both are known.
    least = plan_rows(effect, power=power).num_rows_known_region
    simulator = axis_simulator if along_axis else effect_simulator
    tried: list[dict[str, float]] = []

    def simulate(capacity: int, counts: list[int]) -> dict[str, float]:
        """Try these numbers of rows and return the entry of the last."""
        result = run_study(
            simulator(effect, capacity),
            _search_evaluator(effect, config),
            grid={"num_rows": counts},
            num_replications=num_replications,
            # The cells of a study have keys by their number, and this is one of several.
            key=jax.random.fold_in(key, len(tried)),
            **options,
        )
        found = [cell.metrics["found"] for cell in result.cells]
        for count, share in zip(counts, found, strict=True):
            entry = {"found": share.mean, "stderr": share.standard_error, "count": share.count}
            tried.append({"num_rows": count, **entry})
        return tried[-1]

    capacity = _bracket(simulate, least, power, most_rows)
    while (fewest := min(tried, key=_rows_of))["found"] > power and _rows_of(fewest) > _LEAST_ROWS:
        simulate(capacity, [max(int(_rows_of(fewest)) // 2, _LEAST_ROWS)])
    middle, _ = probit_root(tried, power)
    simulate(capacity, [min(max(round(middle), _LEAST_ROWS), capacity)])
    # A line in log n holds nearby only.
    near = [entry for entry in tried if middle / 3 < _rows_of(entry) < 3 * middle]
    num_rows, standard_error = probit_root(near if len(near) > 1 else tried, power)
    return SimulatedPlan(
        power=power, num_rows=math.ceil(num_rows), standard_error=standard_error, tried=tried
    )


def _rows_of(entry: dict[str, float]) -> float:
    return entry["num_rows"]


def _bracket(
    simulate: Callable[[int, list[int]], dict[str, float]],
    least: int,
    power: float,
    most_rows: int,
) -> int:
    """Try more and more rows until the power is surpassed, by more than chance.

    Returns:
      The capacity of the program that served the last numbers of rows.
    """
    capacity = 1 << (max(4 * least, _LEAST_ROWS) - 1).bit_length()
    last: dict[str, float] = {"num_rows": 0, "found": 0.0, "stderr": 0.0}
    while capacity <= most_rows:
        counts = [int(step * capacity) for step in _STEPS if step * capacity > last["num_rows"]]
        last = simulate(capacity, counts)
        if last["found"] - 2 * last["stderr"] > power:
            return capacity
        if last["found"] < 0.1 * power and capacity >= 8 * least:
            break
        capacity *= 2
    seen = (
        f"with {last['num_rows']:.0f} rows it was found in {last['found']:.3f} of"
        f" {last['count']:.0f} data sets"
        if last["num_rows"]
        else f"even region and form given it takes {least} rows"
    )
    raise RowSearchError(
        f"the effect must be found with power {power:g} in at most {most_rows} rows, but {seen}"
    )


def probit_root(tried: list[dict[str, float]], power: float) -> tuple[float, float]:
    """Number of rows at which a fitted probit curve reaches a power, and its standard error.

    Args:
      tried: entries of ``SimulatedPlan.tried``.
      power: the power.

    Returns:
      The number and its standard error.

    Raises:
      RowSearchError: the shares do not rise with the number of rows.
    """
    rows, share, count = (
        np.array([entry[name] for entry in tried]) for name in ("num_rows", "found", "count")
    )
    centre = np.mean(np.log(rows))
    columns = np.stack([np.ones(len(rows)), np.log(rows) - centre], axis=1)
    # Half a data set is added to both outcomes, so that shares of 0 and 1 have a finite fit.
    hits, count = share * count + 0.5, count + 1
    weights = np.linalg.lstsq(columns, special.ndtri(hits / count), rcond=None)[0]
    for _ in range(50):
        line = columns @ weights
        rate = np.clip(special.ndtr(line), 1e-12, 1 - 1e-12)
        density = np.exp(-0.5 * line**2) / math.sqrt(2 * math.pi)
        information = columns.T @ ((count * density**2 / (rate * (1 - rate)))[:, None] * columns)
        score = columns.T @ (density * (hits - count * rate) / (rate * (1 - rate)))
        step = np.linalg.solve(information, score)
        weights = weights + step
        if np.max(np.abs(step)) < 1e-10:
            break
    level, slope = weights
    if not (slope > 0 and np.max(np.abs(step)) < 1e-10):
        raise RowSearchError(
            "the share of data sets in which the effect is found must rise with the number of rows,"
            " but does not; simulate more data sets"
        )
    target = special.ndtri(power)
    root = math.exp(centre + (target - level) / slope)
    gradient = root * np.array([-1 / slope, -(target - level) / slope**2])
    return root, float(np.sqrt(gradient @ np.linalg.solve(information, gradient)))
