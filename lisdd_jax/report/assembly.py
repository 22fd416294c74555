"""From the arrays of a diagnosis and the names of a problem to a summary."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from lisdd_jax.library import Library
from lisdd_jax.report import cautions
from lisdd_jax.report.inference import degrees_of_freedom
from lisdd_jax.report.summary import (
    PREDICTION,
    Cell,
    Estimate,
    Evidence,
    NoisePower,
    Region,
    Summary,
    Test,
    interval_words,
)
from lisdd_jax.results import Diagnosis, Verdict
from lisdd_jax.statistics.supports import supports
from lisdd_jax.status import Status
from lisdd_jax.tables.problem import Problem


def summarize(
    diagnosis: Diagnosis, problem: Problem, *, config: Mapping[str, Any], version: str
) -> Summary:
    """Turn a diagnosis of a problem into names and numbers.

    Args:
      diagnosis: what ``diagnose`` made of the arrays of the problem.
      problem: names and rows.
      config: settings of the run; ``max_terms`` among them says how supports are numbered.
      version: of the package.

    Returns:
      The summary.

    Example:
      >>> import numpy as np
      >>> from lisdd_jax import fit
      >>> t = np.linspace(0, 1, 60)
      >>> y = 2 * t + np.where(t > 0.7, 5 * (t - 0.7), 0) + 0.05 * np.sin(997 * t**2)
      >>> found = fit("y ~ t | t", {"t": t, "y": y}, library=["1", "t"])
      >>> summarize(found.arrays, found.problem, config=found.config, version="0").verdict
      'discrepancy'
    """
    found = jax.device_get(diagnosis)
    cells = tuple(_cells(found))
    regions = tuple(_regions(found, problem, cells, int(config["max_terms"])))
    test = _test(found, problem, cells, regions)
    evidence = _evidence(found, problem, cells)
    return Summary(
        verdict=Verdict(int(found.verdict)).name.lower(),
        response=problem.response_name,
        axis=problem.axis_name,
        physics=tuple(_physics(found, problem.physics)),
        degrees=degrees_of_freedom(found, problem),
        scale=float(found.scale),
        regions=regions,
        shared=bool(found.regions.shared),
        evidence=evidence,
        test=test,
        cells=cells,
        rows=problem.rows,
        warnings=tuple(cautions.find(found, problem, regions, test, cells, evidence)),
        notes=problem.notes,
        status=Status(int(found.status)),
        form_status=Status(int(found.form.status)),
        config=config,
        version=version,
    )


def _physics(found: Diagnosis, physics: Library) -> Iterator[Estimate]:
    variances = np.diagonal(found.covariance)
    for name, value, variance in zip(physics.names, found.coefficients, variances, strict=True):
        stderr = math.sqrt(variance) if variance >= 0 else math.nan
        yield Estimate(name=name, coefficient=float(value), stderr=stderr)


def _cells(found: Diagnosis) -> Iterator[Cell]:
    """Cells in order, without those that merging or ties have left without width and rows."""
    table = found.cells
    for k in range(len(table.count)):
        if table.lower[k] == table.upper[k] and table.count[k] == 0:
            continue
        yield Cell(
            lower=float(table.lower[k]),
            upper=float(table.upper[k]),
            count=int(table.count[k]),
            mean=float(table.mean[k]),
            rms=float(table.rms[k]),
            statistic=float(table.statistic[k]),
            p_value=float(table.p_value[k]),
            log_p_value=float(table.log_p_value[k]),
            flagged=bool(table.flagged[k]),
            noisier=bool(table.noisier[k]),
        )


def _regions(
    found: Diagnosis, problem: Problem, cells: tuple[Cell, ...], max_terms: int
) -> Iterator[Region]:
    table = found.regions
    bound = _asks_place(found)
    for k in np.flatnonzero(table.present).tolist():
        support = np.asarray(table.support[k])
        coefficients = np.asarray(table.coefficients[k])
        terms = tuple(
            Estimate(
                name=problem.library.names[j],
                coefficient=float(coefficients[j]),
                stderr=float(table.stderr[k][j]),
            )
            for j in np.flatnonzero(support)
        )
        lower, upper = float(table.lower[k]), float(table.upper[k])
        yield Region(
            axis=problem.axis_name,
            lower=lower,
            upper=upper,
            open_below=bool(table.open_below[k]),
            open_above=bool(table.open_above[k]),
            lower_interval=_pair(table.lower_interval[k]),
            upper_interval=_pair(table.upper_interval[k]),
            interval=interval_words(problem.axis_name, lower, upper, cells),
            count=int(table.count[k]),
            p_value=float(table.p_value[k]),
            log_p_value=float(table.log_p_value[k]),
            same_rows=bool(table.same_rows),
            bound=bound,
            softness=_pair(table.softness[k]),
            lacking=bool(table.lacking[k]),
            adjusted_p_value=float(table.adjusted_p_value[k]),
            terms=terms,
            formula=_signed(problem.library.formula(support, coefficients)) if terms else "",
            equivalent=_equivalent(found, problem.library, support, k, max_terms),
        )


def _evidence(found: Diagnosis, problem: Problem, cells: tuple[Cell, ...]) -> Evidence:
    place, exact, depend = found.place, found.exactness, found.dependence
    share = float(found.rival.share)
    some = share > 0
    rival = zip(problem.physics.names, found.rival.coefficients, strict=True)
    outliers = problem.positions[np.flatnonzero(found.outliers)]
    ends = (float(exact.lower), float(exact.upper))
    names = problem.library.names
    return Evidence(
        place_p_value=float(place.p_value),
        place_log_p_value=float(place.log_p_value),
        place_certified=bool(place.certified),
        exact_p_value=float(exact.p_value),
        exact_log_p_value=float(exact.log_p_value),
        exact_interval=interval_words(problem.axis_name, *ends, cells),
        law_scatter=float(found.law_scatter),
        rival_share=share,
        rival=tuple(
            Estimate(name=name, coefficient=float(value), stderr=math.nan) for name, value in rival
        )
        if some
        else (),
        everywhere=tuple(names[j] for j in np.flatnonzero(found.everywhere)),
        axis_correlation=float(depend.axis_correlation),
        record_correlation=float(depend.record_correlation),
        rows_as_one=float(depend.rows),
        repeated=float(depend.repeated),
        dependent=bool(depend.significant),
        outliers=tuple(outliers.tolist()),
        noise_goes_with=tuple(_noise_powers(found, problem)),
        form_certified=bool(found.form.certified),
    )


def _noise_powers(found: Diagnosis, problem: Problem) -> Iterator[NoisePower]:
    names = [problem.axis_name, *problem.physics.names, PREDICTION]
    for name, (rising, both) in zip(names, np.asarray(found.noise_exponents).tolist(), strict=True):
        if rising or both:
            yield NoisePower(name=name, rising=rising, both_sides=both)


def _asks_place(found: Diagnosis) -> bool:
    """Whether the method has a certificate of the place."""
    return not math.isnan(float(found.place.log_p_value))


def _pair(values: ArrayLike) -> tuple[float, float]:
    first, second = np.asarray(values, float).tolist()
    return first, second


def _signed(formula: str) -> str:
    return f"- {formula[1:]}" if formula.startswith("-") else f"+ {formula}"


def _equivalent(
    found: Diagnosis, library: Library, support: np.ndarray, k: int, max_terms: int
) -> tuple[tuple[str, ...], ...]:
    """Supports as good as the chosen one, by holdout error."""
    table = supports(len(library), max_terms)
    as_good = np.asarray(found.regions.equivalent[k]) & ~(table == support).all(axis=1)
    ranked = sorted(np.flatnonzero(as_good), key=lambda s: float(found.form.errors[s]))
    names = np.asarray(library.names, object)
    return tuple(tuple(names[table[s]]) for s in ranked)


def _test(
    found: Diagnosis, problem: Problem, cells: tuple[Cell, ...], regions: tuple[Region, ...]
) -> Test:
    """The certificate: of the regions themselves where the place was found without halves."""
    test = found.test
    placed = _asks_place(found)
    runs = _runs(np.asarray(test.flagged))
    edges = [(float(found.cells.lower[a]), float(found.cells.upper[b])) for a, b in runs]
    return Test(
        statistic=float(test.statistic),
        df_num=float(test.df_num),
        df_den=float(test.df_den),
        p_value=float(test.p_value),
        log_p_value=float(test.log_p_value),
        p_value_robust=float(test.p_value_robust),
        reject=bool(test.reject),
        terms=tuple(problem.library.names[j] for j in np.flatnonzero(test.support)),
        intervals=tuple(
            [region.interval for region in regions]
            if placed
            else [interval_words(problem.axis_name, *ends, cells) for ends in edges]
        ),
        same_cells=placed or bool(np.array_equal(test.flagged, found.cells.flagged)),
        status=Status(int(test.status)),
    )


def _runs(flagged: np.ndarray) -> list[tuple[int, int]]:
    """First and last cell of every run of flagged cells."""
    padded = np.concatenate([[False], flagged, [False]]).astype(int)
    steps = np.diff(padded)
    starts, ends = np.flatnonzero(steps == 1), np.flatnonzero(steps == -1) - 1
    return list(zip(starts.tolist(), ends.tolist(), strict=True))
