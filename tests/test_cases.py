"""Inputs that have broken tools of this kind, with the right answer."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import testbed
from testbed import NUM_ROWS, Table, pad

from lisdd_jax import (
    Config,
    Status,
    Verdict,
    adjust_p_values,
    describe,
    diagnose,
    f_test,
    fit_clean_regime,
    fit_trimmed,
    select_form,
)
from lisdd_jax.numerics import cell_sums, least_squares
from lisdd_jax.statistics import partition
from lisdd_jax.tables import problem

KEY = jax.random.key(0)


def trimmed(design, response, trim, dtype=np.float64):
    """Padded to the shape of the star data, whose program other tests compile."""
    missing = 47 - len(response)
    mask = np.arange(47) < len(response)
    design = np.pad(np.asarray(design), [(0, missing), (0, 0)]).astype(dtype)
    response = np.pad(np.asarray(response), (0, missing)).astype(dtype)
    return fit_trimmed(design, response, key=KEY, trim=trim, num_starts=200, mask=mask)


def diagnosed(design, response, axis, features, **options):
    table = Table(design, response, axis, features, np.ones(len(response), bool))
    padded = pad(Table(*(np.asarray(a, float) for a in table[:-1]), table.mask))
    return diagnose(*padded[:-1], mask=padded.mask, key=KEY, config=Config.paper(), **options)


def powers(axis, num: int = 5):
    return np.column_stack([axis**k for k in range(1, num + 1)])


class TestZeroScale:
    """1. More than half of the residuals are equal: no noise scale, no p-value, no flag."""

    @pytest.mark.parametrize(
        "x, y",
        [
            ([0.97873798, 2.2408932, 1.76405235, 1.86755799, 0.40015721], [1, 1, 2, 1, 1]),
            (np.linspace(0, 1, 100), np.zeros(100)),
        ],
    )
    def test_the_noise_scale_cannot_be_estimated(self, x, y):
        x = np.asarray(x)
        found = diagnosed(np.ones((len(y), 1)), y, x, powers(x))
        assert found.status == Status.ZERO_SCALE
        assert "noise scale" in describe(found.status)
        assert found.verdict == Verdict.INSUFFICIENT_DATA
        assert not found.cells.flagged.any()
        assert not found.test.reject
        for values in (found.cells.p_value, found.cells.statistic, found.regions.p_value):
            assert np.isnan(values).all()
        for leaf in jax.tree.leaves((found.coefficients, found.scale, found.cells.mean)):
            assert not np.isinf(leaf).any()

    def test_a_constant_is_fitted_exactly(self):
        found = trimmed(
            np.ones((100, 2))[:40] * [1, 0] + [[0, i] for i in range(40)], np.zeros(40), 0.36
        )
        assert found.status == Status.EXACT_FIT
        assert found.scale == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exact_fit_with_a_shifted_tail(dtype):
    """2. x = 1..20, y = 2 + 3 x, the last six + 20: exactly (2, 3), scale 0, and a status."""
    x = np.arange(1.0, 21.0)
    y = 2 + 3 * x + np.where(x > 14, 20.0, 0.0)
    found = trimmed(np.column_stack([np.ones(20), x]), y, 0.3, dtype)
    assert found.status == Status.EXACT_FIT
    assert found.scale == 0
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(found.coefficients, [2.0, 3.0], rtol=tolerance)
    np.testing.assert_array_equal(found.kept, np.arange(47) < 14)


def test_too_few_rows():
    """3. Five rows, four regressors."""
    design = np.random.default_rng(0).normal(size=(5, 4))
    response = np.array([1000.0, 1100.0, 1050.0, 950.0, 1003.0])
    found = fit_trimmed(design, response, key=KEY, trim=0.36, num_starts=10)
    assert found.status == Status.TOO_FEW_ROWS
    assert np.isnan(found.coefficients).all()
    assert "not more rows in use than parameters" in describe(found.status)
    test = f_test(design, np.ones((5, 1)), response)
    assert test.status == Status.TOO_FEW_TEST_ROWS
    assert np.isnan(test.p_value)


class TestMissingValues:
    """4. Five complete rows of nine."""

    X = (58.4890, np.nan, 54.2880, 53.7940, np.nan, 59.7240, 48.1, 25.9955, np.nan)
    Y = (3.505, 3.5, 3.530, 3.440, np.nan, 3.420, np.nan, 3.430, 3.4)

    def test_rows_are_counted_and_the_line_is_that_of_the_complete_ones(self, tmp_path):
        rows = "\n".join(
            ",".join("" if np.isnan(v) else str(v) for v in row)
            for row in zip(self.X, self.Y, strict=True)
        )
        path = tmp_path / "table.csv"
        path.write_text("x,y\n" + rows + "\n")
        read = problem.from_table(
            path,
            response="y",
            physics=["x"],
            axis="x",
            library=["x^2"],
            intercept=True,
        )
        assert (read.rows.read, read.rows.used, read.rows.dropped) == (9, 5, 4)
        found = trimmed(read.design, read.response, 0.0)
        np.testing.assert_allclose(found.coefficients, [3.404677, 0.0011955], rtol=2e-5)

    def test_nan_is_refused_or_ends_in_a_status(self):
        design = np.column_stack([np.ones(9), self.X])
        with pytest.raises(ValueError, match="design must be finite .* in 3 of 9 rows, .* row 1"):
            fit_trimmed(design, np.array(self.Y), key=KEY, trim=0.0)


class TestTimeStamp:
    """5. n = 2000, t = 1.7e9 + 1e4 row, x = 0.01 sin(0.7 row), y = 1 + 1e-7 t + 3 x + noise."""

    row = np.arange(2000.0)
    t = 1.7e9 + 1e4 * row
    x = 0.01 * np.sin(0.7 * row)
    y = 1 + 1e-7 * t + 3 * x + 0.01 * np.random.default_rng(0).normal(size=2000)
    columns = (np.ones(2000), t, x)

    def expected(self):
        """By hand from the centred columns."""
        centred = np.column_stack([self.row - self.row.mean(), self.x - self.x.mean()])
        return np.linalg.lstsq(centred, self.y - self.y.mean())[0][1]

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0)])
    def test_the_coefficient_is_right_whatever_the_order(self, order, dtype):
        design = np.column_stack([self.columns[j] for j in order]).astype(dtype)
        found = fit_clean_regime(
            design,
            self.y.astype(dtype),
            np.zeros(2000, np.int32),
            np.zeros(3, dtype),
            num_cells=1,
            config=Config.paper(alpha_cell=0.0),
        )
        if dtype == np.float32 and found.status == Status.RANK_DEFICIENT_DESIGN:
            return
        assert found.status == Status.OK
        slope = np.asarray(found.coefficients)[order.index(2)]
        # Rounding of y = 170 to single precision: 1e-5, a thousandth of the noise.
        tolerance = 2e-3 if dtype == np.float32 else 1e-7
        assert slope == pytest.approx(self.expected(), rel=tolerance)
        assert slope == pytest.approx(3.0, abs=5 * 0.01 / np.sqrt(np.sum(self.x**2)))

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_the_certificate_is_right_or_refused(self, dtype):
        extra = np.random.default_rng(1).normal(size=(2000, 1))
        design = np.column_stack(self.columns)
        centred = np.column_stack([np.ones(2000), self.row - self.row.mean(), self.x])
        response = self.y.astype(dtype).astype(np.float64)
        full = np.column_stack([centred, extra])
        small, large = (
            np.sum((response - c @ np.linalg.lstsq(c, response)[0]) ** 2) for c in (centred, full)
        )
        found = f_test(design.astype(dtype), extra.astype(dtype), self.y.astype(dtype))
        if dtype == np.float32 and found.status == Status.RANK_DEFICIENT_DESIGN:
            return
        assert found.statistic == pytest.approx((small - large) / (large / 1996), rel=2e-2)


def test_huge_offset():
    """6. t = linspace(1.7e12, 1.7e12 + 2e4, 24), y = 0.002 (t - t0) + 5: slope 0.002."""
    t = np.linspace(1.7e12, 1.7e12 + 2e4, 24)
    y = 0.002 * (t - t[0]) + 5
    design = np.column_stack([np.ones(24), t])
    found = jax.device_get(jax.jit(least_squares.least_squares)(design, y))
    if found.independent.all():
        # Rounding of t itself: 1.2e-4 of 2e4.
        assert found.coefficients[1] == pytest.approx(0.002, rel=1e-6)
    robust = jax.device_get(trimmed(design, y, 0.3))
    assert robust.status in (Status.OK, Status.EXACT_FIT)
    assert robust.coefficients[1] == pytest.approx(0.002, rel=1e-7)
    single = trimmed(design, y, 0.3, np.float32)
    assert single.status == Status.RANK_DEFICIENT_DESIGN
    assert np.isnan(single.coefficients).all()


def test_a_point_exactly_on_an_edge():
    """7. x = 0, 1, 2 with edges 0, 1, 2: counts 1 and 2."""
    x = np.array([0.0, 1.0, 2.0])
    assert in_cells(x, x)[1].tolist() == [1, 2]


@jax.jit
def in_cells(axis, edges):
    """Cells of the rows, and how many rows each has."""
    everyone = jnp.ones(len(axis), bool)
    cell = partition.cell_index(axis, edges, everyone)
    return cell, cell_sums.cell_counts(cell, everyone, len(edges) - 1)


class TestRankDeficientLibrary:
    """10. Terms that cannot be told apart are named, and no coefficient is split between twins."""

    def test_terms_inside_a_region(self):
        table = testbed.oscillator(0)
        x1 = table.axis
        dummy = (np.arange(NUM_ROWS) % 2).astype(float)
        features = np.column_stack(
            [x1**3, 2 * x1**3, dummy, dummy**2, np.where(x1 < 0.5, x1, 0) * 0]
        )
        edges = np.linspace(-3.3, 3.3, 15)
        table = table._replace(features=features)
        found = diagnose(*table[:-1], key=KEY, config=Config.paper(), edges=edges)
        found = jax.device_get(found)
        assert found.form.status == Status.RANK_DEFICIENT_TERMS
        assert "multiples of others" in describe(found.form.status)
        assert found.form.support.sum() == 1
        assert found.form.support[:2].sum() == 1
        # Supports in order: five single terms, then pairs; the twins are equivalent.
        assert found.form.equivalent[:2].all()
        assert np.isinf(found.form.errors[4])
        assert np.isinf(found.form.errors[5])
        assert not found.form.equivalent[5]
        assert found.test.reject
        assert found.test.df_num == 1
        assert found.verdict == Verdict.DISCREPANCY

    def test_u_and_its_square(self):
        rng = np.random.default_rng(0)
        u = rng.integers(0, 2, 80).astype(float)
        half = np.arange(80) % 2 == 0
        found = select_form(
            np.column_stack([u, u**2, u, np.ones(80), np.zeros(80)]),
            2 * u + 0.1 * rng.normal(size=80),
            half,
            ~half,
            max_terms=2,
            tolerance=0.15,
        )
        assert found.status == Status.RANK_DEFICIENT_TERMS
        assert found.support.tolist() == [True, False, False, False, False]
        assert np.asarray(found.coefficients)[0] == pytest.approx(2, abs=0.1)


def test_nan_in_a_family_of_p_values():
    """11. The NaN member is never declared and does not poison the rest."""
    for method, expected in (("bh", [0.03, 0.03, np.nan, 0.9]), ("by", [0.055, 0.055, np.nan, 1])):
        adjusted = adjust_p_values([0.01, 0.02, np.nan, 0.9], method=method)
        np.testing.assert_allclose(adjusted, expected, rtol=1e-14)
        assert not np.asarray(adjusted)[2] <= 0.05


class TestSkewedAxis:
    """18. Most rows in one or two of the equal-width cells, several with 0 to 4 rows."""

    def skewed(self):
        table = testbed.oscillator(0)
        axis = np.exp(8 * table.axis)
        return table._replace(axis=axis)

    def test_equal_widths_are_safe(self):
        table = self.skewed()
        found = diagnose(*table[:-1], key=KEY, config=Config.paper())
        count = np.asarray(found.cells.count)
        assert (count < 5).sum() >= 3
        assert count.max() > NUM_ROWS / 2
        assert found.status in (Status.OK, Status.ITERATION_LIMIT)
        assert np.isfinite(found.coefficients).all()
        np.testing.assert_array_equal(np.isnan(found.cells.statistic), count == 0)
        assert not np.asarray(found.cells.flagged)[count == 0].any()

    def test_quantile_cells_and_a_minimum_count_on_request(self):
        table = self.skewed()

        @jax.jit
        def edges_of(axis):
            everyone = jnp.ones(NUM_ROWS, bool)
            wide = partition.equal_width_edges(axis, 14, everyone)
            merged = partition.merge_small_cells(axis, wide, everyone, 20)
            return partition.quantile_edges(axis, 14, everyone), merged

        even, merged = edges_of(table.axis)
        for edges, least in ((even, 140), (merged, 20)):
            found = diagnose(*table[:-1], key=KEY, config=Config.paper(), edges=edges)
            count = np.asarray(found.cells.count)
            assert count.sum() == NUM_ROWS
            assert (count[count > 0] >= least).all()
            assert np.isfinite(found.coefficients).all()

    def test_measured(self, shared):
        read = problem.from_table(
            shared / "data" / "steel_tension.csv",
            response="stress_MPa",
            physics=["strain"],
            axis="strain",
            library=["strain^2"],
            intercept=True,
            where="specimen == 2 and time_s <= 34",
        )
        equal = jax.jit(partition.equal_width_edges, static_argnums=1)
        edges = equal(read.axis, 14, np.ones(len(read.axis), bool))
        cell, count = map(np.asarray, in_cells(read.axis, edges))
        assert count[:3].sum() > 0.75 * len(read.axis)
        assert (count < 5).sum() >= 10
        found = fit_clean_regime(
            read.design,
            read.response,
            cell,
            np.array([0.0, 2.1e5]),
            num_cells=14,
            config=Config.paper(),
        )
        assert np.isfinite(found.coefficients).all()
        np.testing.assert_array_equal(np.isnan(found.statistic), count == 0)
