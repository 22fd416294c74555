"""Studies on one host: cells, chunks, statistics, folders and refusals."""

import itertools
import json
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import study_worker
from hypothesis import given, settings, strategies

from lisdd_jax.study import intervals, memory, program
from lisdd_jax.study.assembly import read_study
from lisdd_jax.study.engine import run_study
from lisdd_jax.study.grid import build_grid
from lisdd_jax.study.replication import Replication, replicate, replication_keys
from lisdd_jax.study.statistics import (
    SKETCH_BITS,
    MetricAccumulator,
    exact_sums,
    round_significand,
    sqrt_ratio,
)

KEY = jax.random.key(3)


def run(**changes):
    return run_study(
        study_worker.simulate, study_worker.evaluate, **study_worker.settings(**changes)
    )


@pytest.fixture(scope="module")
def expected():
    return run(keep_records=True)


def simulate_mean(key, mu):
    return mu + jax.random.normal(key, (20,))


def evaluate_mean(data, key, mu):
    return {"mean": data.mean()}


def run_mean(simulate=simulate_mean, evaluate=evaluate_mean, **changes):
    defaults = {"grid": {"mu": [0.0, 1.0]}, "num_replications": 30, "key": KEY}
    return run_study(simulate, evaluate, **(defaults | changes))


class TestNumbers:
    @pytest.mark.parametrize("options, rounding", [(program.cpu_options(), 0.0), (None, 1e-14)])
    def test_equal_a_loop_over_the_documented_keys(self, expected, options, rounding):
        """To the last bit, where the loop is compiled as a study is."""
        replication = Replication(study_worker.simulate, study_worker.evaluate)
        key = study_worker.settings()["key"]
        for cell, number in [(0, 0), (4, 31), (5, 59)]:
            arguments = (key, cell, number, expected.cells[cell].params)
            loop = replicate.lower(replication, *arguments).compile(compiler_options=options)
            metrics = loop(*arguments)
            at = (*np.unravel_index(cell, expected.shape), number)
            for name, values in expected.records.items():
                found = np.asarray(metrics[name])
                np.testing.assert_allclose(found, values[at], rtol=rounding, atol=0.1 * rounding)

    def test_statistics_are_those_of_the_records(self, expected):
        for at, cell in zip(np.ndindex(*expected.shape), expected.cells, strict=True):
            assert cell.num_replications == 60
            for name, summary in cell.metrics.items():
                values = expected.records[name][at]
                finite = values[np.isfinite(values)]
                assert summary.count == finite.size
                assert summary.num_nan == 60 - finite.size
                assert summary.mean == float(sum(map(Fraction, finite)) / finite.size)
                standard_error = finite.std(ddof=1) / math.sqrt(finite.size)
                assert summary.standard_error == pytest.approx(standard_error, rel=1e-13)
                assert summary.quantiles[0.1] == np.quantile(finite, 0.1)
                assert (summary.minimum, summary.maximum) == (finite.min(), finite.max())

    def test_every_status_is_counted(self, expected):
        assert sum(cell.status.get(101, 0) for cell in expected.cells) > 0
        for at, cell in zip(np.ndindex(*expected.shape), expected.cells, strict=True):
            codes, counts = np.unique(expected.records["status"][at], return_counts=True)
            assert cell.status == dict(zip(codes, counts, strict=True))
            assert cell.metrics["fragile"].num_nan == cell.status.get(101, 0)
            assert "status" not in cell.metrics

    @pytest.mark.parametrize(
        "changes",
        [
            {"chunk_size": 1, "num_replications": 7},
            {"chunk_size": 13},
            {"chunk_size": 1000, "num_threads": 1},
            {"num_threads": 3},
            {"memory_limit": 1},
        ],
        ids=str,
    )
    def test_do_not_depend_on_how_the_study_is_run(self, changes, expected):
        other = run(**changes, keep_records=True)
        length = changes.get("num_replications", 60)
        for name, values in other.records.items():
            np.testing.assert_array_equal(values, expected.records[name][..., :length])
        if length == 60:
            assert other.cells == expected.cells

    @pytest.mark.parametrize("batch_size", [4, 64])
    def test_agree_in_batches(self, batch_size, expected):
        other = run(batch_size=batch_size)
        # The order of a sum of 200 numbers of size 5 may change with the batch.
        np.testing.assert_allclose(other.mean("error"), expected.mean("error"), atol=1e-13)
        np.testing.assert_array_equal(other.mean("covered"), expected.mean("covered"))

    def test_of_a_cell_depend_on_the_key(self, expected):
        other = run(key=jax.random.key(8))
        assert not np.any(other.mean("error") == expected.mean("error"))

    def test_in_float32(self):
        narrow = {"mu": np.float32([0.0, 1.0])}

        def simulate(key, mu):
            return mu + jax.random.normal(key, (20,), jnp.float32)

        result = run_mean(simulate, grid=narrow, keep_records=True)
        assert result.settings["metrics"] == {"mean": "float32"}
        records = result.records["mean"]
        np.testing.assert_array_equal(records, records.astype(np.float32))

    def test_in_a_context_of_another_precision(self, expected):
        # Threads do not inherit the context in which the study was started.
        with (jax if hasattr(jax, "enable_x64") else jax.experimental).enable_x64(False):
            narrow = run(keep_records=True)
            assert narrow.settings["metrics"]["error"] == "float32"
            assert not narrow.settings["x64"]
        records = narrow.records["error"]
        np.testing.assert_array_equal(records, records.astype(np.float32))
        assert run(keep_records=True).cells == expected.cells

    def test_quantiles_of_the_sketch_are_close(self, expected):
        streamed = run()
        for name, level in itertools.product(["error", "steps", "fragile"], [0.1, 0.5]):
            exact = expected.quantile(name, level)
            np.testing.assert_allclose(
                streamed.quantile(name, level), exact, rtol=2.0 ** -(SKETCH_BITS + 1), atol=1e-4
            )


