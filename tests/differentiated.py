"""Diagnoses of small problems as functions of their data, with derivatives, each one program.

Modules of tests that import from here share these programs where they run in one process.
"""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np

from lisdd_jax import Config, diagnose, fit_trimmed
from lisdd_jax.hybrid import smooth_diagnose, smooth_fit_trimmed

# Of so many problems that hardly any is solved twice to fill the last chunk.
NUM, CELLS, CHUNK = 90, 6, 5
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
    """Continuous results, the decisions behind them, and what else is asked."""
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
    beside = {"status": found.status, "form": found.form.coefficients}
    return numbers, (*decisions, found.test.flagged, found.test.support), beside


def log_of(p_value):
    """Log of a tail; NaN where it is too small for a float, which has no digits there."""
    known = p_value >= jnp.finfo(p_value.dtype).tiny
    return jnp.where(known, jnp.log(jnp.where(known, p_value, 1.0)), jnp.nan)


def smooth_result(temperature, design, response, axis, features, mask):
    """In the precision of the data."""
    return smooth_diagnose(
        design,
        response,
        axis,
        features,
        key=KEY,
        config=PUBLISHED,
        edges=np.asarray(EDGES).astype(design.dtype),
        mask=mask,
        temperature=temperature,
    )


def smooth(*data, temperature):
    found = smooth_result(temperature, *data)
    numbers = {name: part for name, part in vars(found).items() if not name.endswith("status")}
    return numbers, (found.status, found.test_status), {}


def trimmed(design, response, axis, features, mask):
    """The trimmed fit and its smooth form; the others are not used."""
    options = {"key": KEY, "trim": 0.25, "num_starts": 20, "mask": mask}
    hard = fit_trimmed(design, response, **options)
    soft = smooth_fit_trimmed(design, response, **options)
    parts = (hard.coefficients, hard.objective, hard.scale, soft.coefficients, soft.objective)
    return dict(enumerate(parts)), (), {}


FUNCTIONS = {
    "published": partial(hard, PUBLISHED),
    "smooth": smooth,
    "default": partial(hard, DEFAULT),
    "trimmed": trimmed,
}


@cache
def program(function):
    """Values and what is beside them, without an offset derivatives and a finite gradient too.

    All of ``CHUNK`` problems from one program, where nothing is searched for twice. The gradient is
    of what a user would train on who masks what is undefined. Finite differences ask for no more
    than the values beside the data.
    """

    def one(offset, data, change, mask, options):
        moved = [part + offset * by for part, by in zip(data, change, strict=True)]

        def values(*data):
            numbers, *others = function(*data, mask, **options)
            return numbers, others

        numbers, linear, others = jax.linearize(values, *moved, has_aux=True)

        def derive():
            weights = jax.tree.map(lambda part: jnp.isfinite(part).astype(part.dtype), numbers)
            gradient = jax.linear_transpose(linear, *moved)(weights)
            return linear(*change), jnp.stack([jnp.all(jnp.isfinite(part)) for part in gradient])

        unknown = jax.tree.map(lambda part: jnp.full(part.shape, jnp.nan, part.dtype), numbers)
        nothing = (unknown, jnp.zeros(len(moved), bool))
        slopes, sound = jax.lax.cond(offset == 0, derive, lambda: nothing)
        return numbers, slopes, *others, sound

    return jax.jit(lambda offset, *parts: jax.lax.map(lambda part: one(offset, *part), parts))


def run(function, offset, *parts, temperature=None):
    """The program of a function for any number of problems, chunk by chunk.

    Returns:
      Numbers, slopes, decisions, what is beside them, and which parts of the gradient are finite.
    """
    num = len(jax.tree.leaves(parts)[0])
    options = {} if temperature is None else {"temperature": np.full(num, temperature)}
    parts = (*parts, options)
    found = []
    for begin in range(0, num, CHUNK):
        rows = np.minimum(np.arange(begin, begin + CHUNK), num - 1)
        chunk = jax.tree.map(lambda part, rows=rows: part[rows], parts)
        found += [jax.device_get(program(function)(jnp.asarray(offset), *chunk))]
    return jax.tree.map(lambda *parts: np.concatenate(parts)[:num], *found)
