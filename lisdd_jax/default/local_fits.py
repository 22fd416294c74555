"""What every cell says by itself: its own fit, its noise, and its gap from any law (section 3.2).

Small work on sums of products, on the host or traced.
"""

from typing import Any, NamedTuple

from lisdd_jax.numerics import small_systems, tolerances
from lisdd_jax.numerics.hosted import contract, namespace, running_sums

_PRIOR_ROWS = 2.0
"""Degrees of freedom lent to a cell's variance by those of all cells: enough that none is zero."""

_SCAN_PRIOR_ROWS = 8.0
"""The same for scores, which sum over many cells and gain by steadier weights."""


LEAST_LEFT = 1e-6
"""Share of a column's square, left of it by others, up to which they contain it."""


_ONE_IN = 10
"""One in so many of the cells that hold a term may leave nothing of it but rounding for it to be a
direction: where many have no further one, descriptions of cells do not compare."""


class LocalFits(NamedTuple):
    """The cells' own fits; ``K`` cells, ``m = k + 1`` columns, the response last.

    Attributes:
      gram: ``(K, m, m)`` sums of products.
      local: ``(K, d, m)`` coordinates of the columns in the cell's own directions.
      rank: ``(K,)`` own directions.
      num_rows: ``(K,)``.
      variance: ``(K,)`` of the noise.
      present: ``(K,)`` bool.
    """

    gram: Any
    local: Any
    rank: Any
    num_rows: Any
    variance: Any
    present: Any


class Noise(NamedTuple):
    """The cells' noise.

    Attributes:
      pooled: variance over all cells.
      steady: ``(K,)`` variances for scores.
      degrees: ``(K,)`` degrees of freedom of the cells' own variances, of independent rows.
      own: ``(K,)`` those variances.
    """

    pooled: Any
    steady: Any
    degrees: Any
    own: Any


class Beyond(NamedTuple):
    """What the cells' own directions leave: candidate terms and the response about them.

    Attributes:
      score: ``(K, L)`` products of terms and response.
      square: ``(K, L)`` of the terms; 0 where the cell's directions span a term.
      resolved: ``(L,)`` bool, they do so in hardly any cell that holds it.
    """

    score: Any
    square: Any
    resolved: Any


def fit_every_cell(
    gram: Any,
    num_rows: Any,
    floor: Any,
    num_physics: int,
    full: Any,
    expected: Any = 1.0,
    as_one: Any = 1.0,
) -> tuple[LocalFits, Noise, Beyond]:
    """Fit every cell on its own.

    Args:
      gram: ``(K, m, m)`` sums of products of ``[1, axis, physics (p), terms (L), response]``.
      num_rows: ``(K,)`` rows, as floats.
      floor: variance at which residuals are rounding errors.
      num_physics: ``p``.
      full: bool, the cells have rows enough for all of ``[1, axis, physics]``; else only their
        levels are fitted, and one set of slopes for all.
      expected: ``(K,)`` what is known of the cells' noise, as variances over that of all rows.
      as_one: how many rows count as one, for their dependence.

    Returns:
      Fits on the columns without the terms, the noise, and what the terms could add.
    """
    xp = namespace(gram)
    size = num_physics + 2
    tolerance = tolerances.gram(gram.dtype)
    allowed = xp.concatenate([xp.ones(1, bool), xp.broadcast_to(full, (size - 1,))])
    own = small_systems.eliminate(gram, size, allowed, tolerance)
    slopes = _common_slopes(own.rest, gram, slice(2, size), tolerance)
    common = xp.where(full, 0.0, slopes.solution)
    left = own.rest[:, -1] - contract("p,kpm->km", common, own.rest[:, 2:size])
    squares = xp.maximum(left[:, -1] - contract("kp,p->k", left[:, 2:size], common), 0.0)
    rank = own.independent.sum(-1).astype(gram.dtype)
    share = num_rows / xp.maximum(num_rows.sum(), 1)
    degrees = num_rows - rank - xp.where(full, 0.0, slopes.rank * share)
    degrees = xp.where(num_rows > 0, xp.maximum(degrees, 1), 0.0)
    noise, variance = _noise(squares, degrees, floor, expected, as_one)
    kept = [*range(size), gram.shape[-1] - 1]
    fits = LocalFits(
        gram=gram[:, kept][:, :, kept],
        local=own.coordinates[:, :, kept],
        rank=rank,
        num_rows=num_rows,
        variance=variance,
        present=num_rows > 0,
    )
    terms = slice(size, gram.shape[-1] - 1)
    return fits, noise, _beyond(left[:, terms], own.rest, gram, terms)