class TestCompilation:
    def test_once_for_all_numbers_and_lengths(self):
        traces = []

        def simulate(key, mu, sigma):
            traces.append(mu)
            return mu + sigma * jax.random.normal(key, (20,))

        def evaluate(data, key, mu, sigma):
            return {"mean": data.mean()}

        for seed, length, mu in [(0, 5, [0.0, 1.0]), (1, 23, [2.0]), (2, 200, [1.0, 2.0, 3.0])]:
            grid = {"mu": mu, "sigma": [1.0, 2.0]}
            run_mean(simulate, evaluate, grid=grid, num_replications=length, key=KEY)
            assert len(traces) == 1, seed

    def test_once_per_static_value(self):
        traces = []

        def simulate(key, n, mu, law):
            traces.append((n, law))
            assert isinstance(n, int)
            draw = jax.random.normal if law == "normal" else jax.random.uniform
            return mu + draw(key, (n,))

        def evaluate(data, key, n, mu, law):
            return {"size": data.size, "mean": data.mean()}

        result = run_mean(
            simulate,
            evaluate,
            grid={"n": [10, 30], "mu": [0.0, 1.0], "law": ["normal", "uniform"]},
            static=("n", "law"),
        )
        assert sorted(traces) == sorted(itertools.product([10, 30], ["normal", "uniform"]))
        np.testing.assert_array_equal(result.mean("size")[:, 0, 0], [10, 30])
        assert result.cells[1].params == {"n": 10, "mu": 0.0, "law": "uniform"}

    def test_batch_fits_the_memory_budget(self):
        arguments = (Replication(simulate_mean, evaluate_mean), KEY, {"mu": np.zeros(1)})
        options = {"devices": jax.local_devices(), "largest_batch": 256, "capacity": 256}
        wide = program.build_program(*arguments, **options)
        assert wide.layout.batch_size == 256
        limit = memory.working_bytes(wide.compiled) // 3
        narrow = program.build_program(*arguments, **options, memory_limit=limit)
        assert 1 < narrow.layout.batch_size < 256
        assert memory.working_bytes(narrow.compiled) <= limit

    def test_smaller_batch(self):
        assert memory.smaller_batch(1024, needed=4000, limit=1100) == 256
        assert memory.smaller_batch(1024, needed=1001, limit=1000) == 512
        assert memory.smaller_batch(2, needed=10**12, limit=1) == 1


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


