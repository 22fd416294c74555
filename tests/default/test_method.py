"""The default method on whole tables: where, which side, what, and what it refuses to say."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import rows_data as data

from lisdd_jax import Config, Verdict
from lisdd_jax.default import method

SEEDS = range(6)


def middle(table, low, high):
    return (table.axis >= low) & (table.axis < high)


@pytest.mark.parametrize("size", [2.0, 4.0, 10.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_step_is_found_whatever_its_size(size, seed):
    """The larger the fault, the more it must not be taken for the law."""
    table = data.straight(seed, data.step(size, 7))
    found = data.run(table)
    assert found.verdict in (Verdict.DISCREPANCY, Verdict.AMBIGUOUS_REGIME)
    assert bool(found.place.certified)
    assert data.overlap(found, table.axis, table.axis >= 7) > 0.7
    error = np.sqrt(np.diag(found.covariance))
    assert (np.abs(found.coefficients - np.array([1.0, 2.0, -1.0])) < 5 * error).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_window_is_found_and_its_term_named(seed):
    table = data.straight(seed, data.step(2.0, 4, 6))
    found = data.run(table)
    assert found.verdict == Verdict.DISCREPANCY
    assert bool(found.form.certified)
    assert data.overlap(found, table.axis, middle(table, 4, 6)) > 0.8
    # A constant, or what is alike on so short an interval.
    assert bool(found.form.equivalent[0])
    at_five = table.features[np.argmin(np.abs(table.axis - 5))]
    np.testing.assert_allclose(found.form.coefficients @ at_five, 2.0, atol=0.6)


@pytest.mark.parametrize("seed", SEEDS)
def test_two_regions_keep_terms_of_their_own(seed):
    fault = lambda z, x: np.where(z < 2, 2 * z**2, np.where(z > 8, 3 * np.sin(z), 0.0))  # noqa: E731
    table = data.straight(seed, fault)
    found = data.run(table)
    assert found.verdict == Verdict.DISCREPANCY
    assert data.overlap(found, table.axis, (table.axis < 2) | (table.axis > 8)) > 0.7


def test_a_term_that_the_axis_does_not_drive_is_no_noise():
    table = data.straight(3, lambda z, x: np.where(z > 7, 2.0 * x**2, 0.0))
    found = data.run(table)
    assert found.verdict == Verdict.DISCREPANCY
    assert bool(found.form.support[6])
    assert not bool(found.cells.noisier.any())


def test_a_sound_law_is_clean():
    """Of twelve tables at most two may be rejected by chance (binomial, 0.02 beyond)."""
    found = [data.run(data.straight(200 + seed, data.sound)) for seed in range(12)]
    clean = [one.verdict == Verdict.CLEAN for one in found]
    assert sum(map(bool, clean)) >= 10
    assert not any(bool(one.place.certified) or bool(one.test.reject) for one in found)


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["normal", "t3", "growing"])
def test_a_sound_law_is_certified_at_most_at_the_level(noise):
    draw = {
        "normal": None,
        "t3": lambda rng, z: rng.standard_t(3, len(z)),
        "growing": lambda rng, z: (0.3 + 0.2 * z) * rng.normal(size=len(z)),
    }[noise]
    found = [data.run(data.straight([5, i], data.sound, noise=draw)) for i in range(200)]
    spread = 5 * np.sqrt(0.05 * 0.95 / len(found))
    assert np.mean([bool(one.place.certified) for one in found]) < 0.05 + spread
    assert np.mean([one.verdict == Verdict.CLEAN for one in found]) > 0.90 - spread
    assert np.mean([bool(one.exactness.p_value < 0.05) for one in found]) < 0.05 + spread


@pytest.mark.parametrize("sided", [True, False])
def test_gross_errors_are_named_and_change_nothing(sided):
    table = data.straight(1, data.step(2.0, 7))
    rng = np.random.default_rng(0)
    bad = rng.choice(data.NUM, 25, replace=False)
    response = table.response.copy()
    response[bad] += 30 * (1 if sided else rng.choice([-1, 1], 25))
    found = data.run(table._replace(response=response))
    np.testing.assert_array_equal(np.flatnonzero(found.outliers), np.sort(bad))
    assert found.verdict == Verdict.DISCREPANCY
    assert data.overlap(found, table.axis, table.axis >= 7) > 0.9


def test_two_laws_are_told_with_their_numbers_and_trusted_rows_decide():
    table = data.straight(2, data.step(4.0, 4))
    found = data.run(table)
    assert found.verdict == Verdict.AMBIGUOUS_REGIME
    np.testing.assert_allclose(found.coefficients, [5.0, 2.0, -1.0], atol=0.4)
    np.testing.assert_allclose(found.rival.coefficients, [1.0, 2.0, -1.0], atol=0.5)
    assert 0.5 < found.rival.share < 0.8
    found = data.run(table, trusted=table.axis < 3)
    assert found.verdict == Verdict.DISCREPANCY
    np.testing.assert_allclose(found.coefficients, [1.0, 2.0, -1.0], atol=0.5)
    assert data.overlap(found, table.axis, table.axis >= 4) > 0.9


def test_of_three_places_any_may_be_the_law_and_trusted_rows_decide():
    table = data.straight(3, data.step(2.0, 7))
    table = table._replace(axis=np.where(table.axis < 3.5, 0.0, np.where(table.axis < 7, 1.0, 2.0)))
    found = data.run(table)
    assert found.verdict == Verdict.AMBIGUOUS_REGIME
    assert bool(found.place.certified)
    found = data.run(table, trusted=table.axis == 1)
    assert found.verdict == Verdict.DISCREPANCY
    np.testing.assert_allclose(found.coefficients, [1.0, 2.0, -1.0], atol=0.5)
    assert data.overlap(found, table.axis, table.axis == 2) == 1


@pytest.mark.parametrize("term", ["square", "sine"])
def test_a_term_that_acts_everywhere_is_not_local(term):
    fault = {"square": lambda z, x: 0.15 * z**2, "sine": lambda z, x: 2 * np.sin(z)}[term]
    found = data.run(data.straight(4, fault))
    assert found.verdict == Verdict.NO_CLEAN_REGIME
    assert bool(found.everywhere[{"square": 2, "sine": 4}[term]])


CURVES = {
    "wave": (3, lambda z, x: 3 * np.sin(0.6 * z)),
    "drift": (1, lambda z, x: 0.5 * x * z),
}


@pytest.mark.parametrize("name", CURVES)
def test_a_law_that_bends_everywhere_is_not_wrong_in_a_place(name):
    """No term of the library says how."""
    seed, fault = CURVES[name]
    found = data.run(data.straight(seed, fault))
    assert bool(found.place.certified)
    assert found.verdict == Verdict.NO_CLEAN_REGIME
    assert not found.everywhere.any()


def test_a_law_between_far_larger_regions_is_where_two_curves_meet():
    found = data.run(data.straight(3, lambda z, x: np.abs(z - 5)))
    assert found.verdict == Verdict.AMBIGUOUS_REGIME
    inside = np.asarray(found.regions.count)
    assert inside[2:].sum() == 0
    assert inside.max() > 2 * (data.NUM - inside.sum()) > 0


def test_dependence_is_named_and_blocks_take_it_into_account():
    table = data.straight(6, data.sound, num=100)
    repeated = data.Table(*(np.repeat(part, 5, axis=0) for part in table))
    found = data.run(repeated)
    assert bool(found.dependence.significant)
    assert found.dependence.repeated > 0.7
    assert found.verdict not in (Verdict.DISCREPANCY, Verdict.AMBIGUOUS_REGIME)
    whole = data.run(repeated, block=np.repeat(np.arange(100), 5))
    assert whole.verdict not in (Verdict.DISCREPANCY, Verdict.AMBIGUOUS_REGIME)
    once = data.run(repeated, mask=np.arange(500) % 5 == 0)
    assert float(whole.covariance[0, 0]) > 2 * float(once.covariance[0, 0]) / 5


def test_known_errors_of_the_rows_are_weights():
    rng = np.random.default_rng(0)
    table = data.straight(7, data.step(2.0, 7))
    size = np.where(rng.random(data.NUM) < 0.5, 1.0, 6.0)
    noise = table.response - table.design @ [1.0, 2.0, -1.0] - data.step(2.0, 7)(table.axis, None)
    noisy = table._replace(response=table.response + noise * (size - 1))
    found = data.run(noisy, noise_scale=size)
    assert found.verdict == Verdict.DISCREPANCY
    np.testing.assert_allclose(found.scale, 1.0, rtol=0.15)
    assert data.overlap(found, table.axis, table.axis >= 7) > 0.85


def test_key_and_cells_of_the_map_do_not_decide():
    table = data.straight(8, data.step(1.5, 7))
    first = data.run(table)
    for seed, num in ((1, 10), (2, 20), (3, 14)):
        other = data.run(table, config=Config(num_cells=num), seed=seed)
        assert other.verdict == first.verdict
        np.testing.assert_allclose(other.place.log_p_value, first.place.log_p_value, rtol=1e-9)


def test_a_size_that_does_not_matter_is_clean():
    table = data.straight(9, data.step(1.5, 7))
    assert data.run(table, config=Config(negligible=3.0)).verdict == Verdict.CLEAN


@pytest.mark.parametrize("num", [12, 30])
def test_few_rows_say_nothing_false(num):
    for seed in range(10):
        few, mask = data.pad(data.straight([11, seed], data.sound, num=num))
        found = data.run(few, mask=mask)
        assert found.verdict != Verdict.DISCREPANCY


def test_near_tables_share_one_program(compilations):
    data.run(data.straight(1, data.sound, num=data.NUM - 10))
    before = len(compilations)
    data.run(data.straight(2, data.step(3.0, 7), num=data.NUM - 5))
    assert len(compilations) == before


@pytest.mark.parametrize(
    "change, settles", [(lambda keep: ~keep, False), (lambda keep: keep, True)]
)
def test_whether_rows_settle_is_told_on_the_host_and_traced(change, settles):
    keep = jnp.array([True, False, True])

    def work(keep):
        return jnp.sum(keep), change(keep)

    found = method._repeat_until_settled(work, keep, True)
    traced = jax.jit(lambda keep: method._repeat_until_settled(work, keep, False))(keep)
    assert bool(found[2]) == bool(traced[2]) == settles
    # The result is of the rows that come with it, settled or not.
    assert int(found[0]) == int(found[1].sum())
    for one, other in zip(found, traced, strict=True):
        np.testing.assert_array_equal(one, other)


def test_errors_of_a_term_go_with_the_noise_of_its_region():
    """Three times as much from 7 on, where the law has no rows: with that of the law .58 are."""
    covered = []
    for seed in range(40):
        noise = np.random.default_rng([seed, 2]).normal(size=data.NUM)
        table = data.straight(seed, data.step(6.0, 7))
        table = table._replace(
            response=table.response + np.where(table.axis > 7, np.sqrt(8.0) * noise, 0.0)
        )
        found = data.run(table)
        terms = jax.device_get(found.regions)
        if terms.present.sum() == 1 and np.flatnonzero(terms.support[0]).tolist() == [0]:
            covered.append(abs(terms.coefficients[0, 0] - 6.0) < 1.96 * terms.stderr[0, 0])
    assert len(covered) >= 25
    assert np.mean(covered) > 0.95 - 5 * np.sqrt(0.95 * 0.05 / len(covered))


def test_a_short_table_whose_law_breaks_at_both_ends_is_not_clean():
    """Three cells of a few rows show a break as a correlation of neighbours."""
    said = []
    for seed in range(12):
        table, used = data.pad(
            data.straight(seed, lambda axis, first: 4.0 * (axis < 2) - 4.0 * (axis >= 8), num=60)
        )
        found = data.run(table, mask=used)
        said.append(Verdict(int(found.verdict)))
    assert Verdict.CLEAN not in said
    assert said.count(Verdict.DISCREPANCY) >= 6
