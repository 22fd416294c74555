"""Fingerprints: the same for the same computation in any session, another for another one."""

import os
import pty
import shutil
import subprocess
import sys
import weakref
from pathlib import Path

import fingerprint_worker
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_studies import evaluate_mean, run_mean, simulate_mean

from lisdd_jax.study.engine.fingerprint import fingerprint
from lisdd_jax.study.engine.host_code import host_code_hash
from lisdd_jax.study.engine.replication import Replication

WORKER = Path(fingerprint_worker.__file__)
SESSIONS = [
    {"COLUMNS": "40", "LANG": "C", "TERM": "dumb", "PYTHONHASHSEED": "1"},
    {"COLUMNS": "300", "LANG": "tr_TR.UTF-8", "TERM": "xterm-256color", "PYTHONHASHSEED": "2"},
]


def start(worker, folder, stdout, **environment):
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", **environment}
    return subprocess.Popen(
        [sys.executable, str(worker)], env=environment, cwd=folder, stdout=stdout, stderr=stdout
    )


def lines(text):
    return [line.split()[1] for line in text.splitlines() if line.startswith("FINGERPRINT")]


def test_the_same_on_a_terminal_in_a_batch_job_and_in_another_folder(tmp_path):
    copied = shutil.copy(WORKER, tmp_path / "moved.py")
    terminal, inner = pty.openpty()
    on_terminal = start(WORKER, tmp_path, inner, **SESSIONS[0])
    in_batch = start(
        copied, "/", subprocess.PIPE, **SESSIONS[1], JAX_INCLUDE_FULL_TRACEBACKS_IN_LOCATIONS="1"
    )
    printed = in_batch.communicate(timeout=120)[0].decode()
    assert on_terminal.wait(timeout=120) == 0
    seen = lines(os.read(terminal, 1 << 16).decode())
    os.close(terminal)
    os.close(inner)
    assert len(set(seen)) == 4, printed
    assert lines(printed) == seen


def of(simulate=simulate_mean, evaluate=evaluate_mean, static=()):
    replication = Replication(simulate, evaluate, static)
    dtypes = {"mu": jnp.result_type(float)}
    return fingerprint(replication, jax.random.key(0).dtype, dtypes, "cpu")


def test_the_same_for_the_same_code_traced_again():
    assert of() == of(lambda key, mu: mu + jax.random.normal(key, (20,)))


def test_a_computation_that_goes_on_is_lowered_once():
    replication = Replication(lambda key, mu: mu + jax.random.normal(key, (7,)), evaluate_mean, ())
    seen = []

    def note(event, *_, **__):
        seen.append(event)

    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        arguments = (jax.random.key(0).dtype, {"mu": jnp.result_type(float)}, "cpu")
        first = fingerprint(replication, *arguments)
        lowered = seen.count("/jax/core/compile/jaxpr_to_mlir_module_duration")
        assert fingerprint(replication, *arguments) == first
    finally:
        jax.monitoring.unregister_event_duration_listener(note)
    assert lowered > 0
    assert seen.count("/jax/core/compile/jaxpr_to_mlir_module_duration") == lowered


def looped(weights):
    """A constant inside a loop inside a function that is compiled apart."""

    @jax.jit
    def inner(data):
        return jax.lax.fori_loop(0, 3, lambda _, x: x + jnp.asarray(weights)[:20].sum(), data[0])

    return lambda data, key, mu: {"mean": inner(data)}


@pytest.mark.parametrize("simplified", [False, True], ids=["embedded", "hoisted"])
def test_another_for_another_constant(simplified):
    if not hasattr(jax.config, "jax_use_simplified_jaxpr_constants"):
        pytest.skip("this release of JAX has no such option")
    before = jax.config.jax_use_simplified_jaxpr_constants
    jax.config.update("jax_use_simplified_jaxpr_constants", simplified)
    try:
        weights = np.arange(5000.0)
        first = of(evaluate=looped(weights.copy()))
        assert of(evaluate=looped(weights.copy())) == first
        weights[17] += 1e-9
        assert of(evaluate=looped(weights)) != first
    finally:
        jax.config.update("jax_use_simplified_jaxpr_constants", before)


def test_another_for_another_operation_key_or_static_value():
    drawn = [of(lambda key, mu, k=k: mu + jax.random.normal(k, (20,))) for k in KEYS]
    halves = [
        of(lambda key, mu, n: jnp.full(n, mu), lambda d, key, mu, n: {"m": d[0]}, s) for s in N
    ]
    assert len({of(), of(evaluate=lambda d, key, mu: {"mean": d.sum()}), *drawn, *halves}) == 7


