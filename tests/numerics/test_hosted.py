from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from lisdd_jax.numerics import hosted


def test_namespace_is_that_of_the_arrays():
    assert hosted.namespace(np.ones(2), np.float64(1)) is np
    assert hosted.namespace(np.ones(2), jnp.ones(2)) is jnp
    assert hosted.namespace(jnp.ones(2)) is jnp


def test_traced_values_are_not_known():
    seen = []

    @jax.jit
    def look(x):
        seen.append(hosted.is_known({"x": x, "one": np.ones(1)}))
        assert hosted.to_host(x) is x
        return x

    look(jnp.ones(3))
    assert seen == [False]
    assert hosted.is_known({"x": jnp.ones(3)})
    assert hosted.is_known(())


def test_known_trees_come_to_the_host():
    tree = {"a": jnp.arange(3), "b": (np.ones(2), None)}
    found = hosted.to_host(tree)
    assert isinstance(found["a"], np.ndarray)
    assert found["a"].tolist() == [0, 1, 2]
    assert found["b"][1] is None


def test_held_trees_carry_no_derivative():
    known = {"a": np.ones(2)}
    assert hosted.held(known) is known
    slopes = jax.jit(jax.grad(lambda x: jnp.sum(hosted.held((x, 2 * x))[1] + x)))(np.ones(2))
    assert slopes.tolist() == [1, 1]


@pytest.mark.parametrize("num", [0, 1, 5])
def test_repeat(num):
    def step(k, state):
        return 2 * state[0], state[1] + state[0], state[2] + k

    first = (np.arange(1.0, 3.0), np.zeros(2), np.int32(0))
    found = hosted.repeat(num, step, first)
    np.testing.assert_array_equal(found[0], first[0] * 2**num)
    np.testing.assert_array_equal(found[1], first[0] * (2**num - 1))
    assert found[2] == num * (num - 1) // 2
    assert isinstance(found[0], np.ndarray)
    traced = jax.jit(partial(hosted.repeat, num, step))(jax.device_put(first))
    for left, right in zip(traced, found, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("num", [1, 5])
def test_scan(num):
    def step(state, k):
        return state + hosted.take(state, 1, 0), hosted.namespace(state).where(k > 0, state, -state)

    first = np.arange(1.0, 3.0)
    state, found = hosted.scan(step, first, num)
    np.testing.assert_array_equal(state, first + 2 * (2**num - 1))
    expected = [(1 if k else -1) * (first + 2 * (2**k - 1)) for k in range(num)]
    np.testing.assert_array_equal(found, expected)
    assert isinstance(found, np.ndarray)
    traced = jax.jit(partial(hosted.scan, step, num=num))(state=jax.device_put(first))
    np.testing.assert_array_equal(traced[0], state)
    np.testing.assert_array_equal(traced[1], found)


@pytest.mark.parametrize(
    "spec", ["k,kij->ij", "ij,jk,kl->il", "bp,kpq,bq->bk", "p,p->", "jpab,pq,jqab->jab"]
)
def test_contractions_are_those_of_einsum(spec):
    rng = np.random.default_rng(0)
    sizes = dict(zip("abijklpq", (2, 3, 4, 5, 2, 3, 2, 4), strict=True))
    inputs = spec.split("->")[0].split(",")
    arrays = [rng.normal(size=[sizes[name] for name in names]) for names in inputs]
    found = hosted.contract(spec, *arrays)
    np.testing.assert_array_equal(found, np.einsum(spec, *arrays))
    traced = jax.jit(partial(hosted.contract, spec))(*map(jax.device_put, arrays))
    np.testing.assert_allclose(traced, found, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("shape", [(5,), (2, 3)])
def test_running_sums(shape):
    values = np.arange(np.prod(shape), dtype=float).reshape(shape) - 1
    found = hosted.running_sums(values)
    np.testing.assert_array_equal(found[..., 0], 0)
    np.testing.assert_array_equal(found[..., 1:], np.cumsum(values, -1))
    np.testing.assert_array_equal(jax.jit(hosted.running_sums)(values), found)


def test_take():
    values = np.arange(6.0).reshape(2, 3)
    for axis, k in ((0, 1), (-1, 2)):
        expected = hosted.take(values, k, axis)
        np.testing.assert_array_equal(expected, values.take(k, axis))
        traced = jax.jit(hosted.take, static_argnums=2)(jax.device_put(values), k, axis)
        np.testing.assert_array_equal(traced, expected)


@pytest.mark.parametrize("condition", [False, True])
def test_one_of_two_trees(condition):
    trees = ({"x": np.ones(2), "y": np.int64(3)}, {"x": np.zeros(2), "y": np.int64(4)})
    expected = trees[0] if condition else trees[1]
    host = hosted.choose(np.bool_(condition), *trees)
    traced = jax.jit(hosted.choose)(condition, *jax.device_put(trees))
    for found in (host, traced):
        np.testing.assert_array_equal(found["x"], expected["x"])
        assert found["y"] == expected["y"]


@pytest.mark.parametrize("condition", [False, True])
def test_work_is_done_only_if_needed(condition):
    calls = []

    def work(state):
        calls.append(None)
        return state + 1

    found = hosted.only_if(np.bool_(condition), work, np.zeros(2))
    np.testing.assert_array_equal(found, np.full(2, float(condition)))
    assert len(calls) == condition
    traced = jax.jit(lambda flag, x: hosted.only_if(flag, work, x))(condition, jnp.zeros(2))
    np.testing.assert_array_equal(traced, found)


def test_log_of_the_normal_distribution_function():
    values = np.array([-40.0, -3.0, 0.0, 2.0, 10.0])
    for found in (hosted.log_ndtr(values), jax.jit(hosted.log_ndtr)(values)):
        np.testing.assert_allclose(found, stats.norm.logcdf(values), rtol=1e-9)
    assert hosted.log_ndtr(np.float64(0)) == pytest.approx(np.log(0.5))


def test_work_is_traced_once_in_a_batch_too():
    traces = []

    def repeat(scale, state):
        def work(state, step):
            traces.append(None)
            return {"sum": state["sum"] + scale * step, "flag": step > 1}

        traced, empty = hosted.traced_once(work, state, 0.0)
        assert empty["flag"].dtype == bool
        for step in (1.0, 2.0):
            state = traced(state, step)
        return state, empty

    scale, state = np.array([1.0, 10.0]), {"sum": np.ones(2), "flag": np.zeros(2, bool)}
    found, empty = jax.jit(jax.vmap(repeat))(scale, state)
    assert len(traces) == 1
    np.testing.assert_array_equal(found["sum"], 1 + 3 * scale)
    assert np.all(found["flag"])
    np.testing.assert_array_equal(empty["sum"], np.zeros(2))
