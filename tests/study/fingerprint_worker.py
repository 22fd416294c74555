"""Prints the fingerprints of a few computations, for the tests of their stability.

They must not depend on the terminal, the locale, the folder of this file or the order of sets.
"""

import jax
import jax.numpy as jnp
import numpy as np

from lisdd_jax.study.engine.fingerprint import fingerprint
from lisdd_jax.study.engine.replication import Replication

KEY = jax.random.key(5)
TABLE = np.arange(3000.0)
WORDS = {"one", "two", "three", "four"}


@jax.custom_jvp
def double(x):
    return 2 * x


double.defjvp(lambda primals, tangents: (double(primals[0]), 2 * tangents[0]))


def helper(x):
    return np.asarray(x) + len(WORDS)


def simulate(key, mu):
    return double(mu) + jax.random.normal(key, (20,)) + jax.random.normal(KEY, (20,))


def compiled(data, key, mu):
    return {"mean": data.mean() + jnp.sum(jnp.asarray(TABLE) * mu)}


def with_pure_callback(data, key, mu):
    shape = jax.ShapeDtypeStruct((), data.dtype)
    return {"mean": jax.pure_callback(lambda x: helper(x) + 1, shape, data.mean())}


def with_debug_callback(data, key, mu):
    jax.debug.callback(lambda x: helper(x) if "one" in {"one", "two"} else None, mu)
    return {"mean": data.mean()}


def with_io_callback(data, key, mu):
    shape = jax.ShapeDtypeStruct((), data.dtype)
    return {"mean": jax.experimental.io_callback(helper, shape, data.mean())}


def main():
    dtypes = {"mu": jnp.result_type(float)}
    for evaluate in (compiled, with_pure_callback, with_debug_callback, with_io_callback):
        replication = Replication(simulate, evaluate)
        print("FINGERPRINT", fingerprint(replication, KEY.dtype, dtypes, "cpu"))


if __name__ == "__main__":
    main()
