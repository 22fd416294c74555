import brute_force
import jax
import numpy as np
import pytest

from lisdd_jax import Status
from lisdd_jax.dataset import check_arguments, prepare

NUM = 40
EDGES = np.linspace(0, 1, 5)
AFTER_FIVE = np.arange(NUM) >= 5


def arrays(seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=NUM)
    design = np.column_stack([np.ones(NUM), 50 + rng.normal(size=NUM)])
    return {
        "design": design,
        "response": design @ [1.0, 2.0] + rng.normal(size=NUM),
        "axis": x,
        "features": np.column_stack([x**2, rng.normal(size=NUM)]),
    }


def ready(named, **options):
    return jax.jit(prepare)(**check_arguments(**named, num_cells=4, **options))


@jax.jit
def traced(named, edges, noise_scale=None):
    """The same inside a trace, which cannot look at values."""
    return ready(named, edges=edges, noise_scale=noise_scale)


def test_what_a_data_set_holds():
    named, mask = arrays(), np.arange(NUM) % 5 != 0
    named["response"][~mask] = np.nan
    data, status = ready(named, edges=EDGES, mask=mask)
    assert status == Status.OK
    assert data.num_cells == 4
    assert int(data.num_rows) == mask.sum()
    assert (data.block, data.trusted, data.noise_scale) == (None, None, None)
    for name in ("design", "response", "axis", "features", "basis", "centered"):
        assert not np.asarray(getattr(data, name))[~mask].any(), name
    expected = [brute_force.cell_of(x, EDGES) for x in named["axis"]]
    data = jax.device_get(data)
    assert data.cell[mask].tolist() == [c for c, used in zip(expected, mask, strict=True) if used]
    assert (data.cell[~mask] == 4).all()
    gram = np.asarray(data.basis).T @ np.asarray(data.basis)
    np.testing.assert_allclose(gram, mask.sum() * np.eye(2), atol=1e-9 * mask.sum())
    assert data.magnitude == np.abs(named["response"][mask]).max()
    chosen = jax.jit(type(data).in_cells)(data, np.array([True, False, True, False]))
    assert chosen.tolist() == [u and c in (0, 2) for u, c in zip(mask, expected, strict=True)]


def test_rows_are_divided_by_their_noise_scale_once():
    named, scale = arrays(), np.random.default_rng(1).uniform(0.5, 2.0, NUM)
    data, _ = ready(named, edges=EDGES, noise_scale=scale)
    np.testing.assert_allclose(data.design, named["design"] / scale[:, None], rtol=1e-14)
    np.testing.assert_allclose(data.response, named["response"] / scale, rtol=1e-14)
    np.testing.assert_allclose(data.features, named["features"] / scale[:, None], rtol=1e-14)
    np.testing.assert_array_equal(data.axis, named["axis"])
    # The frame spans the weighted design, and its solution is weighted least squares.
    solution = np.linalg.lstsq(np.asarray(data.basis), np.asarray(data.centered))[0]
    weighted = named["design"] / scale[:, None], named["response"] / scale
    expected = np.linalg.lstsq(*weighted)[0]
    np.testing.assert_allclose(jax.jit(data.frame.coefficients)(solution), expected, rtol=1e-9)


def test_some_rows_stay_in_frame_and_cells():
    named = arrays()
    block, trusted = np.arange(NUM) // 3, np.arange(NUM) < 10
    data, _ = ready(named, edges=EDGES, block=block, trusted=trusted)
    rows, used = np.array([7, 3, 0, 0]), np.array([True, True, False, False])
    some, all_but_five = jax.jit(lambda data: (data.take(rows, used), data.restrict(AFTER_FIVE)))(
        data
    )
    data, part, kept = jax.device_get((data, some, all_but_five))
    np.testing.assert_array_equal(part.response, [*named["response"][[7, 3]], 0, 0])
    assert part.cell.tolist() == [int(data.cell[7]), int(data.cell[3]), 4, 4]
    assert part.block[:2].tolist() == [2, 1]
    assert part.trusted.tolist() == [True, True, False, False]
    np.testing.assert_array_equal(part.basis[0], data.basis[7])
    assert kept.num_rows == NUM - 5
    assert (kept.cell[:5] == 4).all()
    assert not kept.basis[:5].any()


def test_rows_outside_the_edges_are_told_under_a_trace():
    """On the host they are refused; a trace cannot look at them."""
    named = arrays()
    narrow = np.linspace(0.2, 0.8, 5)
    with pytest.raises(ValueError, match="edges must cover the axis"):
        ready(named, edges=narrow)
    data, status = traced(named, narrow)
    inside = (named["axis"] >= 0.2) & (named["axis"] <= 0.8)
    assert status == Status.ROWS_OUTSIDE_EDGES
    np.testing.assert_array_equal(data.mask, inside)
    _, status = traced(named | {"axis": 0.2 + 0.6 * named["axis"]}, narrow)
    assert status == Status.OK


@pytest.mark.parametrize("name", ["design", "response", "axis", "features"])
def test_values_that_are_not_finite_fail_under_a_trace(name):
    named = arrays()
    named[name] = named[name].copy()
    named[name][(3,) + (0,) * (named[name].ndim - 1)] = np.inf
    data, status = traced(named, EDGES)
    assert status == Status.NONFINITE_INPUT
    assert not np.asarray(data.mask)[3]


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_noise_scales_that_are_no_scales(value):
    named, scale = arrays(), np.ones(NUM)
    scale[4] = value
    with pytest.raises(ValueError, match=r"noise_scale must be (positive|finite) in the rows in"):
        ready(named, edges=EDGES, noise_scale=scale)
    assert traced(named, EDGES, scale)[1] == Status.NONFINITE_INPUT
    out_of_use = np.arange(NUM) != 4
    assert ready(named, edges=EDGES, noise_scale=scale, mask=out_of_use)[1] == Status.OK


@pytest.mark.parametrize(
    "changes, error, words",
    [
        ({"block": np.zeros(NUM)}, TypeError, "block must hold integers, got float64"),
        ({"block": np.zeros(3, int)}, ValueError, r"block must have shape \(40,\)"),
        ({"block": np.full(NUM, 2**40)}, ValueError, "block must hold labels that fit in 32 bits"),
        ({"trusted": np.zeros(NUM)}, TypeError, "trusted must be boolean"),
        ({"trusted": np.zeros(2, bool)}, ValueError, r"trusted must have shape \(40,\)"),
        ({"noise_scale": np.ones(2)}, ValueError, r"noise_scale must have shape \(40,\)"),
        ({"noise_scale": ["x"] * NUM}, TypeError, "noise_scale must hold real numbers"),
    ],
)
def test_bad_arguments(changes, error, words):
    with pytest.raises(error, match=words):
        ready(arrays(), edges=EDGES, **changes)


def test_absent_arguments_stay_absent():
    checked = check_arguments(**arrays(), num_cells=4)
    assert [checked[name] for name in ("block", "trusted", "noise_scale")] == [None] * 3
