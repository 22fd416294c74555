"""The published experiments at a small size: rows, intervals, verdicts and files."""

import json
import math
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from lisdd_jax.config import Config
from lisdd_jax.report import paper_figures, reproduction_report
from lisdd_jax.study.experiments import (
    metrics,
    pipeline,
    reproduction,
    rows,
    scenarios,
)
from lisdd_jax.study.experiments import oscillator_runs as runs
from lisdd_jax.study.experiments.setup import Setup

SETUP = Setup(
    num_replications=4, num_rows=3000, num_rows_forced=800, num_starts=10, num_bootstraps=5
)

# Of single diagnoses, whose search and fit are then those of other tests.
NUM_ROWS = 2000


def find(table: list[rows.Row], method: str, metric: str, **params: Any) -> rows.Row:
    found = [
        row for row in table if (row.method, row.metric, row.params) == (method, metric, params)
    ]
    assert len(found) == 1, (method, metric, params)
    return found[0]


@pytest.fixture(scope="module")
def finished() -> dict[str, Any]:
    return {e.name: e for e in reproduction.reproduce((), SETUP)}


def test_e1_tells_the_published_story(finished: dict[str, Any]) -> None:
    table = finished["E1"].rows
    assert find(table, "lisdd", "physics_bias").mean < 0.02
    assert find(table, "lisdd", "f1_centre").mean == pytest.approx(0.8)
    assert find(table, "lisdd", "f1_overlap").mean == pytest.approx(1.0)
    assert find(table, "lisdd", "form_recovery").mean == 1.0
    for method in ("black_box", "global_sindy", "ensemble_sindy"):
        assert find(table, method, "physics_bias").mean == pytest.approx(0.43, abs=0.02)
        assert find(table, method, "form_recovery").mean == 0.0
    assert find(table, "global_sindy", "f1_centre").mean == pytest.approx(8 / 18)
    assert find(table, "black_box", "f1_centre").mean == 0.0
    assert find(table, "global_sindy", "num_terms").mean == 0.0


def test_e2_covers_the_grid_and_the_libraries(finished: dict[str, Any]) -> None:
    table = finished["E2"].rows
    for width in (0.6, 1.0, 1.4):
        for beta in (0.10, 0.15, 0.20, 0.30):
            row = find(table, "lisdd", "form_recovery", width=width, beta=beta)
            assert row.published == (1.0 if width == 0.6 or (width == 1.0 and beta > 0.1) else 0.0)
    assert find(table, "lisdd", "form_recovery", width=0.6, beta=0.3).mean == 1.0
    libraries = [row.params["library"] for row in table if "library" in row.params]
    assert libraries == list(runs.LIBRARIES)
    assert find(table, "lisdd", "form_recovery", library="eight_saturation_sign").mean < 0.5


def test_e3_has_both_tests_and_their_uniformity(finished: dict[str, Any]) -> None:
    table = finished["E3"].rows
    for test in ("split", "naive"):
        for beta in (0.0, 0.1, 0.2):
            find(table, "lisdd", "rejection_rate", beta=beta, test=test)
            row = find(table, "lisdd", "conditional_rejection_rate", beta=beta, test=test)
            assert row.count == 5 * 4
        find(table, "lisdd", "ks_p_value", beta=0.0, test=test)
    assert find(table, "lisdd", "rejection_rate", beta=0.2, test="split").mean == 1.0


def test_e4_ranks_the_methods(finished: dict[str, Any]) -> None:
    table = finished["E4"].rows
    error = {row.method: row.mean for row in table}
    assert error["oracle"] == pytest.approx(0.3, abs=0.02)
    assert error["oracle"] < error["joint"] < error["lisdd"] + 0.1 < error["black_box"]
    assert error["black_box"] < error["uncorrected"] == pytest.approx(1.35, abs=0.08)


def test_e5_recovers_both_mechanisms(finished: dict[str, Any]) -> None:
    table = finished["E5"].rows
    for q in (0.05, 0.1, 0.2, 0.3):
        assert find(table, "lisdd", "fdr", q=q).mean == 0.0
        for metric in ("power", "region_set", "both_forms"):
            assert find(table, "lisdd", metric, q=q).mean == 1.0
    assert find(table, "lisdd", "scale").mean > 0.45
    assert find(table, "lisdd_clean_scale", "scale").mean == pytest.approx(0.3, abs=0.02)


def test_files_hold_the_rows_and_the_report_names_what_differs(
    finished: dict[str, Any], tmp_path: Path
) -> None:
    for experiment in finished.values():
        path = reproduction.write_outcome(experiment, tmp_path)
        content = json.loads(path.read_text())
        assert {"settings", "rows"} <= set(content)
        for row in content["rows"]:
            assert {"mode", "method", "metric", "params", "mean", "stderr", "count"} <= set(row)
            assert "published" in row
    tables = reproduction.read_outcomes(tmp_path)
    assert list(tables) == ["E1", "E2", "E3", "E4", "E5"]
    drawn = paper_figures.draw_all(tables, tmp_path)
    assert {path.suffix for path in drawn} == {".png", ".svg"}
    assert len(drawn) == 8
    assert all(path.stat().st_size > 1000 for path in drawn)
    text = reproduction_report.to_markdown(tables, drawn)
    for words in ("## E1", "## E5", "Not reproduced", "0.918", "figure_regions.png"):
        assert words in text
    assert "nan" not in text.lower().replace("dominant", "")


