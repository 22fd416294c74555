"""Least trimmed squares: the physics fit that ignores the rows it explains worst.

FAST-LTS (Rousseeuw and Van Driessen, 2006): many fits to a minimal random subset, two concentration
steps each, the best ones to convergence. With many rows the starts are judged on a subsample.
"""

import itertools
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy as jsp
from jax import lax
from jax.tree_util import register_dataclass

from lisdd_jax import validation
from lisdd_jax.numerics import least_squares, order
from lisdd_jax.numerics.precision import full_precision
from lisdd_jax.status import Status, first_failure, is_failure, status_if

_MAX_REDRAWS = 50
_MAX_CONCENTRATIONS = 500
_FIRST_CONCENTRATIONS = 2


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class TrimmedFit:
    """A least-trimmed-squares fit.

    Attributes:
      coefficients: ``(p,)``; NaN under a failure.
      objective: sum of the ``h`` smallest squared residuals.
      kept: ``(n,)`` bool, exactly ``h`` rows.
      scale: root mean square of the kept residuals, corrected for the trimming at the normal;
        0 under ``EXACT_FIT``.
      status: int32.
    """

    coefficients: jax.Array
    objective: jax.Array
    kept: jax.Array
    scale: jax.Array
    status: jax.Array


class _Rows(NamedTuple):
    """Rows in the basis: ``basis (m, p)``, ``response (m,)``, ``usable (m,)``, ``products``."""

    basis: jax.Array
    response: jax.Array
    usable: jax.Array
    products: jax.Array


class _Candidates(NamedTuple):
    solutions: jax.Array
    objectives: jax.Array


def _pairs(num: int) -> tuple[jax.Array, jax.Array]:
    pairs = list(itertools.combinations_with_replacement(range(num), 2))
    return jnp.array([i for i, _ in pairs]), jnp.array([j for _, j in pairs])


def _unpack(products: jax.Array, num: int) -> jax.Array:
    rows, others = _pairs(num)
    matrix = jnp.zeros((*products.shape[:-1], num, num), products.dtype)
    matrix = matrix.at[..., rows, others].set(products)
    return matrix.at[..., others, rows].set(products)


def _make_rows(basis: jax.Array, response: jax.Array, usable: jax.Array) -> _Rows:
    columns = jnp.where(usable[:, None], jnp.column_stack([basis, response]), 0.0)
    rows, others = _pairs(columns.shape[1])
    return _Rows(columns[:, :-1], columns[:, -1], usable, columns[:, rows] * columns[:, others])


def _squared_residuals(rows: _Rows, solutions: jax.Array) -> jax.Array:
    residuals = rows.response - solutions @ rows.basis.T
    return jnp.where(rows.usable, residuals**2, jnp.inf)


def _concentrate(rows: _Rows, solutions: jax.Array, num: jax.Array) -> _Candidates:
    """One concentration step for all candidates, and the objectives before it."""
    squares = _squared_residuals(rows, solutions)
    weights, objectives = jax.vmap(order.smallest_weights, (0, None))(squares, num)
    size = rows.basis.shape[1]
    # One matrix product gives the normal equations of all candidates.
    tables = _unpack(weights @ rows.products, size + 1)
    fit = least_squares.sweep(tables[:, :size, :size], tables[:, :size, size])
    determined = jnp.all(fit.independent, axis=-1, keepdims=True)
    return _Candidates(jnp.where(determined, fit.solution, solutions), objectives)


def _first_steps(rows: _Rows, solutions: jax.Array, num: jax.Array) -> _Candidates:
    """Two concentration steps; the third gives the objectives of the second."""

    def step(_: int, state: tuple[jax.Array, _Candidates]) -> tuple[jax.Array, _Candidates]:
        solutions, _ = state
        moved = _concentrate(rows, solutions, num)
        return moved.solutions, _Candidates(solutions, moved.objectives)

    start = _Candidates(solutions, jnp.full(solutions.shape[0], jnp.inf, solutions.dtype))
    return lax.fori_loop(0, _FIRST_CONCENTRATIONS + 1, step, (solutions, start))[1]


def _converge(rows: _Rows, solutions: jax.Array, num: jax.Array) -> tuple[_Candidates, jax.Array]:
    """Concentrate until no objective falls any more; it falls over finitely many subsets."""

    class State(NamedTuple):
        best: _Candidates
        trial: jax.Array
        active: jax.Array
        step: jax.Array

    def body(state: State) -> State:
        moved = _concentrate(rows, state.trial, num)
        better = moved.objectives < state.best.objectives
        best = _Candidates(
            jnp.where(better[:, None], state.trial, state.best.solutions),
            jnp.where(better, moved.objectives, state.best.objectives),
        )
        return State(best, moved.solutions, better, state.step + 1)

    num_candidates = solutions.shape[0]
    unknown = jnp.full(num_candidates, jnp.inf, solutions.dtype)
    start = State(
        _Candidates(solutions, unknown), solutions, jnp.ones(num_candidates, bool), jnp.int32(0)
    )
    end = lax.while_loop(lambda s: jnp.any(s.active) & (s.step < _MAX_CONCENTRATIONS), body, start)
    return end.best, jnp.any(end.active)


