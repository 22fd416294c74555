"""The layer: equal to ``predict``, trained by Optax, inside Equinox and Flax NNX, refitted."""

import dataclasses
import functools

import default_data as data
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.test_util import check_grads

from lisdd_jax import FailedError, Status, diagnose, predict
from lisdd_jax.hybrid import CorrectedModel, from_diagnosis, refit
from lisdd_jax.hybrid.training import train

EDGES = np.linspace(-3.3, 3.3, 15)
KEY = jax.random.key(7)


def physics(theta, inputs):
    return inputs["design"] @ theta


def axis(inputs):
    return inputs["axis"]


def features(inputs):
    return inputs["features"]


PARTS = {"physics": physics, "axis": axis, "features": features}


@pytest.fixture(scope="module")
def table():
    return data.oscillator(3, num=1500)


@pytest.fixture(scope="module")
def found(table):
    *arrays, mask = table
    return diagnose(*arrays, mask=mask, key=KEY, edges=EDGES)


@pytest.fixture(scope="module")
def inputs(table):
    used = np.asarray(table.mask)
    parts = {"design": table.design, "axis": table.axis, "features": table.features}
    return {name: jax.device_put(part[used]) for name, part in parts.items()}


@pytest.fixture(scope="module")
def response(table):
    return jax.device_put(table.response[np.asarray(table.mask)])


@pytest.fixture(scope="module")
def layer(found):
    return from_diagnosis(found, **PARTS)


def apply(model, *args, **options):
    """Predictions of a layer from one program."""
    return np.asarray(jax.jit(model.apply)(*args, **options))


def mean_square(model, parameters, inputs, response):
    return jnp.mean((model.apply(parameters, inputs) - response) ** 2)


def test_at_temperature_zero_it_is_the_prediction(found, layer, inputs):
    model, parameters = layer
    expected = predict(found, inputs["design"], inputs["axis"], inputs["features"])
    at_zero = jax.jit(functools.partial(model.apply, temperature=0.0))(parameters, inputs)
    np.testing.assert_allclose(at_zero, expected, rtol=1e-12)
    near = apply(model, parameters, inputs, 1e-6)
    assert np.mean(np.abs(near - np.asarray(expected)) > 1e-9) < 0.01


def test_a_region_up_to_the_end_of_the_axis_goes_on(found, inputs):
    lower, open_below = np.array(found.regions.lower), np.array(found.regions.open_below)
    lower[0], open_below[0] = np.asarray(found.cells.lower)[0], True
    ends = jax.device_put({"lower": lower, "open_below": open_below})
    regions = dataclasses.replace(found.regions, **ends)
    opened = dataclasses.replace(found, regions=regions)
    model, parameters = from_diagnosis(opened, **PARTS)
    assert model.open_below[0]
    beyond = {**inputs, "axis": np.asarray(inputs["axis"]) - 10}
    expected = predict(opened, beyond["design"], beyond["axis"], beyond["features"])
    np.testing.assert_allclose(apply(model, parameters, beyond, 0.0), expected, rtol=1e-12)


def test_gradients_against_finite_differences(layer, inputs, response):
    model, parameters = layer
    parameters = dataclasses.replace(parameters, log_width=parameters.log_width + 3)
    loss = jax.jit(lambda parameters: mean_square(model, parameters, inputs, response))
    check_grads(loss, (parameters,), order=2, modes=("fwd", "rev"), rtol=1e-5)


def test_training_improves_the_fit_and_leaves_absent_terms_alone(layer, inputs, response):
    model, parameters = layer
    start = dataclasses.replace(parameters, lower=parameters.lower + 0.05)
    found = train(
        lambda *args: mean_square(model, *args),
        start,
        inputs,
        response,
        optimizer=optax.adam(0.01),
        num_steps=200,
    )
    assert found.status == Status.OK
    assert found.losses[-1] < found.losses[0]
    absent = ~np.array(model.support)
    np.testing.assert_array_equal(found.parameters.weights[absent], start.weights[absent])
    np.testing.assert_allclose(found.parameters.lower, parameters.lower, atol=0.02)


def test_training_that_explodes_says_so():
    found = train(lambda x: jnp.sum(x**4), jnp.ones(2), optimizer=optax.sgd(10.0), num_steps=20)
    assert found.status == Status.DIVERGED


