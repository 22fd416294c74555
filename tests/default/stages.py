"""The default method stopped after each of its passes over rows, on one table with two faults."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import rows_data as data

from lisdd_jax import dataset
from lisdd_jax.default import first_look, ordering, rows
from lisdd_jax.default.cells import MOST_CELLS
from lisdd_jax.default.layout import ColumnLayout
from lisdd_jax.default.narrow_runs import NarrowRun

LAYOUT = ColumnLayout(3, 7)
# To so many rows a diagnosis of the other tables is padded, whose programs these then are.
NUM = 512
MASK = np.arange(NUM) % 9 != 4
BAD = 11
NO_RUN = jax.device_put(NarrowRun(*np.zeros((2, 4), np.int32), np.zeros(4)))


def table():
    """A step from 7 on and one gross error, some rows out of use."""
    made = data.straight(3, data.step(3.0, 7), num=NUM)
    response = made.response.copy()
    response[BAD] += 60.0
    return made._replace(response=response)


class Stages(NamedTuple):
    """What the first passes hand on."""

    rows: Any
    look: Any
    theta: Any
    region: Any
    sums: Any


@functools.lru_cache(maxsize=1)
def stages():
    """The passes up to open regions: the law is the truth, the region the last cells, and the
    first cell neither."""
    source = table()
    trusted = source.axis < 3
    arrays = dataset.check_arguments(*source, num_cells=8, mask=MASK, trusted=trusted)
    made, _ = jax.jit(dataset.prepare)(**arrays)
    ordered = ordering.order_rows(made)
    lawful = ordering.without_terms(ordered, LAYOUT)
    look = first_look.look(lawful, LAYOUT.without_terms())
    sound = np.flatnonzero(MASK & (source.axis < 7) & (np.arange(NUM) != BAD))
    place = np.argsort(np.asarray(ordered.order))
    columns = np.asarray(ordered.columns)[:, place[sound]]
    theta = jnp.asarray(np.linalg.lstsq(columns[LAYOUT.physics].T, columns[-1])[0])
    members = np.zeros((4, MOST_CELLS), bool)
    members[0] = np.asarray(look.places)[:-1] >= 6.5
    members[0, int(look.cells.num) :] = False
    clean = np.asarray(look.places)[:-1] < 6.5
    clean[0] = False
    scale = jnp.full(MOST_CELLS, look.scale)
    region, sums = rows.open_regions(
        ordered,
        look.cells,
        jax.device_put(members),
        jax.device_put(clean),
        look.keep,
        scale,
        look.scale**2,
        NO_RUN,
    )
    return Stages(ordered, look, theta, region, sums)
