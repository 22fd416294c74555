"""Sets of replications behave as sets."""

import numpy as np
import pytest
from hypothesis import given, strategies

from lisdd_jax.study.engine import interval_sets


class TestIntervalSets:
    ranges = strategies.lists(
        strategies.tuples(strategies.integers(0, 60), strategies.integers(1, 9))
    )

    @staticmethod
    def make(pairs):
        members = {i for start, length in pairs for i in range(start, start + length)}
        singles = np.array([[m, m + 1] for m in sorted(members)], np.int64).reshape(-1, 2)
        return interval_sets.subtract(singles, singles[:0]), members

    @given(ranges, ranges)
    def test_as_sets(self, first, second):
        (a, in_a), (b, in_b) = self.make(first), self.make(second)
        assert interval_sets.members(interval_sets.subtract(a, b)).tolist() == sorted(in_a - in_b)
        assert interval_sets.members(interval_sets.intersect(a, b)).tolist() == sorted(in_a & in_b)
        every = np.arange(80)
        assert set(every[interval_sets.contains(a, every)]) == in_a
        assert np.all(a[1:, 0] > a[:-1, 1])

    @given(ranges, strategies.integers(0, 30), strategies.integers(0, 30))
    def test_sections(self, pairs, start, length):
        a, members = self.make(pairs)
        cut = interval_sets.section(a, start, start + length)
        assert interval_sets.members(cut).tolist() == sorted(members)[start : start + length]

    @pytest.mark.parametrize("length, count", [(10, 3), (2, 5), (1, 4), (100, 1)])
    def test_shares_divide_the_study(self, length, count):
        cells = np.arange(7)
        shares = [interval_sets.share_of_cells(cells, length, i, count) for i in range(count)]
        found = np.concatenate([interval_sets.members(share) for share in shares])
        every = (cells[:, None] * interval_sets.STRIDE + np.arange(length)).ravel()
        np.testing.assert_array_equal(np.sort(found), every)
        assert max(map(interval_sets.size, shares)) - min(map(interval_sets.size, shares)) <= 7