def test_the_refit_is_a_smooth_function_of_the_data(layer, inputs, response):
    """Ends have derivatives in the response, which a hard diagnosis cannot have."""
    model, parameters = layer
    change = np.random.default_rng(0).normal(size=response.shape)

    @jax.jit
    def ends(shift):
        def refitted(shift):
            found = refit(model, parameters, inputs, response + shift * change)
            both = jnp.concatenate([found.parameters.lower, found.parameters.upper])
            return both, (both, found.status)

        slope, (value, status) = jax.jacrev(refitted, has_aux=True)(shift)
        return value, slope, status

    value, slope, status = ends(0.0)
    assert status == Status.OK
    step = 1e-4
    right, left, far_right, far_left = (
        np.asarray(ends(k * step)[0]) for k in (1.0, -1.0, 2.0, -2.0)
    )
    expected = (8 * (right - left) - (far_right - far_left)) / (12 * step)
    np.testing.assert_allclose(slope, expected, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(np.sort(np.abs(value)), [1.7, 1.7, 2.7, 2.7], atol=0.02)


def test_a_diagnosis_without_regions_is_the_physics(table, inputs):
    null = data.oscillator(1, num=1500, beta=0.0)
    *arrays, mask = null
    found = diagnose(*arrays, mask=mask, key=KEY, edges=EDGES)
    model, parameters = from_diagnosis(found, **PARTS)
    assert model.support == ()
    expected = np.asarray(inputs["design"]) @ np.asarray(found.coefficients)
    np.testing.assert_allclose(apply(model, parameters, inputs), expected, rtol=1e-12)


def test_bad_input_is_named(found, table):
    *arrays, mask = table
    failed = diagnose(*arrays, mask=np.zeros_like(mask), key=KEY, edges=EDGES)
    with pytest.raises(FailedError, match="TOO_FEW_ROWS"):
        from_diagnosis(failed, **PARTS)
    with pytest.raises(TypeError, match="diagnosis must be known outside jit"):
        jax.jit(lambda found: from_diagnosis(found, **PARTS)[1])(found)
    with pytest.raises(ValueError, match="width must be positive"):
        from_diagnosis(found, width=0.0, **PARTS)
    model = CorrectedModel(support=((True,),), open_below=(False,), open_above=(False,), **PARTS)
    with pytest.raises(ValueError, match=r"lower must have shape \(1,\)"):
        model.init(jnp.ones(2), [0.0, 1.0], [1.0], width=0.1)
    with pytest.raises(ValueError, match=r"weights must have shape \(1, 1\)"):
        model.init(jnp.ones(2), [0.0], [1.0], width=0.1, weights=[[1.0, 2.0]])


def test_a_library_of_another_size_is_refused(layer, inputs):
    model, parameters = layer
    fewer = {**inputs, "features": inputs["features"][:, :2]}
    with pytest.raises(ValueError, match="features must give shape"):
        model.apply(parameters, fewer)


@pytest.fixture
def standard_promotion():
    """Optimisers and networks of other libraries are not written for strict promotion."""
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.fixture(scope="module")
def small():
    """A layer with one region and its inputs: ``2 x`` on ``1 <= x < 2`` over a constant."""
    model = CorrectedModel(
        physics=lambda theta, inputs: theta[0] * jnp.ones_like(inputs["axis"]),
        axis=axis,
        features=lambda inputs: jnp.log(inputs["axis"])[:, None],
        support=((True,),),
        open_below=(False,),
        open_above=(False,),
    )
    parameters = model.init(jnp.ones(1), [1.0], [2.0], width=0.05, weights=[[2.0]])
    return model, parameters, {"axis": jax.device_put(np.linspace(0.5, 3.0, 101))}


def changed(parameters, **values):
    return dataclasses.replace(
        parameters, **{k: jax.device_put(np.array([v])) for k, v in values.items()}
    )


@pytest.mark.parametrize("temperature", [-1.0, np.nan, np.inf])
def test_a_temperature_that_is_none_is_refused(small, temperature):
    model, parameters, inputs = small
    with pytest.raises(ValueError, match="temperature must lie between 0 and"):
        model.apply(parameters, inputs, temperature)
    if temperature != np.inf:
        assert np.isnan(jax.jit(model.apply)(parameters, inputs, temperature)).all()


@pytest.mark.parametrize("name", ["lower", "upper", "log_width", "weights"])
def test_numbers_that_are_none_give_nan_and_no_layer_without_its_region(small, name):
    model, parameters, inputs = small
    value = np.full_like(getattr(parameters, name), np.nan)
    assert np.isnan(apply(model, dataclasses.replace(parameters, **{name: value}), inputs)).all()
    endless = changed(parameters, log_width=np.inf)
    assert np.isnan(apply(model, endless, inputs)).all()
    assert np.isnan(model.apply(endless, inputs)).all()


@pytest.mark.parametrize("log_width", [-800.0, 800.0, 1e300])
def test_extreme_widths_have_finite_derivatives(small, log_width):
    model, parameters, inputs = small
    start = changed(parameters, log_width=log_width)
    derive = jax.jit(jax.value_and_grad(lambda p: jnp.sum(model.apply(p, inputs) ** 2)))
    value, slope = derive(start)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((value, slope)))


def test_ends_that_crossed_are_alive(small):
    """They act as the region between them, and training finds the true one from there."""
    model, parameters, inputs = small
    target = apply(model, parameters, inputs)
    crossed = changed(parameters, lower=2.3, upper=1.4)
    np.testing.assert_array_equal(
        apply(model, crossed, inputs),
        apply(model, changed(parameters, lower=1.4, upper=2.3), inputs),
    )
    loss = lambda parameters: mean_square(model, parameters, inputs, target)  # noqa: E731
    found = train(loss, crossed, optimizer=optax.adam(0.01), num_steps=500)
    lower, upper = model.ends(found.parameters)
    np.testing.assert_allclose([lower[0], upper[0]], [1.0, 2.0], atol=0.02)


