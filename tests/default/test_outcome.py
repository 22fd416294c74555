import itertools

import numpy as np
import pytest
from brute_force_default import fit, rank_of, residual_sum
from cell_data import THETA, assert_traced_alike, cell_rows
from region_data import LAYOUT, region_rows
from scipy import stats

from lisdd_jax.default import form, outcome
from lisdd_jax.default.physics import Physics
from lisdd_jax.results import Verdict
from lisdd_jax.statistics.f_tests import log_p_values

BOTH = np.ones(2, bool)
VARIANCE = np.float64(0.25)
LAW = Physics(THETA[:2], np.array([[0.02, 0.004], [0.004, 0.03]]), np.bool_(True))


def expected_verdict(ground):
    """Section 3.11, read from top to bottom."""
    rejected = not ground.exact and not ground.slight
    if not ground.enough and not ground.certified:
        return Verdict.INSUFFICIENT_DATA if ground.exact else Verdict.NO_CLEAN_REGIME
    if ground.everywhere and (ground.certified or rejected):
        return Verdict.NO_CLEAN_REGIME
    if ground.certified:
        if ground.doubtful:
            return Verdict.NOT_CERTIFIED
        if ground.two_laws:
            return Verdict.AMBIGUOUS_REGIME
        return Verdict.DISCREPANCY if ground.usable else Verdict.NOT_IDENTIFIABLE
    if not rejected:
        return Verdict.INSUFFICIENT_DATA if ground.untold else Verdict.CLEAN
    if ground.useless:
        return Verdict.NO_CLEAN_REGIME
    return Verdict.NOT_CERTIFIED if ground.doubtful else Verdict.HOLDS_NEARLY


def test_verdict_of_every_combination_of_grounds():
    seen = set()
    for values in itertools.product([False, True], repeat=len(outcome.Grounds._fields)):
        found = outcome.decide(outcome.Grounds(*map(np.bool_, values)))
        expected = expected_verdict(outcome.Grounds(*values))
        assert found == expected, values
        seen.add(int(found))
    assert seen == set(Verdict)


def chosen(rows, theta=THETA[:2], present=BOTH):
    return form.choose_form(rows.sums, theta, present, VARIANCE, LAYOUT, 2, 0.15)


@pytest.mark.parametrize("shared", [False, True])
def test_terms_are_fitted_in_their_regions_given_the_law(shared):
    first = lambda columns: 1.0 * columns[:, 4]  # noqa: E731
    second = first if shared else lambda columns: columns[:, 5] - columns[:, 6]
    rows = region_rows(0, (60, 70, 150), [first, second])
    found_form = chosen(rows)
    assert found_form.shared == shared
    found = outcome.fit_terms(rows.sums, found_form, BOTH, LAW, VARIANCE, 1.5, LAYOUT, 2)
    for r, support in enumerate([[0], [0] if shared else [1, 2]]):
        part = np.concatenate([rows.part(q) for q in (range(2) if shared else [r])])
        terms, design = part[:, [4 + i for i in support]], part[:, LAYOUT.physics]
        weights, left = fit(terms, part[:, -1] - design @ LAW.theta)
        # Eight rows of the law's noise beside those of the region.
        variance = (8 * VARIANCE + left @ left) / (8 + len(left) - len(support))
        inverse = np.linalg.inv(terms.T @ terms)
        carried = inverse @ terms.T @ design
        covariance = 1.5 * variance * inverse + carried @ LAW.covariance @ carried.T
        used = found.used[r]
        assert found.place[r][used].tolist() == support
        np.testing.assert_allclose(found.coefficients[r][used], weights, rtol=1e-9)
        np.testing.assert_allclose(found.stderr[r][used], np.sqrt(np.diag(covariance)), rtol=1e-9)
        assert not found.coefficients[r][~used].any()
        assert np.isnan(found.stderr[r][~used]).all()


