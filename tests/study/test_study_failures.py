"""Replications that fail: which one it was, and what there is to do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_studies import KEY, run_mean

from lisdd_jax.study.engine import ReplicationError, replication_keys, run_study


def unlucky(key, mu):
    return mu + jax.random.uniform(key)


def fails_above(limit):
    def check(x):
        if np.any(x > limit):
            raise ValueError(f"too large:\n{np.max(x):.6f}")
        return np.asarray(x)

    def evaluate(data, key, mu):
        shape = jax.ShapeDtypeStruct((), data.dtype)
        return {"value": jax.pure_callback(check, shape, data, vmap_method="broadcast_all")}

    return evaluate


def uniform(cell, number):
    return float(jax.random.uniform(replication_keys(KEY, cell, number)[0]))


@pytest.mark.parametrize(
    "options", [{}, {"chunk_size": 7}, {"batch_size": 8}, {"num_threads": 1}], ids=str
)
def test_an_exception_behind_a_callback_names_cell_and_replication(options):
    drawn = [uniform(1, number) for number in range(30)]
    largest = int(np.argmax(drawn))
    limit = 1 + sorted(drawn)[-2]
    with pytest.raises(ReplicationError) as caught:
        run_mean(unlucky, fails_above(limit), **options)
    error = caught.value
    assert (error.cell, error.replication) == (1, largest)
    expected = f"replication {largest} of cell 1 (mu=1.0) failed: ValueError: too large: "
    assert str(error) == f"{expected}{1 + drawn[largest]:.6f}"


def test_what_was_finished_before_is_kept(tmp_path):
    seen = []

    def check(x):
        seen.append(x)
        if len(seen) == 25:
            raise RuntimeError("the licence server went away")
        return np.asarray(x)

    def evaluate(data, key, mu):
        shape = jax.ShapeDtypeStruct((), data.dtype)
        return {"value": jax.pure_callback(check, shape, data)}

    options = {"out_dir": tmp_path, "name": "flaky", "chunk_size": 5, "num_threads": 1}
    # Repeated alone, the replications succeed, so no single one can be named.
    with pytest.raises(
        ReplicationError, match=r"\(or one of the 4 after it\) failed: RuntimeError"
    ):
        run_mean(unlucky, evaluate, **options)
    reports = []
    result = run_mean(unlucky, evaluate, **options, resume=True, progress=reports.append)
    assert reports[0].done >= 20
    assert result.complete


def test_an_exception_while_tracing_is_the_users_own():
    class Own(Exception):  # noqa: N818
        pass

    def evaluate(data, key, mu):
        raise Own

    with pytest.raises(Own):
        run_mean(evaluate=evaluate)


def test_a_data_set_beyond_the_memory_is_refused_before_it_is_drawn():
    def simulate(key, mu):
        return jnp.sort(mu + jax.random.normal(key, (1 << 20, 1)) * jnp.ones((1, 1 << 20)))

    with pytest.raises(MemoryError, match=r"must fit into the memory .*, but need .* TiB"):
        run_study(
            simulate,
            lambda data, key, mu: {"first": data[0, 0]},
            grid={"mu": [0.0]},
            num_replications=2,
            key=KEY,
        )