def test_a_library_by_number_is_that_library() -> None:
    """Zero columns for the terms of other libraries change nothing."""
    key, key_fit = jax.random.split(jax.random.key(3))
    form_recovered = jax.jit(metrics.form_recovered)
    simulate = jax.jit(runs.library_simulator(NUM_ROWS))
    for name in ("six", "eight_linear_cosine"):
        number = runs.LIBRARIES.index(name)
        padded = simulate(key, library=number)
        plain = jax.jit(scenarios.oscillator(NUM_ROWS, name))(key)
        results = [
            pipeline.diagnose_sample(key_fit, sample, config=Config.paper(), edges=runs.edges())
            for sample in (padded, plain)
        ]
        chosen = [
            np.asarray(scenarios.LIBRARIES[library].names)[np.asarray(found.form.support)].tolist()
            for library, found in zip(("all", name), results, strict=True)
        ]
        assert chosen[0] == chosen[1]
        errors = [
            bool(form_recovered(*pair)) for pair in zip(results, (padded, plain), strict=True)
        ]
        assert errors[0] == errors[1]


@pytest.mark.parametrize(
    ("mean", "count", "lower", "upper"),
    [(1.0, 20, 0.8316, 1.0), (0.0, 20, 0.0, 0.1684), (0.5, 10, 0.1871, 0.8129)],
)
def test_interval_of_a_proportion(mean: float, count: int, lower: float, upper: float) -> None:
    # Clopper-Pearson limits from R: binom.test(20, 20)$conf.int and the like.
    values = np.repeat([1.0, 0.0], [round(mean * count), count - round(mean * count)])
    found = rows.confidence_interval(rows.summarize_values(values), proportion=True)
    assert found == pytest.approx((lower, upper), abs=1e-4)


def test_interval_of_a_mean() -> None:
    values = np.random.default_rng(0).normal(size=15)
    expected = stats.t.interval(0.95, 14, values.mean(), stats.sem(values))
    assert rows.confidence_interval(
        rows.summarize_values(values), proportion=False
    ) == pytest.approx(expected)
    assert all(
        map(math.isnan, rows.confidence_interval(rows.summarize_values([]), proportion=False))
    )


@pytest.mark.parametrize(
    ("lower", "upper", "mode", "verdict"),
    [
        (0.0021, 0.0029, "paper", rows.REPRODUCED),
        (0.0026, 0.0029, "paper", rows.NOT_REPRODUCED),
        (0.0001, 0.0014, "paper", rows.NOT_REPRODUCED),
        (0.0021, 0.0029, "default", rows.OTHER_ALGORITHM),
    ],
)
def test_verdicts(lower: float, upper: float, mode: str, verdict: str) -> None:
    printed = rows.Published(value=0.002, decimals=3, source="a table")
    assert rows.compare(lower, upper, 0.5 * (lower + upper), printed, mode) == verdict
    assert rows.compare(lower, upper, 0.0, None, mode) == rows.NOT_PRINTED


def test_a_number_in_the_text_counts_too() -> None:
    printed = rows.Published(value=0.002, decimals=3, source="a table", in_text=(0.0025, 4))
    assert rows.compare(0.0025, 0.0027, 0.0026, printed, "paper") == rows.REPRODUCED


@pytest.mark.parametrize("name", list(reproduction.EXPERIMENTS))
def test_every_printed_number_has_a_source(name: str) -> None:
    printed = reproduction.EXPERIMENTS[name].tables.published
    assert printed
    assert all(number.source for number in printed.values())


def test_experiments_at_the_published_cell_share_their_study(finished: dict[str, Any]) -> None:
    bias = find(finished["E1"].rows, "lisdd", "physics_bias")
    assert runs.study_published_cell.cache_info().hits >= 1
    assert bias.count == SETUP.num_replications


@pytest.mark.parametrize("content", ["", "{", "[1]", "{}", "null"])
def test_other_files_of_that_name_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "E1.json").write_text(content)
    with pytest.raises(
        ValueError, match=r"E1.json.* (must hold a reproduced experiment|is not valid JSON)"
    ):
        reproduction.read_outcomes(tmp_path)


def test_a_status_without_a_name_is_reported(finished: dict[str, Any]) -> None:
    content = finished["E1"].to_dict()
    content["statuses"] = [{"study": "E1", "status": 2**40, "count": 3}]
    text = reproduction_report.to_markdown({"E1": content})
    assert "3 ended with the unknown status 1099511627776" in text


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="experiments must be some of E1, E2, E3, E4, E5, got E9"):
        reproduction.check_names(["E9"])
    assert reproduction.check_names(["e3", "E1"]) == ["E1", "E3"]
    with pytest.raises(ValueError, match="modes must be some of"):
        Setup(modes=("other",))


def test_naive_test_uses_the_chosen_region_and_form() -> None:
    sample = jax.jit(scenarios.oscillator(NUM_ROWS))(jax.random.key(0), beta=0.2)
    found = pipeline.diagnose_sample(
        jax.random.key(1), sample, config=Config.paper(), edges=runs.edges()
    )
    naive_rejection = jax.jit(runs.naive_rejection)
    assert bool(naive_rejection(found, sample, 0.05))
    inside = np.asarray(found.regions.contains(sample.axis)).any(axis=0)
    cell = np.searchsorted(np.asarray(runs.edges()), np.asarray(sample.axis), side="right") - 1
    assert np.array_equal(inside, np.asarray(found.cells.flagged)[cell])
    nothing = jnp.zeros_like(found.regions.present)
    object.__setattr__(found.regions, "present", nothing)
    assert not bool(naive_rejection(found, sample, 0.05))