def test_absent_regions_have_no_terms():
    rows = region_rows(0, (60, 70, 150), [lambda columns: columns[:, 4]])
    present = np.array([True, False])
    found = outcome.fit_terms(
        rows.sums, chosen(rows, present=present), present, LAW, VARIANCE, 1.0, LAYOUT, 2
    )
    assert not found.used[1].any()
    assert not found.coefficients[1].any()
    assert np.isnan(found.stderr[1]).all()


@pytest.fixture(scope="module")
def mapped():
    """Cells of the map with the rows of the law among theirs, and what is said of them."""
    sizes = (30, 24, 41, 0, 33)
    noise = (1.0, 3.0, 1.0, 1.0, 0.5)
    rows = cell_rows(
        2, sizes, noise=noise, change=lambda columns, cell: np.where(cell == 2, columns[:, 3], 0.0)
    )
    law = (rows.cell != 2) & (np.arange(len(rows.cell)) % 7 > 0)
    columns = rows.columns[:, [0, 1, 2, 3, -1]]
    own = [columns[rows.cell == k] for k in range(5)]
    clean = [columns[(rows.cell == k) & law] for k in range(5)]
    gram, law_gram = (np.array([part.T @ part for part in parts]) for parts in (own, clean))
    found = outcome.map_cells(gram, law_gram, rows.count, THETA[:2], np.float64(1e-14), rows.layout)
    return own, clean, found, (gram, law_gram, rows.count, rows.layout)


def test_map_compares_a_cell_with_the_law_of_the_others(mapped):
    own, clean, found, _ = mapped
    rests = [residual_sum(part[:, :4], part[:, -1]) if len(part) else 0.0 for part in own]
    degrees = [len(part) - rank_of(part[:, :4]) for part in own]
    for k, part in enumerate(own):
        if len(part) == 0:
            assert np.isnan(found.mean[k])
            assert np.isnan(found.rms[k])
            assert not found.misfit.defined[k]
            continue
        residual = part[:, -1] - part[:, 2:4] @ THETA[:2]
        assert found.mean[k] == pytest.approx(np.mean(residual), rel=1e-9)
        assert found.rms[k] == pytest.approx(np.sqrt(np.mean(residual**2)), rel=1e-9)
        others = np.concatenate([clean[j] for j in range(5) if j != k])
        joined = np.concatenate([others, part])
        before, after = (residual_sum(rows[:, 2:4], rows[:, -1]) for rows in (others, joined))
        gain = (after - before - rests[k]) / 4
        np.testing.assert_allclose(
            [found.misfit.statistic[k], found.misfit.df_num[k], found.misfit.df_den[k]],
            [gain / (sum(rests) / sum(degrees)), 4, sum(degrees)],
            rtol=1e-8,
        )
        np.testing.assert_allclose(
            [found.own_noise.statistic[k], found.own_noise.df_den[k]],
            [gain / (rests[k] / degrees[k]), degrees[k]],
            rtol=1e-8,
        )
        rest, left = sum(rests) - rests[k], sum(degrees) - degrees[k]
        np.testing.assert_allclose(
            [found.louder.statistic[k], found.louder.df_num[k], found.louder.df_den[k]],
            [(rests[k] / degrees[k]) / (rest / left), degrees[k], left],
            rtol=1e-8,
        )
    assert np.argmax(found.misfit.statistic[[0, 1, 2, 4]]) == 2
    assert np.argmax(found.louder.statistic[[0, 1, 2, 4]]) == 1


def test_map_of_a_sound_law_has_uniform_p_values():
    num, small = 300, np.zeros(5)
    for seed in range(num):
        rows = cell_rows(5000 + seed, (20,) * 5)
        gram = rows.gram[:, [0, 1, 2, 3, -1]][:, :, [0, 1, 2, 3, -1]]
        found = outcome.map_cells(gram, gram, rows.count, THETA[:2], np.float64(0), rows.layout)
        small += stats.f.sf(*found.misfit) < 0.05
    assert (np.abs(small / num - 0.05) <= 5 * np.sqrt(0.05 * 0.95 / num)).all()