class TestRefusals:
    @pytest.mark.parametrize(
        "changes, error, message",
        [
            ({"num_replications": 0}, ValueError, "num_replications must be .* at least 1.*got 0"),
            ({"num_replications": 2.5}, ValueError, "got 2.5"),
            ({"num_replications": True}, ValueError, "got True"),
            ({"key": jax.random.PRNGKey(0)}, TypeError, r"jax.random.key\(seed\), got uint32\[2\]"),
            ({"key": 0}, TypeError, "got int"),
            ({"key": jax.random.split(KEY)}, ValueError, r"keys of shape \(2,\)"),
            ({"quantiles": (1.5,)}, ValueError, r"levels in \[0, 1\], got \(1.5,\)"),
            ({"chunk_size": 0}, ValueError, "chunk_size"),
            ({"share": (2, 2)}, ValueError, "0 <= index < count"),
            ({"resume": True}, ValueError, "needs out_dir"),
            ({"simulate": 3}, TypeError, "simulate must be a function"),
        ],
    )
    def test_arguments(self, changes, error, message):
        with pytest.raises(error, match=message):
            run_mean(**changes)

    @pytest.mark.parametrize(
        "metrics, message",
        [
            (lambda d: d.mean(), "must return a non-empty dict of scalars, got"),
            (lambda d: {}, "non-empty dict"),
            (lambda d: {"all": d}, r"got shape \(20,\) for 'all'"),
            (lambda d: {"status": d[0]}, "'status' must be an integer code, got dtype float64"),
            (lambda d: {"z": 1j * d[0]}, "'z' must be a real number, got dtype complex128"),
            (lambda d: {"word": "yes"}, "got str for 'word'"),
            (lambda d: {1: d[0]}, "by strings, got 1"),
        ],
    )
    def test_metrics(self, metrics, message):
        with pytest.raises(ValueError, match=message):
            run_mean(evaluate=lambda data, key, mu: metrics(data))

    def test_metrics_that_change_with_a_static_parameter(self):
        with pytest.raises(ValueError, match="same metrics for all static"):
            run_mean(
                lambda key, n: jnp.zeros(n),
                lambda data, key, n: {f"m{n}": data.sum()},
                grid={"n": [1, 2]},
                static=("n",),
            )