def _row_table(mask: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Positions of the rows in use, first; and their count."""
    positions = jnp.nonzero(mask, size=mask.shape[0], fill_value=0)[0]
    return positions, jnp.sum(mask, dtype=jnp.int32)


def _elemental_starts(key: jax.Array, rows: _Rows, num_starts: int) -> tuple[jax.Array, jax.Array]:
    """Exact fits through ``p`` random rows; subsets that do not determine a fit are redrawn."""
    table, count = _row_table(rows.usable)
    size = rows.basis.shape[1]

    def fit(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        ranks = jax.random.randint(key, (num_starts, size), 0, jnp.maximum(count, 1))
        chosen = table[ranks]
        basis, response = rows.basis[chosen], rows.response[chosen]
        gram = jnp.einsum("sri,srj->sij", basis, basis)
        moment = jnp.einsum("sri,sr->si", basis, response)
        swept = least_squares.sweep(gram, moment, tolerance=jnp.sqrt(jnp.finfo(gram.dtype).eps))
        return swept.solution, jnp.all(swept.independent, axis=-1)

    def redraw(state: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, ...]:
        solutions, good, attempt = state
        fresh, fresh_good = fit(jax.random.fold_in(key, attempt))
        return jnp.where(good[:, None], solutions, fresh), good | fresh_good, attempt + 1

    nothing = jnp.zeros((num_starts, size), rows.basis.dtype)
    start = (nothing, jnp.zeros(num_starts, bool), jnp.int32(0))
    solutions, good, _ = lax.while_loop(
        lambda s: ~jnp.all(s[1]) & (s[2] < _MAX_REDRAWS), redraw, start
    )
    return solutions, good


def _subsample(key: jax.Array, rows: _Rows, size: int) -> _Rows:
    """One random row from each of ``size`` equal stretches of the record, so none comes twice."""
    table, count = _row_table(rows.usable)
    offsets = jnp.arange(size) + jax.random.uniform(key, (size,), rows.response.dtype)
    ranks = jnp.floor(offsets * (count / size)).astype(jnp.int32)
    chosen = table[jnp.clip(ranks, 0, jnp.maximum(count - 1, 0))]
    return _make_rows(rows.basis[chosen], rows.response[chosen], rows.usable[chosen])


def _best(candidates: _Candidates, good: jax.Array, num: int) -> jax.Array:
    objectives = jnp.where(good & jnp.isfinite(candidates.objectives), candidates.objectives, jnp.inf)
    return candidates.solutions[lax.top_k(-objectives, num)[1]]


def search(
    key: jax.Array,
    basis: jax.Array,
    response: jax.Array,
    mask: jax.Array,
    trim: jax.Array | float,
    *,
    num_starts: int,
    num_candidates: int = 20,
    subsample_size: int = 300,
    full_search_rows: int = 600,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The search itself, in a well-conditioned basis.

    Args:
      key: typed key.
      basis: ``(n, p)``.
      response: ``(n,)``.
      mask: ``(n,)`` bool, rows in use.
      trim: share of rows left out.
      num_starts, num_candidates, subsample_size, full_search_rows: sizes of the search (static).

    Returns:
      Solution ``(p,)`` in the basis, objective, and status.
    """
    key_starts, key_subsample = jax.random.split(key)
    rows = _make_rows(basis, response, mask)
    count = jnp.sum(mask, dtype=jnp.int32)
    num = order.num_kept(count, trim, basis.dtype)
    nested = basis.shape[0] > full_search_rows
    judge = _subsample(key_subsample, rows, subsample_size) if nested else rows
    judge_num = order.num_kept(jnp.sum(judge.usable, dtype=jnp.int32), trim, basis.dtype)
    solutions, good = _elemental_starts(key_starts, judge, num_starts)
    first = _first_steps(judge, solutions, judge_num)
    chosen = _best(first, good, min(num_candidates, num_starts))
    candidates, unfinished = _converge(rows, chosen, num)
    winner = jnp.argmin(candidates.objectives)
    status = first_failure(
        status_if(~jnp.any(good), Status.DEGENERATE_STARTS),
        status_if(unfinished, Status.ITERATION_LIMIT),
    )
    return candidates.solutions[winner], candidates.objectives[winner], status


def _normal_consistency(share: jax.Array) -> jax.Array:
    """Standard deviation of a normal over that of its central ``share`` (Croux and Rousseeuw)."""
    share = jnp.clip(share, 1e-6, 1.0)
    whole = share >= 1.0
    bound = jsp.special.ndtri(0.5 * (1 + jnp.where(whole, 0.5, share)))
    truncated = 1 - 2 * bound * jsp.stats.norm.pdf(bound) / share
    return jnp.where(whole, 1.0, 1 / jnp.sqrt(truncated))


@partial(jax.jit, static_argnames=("num_starts", "full_search_rows"))
@full_precision
def _fit_trimmed(
    key: jax.Array,
    design: jax.Array,
    response: jax.Array,
    mask: jax.Array,
    trim: jax.Array,
    num_starts: int,
    full_search_rows: int,
) -> TrimmedFit:
    finite = jnp.isfinite(response) & jnp.all(jnp.isfinite(design), axis=1)
    nonfinite = jnp.any(mask & ~finite)
    mask = mask & finite
    frame = least_squares.whiten(design, response, mask)
    basis = frame.to_basis(jnp.where(mask[:, None], design, 0.0))
    centered = frame.center_response(design, jnp.where(mask, response, 0.0))
    solution, objective, search_status = search(
        key,
        basis,
        centered,
        mask,
        trim,
        num_starts=num_starts,
        full_search_rows=full_search_rows,
    )
    count = jnp.sum(mask, dtype=jnp.int32)
    num = order.num_kept(count, trim, design.dtype)
    squares = jnp.where(mask, (centered - basis @ solution) ** 2, jnp.inf)
    size = design.shape[1]
    level = jnp.sqrt(jnp.sum(jnp.where(mask, centered**2, 0.0)) / jnp.maximum(count, 1))
    level = jnp.maximum(level, jnp.abs(frame.response_center))
    root = jnp.sqrt(objective / jnp.maximum(num, 1))
    exact = root <= 1e3 * jnp.finfo(root.dtype).eps * level
    status = first_failure(
        status_if(nonfinite, Status.NONFINITE_INPUT),
        status_if(num <= size, Status.TOO_FEW_ROWS),
        status_if(~jnp.all(frame.independent), Status.RANK_DEFICIENT_DESIGN),
        search_status,
        status_if(exact, Status.EXACT_FIT),
    )
    failed = is_failure(status)
    scale = jnp.where(exact, 0.0, root * _normal_consistency(num / jnp.maximum(count, 1)))
    return TrimmedFit(
        coefficients=jnp.where(failed, jnp.nan, frame.coefficients(solution)),
        objective=jnp.where(failed, jnp.nan, objective),
        kept=order.smallest_mask(squares, num) & mask & ~failed,
        scale=jnp.where(failed, jnp.nan, scale),
        status=status,
    )


def fit_trimmed(
    design: Any,
    response: Any,
    *,
    key: jax.Array,
    trim: Any,
    num_starts: int = 1000,
    full_search_rows: int = 2000,
    mask: Any = None,
) -> TrimmedFit:
    """Least-trimmed-squares fit: least squares on the ``h`` rows that can be fitted best.

    Minimises the sum of the ``h = ceil((1 - trim) n)`` smallest squared residuals. The search is
    random; with enough starts its result does not depend on the key. Up to ``full_search_rows``
    rows every start is judged on all rows, beyond them on a random subsample of 300, and the twenty
    best are concentrated to convergence on all rows.

    Differentiable nowhere by itself; fit the rows in ``kept`` by least squares for a derivative.

    Args:
      design: ``(n, p)`` regressors; an intercept is a column of ones.
      response: ``(n,)``.
      key: typed key of the random starts.
      trim: share of rows left out, from 0 to 0.5.
      num_starts: random starts (static).
      full_search_rows: see above (static).
      mask: ``(n,)`` bool, rows to use; all where None.

    Returns:
      A ``TrimmedFit``. Everything is NaN (``kept`` all False) under ``TOO_FEW_ROWS``,
      ``RANK_DEFICIENT_DESIGN``, ``DEGENERATE_STARTS`` and ``NONFINITE_INPUT``.

    Raises:
      ValueError, TypeError: shapes, types or concrete values do not fit.

    Example:
      >>> import jax, jax.numpy as jnp
      >>> x = jnp.arange(1.0, 21.0)
      >>> y = 2 + 3 * x + jnp.where(x > 14, 20.0, 0.0)
      >>> design = jnp.column_stack([jnp.ones(20), x])
      >>> fit = fit_trimmed(design, y, key=jax.random.key(0), trim=0.3)
      >>> [round(float(c), 3) for c in fit.coefficients], float(fit.scale)
      ([2.0, 3.0], 0.0)

    References:
      Rousseeuw (1984), Least median of squares regression, JASA 79.
      Rousseeuw and Van Driessen (2006), Computing LTS regression for large data sets, DMKD 12.
    """
    design = validation.float_array("design", design)
    response = validation.float_array("response", response)
    shapes = validation.Shapes()
    shapes.check("design", design.shape, ("n", "p"))
    shapes.check("response", response.shape, ("n",))
    validation.common_dtype(design=design, response=response)
    mask = validation.mask_array(mask, design.shape[0])
    validation.check_finite("design", design, mask)
    validation.check_finite("response", response, mask)
    validation.check_between("trim", trim, 0.0, 0.5)
    key = validation.check_key(key)
    trim = jnp.asarray(trim, design.dtype)
    return _fit_trimmed(key, design, response, mask, trim, num_starts, full_search_rows)
