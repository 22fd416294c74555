import jax
import numpy as np
import pytest

from lisdd_jax.statistics.trimmed import concentration, starts

NUM, KEPT = 60, 40
MAKE_COLUMNS = jax.jit(starts.make_columns)
UNJUDGED = jax.jit(concentration.unjudged)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(2)
    basis = np.column_stack([np.ones(NUM), rng.normal(size=NUM)])
    response = basis @ [1.0, 2.0] + 0.1 * rng.normal(size=NUM)
    response[:15] += 4.0
    mask = np.arange(NUM) != 20
    return basis, response, mask, MAKE_COLUMNS(basis.T, response, mask)


def step(basis, response, mask, solution):
    """Keep the rows that fit best, and fit them; the objective is that of the rows kept."""
    squares = np.where(mask, (response - basis @ solution) ** 2, np.inf)
    kept = np.argsort(squares)[:KEPT]
    return np.linalg.lstsq(basis[kept], response[kept])[0], np.sum(squares[kept])


@pytest.mark.parametrize("num_steps", [1, 3])
def test_steps_are_those_of_the_definition(rows, num_steps):
    *data, columns = rows
    first = np.random.default_rng(3).normal(size=(5, 2))
    begin = UNJUDGED(columns, first)
    run = jax.jit(concentration.first_steps, static_argnums=(3, 4))
    found = jax.device_get(
        run(columns, begin, np.int32(KEPT), num_steps, concentration.pick_exactly)
    )
    for solution, objective, start in zip(found.solution, found.objective, first, strict=True):
        for _ in range(num_steps):
            start, _ = step(*data, start)
        np.testing.assert_allclose(solution, start, rtol=1e-10)
        assert objective == pytest.approx(step(*data, start)[1], rel=1e-10)


def test_convergence_ends_where_a_step_gains_nothing(rows):
    *data, columns = rows
    first = np.random.default_rng(4).normal(size=(6, 2))
    begin = UNJUDGED(columns, first)
    solution, objective, unfinished = jax.jit(concentration.converge)(
        columns, begin, np.int32(KEPT), 6
    )
    assert not unfinished
    best = np.inf
    for start in first:
        before = np.inf
        while True:
            moved, value = step(*data, start)
            if not value < before:
                break
            before, start = value, moved
        best = min(best, before)
    assert objective == pytest.approx(best, rel=1e-10)
    np.testing.assert_allclose(step(*data, solution)[1], objective, rtol=1e-10)


def test_rough_choices_keep_about_so_many(rows):
    *_, columns = rows
    distances = np.abs(np.asarray(columns.response))
    picked = jax.jit(concentration.pick_roughly)(distances, np.int32(KEPT), np.median(distances))
    kept = np.asarray(picked.weights) > 0
    assert kept.sum() + int(picked.missing) == KEPT
    assert abs(int(picked.missing)) <= 1
    assert distances[kept].max() <= picked.threshold


def test_the_best_are_the_good_ones_of_lowest_objective():
    objectives = np.array([3.0, 1.0, np.nan, 2.0, 0.5])
    candidates = concentration.Candidates(np.arange(5.0)[:, None], objectives, objectives)
    good = np.array([True, True, True, True, False])
    best_of = jax.jit(concentration.best_of, static_argnums=2)
    assert best_of(candidates, good, 2).objective.tolist() == [1.0, 2.0]