def test_tails_of_the_map(mapped):
    found = mapped[2]
    for ratio, log_p in zip(found[2:], log_p_values(*found[2:]), strict=True):
        defined = ratio.defined
        expected = stats.f.logsf(*(part[defined] for part in ratio))
        np.testing.assert_allclose(log_p[defined], expected, rtol=1e-6)
        assert np.isnan(log_p[~defined]).all()


SHARE = {
    "clean": np.array([1, 1, 1, 0, 0, 1], bool),
    "rival": np.array([0, 0, 0, 1, 1, 0], bool),
    "num_rows": np.array([50.0, 50, 50, 50, 50, 50]),
    "members": np.array([[0, 0, 0, 1, 1, 0], [0, 0, 0, 0, 0, 0]], bool),
    "inside": np.array([90, 0], np.int32),
    "places": np.arange(7.0),
    "ends": np.array([[3.2, np.nan], [5.0, np.nan]]),
}


def share(**changes):
    return outcome.rival_share(**{**SHARE, **changes})


def test_share_of_a_rival_by_hand():
    by_rows, by_length = 90 / 210, 1.8 / 4.2
    assert share() == pytest.approx(np.sqrt(by_rows * by_length))
    # Rows are dense there: the length is followed to two standard errors only.
    error = 2 * np.sqrt(1 / 90 + 1 / 210)
    far = share(ends=np.array([[4.9, np.nan], [5.0, np.nan]]))
    assert far == pytest.approx(by_rows * np.exp(-error / 2))
    wide = share(ends=np.array([[0.5, np.nan], [5.9, np.nan]]))
    assert wide == pytest.approx(by_rows * np.exp(error / 2))


def test_share_of_a_rival_at_the_end_of_the_axis():
    ends = np.array([[3.0, np.nan], [np.inf, np.nan]])
    expected = np.sqrt(150 / 150 * 3.0 / 3.0)
    members = np.array([[0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 0]], bool)
    found = share(ends=ends, members=members, inside=np.array([150, 0]))
    assert found == pytest.approx(expected)


def test_only_regions_that_the_rival_holds_count():
    assert share(rival=np.array([1, 0, 0, 0, 0, 0], bool)) == 0
    assert share(rival=np.zeros(6, bool)) == 0
    assert share(clean=np.ones(6, bool)) == 0


def test_spread_of_what_a_law_explains():
    rows = cell_rows(3, (30, 24, 41), constant=True)
    theta = np.array([5.0, -2.0])
    expected = np.std(rows.columns[:, 2:4] @ theta)
    found = outcome.explained_spread(rows.gram, theta, rows.layout)
    assert found == pytest.approx(expected, rel=1e-9)
    level = outcome.explained_spread(rows.gram, np.array([5.0, 0.0]), rows.layout)
    assert level == pytest.approx(0, abs=1e-6)


def test_traced_alike(mapped):
    rows = region_rows(0, (60, 70, 150), [lambda columns: columns[:, 4]])
    gram, law_gram, count, layout = mapped[3]

    def every(sums, chosen, law, gram, law_gram, count, grounds, shares):
        terms = outcome.fit_terms(sums, chosen, BOTH, law, VARIANCE, VARIANCE, LAYOUT, 2)
        cells = outcome.map_cells(gram, law_gram, count, law.theta, VARIANCE, layout)
        spread = outcome.explained_spread(gram, law.theta, layout)
        share = outcome.rival_share(**shares)
        return terms, cells, spread, share, outcome.decide(grounds)

    grounds = outcome.Grounds(*map(np.bool_, (1, 0, 1, 0, 0, 0, 0, 0, 0, 1)))
    assert_traced_alike(every, rows.sums, chosen(rows), LAW, gram, law_gram, count, grounds, SHARE)
