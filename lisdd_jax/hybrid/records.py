"""Records of trajectories: what is checked about them, and the pieces that no window straddles.

A record may hold missing samples, gaps, and several trajectories one after the other. A piece is a
longest run of samples in use with neither a border nor a gap inside.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lisdd_jax import validation
from lisdd_jax.numerics import order

# Of the median interval: longer ones are gaps, unless the caller says what a gap is.
GAP_FACTOR = 5.0


class Record(NamedTuple):
    """A record whose samples in use come first, and where each of them lies in its piece.

    Attributes:
      times: ``(n,)``; zero in positions without a sample.
      rows: ``(n,)`` int32, the row of the sample in every position; ``n`` without one.
      used: ``(n,)`` bool, positions with a sample.
      first, stop: ``(n,)`` int32, positions where the piece begins and before which it ends.
    """

    times: jax.Array
    rows: jax.Array
    used: jax.Array
    first: jax.Array
    stop: jax.Array

    @property
    def together(self) -> jax.Array:
        """Whether a position and the next one are of one piece, ``(n - 1,)`` bool."""
        return jnp.arange(1, self.stop.shape[0], dtype=jnp.int32) < self.stop[:-1]

    def take(self, values: jax.Array) -> jax.Array:
        """Values ``(n, ...)`` of the rows by position, zero without a sample."""
        used = self.used.reshape(-1, *[1] * (values.ndim - 1))
        return jnp.where(used, values.at[self.rows].get(mode="clip"), 0.0)

    def put(self, values: jax.Array, known: jax.Array) -> jax.Array:
        """Values ``(n, ...)`` by position back in the rows; NaN where they are not ``known``."""
        known = known.reshape(-1, *[1] * (values.ndim - 1))
        shown = jnp.where(known, values, jnp.nan)
        return jnp.full_like(values, jnp.nan).at[self.rows].set(shown, mode="drop")


def check_times(
    times: Any, mask: jax.Array | None = None, segment: jax.Array | None = None
) -> jax.Array:
    """Times as an array; refuse what is not finite and increasing in the rows in use."""
    times = validation.float_array("times", times)
    if times.ndim != 1 or not times.shape[0]:
        raise ValueError(
            f"times must be one row of numbers with at least one entry, got shape {times.shape}"
        )
    validation.check_finite("times", times, mask)
    if all(validation.is_concrete(part) for part in (times, mask, segment)):
        _check_increasing(np.asarray(times), mask, segment)
    return times


def _check_increasing(times: np.ndarray, mask: Any, segment: Any) -> None:
    rows = np.arange(len(times)) if mask is None else np.flatnonzero(np.asarray(mask))
    label = np.zeros(len(times)) if segment is None else np.asarray(segment)
    back = (np.diff(times[rows]) <= 0) & (np.diff(label[rows]) == 0)
    if back.any():
        before, after = rows[np.argmax(back) :][:2]
        raise ValueError(
            f"times must increase, got {times[before]:g} and then {times[after]:g} at row {after};"
            " where another trajectory begins, say so with segment"
        )


def check_values(name: str, values: Any, times: jax.Array, mask: jax.Array | None) -> jax.Array:
    """Values ``(n, ...)`` at the times, finite in the rows in use."""
    values = validation.float_array(name, values)
    if values.ndim < 1 or values.shape[:1] != times.shape:
        raise ValueError(
            f"{name} must have one row per time, got shapes {values.shape} and {times.shape}"
        )
    validation.common_dtype(**{"times": times, name: values})
    validation.check_finite(name, values, mask)
    return values


def record(
    times: Any, mask: Any = None, segment: Any = None, largest_gap: Any = None
) -> tuple[Record, jax.Array]:
    """The record of some times, with its pieces.

    Args:
      times: ``(n,)``, increasing within a segment.
      mask: ``(n,)`` bool, samples to use; all where None.
      segment: ``(n,)`` integer labels of trajectories, each a run of rows; one where None.
      largest_gap: longest interval to bridge, in units of the times; ``GAP_FACTOR`` times the
        median interval where None.

    Returns:
      The record, and the mask as an array.

    Raises:
      ValueError, TypeError: shapes, types or concrete values do not fit.
    """
    num = len(np.shape(times)) and np.shape(times)[0]
    mask = validation.mask_array(mask, num)
    if segment is not None:
        segment = validation.row_labels("segment", segment, num)
    times = check_times(times, mask, segment)
    if largest_gap is not None:
        validation.check_number("largest_gap", largest_gap, np.finfo(float).tiny, np.inf)
        largest_gap = jnp.asarray(largest_gap, times.dtype)
    return _divide(times, mask, segment, largest_gap), mask


@jax.jit
def _divide(
    times: jax.Array, mask: jax.Array, segment: jax.Array | None, largest_gap: jax.Array | None
) -> Record:
    num = len(times)
    place = jnp.arange(num, dtype=jnp.int32)
    rows = jnp.nonzero(mask, size=num, fill_value=num)[0].astype(jnp.int32)
    used = rows < num
    times = jnp.where(used, times.at[rows].get(mode="clip"), 0.0)
    interval = lax.stop_gradient(jnp.diff(times))
    joined = used[1:] & (interval > 0)
    if segment is not None:
        label = segment.at[rows].get(mode="clip")
        joined = joined & (label[1:] == label[:-1])
    if largest_gap is None:
        limit = GAP_FACTOR * order.median(interval, joined) if num > 1 else jnp.inf
    else:
        limit = largest_gap
    joined = joined & (interval <= limit)
    first = lax.cummax(jnp.where(jnp.pad(joined, (1, 0)), 0, place))
    stop = lax.cummin(jnp.where(jnp.pad(joined, (0, 1)), num, place + 1), reverse=True)
    return Record(times, rows, used, first, stop)
