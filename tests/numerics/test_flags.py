import jax
import numpy as np
import pytest

from lisdd_jax.numerics import flags

look_up = jax.jit(flags.look_up)


@pytest.mark.parametrize("num", [1, 14, 31, 32, 33, 100])
def test_flags_are_those_of_the_places_and_false_beyond(num):
    rng = np.random.default_rng(num)
    given, place = rng.random(num) < 0.5, rng.integers(0, num + 1, 200).astype(np.int32)
    given[-1] = True
    expected = np.append(given, False)[place]
    np.testing.assert_array_equal(look_up(given, place), expected)
    one_by_one = jax.vmap(look_up, (None, 0))(given, place[:, None])[:, 0]
    np.testing.assert_array_equal(one_by_one, expected)