KEYS = [jax.random.key(1), jax.random.key(2), jax.random.key(1, impl="rbg")]
N = [(("n", 3),), (("n", 4),)]


def closing_over_a_key(seed):
    shared = jax.random.key(seed)
    keys = jax.random.split(shared, 4)

    def simulate(key, mu):
        drawn = jax.vmap(jax.random.normal)(keys)
        return mu + jax.random.normal(key, (20,)) + jax.random.normal(shared, (20,)) + drawn[0]

    return simulate


@pytest.mark.parametrize("options", [{}, {"name": "mine"}, {"num_threads": 1}], ids=str)
def test_functions_that_close_over_typed_keys(tmp_path, options):
    plain = run_mean(closing_over_a_key(1))
    kept = run_mean(closing_over_a_key(1), out_dir=tmp_path, **options)
    again = run_mean(closing_over_a_key(1), out_dir=tmp_path, resume=True, **options)
    assert plain.cells == kept.cells == again.cells
    if not options:
        with pytest.raises(ValueError, match="of another study, .*program was"):
            run_mean(closing_over_a_key(2), out_dir=tmp_path, resume=True)


def test_functions_that_close_over_numbers_of_eight_bits(tmp_path):
    table = jnp.arange(20).astype(jnp.float8_e4m3fn)
    evaluate = lambda data, key, mu: {"mean": (data + table.astype(data.dtype)).mean()}  # noqa: E731
    first = run_mean(evaluate=evaluate, out_dir=tmp_path)
    assert run_mean(evaluate=evaluate, out_dir=tmp_path, resume=True).cells == first.cells


def callback(body):
    """An evaluate that asks the host."""

    def evaluate(data, key, mu):
        shape = jax.ShapeDtypeStruct((), data.dtype)
        return {"mean": jax.pure_callback(body, shape, data.mean())}

    return evaluate


def test_resume_is_refused_where_the_code_behind_a_callback_changed(tmp_path):
    first = run_mean(evaluate=callback(lambda x: np.asarray(x)), out_dir=tmp_path)
    same = run_mean(evaluate=callback(lambda x: np.asarray(x)), out_dir=tmp_path, resume=True)
    assert first.cells == same.cells
    with pytest.raises(ValueError, match="of another study, .*program was"):
        run_mean(evaluate=callback(lambda x: np.asarray(x) + 1), out_dir=tmp_path, resume=True)


def shifted(shift, scale=1.0):
    return lambda x, *, offset=shift: scale * (np.asarray(x) + offset)


class Model:
    def __init__(self, weight):
        self.weight = weight

    def __call__(self, x):
        return self.weight * x

    def method(self, x):
        return self.weight + x


def test_host_code_is_told_by_body_closure_defaults_and_fields():
    import functools

    functions = [
        shifted(0.0),
        shifted(1.0),
        shifted(0.0, 2.0),
        shifted(np.zeros(3)),
        shifted(jax.random.key(1)),
        functools.partial(np.add, 1),
        functools.partial(np.add, 2),
        Model(1),
        Model(2),
        Model(1).method,
        Model(2).method,
        len,
    ]
    hashes = [host_code_hash(function) for function in functions]
    assert len(set(hashes)) == len(functions)
    assert host_code_hash(shifted(np.zeros(3))) == hashes[3]
    assert host_code_hash(Model(1).method) == hashes[9]


def test_host_code_includes_the_functions_and_numbers_of_its_module(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    text = (
        "LIMIT = 3\ndef inner(x):\n    return x + 1\ndef outer(x):\n    return inner(x) < LIMIT\n"
    )
    seen = set()
    for number, changed in enumerate(
        [text, text.replace("+ 1", "+ 2"), text.replace("= 3", "= 4")]
    ):
        (tmp_path / f"host_{number}.py").write_text(changed)
        module = __import__(f"host_{number}")
        module.inner.__module__ = module.outer.__module__ = "host"
        seen.add(host_code_hash(module.outer))
    assert len(seen) == 3


def test_host_code_does_not_depend_on_who_refers_to_it():
    class Slotted:
        __slots__ = ("__weakref__", "weight")

        def __init__(self, weight):
            self.weight = weight

        def __call__(self, x):
            return self.weight * x

    model = Slotted(2)
    before = host_code_hash(model)
    reference = weakref.ref(model)
    assert host_code_hash(reference()) == before != host_code_hash(Slotted(3))


def test_a_function_that_calls_itself_is_told_once():
    def ring(n):
        return ring(n - 1) if n else 0

    assert host_code_hash(ring) == host_code_hash(ring)
