"""Streaming statistics are exact and do not depend on order."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies

from lisdd_jax.study.engine.statistics import (
    SKETCH_BITS,
    MetricAccumulator,
    exact_sums,
    round_significand,
    sqrt_ratio,
)

floats = strategies.floats(allow_nan=False, allow_infinity=False, width=64)


class TestStatistics:
    @given(strategies.lists(floats, min_size=1, max_size=40))
    @settings(max_examples=200, deadline=None)
    def test_sums_are_exact(self, values):
        total, squares = exact_sums(np.array(values))
        assert Fraction(total, 1 << 1126) == sum(map(Fraction, values))
        assert Fraction(squares, 1 << 2252) == sum(Fraction(v) ** 2 for v in values)

    @given(strategies.lists(floats, min_size=2, max_size=40), strategies.randoms())
    @settings(max_examples=100, deadline=None)
    def test_order_and_division_do_not_matter(self, values, random):
        whole = MetricAccumulator()
        whole.add(np.array(values))
        random.shuffle(values)
        cut = random.randrange(len(values))
        parts = MetricAccumulator(), MetricAccumulator()
        parts[0].add(np.array(values[cut:]))
        parts[1].add(np.array(values[:cut]))
        parts[0].merge(parts[1])
        assert parts[0].summary() == whole.summary()

    @pytest.mark.parametrize("scale", [1e-300, 1e-160, 1.0, 1e160, 1e300])
    @pytest.mark.parametrize("offset", [0.0, 1e8])
    def test_standard_error_neither_cancels_nor_overflows(self, scale, offset):
        values = offset + np.array([0.0, 1.0, 2.0, 5.0])
        accumulator = MetricAccumulator()
        accumulator.add(values * scale)
        standard_error = np.std(values, ddof=1) / 2 * scale
        # Only the rounding of values * scale is left.
        assert accumulator.summary().standard_error == pytest.approx(standard_error, rel=1e-7)

    @given(strategies.integers(1, 10**400), strategies.integers(1, 10**400))
    def test_square_root_of_a_ratio(self, numerator, denominator):
        root = sqrt_ratio(numerator, denominator)
        if 1e-150 < root < 1e150:
            assert Fraction(root) ** 2 / Fraction(numerator, denominator) == pytest.approx(1)

    @given(strategies.lists(floats, min_size=1, max_size=50))
    def test_rounding_of_the_sketch(self, values):
        values = np.array([v for v in values if abs(v) > 1e-300 or v == 0])
        error = np.abs(round_significand(values) - values)
        assert np.all(error <= np.abs(values) * 2.0 ** -(SKETCH_BITS + 1))

    def test_small_integers_are_exact_in_the_sketch(self):
        values = np.arange(-1024.0, 1025.0)
        np.testing.assert_array_equal(round_significand(values), values)

    def test_sketch_does_not_grow(self):
        random = np.random.default_rng(0)
        accumulator = MetricAccumulator(sketch=Counter())
        for _ in range(20):
            accumulator.add(random.normal(size=10_000))
        sizes = len(accumulator.sketch)
        for _ in range(20):
            accumulator.add(random.normal(size=10_000))
        assert len(accumulator.sketch) < 1.2 * sizes < 20_000
        # Standard error of the median of 4e5 normals: 0.002.
        assert accumulator.summary((0.5,)).quantiles[0.5] == pytest.approx(0, abs=0.01)
