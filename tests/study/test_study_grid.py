"""The cells of a study."""

import itertools
import math

import jax.numpy as jnp
import numpy as np
import pytest
from small_studies import run_mean

from lisdd_jax.study.engine.grid import build_grid


class TestGrid:
    def test_last_parameter_varies_fastest(self):
        cells = build_grid({"a": [1, 2], "b": np.array([0.5, 0.25, 0.125])})
        assert cells.shape == (2, 3)
        assert [tuple(p.values()) for p in cells.params()] == list(
            itertools.product([1, 2], [0.5, 0.25, 0.125])
        )

    def test_paired(self):
        result = run_mean(grid={"mu": [0.0, 5.0, 9.0]}, paired=True)
        assert result.shape == (3,)
        cells = build_grid({"a": [1, 2], "n": ["x", "y"]}, static=("n",), paired=True)
        assert cells.params() == [{"a": 1, "n": "x"}, {"a": 2, "n": "y"}]
        assert [g.cells.tolist() for g in cells.groups()] == [[0], [1]]

    def test_static_values_of_unlike_types_are_apart(self):
        cells = build_grid({"flag": [1, True, 1.0]}, static=("flag",))
        assert len(cells.groups()) == 3
        result = run_mean(
            lambda key, flag: jnp.zeros(3),
            lambda data, key, flag: {"bool": 1.0 * isinstance(flag, bool)},
            grid={"flag": [1, True, 1.0]},
            static=("flag",),
        )
        np.testing.assert_array_equal(result.mean("bool"), [0, 1, 0])

    @pytest.mark.parametrize(
        "grid, options, message",
        [
            ({}, {}, "non-empty dict"),
            ([1.0], {}, "non-empty dict"),
            ({"mu": []}, {}, r"grid\['mu'\] must hold at least one value"),
            ({"mu": 1.0}, {}, "must be a 1-D array of values, got 1.0"),
            ({"mu": np.zeros((2, 2))}, {}, r"must be 1-D, got an array of shape \(2, 2\)"),
            ({"mu": [0.0, math.nan]}, {}, "holds NaN"),
            ({"mu": ["a"]}, {}, "must be numeric, got dtype <U1; name it in static"),
            ({"key": [1.0]}, {}, "other than"),
            ({"mu": [[1], [2]]}, {"static": ("mu",)}, "hashable"),
            ({"mu": [1.0]}, {"static": ("n",)}, r"static names \['n'\] are not parameters"),
            ({"mu": [1.0]}, {"static": "mu"}, "sequence of names"),
            ({"mu": [1.0], "n": [1, 2]}, {"paired": True}, "equal lengths"),
        ],
    )
    def test_refusals(self, grid, options, message):
        with pytest.raises(ValueError, match=message):
            run_mean(grid=grid, **options)
