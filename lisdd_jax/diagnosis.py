"""One data set through all stages: where, what, whether, and a verdict."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax import (
    clean_regime,
    detection,
    localization,
    partition,
    selection,
    trimming,
    validation,
)
from lisdd_jax.config import Config
from lisdd_jax.numerics import least_squares, order
from lisdd_jax.numerics.precision import full_precision
from lisdd_jax.results import Cells, Certificate, Diagnosis, Form, Regions, Verdict
from lisdd_jax.status import Status, first_failure, is_failure, status_if


class _Data(NamedTuple):
    """Rows as the stages use them; ``basis`` and ``centered`` are design and response in a frame."""

    design: jax.Array
    response: jax.Array
    axis: jax.Array
    features: jax.Array
    mask: jax.Array
    cell: jax.Array
    edges: jax.Array
    frame: least_squares.Frame
    basis: jax.Array
    centered: jax.Array
    level: jax.Array


class _Stages(NamedTuple):
    """Stages 1 to 3 on a subset of the rows."""

    regime: clean_regime.CleanRegime
    selection: selection.Selection
    inside: jax.Array
    status: jax.Array


def _prepare(
    design: jax.Array,
    response: jax.Array,
    axis: jax.Array,
    features: jax.Array,
    edges: jax.Array,
    mask: jax.Array,
) -> tuple[_Data, jax.Array]:
    finite = jnp.isfinite(response) & jnp.isfinite(axis)
    finite = finite & jnp.all(jnp.isfinite(design), 1) & jnp.all(jnp.isfinite(features), 1)
    nonfinite = jnp.any(mask & ~finite)
    cell = partition.cell_index(axis, edges, mask & finite)
    mask = cell < edges.shape[0] - 1
    design = jnp.where(mask[:, None], design, 0.0)
    response = jnp.where(mask, response, 0.0)
    features = jnp.where(mask[:, None], features, 0.0)
    frame = least_squares.whiten(design, response, mask)
    status = first_failure(
        status_if(nonfinite, Status.NONFINITE_INPUT),
        status_if(jnp.sum(mask) <= design.shape[1], Status.TOO_FEW_ROWS),
        status_if(~jnp.all(frame.independent), Status.RANK_DEFICIENT_DESIGN),
    )
    data = _Data(
        design=design,
        response=response,
        axis=axis,
        features=features,
        mask=mask,
        cell=cell,
        edges=edges,
        frame=frame,
        basis=frame.to_basis(design),
        centered=frame.center_response(design, response),
        level=jnp.max(jnp.abs(response)),
    )
    return data, status


def _run_stages(key: jax.Array, data: _Data, mask: jax.Array, config: Config) -> _Stages:
    """Trimmed start, clean regime, form by holdout, on the rows in ``mask``."""
    key_start, key_half = jax.random.split(key)
    num_cells = data.edges.shape[0] - 1
    initial, _, start_status = trimming.search(
        key_start,
        data.basis,
        data.centered,
        mask,
        config.trim,
        num_starts=config.num_starts,
        num_candidates=min(10, config.num_starts),
    )
    initial = jax.lax.stop_gradient(initial)
    rows = clean_regime.make_rows(
        data.basis, data.centered, mask, data.cell, initial, num_cells, data.level
    )
    alpha_cell = jnp.asarray(config.alpha_cell, data.response.dtype)
    found = clean_regime.search(rows, alpha_cell, config.max_iterations)
    regime = clean_regime.summarize(data.frame, initial, rows, found)
    inside = mask & jnp.append(regime.flagged, False)[data.cell]
    residuals = _residuals(data, regime)
    fit_half = order.random_half(key_half, inside)
    form = selection.select(
        data.features,
        residuals,
        fit_half,
        inside & ~fit_half,
        config.max_terms,
        jnp.asarray(config.tolerance, residuals.dtype),
    )
    too_few = jnp.sum(mask) <= data.design.shape[1] + 1
    status = first_failure(
        status_if(too_few, Status.TOO_FEW_ROWS), start_status, regime.status
    )
    return _Stages(regime, form, inside, status)


def _residuals(data: _Data, regime: clean_regime.CleanRegime) -> jax.Array:
    """Residuals of the trusted physics, taken in the frame so that offsets do not cancel."""
    solution = data.frame.solution(regime.coefficients)
    residuals = data.centered - data.basis @ solution
    return jnp.where(data.mask & jnp.isfinite(residuals), residuals, 0.0)


def _fit_form(data: _Data, stages: _Stages) -> Form:
    """The chosen terms refitted on all rows of the region, with standard errors."""
    chosen = stages.selection
    residuals = _residuals(data, stages.regime)
    terms = jnp.where(chosen.support, data.features, 0.0)
    columns = jnp.column_stack([terms, residuals])
    factor = least_squares.compress(jnp.where(stages.inside[:, None], columns, 0.0))
    basis = least_squares.orthogonalize(factor[:, :-1])
    coordinates = basis.directions.T @ factor[:, -1]
    fitted = least_squares.back_substitute(basis.triangle, coordinates, basis.independent)
    identity = jnp.eye(terms.shape[1], dtype=terms.dtype)
    inverse = least_squares.back_substitute(basis.triangle, identity, basis.independent)
    residual_sum = jnp.sum((factor[:, -1] - basis.directions @ coordinates) ** 2)
    degrees = jnp.sum(stages.inside) - jnp.sum(basis.independent)
    variance = jnp.where(degrees > 0, residual_sum / jnp.maximum(degrees, 1), jnp.nan)
    spread = jnp.sum(inverse**2, axis=1) * variance
    stderr = jnp.where(chosen.support, jnp.sqrt(jnp.where(spread > 0, spread, 0.0)), jnp.nan)
    nothing = ~jnp.any(stages.inside)
    status = first_failure(
        stages.status, status_if(nothing, Status.NOTHING_FLAGGED), chosen.status
    )
    # Where nothing is flagged there is nothing to select, which is no failure of the selection.
    status = jnp.where(nothing & ~is_failure(stages.status), Status.NOTHING_FLAGGED, status)
    return Form(
        support=chosen.support & ~nothing,
        coefficients=jnp.where(chosen.support, fitted, 0.0),
        stderr=stderr,
        error=chosen.error,
        errors=chosen.errors,
        equivalent=chosen.equivalent & ~nothing,
        status=status.astype(jnp.int32),
    )


def _certify(data: _Data, held_out: jax.Array, stages: _Stages, alpha: jax.Array) -> Certificate:
    """The partial F-test on rows that took no part in choosing region and form."""
    inside = jnp.append(stages.regime.flagged, False)[data.cell]
    support = stages.selection.support
    extra = jnp.where(inside[:, None] & support, data.features, 0.0)
    test = detection.partial_f(data.design, extra, data.response, held_out)
    nothing = ~jnp.any(stages.regime.flagged) & ~is_failure(stages.status)
    status = first_failure(stages.status, stages.selection.status, test.status)
    status = jnp.where(nothing, Status.NOTHING_FLAGGED, status).astype(jnp.int32)
    defined = ~nothing & ~is_failure(status)
    undefined = jnp.where(defined, 1.0, jnp.nan)
    return Certificate(
        statistic=test.statistic * undefined,
        df_num=test.df_num * undefined,
        df_den=test.df_den * undefined,
        p_value=test.p_value * undefined,
        log_p_value=test.log_p_value * undefined,
        reject=defined & (test.log_p_value < jnp.log(alpha)),
        support=support & defined,
        flagged=stages.regime.flagged,
        status=status,
    )


def _make_cells(data: _Data, regime: clean_regime.CleanRegime) -> Cells:
    return Cells(
        lower=data.edges[:-1],
        upper=data.edges[1:],
        count=regime.count,
        mean=regime.mean,
        rms=regime.rms,
        statistic=regime.statistic,
        p_value=jnp.exp(regime.log_p_value),
        log_p_value=regime.log_p_value,
        flagged=regime.flagged,
    )


def _make_regions(data: _Data, regime: clean_regime.CleanRegime, form: Form) -> Regions:
    """Runs of flagged cells, sharing one form; their energy over the run is the evidence."""
    runs = localization.flagged_runs(regime.flagged)
    statistic = localization.run_sum(regime.statistic, runs)
    count = localization.run_sum(regime.count, runs)
    test = localization.energy_test(statistic, count, jnp.ones((), statistic.dtype))
    present = runs.present[:, None]
    return Regions(
        lower=jnp.where(runs.present, data.edges[runs.first], jnp.nan),
        upper=jnp.where(runs.present, data.edges[runs.last + 1], jnp.nan),
        present=runs.present,
        count=count,
        support=present & form.support,
        coefficients=jnp.where(present, form.coefficients, 0.0),
        stderr=jnp.where(present, form.stderr, jnp.nan),
        equivalent=present & form.equivalent,
        statistic=test.statistic,
        p_value=jnp.exp(test.log_p_value),
        log_p_value=test.log_p_value,
    )


def _verdict(status: jax.Array, form: Form, test: Certificate, flagged: jax.Array) -> jax.Array:
    causes = {
        Status.RANK_DEFICIENT_DESIGN: Verdict.NOT_IDENTIFIABLE,
        Status.DEGENERATE_STARTS: Verdict.NOT_IDENTIFIABLE,
        Status.NO_CLEAN_CELLS: Verdict.NO_CLEAN_REGIME,
    }
    any_flagged = jnp.any(flagged)
    found = jnp.where(test.reject, Verdict.DISCREPANCY, Verdict.NOT_CERTIFIED)
    found = jnp.where(is_failure(form.status), Verdict.NOT_IDENTIFIABLE, found)
    verdict = jnp.where(any_flagged | test.reject, found, Verdict.CLEAN)
    # A certificate for a region that the full data do not show is no certificate of the report.
    verdict = jnp.where(test.reject & ~any_flagged, Verdict.NOT_CERTIFIED, verdict)
    failed = jnp.int32(Verdict.INSUFFICIENT_DATA)
    for cause, outcome in causes.items():
        failed = jnp.where(status == cause, outcome, failed)
    return jnp.where(is_failure(status), failed, verdict).astype(jnp.int32)


@partial(jax.jit, static_argnames=())
@full_precision
def _diagnose(
    key: jax.Array,
    design: jax.Array,
    response: jax.Array,
    axis: jax.Array,
    features: jax.Array,
    edges: jax.Array,
    mask: jax.Array,
    config: Config,
) -> Diagnosis:
    key_full, key_split, key_half = jax.random.split(key, 3)
    data, data_status = _prepare(design, response, axis, features, edges, mask)
    half = order.random_half(key_split, data.mask)
    # One compiled body runs on all rows and on split A.
    full, split = (
        jax.tree.map(lambda leaf, i=i: leaf[i], stacked)
        for stacked in [
            jax.lax.map(
                lambda inputs: _run_stages(inputs[0], data, inputs[1], config),
                (jnp.stack([key_full, key_half]), jnp.stack([data.mask, half])),
            )
        ]
        for i in (0, 1)
    )
    form = _fit_form(data, full)
    alpha = jnp.asarray(config.alpha, response.dtype)
    test = _certify(data, data.mask & ~half, split, alpha)
    status = first_failure(data_status, full.status)
    failed = is_failure(status)
    undefined = jnp.where(failed, jnp.nan, 1.0)
    return Diagnosis(
        coefficients=full.regime.coefficients * undefined,
        covariance=full.regime.covariance * undefined,
        scale=full.regime.scale * undefined,
        cells=_make_cells(data, full.regime),
        regions=_make_regions(data, full.regime, form),
        form=form,
        test=test,
        num_rows=jnp.sum(data.mask, dtype=jnp.int32),
        num_iterations=full.regime.num_iterations,
        verdict=_verdict(status, form, test, full.regime.flagged),
        status=status,
    )


def diagnose(
    design: Any,
    response: Any,
    axis: Any,
    features: Any,
    *,
    key: jax.Array,
    config: Config | None = None,
    edges: Any = None,
    mask: Any = None,
) -> Diagnosis:
    """Find where a trusted model is wrong, which term is missing there, and whether it is real.

    The model is ``response = design coefficients + 1[axis in region] features weights + noise``.

    Args:
      design: ``(n, p)`` known regressors of the trusted physics.
      response: ``(n,)`` measurements.
      axis: ``(n,)`` operating variable along which the model may fail.
      features: ``(n, L)`` candidate terms.
      key: typed key of starts and splits.
      config: settings; ``Config()`` where None.
      edges: ``(R + 1,)`` increasing cell edges; equal widths over the rows in use where None.
      mask: ``(n,)`` bool, rows to use; all where None.

    Returns:
      A ``Diagnosis``; ``status`` and ``verdict`` say what could not be decided, and the estimates
      concerned are NaN.

    Raises:
      ValueError, TypeError: shapes, types or concrete values do not fit.

    References:
      Wang, Localized and identifiable discovery of model discrepancy, algorithm 1.
    """
    config = Config() if config is None else config
    named = {"design": design, "response": response, "axis": axis, "features": features}
    arrays = {name: validation.float_array(name, value) for name, value in named.items()}
    shapes = validation.Shapes()
    for name, dims in (
        ("design", ("n", "p")),
        ("response", ("n",)),
        ("axis", ("n",)),
        ("features", ("n", "L")),
    ):
        shapes.check(name, arrays[name].shape, dims)
    validation.common_dtype(**arrays)
    num_rows = arrays["design"].shape[0]
    if min(num_rows, *arrays["design"].shape, *arrays["features"].shape) < 1:
        raise ValueError(
            "design and features must have at least one row and one column,"
            f" got shapes {arrays['design'].shape} and {arrays['features'].shape}"
        )
    mask = validation.mask_array(mask, num_rows)
    for name, array in arrays.items():
        validation.check_finite(name, array, mask)
    _check_config(config)
    key = validation.check_key(key)
    edges = _check_edges(edges, arrays["axis"], mask, config.num_cells)
    return _diagnose(key, *arrays.values(), edges, mask, config)


def _check_config(config: Config) -> None:
    for name, low, high in (
        ("trim", 0.0, 0.5),
        ("alpha_cell", 0.0, 1.0),
        ("tolerance", 0.0, float("inf")),
        ("alpha", 0.0, 1.0),
    ):
        validation.check_between(f"config.{name}", getattr(config, name), low, high)


def _check_edges(edges: Any, axis: jax.Array, mask: jax.Array, num_cells: int) -> jax.Array:
    if edges is None:
        return partition.equal_width_edges(axis, num_cells, mask)
    edges = validation.float_array("edges", edges).astype(axis.dtype)
    validation.Shapes().check("edges", edges.shape, ("R + 1",))
    if edges.shape[0] < 3:
        raise ValueError(f"edges must bound at least 2 cells, got {edges.shape[0]} edges")
    if validation.is_concrete(edges) and not bool(jnp.all(edges[1:] >= edges[:-1])):
        raise ValueError(f"edges must not decrease, got {edges.tolist()}")
    if all(map(validation.is_concrete, (edges, axis, mask))):
        outside = int(jnp.sum(mask & ((axis < edges[0]) | (axis > edges[-1]))))
        if outside:
            raise ValueError(
                f"edges must cover the axis, but {outside} rows in use lie outside"
                f" {float(edges[0]):g} to {float(edges[-1]):g}; mask them or move the edges"
            )
    return edges


@jax.jit
@full_precision
def predict(
    diagnosis: Diagnosis, design: jax.Array, axis: jax.Array, features: jax.Array
) -> jax.Array:
    """Response of the corrected model: the physics everywhere, the missing terms in the regions.

    A region that ends at the edge of the axis goes on beyond it.

    Args:
      diagnosis: of one data set.
      design: ``(m, p)`` new rows.
      axis: ``(m,)``.
      features: ``(m, L)``.

    Returns:
      ``(m,)``; NaN where the diagnosis failed.
    """
    regions, cells = diagnosis.regions, diagnosis.cells
    lower = jnp.where(regions.lower <= cells.lower[0], -jnp.inf, regions.lower)
    upper = jnp.where(regions.upper >= cells.upper[-1], jnp.inf, regions.upper)
    inside = (axis[:, None] >= lower) & (axis[:, None] < upper) & regions.present
    correction = features @ regions.coefficients.T
    return design @ diagnosis.coefficients + jnp.sum(jnp.where(inside, correction, 0.0), axis=1)
