"""Derivatives of diagnoses: against finite differences, and never NaN.

Hard diagnoses have the derivatives of the selected estimator; where a decision lies within the step
of the finite difference there is nothing to compare with, and the problem is left out and counted.
"""

import numpy as np
import pytest
from differentiated import FUNCTIONS, NUM, problem, run

# Rounding rules short steps, curvature long ones, so a smooth number is compared at each; a wrong
# slope agrees with none. The selected estimator has kinks, so few steps fit it.
SMOOTH_STEPS, HARD_STEPS = (1e-5, 1e-6, 1e-7), (1e-6,)
LEAST_COMPARED = 50
# What the default method holds as its search left it: derivatives are zero.
HELD = ("lower", "upper", "region_log_p", "error", "errors")
UNDEFINED = -1.0


def compare(function, seeds, steps, kinked=False, **options):
    """Relative errors of directional derivatives, for every number a list over problems; and them.

    An error is ``UNDEFINED`` where the number is, so that there was nothing to compare. Of several
    steps the one counts whose differences agree best.
    """
    rng = np.random.default_rng(0)
    arrays = [np.stack(parts) for parts in zip(*map(problem, seeds), strict=True)]
    data, mask = arrays[:4], arrays[4]
    change = [rng.normal(size=part.shape) for part in data]

    def at(offset):
        numbers, slopes, decisions, *_ = run(function, offset, data, change, mask, **options)
        return (numbers, decisions), slopes

    here, slopes = at(0.0)
    around = {step: [at(k * step)[0] if k else here for k in (-1, 0, 1)] for step in steps}
    errors = {name: [] for name in slopes}
    for i in range(len(seeds)):
        usable = {step: part for step, part in around.items() if settled(part, i)}
        for name in slopes if usable else ():
            found = [
                error(np.stack([one[0][name][i] for one in part]), slopes[name][i], step, kinked)
                for step, part in usable.items()
            ]
            known = [one for one in found if one is not None]
            # A NaN among them is the least, and no step hides it.
            defined = [one for one in known if one != UNDEFINED] or known[:1]
            errors[name] += [np.min(defined)] if known else []
    return errors, slopes


def settled(values, i):
    """Whether the decisions of one problem are the same at all offsets."""
    kinds = zip(*[decisions for _, decisions in values], strict=True)
    return all(np.array_equal(kind[0][i], one[i]) for kind in kinds for one in kind)


def error(values, slope, step, kinked):
    """Error of a slope relative to the largest; None at a kink or jump.

    A slope that is wrong away from switches is no kink: the values lie on one straight line.
    """
    defined = np.isfinite(values).all(axis=0)
    if not defined.any():
        return UNDEFINED
    values, slope = values[:, defined], np.asarray(slope)[defined]
    each = np.diff(values, axis=0) / step
    wanted = (values[2] - values[0]) / (2 * step)
    size = np.max(np.abs(wanted), initial=1e-3)
    if kinked and np.max(np.ptp(each, axis=0), initial=0.0) > 1e-2 * size:
        return None
    return np.max(np.abs(wanted - slope), initial=0.0) / size


def assert_small(errors, least, undefined=()):
    for name, each in errors.items():
        assert len(each) >= least, name
        compared = np.sum(np.array(each) != UNDEFINED)
        assert compared == 0 if name in undefined else compared >= LEAST_COMPARED, (name, compared)
        # NumPy's maximum is NaN where one is, which is no small error.
        assert np.max(each) < 1e-6, name


@pytest.mark.parametrize(
    "function, num, undefined, held",
    [("published", 75, ("log_p_robust",), ()), ("default", 125, (), HELD)],
    ids=["published", "default"],
)
def test_the_selected_estimator_against_finite_differences(function, num, undefined, held):
    """So many problems that each number is defined, and compared, in 50 of them."""
    found, slopes = compare(FUNCTIONS[function], range(num), HARD_STEPS, kinked=True)
    for name in held:
        assert not np.any(slopes[name]), name
    compared = {name: each for name, each in found.items() if name not in held}
    assert_small(compared, least=0.9 * num, undefined=undefined)


@pytest.mark.parametrize(
    "temperature",
    [
        pytest.param(0.01, marks=pytest.mark.slow),
        0.1,
        pytest.param(0.3, marks=pytest.mark.slow),
    ],
)
def test_the_smooth_form_against_finite_differences(temperature):
    """All problems count, but the test of a split without a solution has nothing to compare."""
    errors, _ = compare(FUNCTIONS["smooth"], range(55), SMOOTH_STEPS, temperature=temperature)
    assert_small(errors, least=55)


def awkward(seed):
    """Masked rows, ties, empty cells, twins among the terms, exact data: not all solvable."""
    rng = np.random.default_rng(seed)
    design, response, x, features, _ = problem(seed)
    if seed % 3 == 0:
        x = np.round(4 * x) / 4
        features = np.column_stack([x**2, x**3, np.sin(3 * x)])
    if seed % 4 == 0:
        x = np.where((x > 0) & (x < 1 / 3), 0.5, x)
    if seed % 5 == 0:
        response = np.round(response, 1)
    if seed % 7 == 0:
        features[:, 1] = 2 * features[:, 0]
    if seed % 11 == 0:
        features[:, 2] = 0
    if seed % 13 == 0:
        response = design @ [1.0, 2.0]
    if seed % 17 == 0:
        design[:, 1] = design[:, 0]
    if seed % 19 == 0:
        response = np.zeros(NUM)
    return design, response, x, features, rng.uniform(size=NUM) < rng.choice([0.0, 0.1, 0.6, 1.0])


def count_nan(function, num, **options):
    arrays = [np.stack(parts) for parts in zip(*map(awkward, range(num)), strict=True)]
    data, mask = arrays[:4], arrays[4]
    still = [np.zeros_like(part) for part in data]
    *_, sound = run(function, 0.0, data, still, mask, **options)
    return int(np.sum(~sound))


@pytest.mark.parametrize("function", list(FUNCTIONS))
@pytest.mark.parametrize("num", [50, pytest.param(1000, marks=pytest.mark.slow)])
def test_no_gradient_is_nan(function, num):
    options = {"temperature": 0.1} if function == "smooth" else {}
    assert count_nan(FUNCTIONS[function], num, **options) == 0
