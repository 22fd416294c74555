"""Checks at the public boundary: one sentence that says what is required and what came.

Shapes, types and names are checked always. Values are checked where they are concrete; under a
trace the same conditions end in a status.
"""

import functools
import operator
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_LARGEST_SEED = 2**32 - 1


def is_concrete(value: Any) -> bool:
    """Whether a value can be looked at now, outside any trace."""
    return not isinstance(value, jax.core.Tracer)


class Shapes:
    """Named dimensions shared by the arguments of one call; the first use of a name binds it."""

    def __init__(self, **bound: tuple[int, str]) -> None:
        """Start with some dimensions bound: their size, and what has it."""
        self._sizes = dict(bound)

    def check(self, name: str, shape: tuple[int, ...], dimensions: tuple[str, ...]) -> None:
        """Check one argument against its dimension names, such as ``("n", "p")``."""
        wanted = ", ".join(dimensions) + ("," if len(dimensions) == 1 else "")
        if len(shape) != len(dimensions):
            raise ValueError(
                f"{name} must have {len(dimensions)} axes ({wanted}), got shape {shape}"
            )
        for dimension, size in zip(dimensions, shape, strict=True):
            bound, owner = self._sizes.setdefault(dimension, (size, name))
            if bound != size:
                raise ValueError(
                    f"{name} must have shape ({wanted}) with {dimension} = {bound} as in {owner},"
                    f" got shape {shape}"
                )


def float_array(name: str, value: Any) -> jax.Array:
    """Convert to float32 or float64; refuse what would lose its meaning on the way."""
    if not isinstance(value, jax.Array):
        value = _from_host(name, value)
    if jnp.issubdtype(value.dtype, jnp.integer) or value.dtype == jnp.bool_:
        if is_concrete(value):
            return _from_host(name, np.asarray(value))
        return value.astype(jnp.result_type(float))
    if value.dtype not in (jnp.float32, jnp.float64):
        raise TypeError(f"{name} must hold float32 or float64 numbers, got {value.dtype}")
    return value


def _from_host(name: str, value: Any) -> jax.Array:
    array = _plain_array(name, value)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold real numbers, got {array.dtype}")
    if array.dtype.kind in "iub":
        # Integers would wrap on the way to 32 bits; floats round, which is checked.
        array = array.astype(np.float64)
    if array.dtype == np.float64 and jnp.result_type(float) == jnp.float32:
        _refuse_lost_variation(name, array)
        if getattr(value, "dtype", None) == np.float64:
            _say_once_that_precision_is_lost()
    # Moved, not made by an operation, which would be compiled anew for every number of rows.
    return jax.device_put(array)


def _plain_array(name: str, value: Any) -> np.ndarray:
    """A host array in which masked values are NaN, and numbers have at most 64 bits."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        if value.dtype.kind not in "fiub":
            raise TypeError(f"{name} must hold real numbers, got {value.dtype}")
        floats: Any = value.astype(np.result_type(value.dtype, np.float32))
        value = floats.filled(np.nan)
    array = np.asarray(value)
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        # JAX has no longer numbers; what double precision cannot hold becomes infinite, or zero.
        with np.errstate(over="ignore", under="ignore"):
            return array.astype(np.float64)
    return array


@functools.cache
def _say_once_that_precision_is_lost() -> None:
    warnings.warn(
        "float64 input is computed in float32, as JAX is set; for double precision switch"
        " jax_enable_x64 on before anything else",
        UserWarning,
        stacklevel=2,
    )


def _refuse_lost_variation(name: str, array: np.ndarray) -> None:
    """Rounding to float32 must be small beside the spread of each column."""
    if array.size == 0:
        return
    columns = array.reshape(array.shape[0], -1) if array.ndim else array.reshape(1, 1)
    for j, column in enumerate(columns.T):
        values = column[np.isfinite(column)]
        if values.size and _loses_variation(values):
            place = f" column {j}" if array.ndim > 1 else ""
            raise ValueError(
                f"{name}{place} must keep its variation in float32, but rounding moves it by more"
                " than a thousandth of its standard deviation; subtract an offset or enable float64"
                " (jax_enable_x64)"
            )


def _loses_variation(values: np.ndarray) -> bool:
    if np.max(np.abs(values)) > np.finfo(np.float32).max:
        return True
    # The mean of equal numbers is rounded, and their standard deviation need not be zero.
    if np.ptp(values) == 0:
        return False
    moved = np.max(np.abs(values - values.astype(np.float32)))
    return bool(moved > 1e-3 * np.std(values))


def check_finite(name: str, value: jax.Array, mask: jax.Array | None = None) -> None:
    """Refuse NaN and infinite values in rows in use, where values are concrete."""
    if not (is_concrete(value) and (mask is None or is_concrete(mask))):
        return
    array = np.asarray(value)
    bad = ~np.all(np.isfinite(array), axis=tuple(range(1, array.ndim)))
    if mask is not None:
        bad &= np.asarray(mask)
    if bad.any():
        raise ValueError(
            f"{name} must be finite in the rows in use, got NaN or an infinite value in"
            f" {int(bad.sum())} of {bad.size} rows, the first at row {int(np.argmax(bad))}"
        )


def check_between(name: str, value: Any, low: float, high: float) -> None:
    """Refuse a concrete number outside ``[low, high]``, NaN included."""
    if not is_concrete(value):
        return
    number = np.asarray(value)
    if number.dtype.kind not in "fiu" or not np.all((number >= low) & (number <= high)):
        raise ValueError(f"{name} must lie between {low:g} and {high:g}, got {value!r}")


def check_number(name: str, value: Any, low: float, high: float) -> None:
    """Refuse what is no single number, and a concrete one outside ``[low, high]``."""
    if np.shape(value) != ():
        raise ValueError(f"{name} must be a single number, got shape {np.shape(value)}")
    check_between(name, value, low, high)


def check_count(name: str, value: Any, least: int, most: int | None = None) -> int:
    """A whole number within its limits; refuse anything else."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, bool | np.bool_) or number < least or (most is not None and number > most):
        limit = "" if most is None else f" and at most {most}"
        raise ValueError(f"{name} must be an integer of at least {least}{limit}, got {value!r}")
    return number


