"""The commands for studies, as a user calls them."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from lisdd_jax.cli.failure import Failure
from lisdd_jax.cli.studies import app
from lisdd_jax.cli.study_options import ProgressLine
from lisdd_jax.study.engine import Progress
from lisdd_jax.study.planning.specification import StudySpec

# Size, settings and names of the grid are those of the documentation's template, so that both
# share one program.
GRID = "beta = [0.0, 0.2]\nwidth = [1.0]\n"
SMALL = f"num_rows = 400\nnum_replications = 3\n[config]\nnum_starts = 5\n[grid]\n{GRID}"

# Size and starts of the experiments in test_experiments, whose program E5 then shares.
SHARED = ("--rows", "3000", "--starts", "10")


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
    result = run("reproduce", "E5", "--replications", "2", *SHARED, "--out", str(out))
    assert result.exit_code == 0, result.output
    content = json.loads((out / "E5.json").read_text())
    assert content["settings"]["num_replications"] == 2
    assert any(row["metric"] == "fdr" and row["params"] == {"q": 0.05} for row in content["rows"])
    assert (out / "figure_regions.png").is_file()
    assert (out / "figure_regions.svg").is_file()
    assert (out / "report.md").read_text().startswith("# Reproduction")


def test_study_runs_resumes_and_refuses_other_settings(tmp_path: Path) -> None:
    spec, out = tmp_path / "study.toml", tmp_path / "out"
    spec.write_text(SMALL)
    begun = run("study", str(spec), "--out", str(out))
    assert begun.exit_code == 0
    lines = [line for line in begun.stderr.splitlines() if "replications" in line]
    assert lines[0] == f"{spec}: 0 of 6 replications"
    assert lines[-1].startswith(f"{spec}: 6 of 6 replications")
    first = json.loads((out / "result.json").read_text())
    assert [cell["params"]["beta"] for cell in first["cells"]] == [0.0, 0.2]
    assert len(pd.read_csv(out / "rows.csv")) == 2 * len(first["cells"][0]["metrics"])
    again = run("study", str(spec), "--out", str(out), "--resume", "--replications", "5")
    assert again.exit_code == 0, again.output
    longer = json.loads((out / "result.json").read_text())
    assert [cell["num_replications"] for cell in longer["cells"]] == [5, 5]
    spec.write_text(SMALL.replace("0.2", "0.3"))
    refused = run("study", str(spec), "--out", str(out), "--resume")
    assert isinstance(refused.exception, Failure)


def test_power_prints_and_writes_a_plan(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    words = ("--effect", "0.5", "--share", "0.2", "--power", "0.9", "--json", str(path))
    result = run("power", *words, "--simulate", "0")
    assert result.exit_code == 0, result.output
    plan = json.loads(path.read_text())
    assert str(plan["num_rows_known_region"]) in result.output
    assert plan["certificate"] * plan["localization"] >= 0.9
    assert "asks for no simulation" in result.output
    assert plan["default_mode"] is None


@pytest.mark.slow
def test_power_is_confirmed_by_simulation(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    words = ("--effect", "0.7", "--share", "0.2", "--mode", "paper", "--simulate", "40")
    result = run("power", *words, "--json", str(path))
    assert result.exit_code == 0, result.output
    for entry in json.loads(path.read_text())["simulated"]:
        predicted = entry["predicted"]["certificate"]
        error = np.sqrt(predicted * (1 - predicted) / 40)
        measured = entry["measured"]["certificate"]["mean"]
        assert measured == pytest.approx(predicted, abs=5 * error + 0.02)


def test_progress_lines_are_far_between(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr("lisdd_jax.cli.study_options.time.monotonic", lambda: next(clock))
    stream = io.StringIO()
    show = ProgressLine(stream)
    for done in range(21):
        show("a", Progress(done=done, total=20, elapsed=1.0, seconds_left=2.0))
    # The clock moves on by ten seconds whenever it is asked.
    assert stream.getvalue().count("\n") < 12
    assert stream.getvalue().startswith("a: 0 of 20 replications, 2 s left\n")
    assert stream.getvalue().endswith("a: 20 of 20 replications, 2 s left\n")


SCENARIO_FAULTS = {
    "a division": ("    return 1 / 0\n", "ZeroDivisionError: division by zero (mine.py, line 4)"),
    "no sample": ("    return 3\n", "must return a Sample, got int"),
    "a traced number": ("    return int(slope)\n", "failed: ConcretizationTypeError: "),
    "a wrong shape": ("    return dataclasses.replace(oscillator(50)(key), axis=key)\n", "axis"),
}


@pytest.mark.parametrize("fault", list(SCENARIO_FAULTS))
def test_an_error_in_a_scenario_of_ones_own(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body, message = SCENARIO_FAULTS[fault]
    (tmp_path / "mine.py").write_text(
        "import dataclasses\nfrom lisdd_jax.study.experiments.scenarios import oscillator\n"
        f"def simulate(key, slope):\n{body}"
    )
    (tmp_path / "study.toml").write_text('scenario = "mine:simulate"\n[grid]\nslope = [0.2]\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    result = run("study", "study.toml", "--out", "out")
    assert isinstance(result.exception, Failure), (result.output, result.exception)
    assert message in str(result.exception)
    assert "\n" not in str(result.exception)


def test_the_template_of_the_documentation_runs(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "studies.md").read_text()
    template = text.split("<!-- study template -->\n```toml\n")[1].split("```")[0]
    (tmp_path / "study.toml").write_text(template)
    words = ("--out", str(tmp_path / "out"), "--replications", "2")
    result = run("study", str(tmp_path / "study.toml"), *words)
    assert result.exit_code == 0, (result.output, result.exception)
    table = pd.read_csv(tmp_path / "out" / "rows.csv")
    assert {"beta", "width", "metric", "mean", "quantile_0.05"} <= set(table)
    keys = {line.split(" =")[0] for line in template.splitlines() if " =" in line}
    documented = set(StudySpec.__dataclass_fields__) - {"grid", "config"}
    assert documented <= keys
    assert all(f"`{key}`" in text for key in documented)


HOSTED = """
import dataclasses, jax, numpy, pathlib
from lisdd_jax.study.experiments.scenarios import oscillator

