"""Numbers of a key are those of ``jax.random``, bit by bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lisdd_jax.numerics import random_words

NUM = 257


def draws(generator, key):
    """All that is drawn, by the module under test or by ``jax.random``."""
    if generator is random_words:
        keys, folded = generator.split(key, 5), generator.fold_in(key, jnp.int32(7))
        numbers = generator.uniform(key, NUM), generator.coins(key, NUM)
    else:
        keys, folded = generator.split(key, 5), generator.fold_in(key, 7)
        uniform = generator.uniform(key, (NUM,), jnp.float32)
        numbers = uniform, generator.bernoulli(key, 0.5, (NUM,))
    return *numbers, jax.random.key_data(keys), jax.random.key_data(folded)


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
@pytest.mark.parametrize("double", [True, False])
def test_numbers_are_those_of_jax(impl, double):
    with jax.enable_x64(double):
        for seed in (0, 12345):
            key = jax.random.key(seed, impl=impl)
            found = jax.jit(lambda key: draws(random_words, key))(key)
            for own, theirs in zip(found, draws(jax.random, key), strict=True):
                assert own.dtype == theirs.dtype
                np.testing.assert_array_equal(own, theirs)


def test_numbers_of_several_keys_at_once():
    keys = jax.random.split(jax.random.key(3), 4)
    found = jax.vmap(lambda key: random_words.uniform(key, NUM))(keys)
    expected = jax.vmap(lambda key: jax.random.uniform(key, (NUM,), jnp.float32))(keys)
    np.testing.assert_array_equal(found, expected)


def test_fewer_numbers_are_the_first_of_many():
    key = jax.random.key(1)
    np.testing.assert_array_equal(random_words.coins(key, NUM)[:9], random_words.coins(key, 9))