def check_seed(name: str, value: Any) -> int:
    """A seed of ``jax.random.key``: 32 bits, beyond which single precision would drop digits."""
    return check_count(name, value, 0, _LARGEST_SEED)


def check_key(key: Any) -> jax.Array:
    """Refuse anything but one typed key."""
    if not (isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)):
        kind = f"{key.dtype}{list(key.shape)}" if isinstance(key, jax.Array) else type(key).__name__
        raise TypeError(
            f"key must be a typed key as made by jax.random.key(seed), got {kind};"
            " jax.random.wrap_key_data turns a raw key into a typed one"
        )
    if key.shape != ():
        raise ValueError(f"key must be a single key, got shape {key.shape}")
    return key


def check_filled(**arrays: jax.Array) -> None:
    """Refuse arrays without rows or without columns."""
    for name, array in arrays.items():
        if 0 in array.shape:
            raise ValueError(
                f"{name} must have at least one row and one column, got shape {array.shape}"
            )


def positive_rows(name: str, value: Any, mask: jax.Array, dtype: Any) -> jax.Array:
    """Numbers ``(n,)``, positive and finite in the rows in use."""
    array = float_array(name, value).astype(dtype)
    _check_row_shape(name, array, mask.shape[0])
    check_finite(name, array, mask)
    if is_concrete(array) and is_concrete(mask):
        bad = (np.asarray(array) <= 0) & np.asarray(mask)
        if bad.any():
            first = int(np.argmax(bad))
            raise ValueError(
                f"{name} must be positive in the rows in use, got {array[first]:g} at row {first}"
            )
    return array


def row_labels(name: str, value: Any, num_rows: int) -> jax.Array:
    """Integer labels ``(n,)`` as int32."""
    labels = value if isinstance(value, jax.Array) else np.asarray(value)
    if not jnp.issubdtype(labels.dtype, jnp.integer):
        raise TypeError(f"{name} must hold integers, got {labels.dtype}")
    _check_row_shape(name, labels, num_rows)
    if is_concrete(labels) and labels.size:
        largest = int(np.max(np.abs(np.asarray(labels, np.float64))))
        if largest > np.iinfo(np.int32).max:
            raise ValueError(f"{name} must hold labels that fit in 32 bits, got {largest}")
    # Known ones are converted by NumPy: each number of rows would be a program.
    return jnp.asarray(labels.astype(np.int32), jnp.int32)


def row_flags(name: str, value: Any, num_rows: int) -> jax.Array:
    """Flags of the rows as ``(n,)`` bool."""
    flags = value if isinstance(value, jax.Array) else np.asarray(value)
    if flags.dtype != jnp.bool_:
        raise TypeError(f"{name} must be boolean, got {flags.dtype}")
    _check_row_shape(name, flags, num_rows)
    return jnp.asarray(flags, bool)


def mask_array(mask: Any, num_rows: int) -> jax.Array:
    """The mask as ``(n,)`` bool, all True where None."""
    if mask is None:
        return jax.device_put(np.ones(num_rows, bool))
    return row_flags("mask", mask, num_rows)


def _check_row_shape(name: str, array: Any, num_rows: int) -> None:
    if array.shape != (num_rows,):
        raise ValueError(f"{name} must have shape ({num_rows},) like the rows, got {array.shape}")


def common_dtype(**arrays: jax.Array) -> None:
    """Refuse a mixture of float32 and float64 arguments."""
    kinds = {name: array.dtype for name, array in arrays.items()}
    if len(set(kinds.values())) > 1:
        listed = ", ".join(f"{name} {dtype}" for name, dtype in kinds.items())
        raise TypeError(f"arguments must share one floating-point type, got {listed}")
