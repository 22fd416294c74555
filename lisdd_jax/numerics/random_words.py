"""Random numbers of a key as ``jax.random`` makes them, in one loop over the numbers.

On CPU JAX compiles the rounds of its generator as a loop of some fifty small kernels, which for a
few thousand numbers cost ten times as much as the numbers. Here the rounds are written out. Keys of
other generators are left to ``jax.random``.

References:
  Salmon, Moraes, Dror and Shaw (2011), Parallel random numbers: as easy as 1, 2, 3, SC '11
  (Threefry with two words of 32 bits and 20 rounds).
"""

import jax
import jax.numpy as jnp
from jax import lax

_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
_ROUNDS, _ROUNDS_PER_KEY = 20, 4
_PARITY = 0x1BD11BDA
_MANTISSA_BITS = 23


def _is_written_out(key: jax.Array) -> bool:
    known = jax.random.key_impl(key) == "threefry2x32"
    return bool(known and getattr(jax.config, "jax_threefry_partitionable", True))


def _scramble(key: jax.Array, first: jax.Array, second: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Threefry of counters of two words under a key, all uint32."""
    words = jax.random.key_data(key)
    schedule = [words[0], words[1], words[0] ^ words[1] ^ jnp.uint32(_PARITY)]
    first, second = first + schedule[0], second + schedule[1]
    for i in range(_ROUNDS):
        turn = _ROTATIONS[i % len(_ROTATIONS)]
        first = first + second
        second = first ^ ((second << jnp.uint32(turn)) | (second >> jnp.uint32(32 - turn)))
        if (i + 1) % _ROUNDS_PER_KEY == 0:
            block = (i + 1) // _ROUNDS_PER_KEY
            first = first + schedule[block % 3]
            second = second + schedule[(block + 1) % 3] + jnp.uint32(block)
    return first, second


def _words(key: jax.Array, num: int) -> tuple[jax.Array, jax.Array]:
    """Two words for each of so many numbers, fewer than 2^32."""
    return _scramble(key, jnp.zeros(num, jnp.uint32), lax.iota(jnp.uint32, num))


def uniform(key: jax.Array, num: int) -> jax.Array:
    """``jax.random.uniform(key, (num,), jnp.float32)``.

    Example:
      >>> key = jax.random.key(0)
      >>> bool(jnp.all(uniform(key, 5) == jax.random.uniform(key, (5,), jnp.float32)))
      True
    """
    if not _is_written_out(key):
        return jax.random.uniform(key, (num,), jnp.float32)
    first, second = _words(key, num)
    share = (first ^ second) >> jnp.uint32(32 - _MANTISSA_BITS)
    return share.astype(jnp.float32) * jnp.float32(2.0**-_MANTISSA_BITS)


def coins(key: jax.Array, num: int) -> jax.Array:
    """``jax.random.bernoulli(key, 0.5, (num,))``."""
    if not _is_written_out(key):
        return jax.random.bernoulli(key, 0.5, (num,))
    first, second = _words(key, num)
    # A coin is the first bit of a uniform number, whose first word is the one or both mixed.
    word = first if jnp.result_type(float) == jnp.float64 else first ^ second
    return word >> jnp.uint32(31) == 0


def split(key: jax.Array, num: int) -> jax.Array:
    """``jax.random.split(key, num)``."""
    if not _is_written_out(key):
        return jax.random.split(key, num)
    words = jnp.stack(_words(key, num), axis=-1)
    return jax.random.wrap_key_data(words, impl=jax.random.key_impl(key))


def fold_in(key: jax.Array, number: jax.Array) -> jax.Array:
    """``jax.random.fold_in(key, number)`` of an int32 that is not negative."""
    if not _is_written_out(key):
        return jax.random.fold_in(key, number)
    words = _scramble(key, jnp.uint32(0), number.astype(jnp.uint32))
    return jax.random.wrap_key_data(jnp.stack(words), impl=jax.random.key_impl(key))
