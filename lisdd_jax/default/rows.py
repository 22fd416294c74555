"""Passes over the rows: sums per cell and per region, rows near a law, ends moved (section 3.1).

Each pass is compiled on its own, and hands on sums and places of a size that does not depend on the
number of rows.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax.default import ends, narrow_runs, near_law, outliers, row_scores, run_sums
from lisdd_jax.default.cells import FEWEST_CELLS, MOST_CELLS, SortedCells
from lisdd_jax.default.cross_fits import NUM_FOLDS
from lisdd_jax.default.ends import Placed, Spans
from lisdd_jax.default.first_look import FirstLook
from lisdd_jax.default.form import Sums, about_law
from lisdd_jax.default.layout import ColumnLayout
from lisdd_jax.default.narrow_runs import NarrowRun
from lisdd_jax.default.ordering import Ordered
from lisdd_jax.default.run_sums import Pieces
from lisdd_jax.default.sums import sum_products
from lisdd_jax.numerics import cell_sums, medians
from lisdd_jax.numerics.compilation import compiled
from lisdd_jax.numerics.precision import full_precision


def _totals(
    rows: Ordered, cell: jax.Array, num_cells: int, weights: jax.Array | None = None
) -> tuple[jax.Array, jax.Array]:
    gram = sum_products(rows.columns, cell, num_cells, weights)
    ones = jnp.ones((rows.axis.shape[0], 1), rows.axis.dtype)
    return gram, cell_sums.cell_totals(ones, cell, num_cells)[:, 0]


@compiled
@full_precision
def sum_kept_rows(
    rows: Ordered, cells: SortedCells, keep: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Sums of products of the kept rows per cell, ``(K, m, m)``, and their number ``(K,)``."""
    return _totals(rows, jnp.where(keep, cells.of_row, MOST_CELLS), MOST_CELLS)


def residual_of(rows: Ordered, theta: jax.Array, layout: ColumnLayout) -> jax.Array:
    """Residuals ``(n,)`` of a law ``theta (p,)``, in the working unit."""
    return rows.columns[-1] - theta @ rows.columns[layout.physics]


class Apart(NamedTuple):
    """Why rows are apart from a law.

    Attributes:
      runs: ``(MOST_RUNS,)`` too short for cells to show; empty where none stands out.
      scale: ``(K,)`` noise scales about the law, by which other rows are near.
    """

    runs: NarrowRun
    scale: jax.Array


class KeptRows(NamedTuple):
    """Rows that the cells are described by.

    Attributes:
      keep: ``(n,)`` bool, rows near to the law or to their own cell, without the runs.
      apart: why the others are not.
    """

    keep: jax.Array
    apart: Apart


@compiled(static_argnames=("layout",))
@full_precision
def keep_near_law(
    rows: Ordered,
    look: FirstLook,
    law: tuple[jax.Array, jax.Array],
    scale: jax.Array,
    searched: jax.Array,
    keep: jax.Array,
    limits: tuple[jax.Array, jax.Array],
    layout: ColumnLayout,
) -> KeptRows:
    """Rows to keep once a law is known.

    Args:
      rows, look: the rows.
      law: ``theta (p,)``, and the cells ``(K,)`` that obey it.
      scale: ``(K,)`` the cells' noise scales.
      searched: ``(K,)`` bool, cells in which a narrow run may lie.
      keep: ``(n,)`` bool, rows that the law was found by.
      limits: nats from which a narrow run counts, and the discrepancy that does not matter.
      layout: columns.
    """
    (theta, clean), (least, negligible) = law, limits
    residual, cell = residual_of(rows, theta, layout), look.cells.of_row
    given = (residual, look.keep, scale, look.scale, cell, MOST_CELLS, clean)
    near = near_law.keep_near(*given)
    score = row_scores.score_rows(
        residual,
        rows.columns[0],
        near.scale,
        look.scale,
        keep,
        cell,
        look.cells.num,
        negligible,
    )
    cells = look.cells
    asked, short = narrow_runs.cells_to_search(searched, cells.num)
    asked = jnp.append(asked & ~look.trusted, False)[cell]
    # Of fewer cells nobody knows the law beside a run.
    asked = asked & (cells.num >= FEWEST_CELLS)
    runs = narrow_runs.find_narrow_runs(
        score,
        asked,
        rows.possible,
        look.dependence.rows,
        least,
        lambda run: narrow_runs.is_narrow(run, short, cells),
    )
    return KeptRows(near.keep & ~runs.rows(len(cell)), Apart(runs, near.scale))


