"""Derivatives of diagnoses: against finite differences, and never NaN.

Hard diagnoses have the derivatives of the selected estimator; where a decision lies within the step
of the finite difference there is nothing to compare with, and the problem is left out and counted.
"""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lisdd_jax import Config, diagnose, fit_trimmed
from lisdd_jax.hybrid import smooth_diagnose, smooth_fit_trimmed

# Of so many problems that hardly any is solved twice to fill the last chunk.
NUM, CELLS, CHUNK = 90, 6, 5
# Rounding rules short steps, curvature long ones, so a smooth number is compared at each; a wrong
# slope agrees with none. The selected estimator has kinks, so few steps fit it.
SMOOTH_STEPS, HARD_STEPS = (1e-5, 1e-6, 1e-7), (1e-6,)
LEAST_COMPARED = 50
# What the default method holds as its search left it: derivatives are zero.
HELD = ("lower", "upper", "region_log_p", "error", "errors")
UNDEFINED = -1.0
EDGES = jnp.linspace(-1.0, 1.0, CELLS + 1)
KEY = jax.random.key(11)
PUBLISHED = Config.paper(num_starts=20)
DEFAULT = Config(max_terms=1, max_regions=2)


def problem(seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, NUM)
    other = rng.normal(size=NUM)
    features = np.column_stack([x**2, x**3, np.sin(3 * x)])
    region = (x > -0.2) & (x < 0.5) if seed % 2 else x > 1 / 3
    response = -x - 0.5 * other + np.where(region, (2 + rng.normal()) * x**2, 0)
    response = response + 0.1 * rng.normal(size=NUM)
    return np.column_stack([x, other]), response, x, features, rng.uniform(size=NUM) > 0.1


def hard(config, design, response, axis, features, mask):
    """Continuous results, and the decisions behind them."""
    found = diagnose(
        design, response, axis, features, key=KEY, config=config, edges=EDGES, mask=mask
    )
    # Errors hold the law's scatter, and changes of it that went unnoticed, as they are; compared is
    # where there are none, since cells show a place, not a run of rows that is too short for them.
    shown = jnp.max(found.regions.count) > NUM // 6
    exact = (found.law_scatter == 0) & found.place.certified & shown
    as_it_is = True if config is PUBLISHED else exact
    # Errors of terms hold how many rows count as one, too.
    independent = True if config is PUBLISHED else exact & (found.dependence.rows == 1)
    numbers = {
        "coefficients": found.coefficients,
        "covariance": jnp.where(as_it_is, found.covariance, jnp.nan),
        "scale": found.scale,
        "cell_statistic": found.cells.statistic,
        "cell_log_p": found.cells.log_p_value,
        "cell_rms": found.cells.rms,
        "lower": found.regions.lower,
        "upper": found.regions.upper,
        "region_coefficients": found.regions.coefficients,
        "region_log_p": found.regions.log_p_value,
        "stderr": jnp.where(independent, found.form.stderr, jnp.nan),
        "error": found.form.error,
        "errors": found.form.errors,
        "statistic": found.test.statistic,
        "log_p": found.test.log_p_value,
        "log_p_robust": log_of(found.test.p_value_robust),
    }
    decisions = (found.cells.flagged, found.regions.support, found.regions.count)
    return numbers, (*decisions, found.test.flagged, found.test.support)


def log_of(p_value):
    """Log of a tail; NaN where it is too small for a float, which has no digits there."""
    known = p_value >= jnp.finfo(p_value.dtype).tiny
    return jnp.where(known, jnp.log(jnp.where(known, p_value, 1.0)), jnp.nan)


def smooth_result(temperature, design, response, axis, features, mask):
    return smooth_diagnose(
        design,
        response,
        axis,
        features,
        key=KEY,
        config=PUBLISHED,
        edges=EDGES,
        mask=mask,
        temperature=temperature,
    )


def smooth(*arguments):
    found = smooth_result(*arguments)
    numbers = {name: part for name, part in vars(found).items() if not name.endswith("status")}
    return numbers, (found.status, found.test_status)


