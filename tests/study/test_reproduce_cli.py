"""The commands for studies, as a user calls them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from lisdd_jax.cli.failure import Failure
from lisdd_jax.cli.studies import app


def run(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LISDD_JAX_CACHE_DIR", "")


def test_simulate_writes_the_oscillator(tmp_path: Path) -> None:
    for name in ("data.csv", "data.parquet"):
        path = tmp_path / name
        result = run("simulate", "--out", str(path), "--rows", "300", "--seed", "3")
        assert result.exit_code == 0, result.output
        table = pd.read_csv(path) if name.endswith("csv") else pd.read_parquet(path)
        assert list(table) == ["x1", "x2", "y"]
        assert len(table) == 300
        outside = table[table.x1.abs() < 1.7]
        noise = outside.y + outside.x1 + 0.3 * outside.x2
        assert noise.std() == pytest.approx(0.3, abs=0.1)


def test_reproduce_writes_tables_figures_and_a_report(tmp_path: Path) -> None:
    out = tmp_path / "results"
    result = run("reproduce", "E5", "--replications", "2", "--rows", "2000", "--out", str(out))
    assert result.exit_code == 0, result.output
    content = json.loads((out / "E5.json").read_text())
    assert content["settings"]["num_replications"] == 2
    assert any(row["metric"] == "fdr" and row["params"] == {"q": 0.05} for row in content["rows"])
    assert (out / "figure_regions.png").is_file()
    assert (out / "figure_regions.svg").is_file()
    assert (out / "report.md").read_text().startswith("# Reproduction")


def test_study_runs_resumes_and_refuses_other_settings(tmp_path: Path) -> None:
    spec, out = tmp_path / "study.toml", tmp_path / "out"
    text = (
        "num_rows = 400\nnum_replications = 3\n[config]\nnum_starts = 5\n"
        "[grid]\nbeta = [0.0, 0.2]\n"
    )
    spec.write_text(text)
    assert run("study", str(spec), "--out", str(out)).exit_code == 0
    first = json.loads((out / "result.json").read_text())
    assert [cell["params"]["beta"] for cell in first["cells"]] == [0.0, 0.2]
    assert len(pd.read_csv(out / "rows.csv")) == 2 * len(first["cells"][0]["metrics"])
    again = run("study", str(spec), "--out", str(out), "--resume", "--replications", "5")
    assert again.exit_code == 0, again.output
    longer = json.loads((out / "result.json").read_text())
    assert [cell["num_replications"] for cell in longer["cells"]] == [5, 5]
    spec.write_text(text.replace("0.2", "0.3"))
    refused = run("study", str(spec), "--out", str(out), "--resume")
    assert isinstance(refused.exception, Failure)


def test_a_scenario_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_scenario.py").write_text(
        "from lisdd_jax.study.experiments.scenarios import oscillator\n"
        "def simulate(key, slope):\n"
        "    return oscillator(300)(key, beta=slope)\n"
    )
    (tmp_path / "study.toml").write_text(
        'scenario = "my_scenario:simulate"\nnum_replications = 2\n'
        "[config]\nnum_starts = 5\n[grid]\nslope = [0.2]\n"
    )
    monkeypatch.chdir(tmp_path)
    result = run("study", "study.toml", "--out", "out")
    assert result.exit_code == 0, (result.output, result.exception)


def test_power_prints_and_writes_a_plan(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    words = ("--effect", "0.5", "--share", "0.2", "--power", "0.9", "--json", str(path))
    result = run("power", *words)
    assert result.exit_code == 0, result.output
    plan = json.loads(path.read_text())
    assert str(plan["num_rows_known_region"]) in result.output
    assert plan["certificate"] * plan["localization"] >= 0.9


def test_power_is_confirmed_by_simulation(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    words = ("--effect", "0.7", "--share", "0.2", "--simulate", "40", "--json", str(path))
    result = run("power", *words)
    assert result.exit_code == 0, result.output
    for entry in json.loads(path.read_text())["simulated"]:
        predicted = entry["predicted"]["certificate"]
        error = np.sqrt(predicted * (1 - predicted) / 40)
        measured = entry["measured"]["certificate"]["mean"]
        assert measured == pytest.approx(predicted, abs=5 * error + 0.02)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("reproduce", "E9", "--out", "x"), "experiments must be some of E1"),
        (("reproduce", "--mode", "other", "--out", "x"), "--mode must be one of"),
        (("power", "--effect", "-1", "--share", "0.2"), "size must lie in"),
        (("simulate", "--out", "x.txt"), "--out must end in .csv or .parquet"),
        (("simulate", "--out", "x.csv", "--scale", "nan"), "--scale must be a finite number"),
        (("study", "missing.toml", "--out", "x"), "cannot be read"),
    ],
)
def test_bad_input_is_one_sentence(words: tuple[str, ...], message: str) -> None:
    result = run(*words)
    assert isinstance(result.exception, Failure), result.output
    assert message in str(result.exception)
    assert "\n" not in str(result.exception)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[grid]\nbeta = [0.1]\nfoo = 1", "grid must name parameters"),
        ("scenari = 'x'\n[grid]\nbeta = [0.1]", "did you mean 'scenario'"),
        ("num_rows = 'many'\n[grid]\nbeta = [0.1]", "num_rows must be a whole number"),
        ("num_rows = 10", r"must have a table \[grid\]"),
        ("grid = [", "no valid TOML"),
        ("scenario = 'other'\n[grid]\nbeta = [0.1]", "scenario must be one of"),
        ("scenario = 'no_such:f'\n[grid]\nbeta = [0.1]", "cannot be imported"),
        ("mode = 'other'\n[grid]\nbeta = [0.1]", "mode must be one of"),
        ("[config]\nfoo = 1\n[grid]\nbeta = [0.1]", "config: .*foo"),
        ("library = 'x'\n[grid]\nbeta = [0.1]", "library must be one of"),
    ],
)
def test_bad_specifications(text: str, message: str, tmp_path: Path) -> None:
    spec = tmp_path / "study.toml"
    spec.write_text(text)
    result = run("study", str(spec), "--out", str(tmp_path / "out"))
    assert isinstance(result.exception, Failure), result.output
    with pytest.raises(Failure, match=message):
        raise result.exception