def test_padded_rows_change_nothing(small):
    """Whatever stands in them, and in the derivatives too."""
    model, parameters, inputs = small
    mask = np.arange(120) < 101
    rest = np.array([np.nan, -1.0, 0.0] * 6 + [np.inf])
    padded = {"axis": jax.device_put(np.concatenate([inputs["axis"], rest]))}
    found = apply(model, parameters, padded, mask=mask)
    expected = apply(model, parameters, inputs)
    np.testing.assert_array_equal(found[:101], expected)
    np.testing.assert_array_equal(found[101:], 0.0)

    def loss(parameters, inputs, **options):
        return jnp.sum(model.apply(parameters, inputs, **options) ** 2)

    gradient = jax.jit(jax.grad(loss, argnums=(0, 1)))
    slopes = gradient(parameters, padded, mask=mask)
    wanted = gradient(parameters, inputs)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), slopes[0], wanted[0])
    in_axis = np.asarray(slopes[1]["axis"])
    np.testing.assert_allclose(in_axis[:101], wanted[1]["axis"], rtol=1e-12)
    np.testing.assert_array_equal(in_axis[101:], 0.0)
    nothing = apply(model, parameters, padded, mask=np.zeros(120, bool))
    np.testing.assert_array_equal(nothing, 0.0)
    response = jax.device_put(np.where(mask, np.pad(expected, (0, 19)) + 0.1, np.nan))
    fits = (
        refit(model, parameters, padded, response, mask=mask),
        refit(model, parameters, inputs, response[:101]),
    )
    assert fits[0].status == fits[1].status == Status.OK
    np.testing.assert_allclose(fits[0].parameters.physics, fits[1].parameters.physics, rtol=1e-9)


@pytest.mark.parametrize("lower, upper", [(2.0, 1.0), (1.0, 1.0), (np.nan, 1.0), (0.0, np.inf)])
def test_ends_in_the_wrong_order_are_refused(small, lower, upper):
    model, _, _ = small
    with pytest.raises(ValueError, match="lower and upper must be finite, and lower below upper"):
        model.init(jnp.ones(1), [lower], [upper], width=0.1)
    opened = dataclasses.replace(model, open_above=(True,), open_below=(True,))
    opened.init(jnp.ones(1), [lower], [upper], width=0.1)


@pytest.mark.usefixtures("standard_promotion")
def test_inside_equinox(layer, inputs, response):
    eqx = pytest.importorskip("equinox", reason="Equinox is not installed")
    model, parameters = layer

    class Hybrid(eqx.Module):
        correction: object
        network: eqx.nn.MLP

        def __call__(self, inputs):
            rest = jax.vmap(self.network)(inputs["design"])[:, 0]
            return model.apply(self.correction, inputs) + rest

    hybrid = Hybrid(parameters, eqx.nn.MLP(2, 1, 8, 1, key=KEY))
    optimizer = optax.adam(1e-2)

    @eqx.filter_jit
    def step(hybrid, memory):
        loss = lambda hybrid: jnp.mean((hybrid(inputs) - response) ** 2)  # noqa: E731
        value, gradient = eqx.filter_value_and_grad(loss)(hybrid)
        update, memory = optimizer.update(gradient, memory)
        return eqx.apply_updates(hybrid, update), memory, value

    memory = optimizer.init(eqx.filter(hybrid, eqx.is_inexact_array))
    losses = []
    for _ in range(5):
        hybrid, memory, value = step(hybrid, memory)
        losses.append(float(value))
    assert losses[-1] < losses[0]
    assert not np.array_equal(hybrid.correction.physics, parameters.physics)


@pytest.mark.usefixtures("standard_promotion")
def test_inside_flax_nnx(layer, inputs, response):
    nnx = pytest.importorskip("flax.nnx", reason="Flax is not installed")
    model, parameters = layer

    class Hybrid(nnx.Module):
        def __init__(self, rngs):
            leaves, self.structure = jax.tree.flatten(parameters)
            self.leaves = nnx.List([nnx.Param(leaf) for leaf in leaves])
            self.network = nnx.Linear(2, 1, param_dtype=jnp.float64, rngs=rngs)

        def __call__(self, inputs):
            leaves = [leaf.get_value() for leaf in self.leaves]
            correction = model.apply(jax.tree.unflatten(self.structure, leaves), inputs)
            return correction + self.network(inputs["design"])[:, 0]

    hybrid = Hybrid(nnx.Rngs(0))
    optimizer = nnx.Optimizer(hybrid, optax.adam(1e-2), wrt=nnx.Param)

    @nnx.jit
    def step(hybrid, optimizer):
        loss = lambda hybrid: jnp.mean((hybrid(inputs) - response) ** 2)  # noqa: E731
        value, gradient = nnx.value_and_grad(loss)(hybrid)
        optimizer.update(hybrid, gradient)
        return value

    losses = [float(step(hybrid, optimizer)) for _ in range(5)]
    assert losses[-1] < losses[0]
