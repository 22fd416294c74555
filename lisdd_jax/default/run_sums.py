"""Sums of products over runs of rows whose ends move (docs/method.md, section 3.7).

The pieces of a long table are summed once. A run is then whole pieces, and the rows of the pieces
that an end cuts, so that other ends cost next to nothing in rows.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lisdd_jax.default.cross_fits import NUM_FOLDS
from lisdd_jax.default.form import Sums
from lisdd_jax.default.sums import sum_products

LONG = 1 << 13
"""Rows beyond which pieces are summed."""

_PIECE = 1 << 10
"""Rows of a piece: few for its cut ends, and its products still many."""


class Pieces(NamedTuple):
    """What consecutive pieces of the rows sum to, by fold.

    Attributes:
      gram: ``(P, 4, m, m)``.
      num_rows: ``(P, 4)`` float, rows that count.
    """

    gram: jax.Array
    num_rows: jax.Array


def sum_pieces(columns: jax.Array, fold: jax.Array, counts: jax.Array) -> Pieces | None:
    """Sums over the pieces of a long table; None of a short one.

    Args:
      columns: ``(m, n)``.
      fold: ``(n,)`` int32, 0 to 3.
      counts: ``(n,)`` bool, rows that count.
    """
    num = fold.shape[0]
    if num <= LONG:
        return None
    place = jnp.arange(_PIECE, dtype=jnp.int32)

    def sum_piece(begin: jax.Array) -> Pieces:
        # The last piece reaches back over rows that are another's.
        first = jnp.minimum(begin, num - _PIECE)

        def cut(values: jax.Array) -> jax.Array:
            return lax.dynamic_slice_in_dim(values, first, _PIECE, axis=-1)

        part, own = cut(columns), cut(counts) & (place >= begin - first)
        folds = jnp.stack([own & (cut(fold) == k) for k in range(NUM_FOLDS)])
        masked = jnp.where(folds[:, None], part[None], 0.0)
        gram = masked @ part.T
        return Pieces(0.5 * (gram + gram.mT), jnp.sum(folds, -1).astype(columns.dtype))

    return lax.map(sum_piece, jnp.arange(0, num, _PIECE, dtype=jnp.int32))


def sum_runs(
    pieces: Pieces,
    columns: jax.Array,
    fold: jax.Array,
    counts: jax.Array,
    slot_of: Callable[[jax.Array], jax.Array],
    ends: jax.Array,
    num_slots: int,
) -> Sums:
    """Sums over slots of rows and folds, made of those of the pieces.

    Args:
      pieces: of the same ``columns (m, n)``, ``fold`` and ``counts``.
      columns, fold, counts: as for ``sum_pieces``.
      slot_of: slots of rows ``(k,)``, ``0 .. num_slots - 1``.
      ends: ``(e,)`` int32, every row whose slot is not that of the row before it.
      num_slots: static.
    """
    number = jnp.arange(pieces.gram.shape[0], dtype=jnp.int32)
    cut = ends // _PIECE
    is_cut = jnp.any((number[:, None] == cut[None]) & (ends % _PIECE > 0)[None], axis=1)
    slot = jnp.where(is_cut, num_slots, slot_of(number * _PIECE))
    member = (slot[None] == jnp.arange(num_slots, dtype=slot.dtype)[:, None]).astype(columns.dtype)

    # Every piece that is cut, once.
    earlier = jnp.tril(cut[:, None] == cut[None], -1)
    once = (ends % _PIECE > 0) & ~jnp.any(earlier & (ends % _PIECE > 0)[None], axis=1)
    row = (cut[:, None] * _PIECE + jnp.arange(_PIECE, dtype=jnp.int32)[None]).reshape(-1)
    own = jnp.repeat(once, _PIECE) & (row < fold.shape[0])
    row = jnp.minimum(row, fold.shape[0] - 1)
    own = own & counts[row]
    num_parts = NUM_FOLDS * num_slots
    part = jnp.where(own, NUM_FOLDS * slot_of(row) + fold[row], num_parts)
    gram = sum_products(columns[:, row], part, num_parts)
    parts = jnp.arange(num_parts, dtype=part.dtype)
    num_rows = jnp.sum(part[None] == parts[:, None], axis=1).astype(columns.dtype)
    return Sums(
        jnp.einsum("sp,pfij->sfij", member, pieces.gram)
        + gram.reshape(num_slots, NUM_FOLDS, *gram.shape[1:]),
        jnp.einsum("sp,pf->sf", member, pieces.num_rows) + num_rows.reshape(num_slots, NUM_FOLDS),
    )
