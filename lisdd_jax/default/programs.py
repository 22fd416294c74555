"""The programs of a diagnosis, made in the background before the first one runs.

Shapes alone are needed, and those of what runs between the programs on the host follow from the
numbers of cells, regions and columns. A shape that is not that of the call costs time and nothing
else (``numerics.compilation``).
"""

from typing import Any

import jax
import jax.numpy as jnp

from lisdd_jax.config import Config
from lisdd_jax.dataset import Dataset
from lisdd_jax.default import first_look, method, rows
from lisdd_jax.default.cells import MOST_CELLS
from lisdd_jax.default.conclusion import log_tails
from lisdd_jax.default.cross_fits import NUM_SPLITS
from lisdd_jax.default.final_sums import sum_final
from lisdd_jax.default.layout import ColumnLayout
from lisdd_jax.default.narrow_runs import NarrowRun
from lisdd_jax.default.ordering import order_rows, without_terms
from lisdd_jax.default.settling import settle
from lisdd_jax.statistics.f_tests import f_ratio


def make_ahead(key: jax.Array, data: Dataset, before: jax.Array, config: Config) -> None:
    """Make the programs of ``method.run``, from shapes in place of arrays.

    Args:
      key, data, before, config: as for ``method.run``.
    """
    del key, before
    layout = ColumnLayout(data.design.shape[1], data.features.shape[1])
    dtype = data.response.dtype

    def of(*shape: int, dtype: Any = dtype) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, dtype)

    columns = layout.num_directions + layout.num_terms
    flags, cells = of(MOST_CELLS, dtype=bool), of(MOST_CELLS)
    law, variance, yes = of(layout.num_physics), of(), of(dtype=bool)
    members = of(config.max_regions, MOST_CELLS, dtype=bool)
    use = of(config.max_regions, columns, dtype=bool)
    order = jax.ShapeDtypeStruct(data.axis.shape, jnp.int32)
    ordered = order_rows.ahead(data, order)
    lawful = without_terms.ahead(ordered, layout)
    look = first_look.look.ahead(lawful, layout.without_terms())
    searched = ordered.without_labels()
    laws = ((law, flags), cells, flags, look.keep, (variance, variance))
    apart = rows.keep_near_law.ahead(searched, look, *laws, layout).apart
    of_region = (config.max_regions,)
    run = NarrowRun(*(of(*of_region, dtype=part.dtype) for part in apart.runs))
    region, _ = rows.open_regions.ahead(
        searched, look.cells, members, flags, look.keep, cells, variance, run
    )
    begin = (region.spans.start, region.spans.stop)
    placed, _ = rows.move_ends.ahead(searched, region, law, use, yes, begin, layout)
    settled = settle.ahead(searched, look, region, apart, (law, variance), placed, layout)
    method.rounding_variance.ahead(data, searched, look.keep)
    rows.sum_kept_rows.ahead(searched, look.cells, look.keep)
    sum_final.ahead(
        ordered._replace(trusted=None), look, region, settled, law, cells, layout, data.num_cells
    )
    half, cell, one = (
        jax.eval_shape(f_ratio, *[of(*shape)] * 3)
        for shape in ((NUM_SPLITS, 2), (data.num_cells,), ())
    )
    log_tails.ahead(one, half, half, cell, cell, cell)