class OpenRegions(NamedTuple):
    """Regions while their terms and ends are sought.

    Attributes:
      spans: runs of cells.
      sound: ``(n,)`` bool, rows of the law's cells, or such that ends may take.
      bound: ``(n,)`` residual at which squares are cut off.
      weight: ``(n,)`` 1 for kept rows.
      bonus: gain granted to an end at the end of the axis.
      pieces: sums of a long table, from which those between other ends are made; else None.
    """

    spans: Spans
    sound: jax.Array
    bound: jax.Array
    weight: jax.Array
    bonus: jax.Array
    pieces: Pieces | None


@compiled
@full_precision
def open_regions(
    rows: Ordered,
    cells: SortedCells,
    members: jax.Array,
    clean: jax.Array,
    keep: jax.Array,
    scale: jax.Array,
    variance: jax.Array,
    run: NarrowRun,
) -> tuple[OpenRegions, Sums]:
    """Runs of cells ``members (R, K)`` as regions, and the sums over their rows.

    ``clean (K,)`` are the cells of the law. A region for the sake of a narrow ``run (R,)`` begins
    as that.
    """
    spans = ends.spans_of_runs(members, cells)
    narrow = run.stop > run.start
    spans = spans._replace(
        start=jnp.where(narrow, run.start, spans.start),
        stop=jnp.where(narrow, run.stop, spans.stop),
    )
    window = ends.inside(spans, spans.low, spans.high, rows.axis.shape[0])
    sound = jnp.append(clean, False)[cells.of_row] | jnp.any(window, axis=0)
    bound = outliers.CUT * medians.per_row(scale, cells.of_row)
    count = jnp.maximum(rows.num_rows, 2).astype(rows.axis.dtype)
    # Schwarz: an end inside the axis is a parameter that a region up to its end does not have.
    bonus = 2 * jnp.log(count) * variance
    weight = jnp.where(keep, 1.0, 0.0).astype(rows.axis.dtype)
    pieces = run_sums.sum_pieces(rows.columns, rows.fold, keep & sound)
    region = OpenRegions(spans, sound, bound, weight, bonus, pieces)
    return region, _sum_regions(rows, region, spans.start, spans.stop)


def fold_sums(rows: Ordered, part: jax.Array, most: int, weights: jax.Array | None) -> Sums:
    """Sums over regions and folds; ``part (n,)`` is four times the region plus the fold.

    Args:
      rows: the rows.
      part: ``(n,)`` int32; ``4 most + 4`` in rows that do not count.
      most: number of regions; what lies outside comes after them.
      weights: ``(n,)``; one for all where None.
    """
    gram, count = _totals(rows, part, NUM_FOLDS * (most + 1), weights)
    shape = (most + 1, NUM_FOLDS)
    return Sums(gram.reshape(*shape, *gram.shape[1:]), count.reshape(shape))


def _sum_regions(rows: Ordered, region: OpenRegions, start: jax.Array, stop: jax.Array) -> Sums:
    spans, num = region.spans, rows.axis.shape[0]
    most = len(start)
    counts = (region.weight > 0) & region.sound

    def slot_of(row: jax.Array) -> jax.Array:
        return ends.slots(spans, start, stop, row)

    if region.pieces is not None:
        found = jnp.concatenate([start, stop])
        arrays = (region.pieces, rows.columns, rows.fold, counts)
        return run_sums.sum_runs(*arrays, slot_of, found, most + 1)
    slot = slot_of(jnp.arange(num, dtype=jnp.int32))
    part = jnp.where(counts, NUM_FOLDS * slot + rows.fold, NUM_FOLDS * (most + 1))
    return fold_sums(rows, part, most, None)


@compiled(static_argnames=("layout",))
@full_precision
def move_ends(
    rows: Ordered,
    region: OpenRegions,
    theta: jax.Array,
    use: jax.Array,
    shared: jax.Array,
    begin: tuple[jax.Array, jax.Array],
    layout: ColumnLayout,
) -> tuple[Placed, Sums]:
    """Move the ends for a correction in the columns ``use (R, q + L)``, and sum the new regions.

    Beside them come the sums over the rows of the law ``theta (p,)`` that are left.
    """

    def sums_between(start: jax.Array, stop: jax.Array) -> jax.Array:
        if region.pieces is None:
            slot = ends.slots(
                region.spans, start, stop, jnp.arange(len(rows.axis), dtype=jnp.int32)
            )
            gram = sum_products(rows.columns, slot, len(use), region.weight)
        else:
            gram = _sum_regions(rows, region, start, stop).gram[:-1].sum(1)
        return about_law(gram, theta, layout)

    placed = ends.place_ends(
        rows.columns,
        residual_of(rows, theta, layout),
        sums_between,
        region.bound,
        use,
        shared,
        region.spans,
        begin,
        rows.possible,
        rows.num_rows,
        region.bonus,
    )
    return placed, _sum_regions(rows, region, placed.start, placed.stop)