def trimmed(design, response, axis, features, mask):
    """The trimmed fit and its smooth form; the others are not used."""
    options = {"key": KEY, "trim": 0.25, "num_starts": 20, "mask": mask}
    hard = fit_trimmed(design, response, **options)
    soft = smooth_fit_trimmed(design, response, **options)
    parts = (hard.coefficients, hard.objective, hard.scale, soft.coefficients, soft.objective)
    return dict(enumerate(parts)), ()


FUNCTIONS = {
    "published": partial(hard, PUBLISHED),
    "smooth": partial(smooth, 0.1),
    "default": partial(hard, DEFAULT),
    "trimmed": trimmed,
}


@cache
def program(function):
    """Values, decisions, and without an offset directional derivatives and a finite gradient.

    All of ``CHUNK`` problems from one program, where nothing is searched for twice. The gradient is
    of what a user would train on who masks what is undefined. Finite differences ask for no more
    than the values beside the data.
    """

    def one(offset, data, change, mask):
        moved = [part + offset * by for part, by in zip(data, change, strict=True)]
        numbers, linear, decisions = jax.linearize(
            lambda *data: function(*data, mask), *moved, has_aux=True
        )

        def derive():
            weights = jax.tree.map(lambda part: jnp.isfinite(part).astype(part.dtype), numbers)
            gradient = jax.linear_transpose(linear, *moved)(weights)
            return linear(*change), jnp.stack([jnp.all(jnp.isfinite(part)) for part in gradient])

        unknown = jax.tree.map(lambda part: jnp.full(part.shape, jnp.nan, part.dtype), numbers)
        nothing = (unknown, jnp.zeros(len(moved), bool))
        slopes, sound = jax.lax.cond(offset == 0, derive, lambda: nothing)
        return numbers, slopes, decisions, sound

    return jax.jit(lambda offset, *parts: jax.lax.map(lambda part: one(offset, *part), parts))


def run(function, offset, *parts):
    """The program of a function for any number of problems, chunk by chunk."""
    num = len(jax.tree.leaves(parts)[0])
    found = []
    for begin in range(0, num, CHUNK):
        rows = np.minimum(np.arange(begin, begin + CHUNK), num - 1)
        chunk = jax.tree.map(lambda part, rows=rows: part[rows], parts)
        found += [jax.device_get(program(function)(jnp.asarray(offset), *chunk))]
    return jax.tree.map(lambda *parts: np.concatenate(parts)[:num], *found)


def compare(function, seeds, steps, kinked=False):
    """Relative errors of directional derivatives, for every number a list over problems; and them.

    An error is ``UNDEFINED`` where the number is, so that there was nothing to compare. Of several
    steps the one counts whose differences agree best.
    """
    rng = np.random.default_rng(0)
    arrays = [np.stack(parts) for parts in zip(*map(problem, seeds), strict=True)]
    data, mask = arrays[:4], arrays[4]
    change = [rng.normal(size=part.shape) for part in data]

    def at(offset):
        numbers, slopes, decisions, _ = run(function, offset, data, change, mask)
        return (numbers, decisions), slopes

    here, slopes = at(0.0)
    around = {step: [at(k * step)[0] if k else here for k in (-2, -1, 0, 1, 2)] for step in steps}
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
    # Fourth order, so that the curvature of the tails does not matter.
    wanted = (8 * (values[3] - values[1]) - (values[4] - values[0])) / (12 * step)
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
    function = FUNCTIONS["smooth"] if temperature == 0.1 else partial(smooth, temperature)
    errors, _ = compare(function, range(55), SMOOTH_STEPS)
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


def count_nan(function, num):
    arrays = [np.stack(parts) for parts in zip(*map(awkward, range(num)), strict=True)]
    data, mask = arrays[:4], arrays[4]
    *_, sound = run(function, 0.0, data, [np.zeros_like(part) for part in data], mask)
    return int(np.sum(~sound))


@pytest.mark.parametrize("function", list(FUNCTIONS))
@pytest.mark.parametrize("num", [50, pytest.param(1000, marks=pytest.mark.slow)])
def test_no_gradient_is_nan(function, num):
    assert count_nan(FUNCTIONS[function], num) == 0