def _common_slopes(rest: Any, gram: Any, physics: slice, tolerance: float) -> Any:
    """Slopes of the physics that all cells share, from ``rest (K, m, m)`` of their directions."""
    xp = namespace(gram)
    within = rest[:, physics, physics].sum(0)
    # What a level leaves of a column that is constant in every cell is rounding, and no column.
    varies = xp.diagonal(within) > tolerance * xp.diagonal(gram[:, physics, physics].sum(0))
    within = xp.where(varies[:, None] & varies[None], within, 0.0)
    return small_systems.solve(within, rest[:, physics, -1].sum(0), tolerance)


def _noise(squares: Any, degrees: Any, floor: Any, expected: Any, as_one: Any) -> tuple[Noise, Any]:
    """The cells' noise from residual ``squares (K,)``, and the variances ``(K,)`` of the place."""
    xp = namespace(squares)
    freedom = xp.maximum(degrees.sum(), 1)
    pooled = squares.sum() / freedom

    def shrunk(prior: float, lent: Any) -> Any:
        return (prior * lent + squares) / (prior + degrees) + floor

    # Laws hold nearly: where much less noise is expected, no cell of the place shall weigh so much.
    shaped = expected * pooled * freedom / xp.maximum((degrees * expected).sum(), 1)
    # Dependent rows tell as little of the noise as of a level.
    steady = shrunk(_SCAN_PRIOR_ROWS * as_one, shaped)
    noise = Noise(pooled, steady, degrees / as_one, squares / xp.maximum(degrees, 1))
    return noise, shrunk(_PRIOR_ROWS, pooled)


def _beyond(score: Any, rest: Any, gram: Any, terms: slice) -> Beyond:
    """What the cells' directions leave of ``terms``, whose products with the response are ``score``
    ``(K, L)``."""
    xp = namespace(gram)
    square = xp.diagonal(rest, axis1=1, axis2=2)[:, terms]
    whole = xp.diagonal(gram, axis1=1, axis2=2)[:, terms]
    # In single precision what narrow cells leave of a smooth term is rounding.
    beyond = square > max(LEAST_LEFT, tolerances.gram(gram.dtype)) * whole
    resolved = _ONE_IN * ((whole > 0) & ~beyond).sum(0) <= (whole > 0).sum(0)
    score, square = (xp.where(beyond, part, 0.0) for part in (score, square))
    return Beyond(score, square, resolved)


def add_direction(
    fits: LocalFits, gram: Any, term: Any, used: Any, full: Any, num_physics: int
) -> LocalFits:
    """The fits with one candidate term among the columns and, in full cells, the directions.

    Args:
      fits: without it.
      gram: ``(K, m, m)`` of all columns.
      term: int, which term.
      used: bool, whether to add it; else its column is zero.
      full: as for ``fit_every_cell``.
      num_physics: ``p``.
    """
    xp = namespace(gram)
    size = num_physics + 2
    order = xp.concatenate([xp.arange(size), xp.reshape(size + term, (1,)), xp.full(1, -1)])
    on = xp.concatenate([xp.ones(size, bool), xp.reshape(used, (1,)), xp.ones(1, bool)])
    wider = xp.take(xp.take(gram, order, axis=1), order, axis=2)
    wider = xp.where((on[:, None] & on[None])[None], wider, 0.0)
    allowed = xp.concatenate([xp.ones(1, bool), xp.broadcast_to(full, (size,))])
    own = small_systems.eliminate(wider, size + 1, allowed, tolerances.gram(gram.dtype))
    return fits._replace(
        gram=wider, local=own.coordinates, rank=own.independent.sum(-1).astype(gram.dtype)
    )


def spans(values: Any) -> Any:
    """Sums over runs of cells: ``(..., K)`` gives ``(..., K + 1, K + 1)`` at ``[first, end]``."""
    running = running_sums(values)
    return running[..., None, :] - running[..., :, None]
