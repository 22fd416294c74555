"""The trusted physics: least squares on the clean rows, and honest errors (section 3.10).

The law holds to within a scatter, rows have the noise of their own cell, and may depend on each
other. All of it enters the covariance; where nothing was certified, so do the law's shifts under
changes that were not noticed (section 3.5).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lisdd_jax.default.description import SCATTERS
from lisdd_jax.default.layout import ColumnLayout
from lisdd_jax.default.local_fits import LocalFits
from lisdd_jax.default.sums import sum_products
from lisdd_jax.numerics import small_systems, tolerances
from lisdd_jax.numerics.hosted import contract, namespace


class LawSums(NamedTuple):
    """Sums over the rows that the law is fitted on.

    Attributes:
      gram: ``(K, p + 1, p + 1)`` of physics and response, per cell.
      serial: ``(p, p)`` what dependence adds to the products of the physics, rows times the noise
        scale of their cell; zero without any.
      clusters: ``(p, p)`` squared sums over blocks of physics times residual; zero without blocks.
      tail: ``(p + 1, p + 1)`` of physics and residual over rows set aside that may be noise.
    """

    gram: jax.Array
    serial: jax.Array
    clusters: jax.Array
    tail: jax.Array


_FARTHEST = 3.0
"""Bounds of outliers up to which a row set aside counts as noise: of what the tail of a lognormal
noise moves the law, all but a twentieth."""

_LONGEST = 512
"""Rows by which a record is lengthened, so that its end has nothing to do with its beginning: a
correlation of .98 leaves 3e-5 of rows so far apart."""


def serial_products(record: jax.Array, correlation: jax.Array) -> jax.Array:
    """``X (C - I) X'`` of ``X (p, n)`` in the order of the record, ``C_ij = correlation^|i - j|``.

    By the spectrum of an autoregression, which is positive: sums over some lags would leave room
    for variances below zero.
    """
    num = 2 * record.shape[-1] + _LONGEST
    parts = jnp.fft.rfft(record, num)
    angle = np.asarray(2 * np.pi * np.arange(parts.shape[-1]) / num, record.dtype)
    even = np.where((2 * np.arange(parts.shape[-1])) % num == 0, 1.0, 2.0) / num
    power = 1 + correlation**2 - 2 * correlation * jnp.cos(angle)
    density = ((1 - correlation**2) / power - 1) * jnp.asarray(even, record.dtype)
    both = jnp.concatenate([parts.real, parts.imag], axis=-1)
    return (both * jnp.concatenate([density, density])[None]) @ both.T


def sum_law(
    physics: jax.Array,
    response: jax.Array,
    theta: jax.Array,
    rows: jax.Array,
    cell: jax.Array,
    num_cells: int,
    noise_scale: jax.Array,
    order: jax.Array,
    correlation: jax.Array,
    block: jax.Array | None,
    tail: jax.Array,
    bound: jax.Array,
) -> LawSums:
    """Sum over the rows of the law.

    Args:
      physics: ``(p, n)`` in the frame, sorted along the axis.
      response: ``(n,)``.
      theta: ``(p,)`` the law, nearly.
      rows: ``(n,)`` bool.
      cell: ``(n,)`` int.
      num_cells: static.
      noise_scale: ``(n,)`` of the rows' cells, relative.
      order: ``(n,)`` place of every row in the record.
      correlation: of an autoregression in the order of the record.
      block: ``(n,)`` int from 0, ranks of blocks of dependent rows, or None.
      tail: ``(n,)`` bool, rows set aside that may be noise; ``bound (n,)`` is that of outliers.
    """
    num = response.shape[0]
    columns = jnp.concatenate([physics, response[None]])
    gram = sum_products(columns, jnp.where(rows, cell, num_cells), num_cells)
    kept = jnp.where(rows[None], physics, 0.0)
    record = jnp.zeros_like(kept).at[:, order].set(kept * noise_scale[None])
    nothing = jnp.zeros((physics.shape[0],) * 2, response.dtype)
    serial = jax.lax.cond(
        correlation > 0, lambda: serial_products(record, correlation), lambda: nothing
    )
    clusters = nothing
    residual = response - theta @ physics
    if block is not None:
        score = kept * residual[None]
        sums = jnp.zeros_like(score).at[:, block].add(score)
        count = jnp.sum(jnp.zeros(num).at[block].max(jnp.where(rows, 1.0, 0.0)))
        count = jnp.maximum(count, 2).astype(score.dtype)
        clusters = sums @ sums.T * count / (count - 1)

    def sum_tail() -> jax.Array:
        left = jnp.clip(residual, -_FARTHEST * bound, _FARTHEST * bound)
        both = jnp.concatenate([physics, left[None]])
        return sum_products(both, jnp.where(tail, 0, 1), 1)[0]

    beyond = jax.lax.cond(jnp.any(tail), sum_tail, lambda: jnp.zeros_like(gram[0]))
    return LawSums(gram, serial, clusters, beyond)


class Physics(NamedTuple):
    """The law.

    Attributes:
      theta: ``(p,)`` in the frame.
      covariance: ``(p, p)``.
      determined: bool.
    """

    theta: Any
    covariance: Any
    determined: Any


def fit_physics(
    sums: LawSums,
    fits: LocalFits,
    scatter: Any,
    variance: Any,
    blocks: bool,
    layout: ColumnLayout,
) -> Physics:
    """Least squares on the rows of the law.

    Args:
      sums: over those rows.
      fits: the cells' own fits.
      scatter: int, the law's scatter.
      variance: of the noise at a relative scale of 1.
      blocks: whether blocks of dependent rows are known.
      layout: columns.
    """
    xp = namespace(sums.gram)
    dtype = sums.gram.dtype
    total = sums.gram.sum(0)
    law = small_systems.solve_with_inverse(total[:-1, :-1], total[:-1, -1], tolerances.gram(dtype))
    mean = fits.num_rows.sum() / xp.maximum(fits.present.sum(), 1).astype(dtype)
    share = xp.asarray(SCATTERS, dtype)[scatter] * fits.num_rows / xp.maximum(mean, 1)
    noise = xp.where(fits.present, fits.variance, 0.0)
    # A cell's misfit moves the law by as much of it as the law's rows are of the cell.
    squares, every = (
        xp.diagonal(gram, axis1=1, axis2=2).sum(1)
        for gram in (sums.gram[:, :-1, :-1], fits.gram[:, layout.physics, layout.physics])
    )
    part = xp.minimum(squares / xp.where(every > 0, every, 1.0), 1.0)
    own = part[:, None, None] * fits.local[..., layout.physics]
    scattered = contract("k,kdi,kdj->ij", noise * share, own, own)
    within = contract("k,kij->ij", noise, sums.gram[:, :-1, :-1])
    meat = sums.clusters if blocks else within + variance * sums.serial
    covariance = contract("ij,jk,kl->il", law.inverse, meat + scattered, law.inverse)
    # What rows set aside would move the law by if they were the tail of the noise.
    with_tail = total[:-1, :-1] + sums.tail[:-1, :-1]
    shift = small_systems.solve(with_tail, sums.tail[:-1, -1], tolerances.gram(dtype)).solution
    covariance = covariance + shift[:, None] * shift[None]
    return Physics(law.solution, covariance, xp.all(law.independent))
