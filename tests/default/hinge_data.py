"""Hinges row by row, and rows beside one end."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from lisdd_jax.default.ends import Placed, Spans
from lisdd_jax.default.hinges import EndRows


def hinge(along, width):
    """The hinge of the reference, row by row."""
    values = []
    for u in along:
        if width > 0 and abs(u) < width:
            values.append((u + width) ** 2 / (4 * width))
        else:
            values.append(max(u, 0.0))
    return np.array(values)


def left_of(columns, response):
    solution = np.linalg.lstsq(columns, response, rcond=None)[0]
    return float(np.sum((response - columns @ solution) ** 2))


class Beside(NamedTuple):
    """A region from ``start`` to the last of ``num`` rows, with rows out of use behind, and its
    ends searched for from ``low`` on and below ``high``."""

    rows: EndRows
    spans: Spans
    placed: Placed
    start: int
    low: int
    high: int


def region_to_the_end(axis, residual, corrected, kept):
    num, size, low, high = len(axis), len(axis) + 8, 50, 108
    start = int(np.searchsorted(axis, 5))

    def integers(*values):
        return jnp.array(values, jnp.int32)

    def padded(values, pad):
        return jnp.asarray(np.append(np.asarray(values, float), np.full(size - num, pad)))

    rows = EndRows(
        padded(axis, np.inf),
        padded(residual, 0),
        padded(corrected, 0),
        padded(kept, 0),
        jnp.int32(num),
    )
    bounds = integers(start, 0), integers(num, 0), integers(low, 0), integers(high, 0)
    spans = Spans(jnp.array([True, False]), *bounds, jnp.zeros((2, 4), bool))
    nothing = jnp.zeros((2, size + 1))
    placed = Placed(spans.start, spans.stop, jnp.zeros((2, 3)), nothing)
    return Beside(rows, spans, placed, start, low, high)
