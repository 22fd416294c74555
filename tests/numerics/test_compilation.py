import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lisdd_jax.numerics import compilation
from lisdd_jax.numerics.compilation import MOST_ROWS_QUICK, compiled, is_quick


@compiled(static_argnames=("power",))
def total(values, power, *, factor=1.0):
    return factor * jnp.sum(values**power)


@compiled
def spread(*values):
    return jnp.ptp(jnp.stack(values))


class Store:
    """Keeps descriptions and nothing else."""

    def __init__(self):
        self.descriptions = []

    def fetch(self, description, lower):
        self.descriptions.append(description)
        return lower().compile()


@pytest.fixture
def store():
    kept = Store()
    compilation.keep_programs(kept)
    yield kept
    compilation.keep_programs(None)


def test_quick_where_values_are_known_and_few():
    assert is_quick({"few": np.zeros((3, MOST_ROWS_QUICK)), "none": None, "number": 1.0})
    assert not is_quick([np.zeros((1, MOST_ROWS_QUICK + 1))])
    traced = []
    jax.jit(lambda x: traced.append(is_quick(x)) or x)(jnp.zeros(3))
    assert traced == [False]


def test_options_are_accepted_on_this_device():
    assert compilation.quick_options()


def test_one_answer_however_it_is_called(store):
    values = jnp.arange(4.0)
    compilation.keep_programs(None)
    plain = [total(values, 2), total(values, power=2, factor=3.0), spread(1.0, 4.0, 2.0)]
    compilation.keep_programs(store)
    kept = [total(values, 2), total(values, power=2, factor=3.0), spread(1.0, 4.0, 2.0)]
    traced = [
        jax.jit(lambda x: total(x, 2))(values),
        jax.jit(lambda x: total(x, power=2, factor=3.0))(values),
        jax.jit(spread)(1.0, 4.0, 2.0),
    ]
    assert [float(x) for x in plain] == [14.0, 42.0, 3.0]
    assert plain == kept == traced
    np.testing.assert_array_equal(jax.grad(total)(values, 2), 2 * values)
    np.testing.assert_array_equal(jax.vmap(lambda x: total(x, 2))(values[:, None]), values**2)


def test_descriptions_tell_programs_apart(store):
    for call in (
        lambda: total(jnp.arange(4.0), 2),
        lambda: total(jnp.arange(4.0), 3),
        lambda: total(jnp.arange(5.0), 2),
        lambda: total(jnp.arange(4.0, dtype=jnp.float32), 2),
        lambda: total(jnp.arange(4.0), 2, factor=jnp.asarray(2.0)),
        lambda: spread(jnp.arange(4.0), jnp.arange(4.0)),
    ):
        call()
    assert len(set(store.descriptions)) == len(store.descriptions) == 6
    total(1 + jnp.arange(4.0), 2)
    assert store.descriptions[-1] == store.descriptions[0]