def check(x):
    if pathlib.Path("off").exists():
        raise OSError("the rig is off")
    return numpy.asarray(x)

def simulate(key, slope):
    sample = oscillator(400)(key, beta=slope)
    axis = sample.axis
    axis = jax.pure_callback(check, jax.ShapeDtypeStruct(axis.shape, axis.dtype), axis)
    return dataclasses.replace(sample, axis=axis)
"""


def test_a_scenario_of_ones_own_and_its_failure_on_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hosted.py").write_text(HOSTED)
    text = SMALL.replace(GRID, "slope = [0.2]\n")
    (tmp_path / "study.toml").write_text(f'scenario = "hosted:simulate"\n{text}')
    (tmp_path / "off").touch()
    monkeypatch.chdir(tmp_path)
    failed = run("study", "study.toml", "--out", "out")
    assert isinstance(failed.exception, Failure), (failed.output, failed.exception)
    words = r"replication \d of cell 0 \(slope=0.2\) failed: OSError: the rig is off$"
    with pytest.raises(Failure, match=words):
        raise failed.exception
    (tmp_path / "off").unlink()
    result = run("study", "study.toml", "--out", "out", "--resume")
    assert result.exit_code == 0, (result.output, result.exception)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("reproduce", "E9", "--out", "x"), "experiments must be some of E1"),
        (("reproduce", "--mode", "other", "--out", "x"), "--mode must be one of"),
        (("power", "--effect", "-1", "--share", "0.2"), "size must lie in"),
        (("simulate", "--out", "x.txt"), "--out must end in .csv or .parquet"),
        (("simulate", "--out", "x.csv", "--scale", "nan"), "--scale must be a finite number"),
        (("study", "missing.toml", "--out", "x"), "does not exist"),
        (("power", "--effect", "1", "--share", "0.2", "--mode", "no"), "--mode must be one of"),
        (("simulate", "--out", "x.csv", "--seed", "-1"), "--seed must be an integer of at least 0"),
        (("simulate", "--out", "x.csv", "--seed", str(10**23)), "at most 4294967295, got 1000"),
        (("reproduce", "--out", "x", "--seed", "-1"), "--seed must be an integer of at least 0"),
        (
            ("simulate", "--out", "x.csv", "--rows", str(10**15)),
            "--rows must leave a data set that",
        ),
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
        ("[grid]\nbeta = [0.1]\nfoo = [1]", "grid must name parameters"),
        ("scenari = 'x'\n[grid]\nbeta = [0.1]", "did you mean scenario"),
        ("num_rows = 'many'\n[grid]\nbeta = [0.1]", "num_rows must be a whole number"),
        ("num_rows = 10", r"must be a table \[grid\]"),
        ("grid = [", "is not valid TOML"),
        ("scenario = 'other'\n[grid]\nbeta = [0.1]", "scenario must be one of"),
        ("scenario = 'no_such:f'\n[grid]\nbeta = [0.1]", "cannot be imported"),
        ("mode = 'other'\n[grid]\nbeta = [0.1]", "mode must be one of"),
        ("[config]\nfoo = 1\n[grid]\nbeta = [0.1]", "'foo' is no setting"),
        ("library = 'x'\n[grid]\nbeta = [0.1]", "library must be one of"),
        ("seed = -1\n[grid]\nbeta = [0.1]", "seed must be an integer of at least 0"),
        (f"seed = {10**18}\n[grid]\nbeta = [0.1]", "and at most 4294967295, got 1000"),
        (f"num_rows = {10**15}\n[grid]\nbeta = [0.1]", "rows need about 454.7 PiB and"),
        ("num_replications = 0\n[grid]\nbeta = [0.1]", "num_replications must be an integer of"),
        ("[grid]\nbeta = 0.1", "grid.beta must be a list of numbers, got 0.1"),
        ("[grid]\nbeta = []", "grid.beta must be a list of numbers"),
        ("[grid]\nbeta = ['a']", "grid.beta must be a list of numbers"),
        ("scenario = 'json:loads'\n[grid]\ncount = [1]", "grid names must differ from"),
    ],
)
def test_bad_specifications(text: str, message: str, tmp_path: Path) -> None:
    spec = tmp_path / "study.toml"
    spec.write_text(text)
    result = run("study", str(spec), "--out", str(tmp_path / "out"))
    assert isinstance(result.exception, Failure), result.output
    with pytest.raises(Failure, match=message):
        raise result.exception