class TestFolder:
    def test_holds_the_study(self, tmp_path, expected):
        first = run(out_dir=tmp_path)
        assert first.cells == run().cells
        stored = read_study(tmp_path, quantiles=(0.1, 0.5), keep_records=True)
        assert stored.cells == expected.cells
        assert stored.settings == first.settings
        np.testing.assert_array_equal(stored.records["error"], expected.records["error"])

    def test_grows_to_more_replications_and_serves_fewer(self, tmp_path):
        run_mean(out_dir=tmp_path, num_replications=10)
        reports = []
        options = {"out_dir": tmp_path, "resume": True, "progress": reports.append}
        longer = run_mean(**options, num_replications=30)
        assert (reports[0].done, reports[0].total) == (20, 60)
        assert longer.cells == run_mean().cells
        assert run_mean(**options, num_replications=7).cells == run_mean(num_replications=7).cells

    def test_is_not_continued_unasked(self, tmp_path):
        run_mean(out_dir=tmp_path)
        with pytest.raises(ValueError, match="already holds this study; pass resume=True"):
            run_mean(out_dir=tmp_path)

    @pytest.mark.parametrize(
        "changes, message",
        [
            ({"key": jax.random.key(4)}, r'key was \["threefry2x32", 0, 3\] and is now .*0, 4\]'),
            ({"grid": {"mu": [0.0, 2.0]}}, r'grid was {"mu": \[0.0, 1.0\]} and is now'),
            ({"grid": {"mu": np.float32([0, 1])}}, 'dtypes was {"mu": "float64"} and is now'),
            ({"static": ("mu",)}, "static was"),
            ({"paired": True}, "paired was false and is now true"),
            ({"batch_size": 2}, "batch_size was null and is now 2"),
            ({"name": "other"}, "name was .* and is now"),
            ({"evaluate": lambda data, key, mu: {"mean": data.sum()}}, "program was"),
            ({"evaluate": lambda data, key, mu: {"sum": data.sum()}}, "metrics was"),
        ],
    )
    def test_refuses_other_settings(self, tmp_path_factory, changes, message):
        folder = tmp_path_factory.mktemp("study")
        run_mean(out_dir=folder, num_replications=2)
        with pytest.raises(ValueError, match=f"with other settings: .*{message}"):
            run_mean(out_dir=folder, resume=True, **changes)

    def test_notices_a_changed_constant(self, tmp_path):
        def evaluate_with(weights):
            return lambda data, key, mu: {"mean": (weights * data).mean()}

        weights = np.ones(20)
        run_mean(evaluate=evaluate_with(weights), out_dir=tmp_path)
        weights = weights.copy()
        run_mean(evaluate=evaluate_with(weights), out_dir=tmp_path, resume=True)
        weights[3] = 2
        with pytest.raises(ValueError, match="program was"):
            run_mean(evaluate=evaluate_with(weights), out_dir=tmp_path, resume=True)

    def test_name_stands_for_the_program(self, tmp_path):
        options = {"out_dir": tmp_path, "name": "mean, version 1"}
        first = run_mean(**options)
        again = run_mean(
            evaluate=lambda data, key, mu: {"mean": data.sum()}, resume=True, **options
        )
        assert first.cells == again.cells

    @pytest.mark.parametrize("damage", ["truncate", "flip", "empty"])
    def test_damaged_chunks_are_computed_again(self, tmp_path, damage):
        whole = run_mean(out_dir=tmp_path, chunk_size=10)
        victim = sorted(tmp_path.glob("chunk-*.npz"))[2]
        content = bytearray(victim.read_bytes())
        content[len(content) // 2] ^= 1
        damaged = {"truncate": content[:-40], "flip": content, "empty": b""}[damage]
        victim.write_bytes(damaged)
        reports = []
        with pytest.warns(RuntimeWarning, match="1 chunk files .* are damaged"):
            again = run_mean(out_dir=tmp_path, resume=True, progress=reports.append)
        assert reports[0].done == 50
        assert again.cells == whole.cells

    def test_counts_what_two_runs_did_once(self, tmp_path):
        whole = run_mean(out_dir=tmp_path / "a", chunk_size=7)
        run_mean(out_dir=tmp_path / "b", chunk_size=11)
        for file in (tmp_path / "b").glob("chunk-*.npz"):
            file.rename(tmp_path / "a" / file.name)
        assert read_study(tmp_path / "a").cells == whole.cells

    def test_must_be_a_folder(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(ValueError, match="out_dir must be a folder"):
            run_mean(out_dir=tmp_path / "file")
        with pytest.raises(ValueError, match="must hold the settings of a study"):
            read_study(tmp_path)


class TestResult:
    def test_rows_and_json(self, expected, tmp_path):
        rows = expected.rows()
        assert len(rows) == 6 * 4
        assert {"shift", "scale", "metric", "mean", "count", "quantile_0.1"} <= rows[0].keys()
        codes = expected.status_rows()
        assert sum(row["count"] for row in codes) == 6 * 60
        text = expected.to_json(tmp_path / "result.json")
        content = json.loads((tmp_path / "result.json").read_text())
        assert content == json.loads(text)
        assert content["cells"][3]["metrics"]["error"]["mean"] == expected.mean("error")[1, 1]

    def test_undefined_numbers(self):
        result = run_mean(
            evaluate=lambda data, key, mu: {"nan": jnp.nan * mu, "inf": mu / 0.0, "one": 1.0},
            grid={"mu": [1.0]},
            num_replications=1,
            quantiles=(0.5,),
        )
        metrics = result.cells[0].metrics
        assert (metrics["nan"].count, metrics["nan"].num_nan) == (0, 1)
        assert (metrics["inf"].count, metrics["inf"].num_infinite) == (0, 1)
        assert math.isnan(metrics["nan"].mean)
        assert math.isnan(metrics["inf"].quantiles[0.5])
        assert math.isnan(metrics["one"].standard_error)
        assert json.loads(result.to_json())["cells"][0]["metrics"]["nan"]["mean"] is None

    def test_progress(self):
        reports = []
        run_mean(progress=reports.append, chunk_size=7)
        done = [report.done for report in reports]
        assert done == sorted(done)
        assert (done[0], done[-1], reports[0].total) == (0, 60, 60)
        assert reports[0].seconds_left is None
        assert reports[-1].seconds_left == 0

    def test_an_exception_of_the_callback_stops_the_study(self):
        class Stop(Exception):  # noqa: N818
            pass

        def stop(progress):
            if progress.done:
                raise Stop

        with pytest.raises(Stop):
            run_mean(progress=stop, chunk_size=1)

    def test_keys_can_be_repeated_outside(self):
        result = run_mean(keep_records=True)
        simulate_key, evaluate_key = replication_keys(KEY, cell=1, replication=4)
        data = simulate_mean(simulate_key, 1.0)
        again = evaluate_mean(data, evaluate_key, 1.0)["mean"]
        assert result.records["mean"][1, 4] == pytest.approx(float(again), abs=1e-14)


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
        from collections import Counter

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


class TestIntervals:
    ranges = strategies.lists(
        strategies.tuples(strategies.integers(0, 60), strategies.integers(1, 9))
    )

    @staticmethod
    def make(pairs):
        members = {i for start, length in pairs for i in range(start, start + length)}
        singles = np.array([[m, m + 1] for m in sorted(members)], np.int64).reshape(-1, 2)
        return intervals.subtract(singles, singles[:0]), members

    @given(ranges, ranges)
    def test_as_sets(self, first, second):
        (a, in_a), (b, in_b) = self.make(first), self.make(second)
        assert intervals.members(intervals.subtract(a, b)).tolist() == sorted(in_a - in_b)
        assert intervals.members(intervals.intersect(a, b)).tolist() == sorted(in_a & in_b)
        every = np.arange(80)
        assert set(every[intervals.contains(a, every)]) == in_a
        assert np.all(a[1:, 0] > a[:-1, 1])

    @given(ranges, strategies.integers(0, 30), strategies.integers(0, 30))
    def test_sections(self, pairs, start, length):
        a, members = self.make(pairs)
        cut = intervals.section(a, start, start + length)
        assert intervals.members(cut).tolist() == sorted(members)[start : start + length]

    @pytest.mark.parametrize("length, count", [(10, 3), (2, 5), (1, 4), (100, 1)])
    def test_shares_divide_the_study(self, length, count):
        cells = np.arange(7)
        shares = [intervals.share_of_cells(cells, length, i, count) for i in range(count)]
        found = np.concatenate([intervals.members(share) for share in shares])
        every = (cells[:, None] * intervals.STRIDE + np.arange(length)).ravel()
        np.testing.assert_array_equal(np.sort(found), every)
        assert max(map(intervals.size, shares)) - min(map(intervals.size, shares)) <= 7
