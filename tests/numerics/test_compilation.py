import threading

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
        self.num_released = 0

    def fetch(self, description, lower):
        self.descriptions.append(description)
        return lower().compile()

    def recall(self, task):
        return []

    def note(self, task, descriptions):
        self.noted = descriptions

    def release(self):
        self.num_released += 1


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


def compiled_in(monkeypatch):
    """Names of the threads that XLA works in, as they come."""
    names = []

    def note(event, *_, fun_name="", **__):
        if event == "/jax/core/compile/backend_compile_duration" and "<lambda>" not in fun_name:
            names.append(
                (fun_name, threading.current_thread().name.partition("_compiler")[1] != "")
            )

    jax.monitoring.register_event_duration_secs_listener(note)
    monkeypatch.setattr(compilation, "_tasks_begun", set())
    return names, lambda: jax.monitoring.unregister_event_duration_listener(note)


def test_what_is_made_ahead_is_not_compiled_again(monkeypatch):
    names, stop = compiled_in(monkeypatch)
    compilation.quick_options()
    values = np.arange(7.0)

    def plan():
        shape = total.ahead(jax.ShapeDtypeStruct((7,), values.dtype), 2)
        spread.ahead(shape, shape)
        # Never called, and of no consequence.
        spread.ahead(shape, shape, shape)

    try:
        for _ in range(2):
            with compilation.made_ahead("total and spread", plan):
                found = total(values, 2)
                assert float(spread(found, found)) == 0.0
                # Of another shape than planned: compiled where it is called.
                assert float(total(values[:6], 2)) == 55.0
    finally:
        stop()
    assert float(found) == 91.0
    called = [name for name in names if not name[1]]
    assert called == [("jit(total)", False)]
    assert sorted(set(names) - set(called)) == [("jit(spread)", True), ("jit(total)", True)]


def test_a_task_inside_another_finds_what_that_began(monkeypatch):
    class Remembering(Store):
        def __init__(self):
            super().__init__()
            self.tasks, self.asked = {}, []

        def load(self, description):
            self.asked.append((description, threading.current_thread()))

        def recall(self, task):
            return self.tasks.get(task, [])

        def note(self, task, descriptions):
            self.tasks[task] = descriptions

    def run(planned):
        monkeypatch.setattr(compilation, "_tasks_begun", set())
        with compilation.made_ahead("outer"):
            begun = len(store.asked)
            total(np.arange(5.0), 2)
            with compilation.made_ahead("inner", lambda: planned.append(True)):
                spread(np.ones(5), np.ones(5))
        return begun

    store = Remembering()
    compilation.keep_programs(store)
    try:
        first, planned = [], []
        assert run(first) == 0
        run(planned)
    finally:
        compilation.keep_programs(None)
    # The inner task has noted its own programs, the outer one those of both.
    assert first
    assert not planned
    assert store.tasks["outer"][1:] == store.tasks["inner"]
    assert len(store.tasks["outer"]) == 2
    # Loaded in the background, each once.
    assert sorted(name for name, _ in store.asked) == sorted(store.tasks["outer"])
    assert threading.current_thread() not in [thread for _, thread in store.asked]


def test_what_cannot_be_compiled_fails_where_it_is_called(monkeypatch):
    monkeypatch.setattr(compilation, "_tasks_begun", set())

    class Broken(Store):
        def fetch(self, description, lower):
            raise RuntimeError("no room")

    compilation.keep_programs(Broken())
    plan = lambda: total.ahead(jax.ShapeDtypeStruct((9,), jnp.float64), 2)  # noqa: E731
    try:
        with compilation.made_ahead("broken", plan):
            reached = True
            with pytest.raises(RuntimeError, match="no room"):
                total(np.arange(9.0), 2)
    finally:
        compilation.keep_programs(None)
    assert reached


def test_a_failed_task_leaves_nothing_behind(monkeypatch):
    monkeypatch.setattr(compilation, "_tasks_begun", set())
    shape = jax.ShapeDtypeStruct((11,), jnp.float64)
    with (
        pytest.raises(KeyboardInterrupt),
        compilation.made_ahead("interrupted", lambda: total.ahead(shape, 2)),
    ):
        raise KeyboardInterrupt
    for thread in threading.enumerate():
        if thread.name.startswith("lisdd_jax_compiler"):
            thread.join(60)
            assert not thread.is_alive()
    assert total(jnp.ones(11), 2) == 11.0


def test_programs_of_many_tasks_are_let_go(monkeypatch, store):
    """A process that holds those of sixty shapes has no mappings of memory left on Linux."""
    monkeypatch.setattr(compilation, "_tasks_begun", set())
    monkeypatch.setattr(compilation, "MOST_TASKS", 2)
    compilation.keep_programs(None)
    total.release()
    held = []
    for num in (21, 22, 23):
        with compilation.made_ahead(f"outer of {num}"):
            # A task inside another lets go of nothing that the outer one has begun.
            with compilation.made_ahead(f"inner of {num}"):
                assert float(total(np.ones(num), 2)) == num
            held.append(total._quickly._cache_size())
    assert held == [1, 1, 1]
    assert float(total(np.ones(21), 2)) == 21.0
    compilation.keep_programs(store)
    for num in (21, 22):
        with compilation.made_ahead(f"task of {num}"):
            total(np.ones(num), 2)
    assert store.num_released == 0
    with compilation.made_ahead("one more"):
        assert store.num_released == 1
