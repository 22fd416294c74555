"""Studies on one host: numbers, compilation, refusals and results."""

import gc
import itertools
import json
import math
import weakref
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import study_worker
from small_studies import KEY, evaluate_mean, run_mean, run_worker, simulate_mean

from lisdd_jax.study.engine import machine, program, release_programs, replication_keys
from lisdd_jax.study.engine.replication import Replication, replicate
from lisdd_jax.study.engine.statistics import SKETCH_BITS


@pytest.fixture(scope="module")
def expected():
    return run_worker(keep_records=True)


class TestNumbers:
    @pytest.mark.parametrize("options, rounding", [(program.cpu_options(), 0.0), (None, 1e-14)])
    def test_equal_a_loop_over_the_documented_keys(self, expected, options, rounding):
        """To the last bit, where the loop is compiled as a study is."""
        replication = Replication(study_worker.simulate, study_worker.evaluate)
        key = study_worker.settings()["key"]
        for cell, number in [(0, 0), (4, 31), (5, 59)]:
            arguments = (key, cell, number, expected.cells[cell].params)
            loop = replication.jit(replicate).lower(*arguments).compile(compiler_options=options)
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
        other = run_worker(**changes, keep_records=True)
        length = changes.get("num_replications", 60)
        for name, values in other.records.items():
            np.testing.assert_array_equal(values, expected.records[name][..., :length])
        if length == 60:
            assert other.cells == expected.cells

    @pytest.mark.parametrize("batch_size", [4, 64])
    def test_agree_in_batches(self, batch_size, expected):
        other = run_worker(batch_size=batch_size)
        # The order of a sum of 200 numbers of size 5 may change with the batch.
        np.testing.assert_allclose(other.mean("error"), expected.mean("error"), atol=1e-13)
        np.testing.assert_array_equal(other.mean("covered"), expected.mean("covered"))

    def test_of_a_cell_depend_on_the_key(self, expected):
        other = run_worker(key=jax.random.key(8))
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
            narrow = run_worker(keep_records=True)
            assert narrow.settings["metrics"]["error"] == "float32"
            assert not narrow.settings["jax_enable_x64"]
        records = narrow.records["error"]
        np.testing.assert_array_equal(records, records.astype(np.float32))
        assert run_worker(keep_records=True).cells == expected.cells

    def test_quantiles_of_the_sketch_are_close(self, expected):
        streamed = run_worker()
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

    def test_programs_of_all_but_the_last_two_studies_are_let_go(self):
        alive = []
        for number in range(4):
            simulate = lambda key, mu, n=number: mu + n * jax.random.normal(key, (20,))  # noqa: E731
            run_mean(simulate, num_replications=2)
            alive.append(weakref.ref(simulate))
            del simulate
        gc.collect()
        assert [reference() is None for reference in alive] == [True, True, False, False]
        release_programs()
        gc.collect()
        assert not any(reference() for reference in alive)

    def test_programs_of_static_values_are_let_go_one_by_one(self, compilations):
        def simulate(key, n, mu):
            return mu + jax.random.normal(key, (n,))

        grid = {"n": [3, 4, 5, 6], "mu": [0.0, 1.0]}
        evaluate = lambda data, key, n, mu: {"mean": data.mean()}  # noqa: E731
        run_mean(simulate, evaluate, grid=grid, static=("n",), num_replications=2)
        compilations.clear()
        for sizes, compiled in [([5, 6], 0), ([3], 1)]:
            run_mean(simulate, evaluate, grid=grid | {"n": sizes}, static=("n",))
            assert len(compilations) == compiled

    def test_batch_fits_the_memory_budget(self):
        arguments = (Replication(simulate_mean, evaluate_mean), KEY, {"mu": np.zeros(1)})
        options = {"devices": jax.local_devices(), "largest_batch": 256, "capacity": 256}
        wide = program.build_program(*arguments, **options)
        assert wide.layout.batch_size == 256
        limit = machine.working_bytes(wide.compiled) // 3
        narrow = program.build_program(*arguments, **options, memory_limit=limit)
        assert 1 < narrow.layout.batch_size < 256
        assert machine.working_bytes(narrow.compiled) <= limit

    def test_smaller_batch(self):
        assert machine.smaller_batch(1024, needed=4000, limit=1100) == 256
        assert machine.smaller_batch(1024, needed=1001, limit=1000) == 512
        assert machine.smaller_batch(2, needed=10**12, limit=1) == 1


class TestRefusals:
    @pytest.mark.parametrize(
        "changes, error, message",
        [
            ({"num_replications": 0}, ValueError, "num_replications must be .* at least 1.*got 0"),
            ({"num_replications": 2.5}, ValueError, "got 2.5"),
            ({"num_replications": True}, ValueError, "got True"),
            ({"key": jax.random.PRNGKey(0)}, TypeError, r"jax.random.key\(seed\), got uint32\[2\]"),
            ({"key": 0}, TypeError, "got int"),
            ({"key": jax.random.split(KEY)}, ValueError, r"single key, got shape \(2,\)"),
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
            (
                lambda d: {"z": d[0].astype(complex)},
                "'z' must be a real number, got dtype complex128",
            ),
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
