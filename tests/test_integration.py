"""Trajectories: exact solutions, error estimates, switches, stiff laws, other solvers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lisdd_jax import FailedError, Status, raise_if_failed
from lisdd_jax.hybrid import rollout
from lisdd_jax.hybrid.runge_kutta import take_step

TIMES = np.linspace(0.0, 3.0, 301)


def test_it_is_the_exact_solution_and_differentiable():
    def final(decay):
        found = rollout(lambda _, state: -decay * state, jnp.asarray(2.0), TIMES)
        assert found.states.shape == TIMES.shape
        return found.states

    states, slope = jax.jit(lambda decay: jax.jvp(final, (decay,), (1.0,)))(0.8)
    np.testing.assert_allclose(states, 2 * np.exp(-0.8 * TIMES), rtol=1e-10)
    np.testing.assert_allclose(slope, -2 * TIMES * np.exp(-0.8 * TIMES), atol=1e-9)


def test_steps_are_of_fourth_order_and_their_errors_of_the_order_of_the_embedded_solution():
    def run(num_substeps):
        times = np.linspace(0.0, 2.0, 6)
        found = rollout(
            lambda t, s: {"x": s["v"], "v": -s["x"] + 0 * t},
            {"x": jnp.asarray(1.0), "v": jnp.asarray(0.0)},
            times,
            num_substeps=num_substeps,
            tolerance=np.inf,
        )
        error = np.asarray(found.error["x"])
        wrong = np.abs(np.asarray(found.states["x"]) - np.cos(times))
        assert (error[1:] > wrong[1:]).all()
        return np.max(wrong), error[-1]

    (coarse, estimate), (fine, finer) = run(2), run(4)
    assert 12 < coarse / fine < 20
    # Errors of one step of order three are of order four; there are twice as many.
    assert 6 < estimate / finer < 10


@pytest.mark.parametrize("rate, step", [(-1000.0, 0.01), (-30.0, 0.1)])
def test_a_step_too_long_for_a_stiff_law_is_refused(rate, step):
    times = np.arange(21.0) * step
    found = rollout(lambda _, state: rate * state, jnp.ones(()), times)
    assert found.status == Status.INACCURATE
    states = np.asarray(found.states)
    assert states[0] == 1
    assert np.isnan(states[1:]).all()
    with pytest.raises(FailedError, match="raise num_substeps, name the borders"):
        raise_if_failed(found)
    unlimited = rollout(lambda _, state: rate * state, jnp.ones(()), times, tolerance=np.inf)
    assert unlimited.status == Status.OK
    last = abs(np.asarray(unlimited.states)[-1])
    assert last > 100
    assert np.asarray(unlimited.error)[-1] > last


def test_enough_substeps_bear_the_same_law():
    times = np.arange(21.0) * 0.1
    found = rollout(lambda _, state: -30 * state, jnp.ones(()), times, num_substeps=20)
    assert found.status == Status.OK
    np.testing.assert_allclose(found.states, np.exp(-30 * times), atol=1e-4)


def test_a_rollout_that_explodes_says_so():
    found = rollout(lambda _, state: state**3, jnp.asarray(2.0), TIMES)
    assert found.status == Status.DIVERGED
    assert np.isnan(np.asarray(found.states)[-1])
    assert rollout(lambda _, state: -state, jnp.asarray(2.0), TIMES).status == Status.OK


def test_a_state_at_rest_is_accurate():
    found = rollout(lambda _, state: 0 * state, jnp.zeros(2), TIMES)
    assert found.status == Status.OK
    np.testing.assert_array_equal(found.states, 0.0)


def test_the_estimate_covers_a_jump_wherever_it_lies_in_the_step():
    """By at most a third of the jump, and the estimate is at least two thirds of it."""

    def one(place):
        step = take_step(lambda t, s: jnp.where(t < place, 0.0, 1.0) + 0 * s, 0.0, 0.0, 1.0)
        return jnp.abs(step.end - (1 - place)), step.error

    wrong, estimate = jax.device_get(jax.jit(jax.vmap(one))(np.linspace(0.001, 0.999, 997)))
    assert wrong.max() <= 1 / 3 + 1e-12
    assert estimate.min() >= 2 / 3 - 1e-12


def bend(parameters, times, switch, **options):
    """A pendulum whose pull is stronger beyond a border that moves, and its state."""
    pull, border = parameters
    beyond = lambda state: state[0] - border  # noqa: E731

    def rate(_, state):
        return jnp.stack([state[1], -state[0] - jnp.where(beyond(state) >= 0, pull, 0.0)])

    if switch:
        options["switch"] = lambda _, state: beyond(state)
    return rollout(rate, jnp.array([0.0, 1.0]), times, **options)


BENT = jax.jit(bend, static_argnames=("switch", "tolerance"))


def exact(parameters, time):
    """The same from ``x = sin t`` up to the border and a shifted oscillation beyond it."""
    pull, border = parameters
    start = jnp.arcsin(border)
    away, speed = border + pull, jnp.sqrt(1 - border**2)
    later = time - start
    position = away * jnp.cos(later) + speed * jnp.sin(later) - pull
    return jnp.stack([position, speed * jnp.cos(later) - away * jnp.sin(later)])


def test_a_switch_inside_a_step_is_hit():
    """The end is as exact as without it, and so are derivatives in the place of the border."""
    times, parameters = np.linspace(0.0, 0.8, 17), np.array([0.7, 0.3137])
    found = BENT(parameters, times, switch=True)
    assert found.status == Status.OK
    expected, wanted = jax.jit(lambda *args: (exact(*args), jax.jacfwd(exact)(*args)))(
        parameters, times[-1]
    )
    np.testing.assert_allclose(np.asarray(found.states)[-1], expected, atol=1e-7)
    assert BENT(parameters, times, switch=False).status == Status.INACCURATE
    blind = BENT(parameters, times, switch=False, tolerance=np.inf)
    wrong = np.max(np.abs(np.asarray(blind.states)[-1] - np.asarray(expected)))
    assert 1e-3 < wrong < np.max(np.asarray(blind.error)[-1])

    def end(parameters):
        return bend(parameters, times, switch=True).states[-1]

    @jax.jit
    def both(parameters):
        """Derivatives in forward and in reverse mode, of one linearisation."""
        _, linear = jax.linearize(end, parameters)
        (reverse,) = jax.vmap(jax.linear_transpose(linear, parameters))(jnp.eye(2))
        return jax.vmap(linear, out_axes=1)(jnp.eye(2)), reverse

    for slope in both(parameters):
        np.testing.assert_allclose(slope, wanted, atol=1e-6)


def test_a_switch_by_time_and_several_borders():
    """A forcing that is on in a band of a measured variable, as in a corrected law."""
    times = np.linspace(0.0, 1.0, 6)
    borders = np.array([0.33, 0.87])

    def rate(time, state):
        axis = jnp.interp(time, np.array([0.0, 1.0]), np.array([0.0, 1.0]))
        return jnp.where((axis >= borders[0]) & (axis < borders[1]), 1.0, 0.0) + 0 * state

    found = rollout(rate, jnp.zeros(()), times, switch=lambda time, _: time - borders)
    expected = np.clip(times - borders[0], 0, borders[1] - borders[0])
    assert found.status == Status.OK
    np.testing.assert_allclose(found.states, expected, atol=1e-7)
    assert rollout(rate, jnp.zeros(()), times).status == Status.INACCURATE


def test_under_vmap_and_jit_it_is_the_same():
    times = np.linspace(0.0, 0.8, 17)
    sets = np.array([[0.7, 0.3137], [0.7, 0.9], [0.2, 0.05]])
    at_once = jax.jit(jax.vmap(lambda parameters: bend(parameters, times, switch=True).states))
    run = np.asarray(at_once(sets))
    for parameters, states in zip(sets, run, strict=True):
        np.testing.assert_allclose(states, BENT(parameters, times, True).states, atol=1e-12)
    np.testing.assert_allclose(run[0], bend(sets[0], times, True).states, atol=1e-12)


def test_single_precision():
    times = np.linspace(0.0, 2.0, 41, dtype=np.float32)
    found = rollout(lambda _, state: -state, jnp.ones((), jnp.float32), times)
    assert found.states.dtype == jnp.float32
    assert found.status == Status.OK
    np.testing.assert_allclose(found.states, np.exp(-times), rtol=1e-6)


def exponential(rate, initial, times):
    """A solver for a law that is linear in a scalar state."""
    factor = rate(times[0], jnp.ones(()))
    return initial * jnp.exp(factor * (times - times[0])), factor < 0


def test_any_function_of_the_signature_is_a_solver():
    times = np.arange(21.0) * 0.01
    found = rollout(lambda _, state: -1000 * state, jnp.ones(()), times, solver=exponential)
    assert found.status == Status.OK
    np.testing.assert_allclose(found.states, np.exp(-1000 * times), rtol=1e-12)
    assert found.error is None
    failed = rollout(lambda _, state: 3 * state, jnp.ones(()), times, solver=exponential)
    assert failed.status == Status.INACCURATE
    assert np.isnan(failed.states).all()


def test_stiff_laws_by_diffrax():
    adaptive = pytest.importorskip("lisdd_jax.hybrid.adaptive", reason="Diffrax is not installed")
    times = np.linspace(0.0, 1.0, 5)
    solver = adaptive.adaptive_solver(rtol=1e-8, atol=1e-10)

    def final(speed):
        """``y' = -k (y - cos t)`` from its slow solution."""
        found = rollout(
            lambda time, state: -speed * (state - jnp.cos(time)),
            speed**2 / (speed**2 + 1),
            times,
            solver=solver,
        )
        return found.states[-1], (found.states, found.status)

    def slow(speed):
        return (speed**2 * jnp.cos(times) + speed * jnp.sin(times)) / (speed**2 + 1)

    @jax.jit
    def run(speed):
        return jax.grad(final, has_aux=True)(speed), jax.jvp(slow, (speed,), (1.0,))

    (_, (states, status)), (expected, _) = run(1000.0)
    assert status == Status.OK
    np.testing.assert_allclose(states, expected, atol=1e-7)
    (gradient, _), (_, wanted) = run(10.0)
    np.testing.assert_allclose(gradient, wanted[-1], rtol=1e-4)
    few = adaptive.adaptive_solver(max_steps=4)
    failed = rollout(lambda t, s: -1000 * (s - jnp.cos(50 * t)), 0.0, times, solver=few)
    assert failed.status == Status.INACCURATE
    assert np.isnan(np.asarray(failed.states)[-1])


@pytest.mark.parametrize(
    "options, message",
    [
        ({"times": TIMES[:0]}, "times must be one row of numbers with at least one entry"),
        ({"times": TIMES[::-1]}, "times must increase"),
        ({"num_substeps": 0}, "num_substeps must be"),
        ({"tolerance": 0.0}, "tolerance must lie between"),
        ({"tolerance": np.nan}, "tolerance must lie between"),
        ({"solver": exponential, "num_substeps": 2}, "switch and num_substeps must be left out"),
        ({"solver": lambda rate, initial, times: (initial, True)}, "solver must give states"),
    ],
)
def test_bad_input_is_named(options, message):
    options = {"times": TIMES, **options}
    with pytest.raises(ValueError, match=message):
        rollout(lambda t, s: -s, 1.0, **options)
