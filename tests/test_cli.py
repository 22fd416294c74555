"""The command line: right answers, one sentence for bad input, nothing lost.

A program takes long to compile, so the runs share two: up to 64 rows, two physics columns and two
terms in 14 cells, and up to 64 rows, one column and one term in two cells.
"""

import gzip
import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import lisdd_jax
from lisdd_jax.cli import arguments, environment, execution, waiting
from lisdd_jax.config import Config
from lisdd_jax.tables import problem, spec

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
LINE = ["--response", "y", "--physics", "x", "--intercept", "--axis", "x", "--paper"]
SQUARES = ["--library", "x^2", "v"]


@pytest.fixture(autouse=True)
def no_cache(monkeypatch, tmp_path):
    monkeypatch.setenv(environment.CACHE_VARIABLE, "")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def diagnose(cli):
    """Run on a frame or a file; returns the content of the JSON file."""

    def call(table, *words):
        if isinstance(table, pd.DataFrame):
            table.to_csv("table.csv", index=False)
            table = "table.csv"
        code, out, err = cli("diagnose", table, *words, "--json", "result.json")
        assert (code, err) == (0, "")
        found = json.loads(Path("result.json").read_text(), parse_constant=pytest.fail)
        assert out.startswith(found["verdict"].upper().replace("_", " "))
        return found

    return call


def sample(num_rows=60, seed=0):
    rng = np.random.default_rng(seed)
    x, v = rng.uniform(-3, 3, num_rows), rng.normal(size=num_rows)
    y = 1 - 2 * x + np.where(x > 1.7, 0.5 * x**2, 0) + 0.1 * rng.normal(size=num_rows)
    return pd.DataFrame({"x": x, "v": v, "y": y})


def test_a_fault_is_found_and_certified(diagnose):
    found = diagnose(sample(), *LINE, *SQUARES)
    assert found["verdict"] == "discrepancy"
    assert [p["name"] for p in found["physics"]] == ["intercept", "x"]
    for estimate, truth in zip(found["physics"], (1.0, -2.0), strict=True):
        # Five standard errors, those of the robust start included.
        assert abs(estimate["coefficient"] - truth) < 5 * estimate["stderr"] + 0.02
    (region,) = found["regions"]
    assert region["axis"] == "x"
    assert abs(region["lower"] - 1.7) < 6 / 14
    assert region["terms"][0]["name"] == "x^2"
    assert abs(region["terms"][0]["coefficient"] - 0.5) < 0.06
    assert found["test"]["reject"]
    assert found["test"]["log_p_value"] < np.log(0.05)
    assert found["rows"] == {"read": 60, "used": 60, "dropped": 0, "excluded": 0}
    assert found["config"]["mode"] == "paper"
    assert found["config"]["library"] == ["x^2", "v"]
    assert found["version"] == lisdd_jax.__version__


@pytest.mark.slow
def test_padding_to_a_shared_length_changes_nothing():
    sample().to_csv("table.csv", index=False)
    plan = spec.Spec(response="y", physics=("x",), axis="x", library=("x^2", "v"), seed=3)
    data = problem.from_table(
        "table.csv",
        response="y",
        physics=["x"],
        axis="x",
        library=["x^2", "v"],
        intercept=True,
    )
    config = Config.paper()
    padded = execution.run(data, plan, config).found
    plain = lisdd_jax.diagnose(
        data.design,
        data.response,
        data.axis,
        data.features,
        key=jax.random.key(3),
        config=config,
    )
    np.testing.assert_allclose(padded.coefficients, plain.coefficients, rtol=1e-10)
    np.testing.assert_array_equal(padded.cells.flagged, plain.cells.flagged)
    np.testing.assert_allclose(padded.form.coefficients, plain.form.coefficients, rtol=1e-9)
    np.testing.assert_allclose(padded.test.statistic, plain.test.statistic, rtol=1e-8)
    assert int(padded.num_rows) == 60


def test_parquet_gives_what_csv_gives(diagnose):
    sample().to_parquet("table.parquet")
    first, second = diagnose(sample(), *LINE, *SQUARES), diagnose("table.parquet", *LINE, *SQUARES)
    for found in (first, second):
        del found["config"]["table"]
    assert first == second


def test_the_table_may_be_in_any_form_and_place(diagnose, monkeypatch):
    """A semicolon file with decimal commas, and the same packed into standard input."""
    frame = sample()
    plain = diagnose(frame, *LINE, *SQUARES)
    frame.to_csv("s.csv", index=False, sep=";", decimal=",", encoding="latin-1")
    european = diagnose("s.csv", *LINE, *SQUARES)
    packed = gzip.compress(Path("s.csv").read_bytes())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(packed)))
    piped = diagnose("-", *LINE, *SQUARES)
    note = "numbers are read with decimal commas (--decimal)"
    assert (plain["notes"], european["notes"], piped["notes"]) == ([], [note], [note])
    for found in (plain, european, piped):
        del found["config"], found["notes"]
    assert plain == european == piped


def test_predictions_of_the_same_and_of_other_rows(diagnose, cli):
    frame = sample()
    frame.loc[3, "v"] = np.nan
    assert frame["x"][3] < 1.7, "the row lies where no missing term needs v"
    found = diagnose(frame, *LINE, *SQUARES, "--where", "x < 2.8", "--predictions", "p.csv")
    first = pd.read_csv("p.csv")
    assert list(first) == [
        "row", "response", "physics", "corrected", "region",
        "residual_physics", "residual_corrected", "used",
    ]  # fmt: skip
    assert first["used"].sum() == found["rows"]["used"]
    assert not first["corrected"].isna().any()
    np.testing.assert_allclose(first["response"], frame["y"], rtol=1e-15)
    inside = frame["x"] >= found["regions"][0]["lower"]
    assert first["region"].tolist() == inside.tolist()
    line = found["physics"][0]["coefficient"] + found["physics"][1]["coefficient"] * frame["x"]
    np.testing.assert_allclose(first["physics"], line, rtol=1e-12)
    assert first["residual_corrected"].std() < 0.2 < first["residual_physics"].std()
    code, out, err = cli("predict", "result.json", "table.csv")
    assert code == 0
    second = pd.read_csv(io.StringIO(out))
    pd.testing.assert_frame_equal(second, first.drop(columns="used"))
    assert "root mean square of the residuals over 60 rows" in err
    frame[["x", "v"]].to_parquet("new.parquet")
    code, out, _ = cli("predict", "result.json", "new.parquet", "--out", "new.csv")
    assert (code, out) == (0, "")
    third = pd.read_csv("new.csv")
    assert list(third) == ["row", "physics", "corrected", "region"]
    np.testing.assert_allclose(third["corrected"], first["corrected"], rtol=1e-14)


def test_seeds_change_the_split_and_repeat(diagnose):
    results = [diagnose(sample(), *LINE, *SQUARES, "--seed", seed)["test"] for seed in (1, 2, 1)]
    assert results[0] == results[2]
    assert results[0]["statistic"] != results[1]["statistic"]


# The numbered cases are inputs that have broken tools of this kind.


@pytest.mark.parametrize("response", [[1, 1, 2, 1, 1], [0, 0, 0, 0, 1]])
def test_case_1_zero_scale(diagnose, response):
    x = [0.97873798, 2.2408932, 1.76405235, 1.86755799, 0.40015721]
    frame = pd.DataFrame({"x": x, "y": response})
    words = ["--response", "y", "--physics", "1", "--axis", "x", "--library", "x", "--paper"]
    found = diagnose(frame, *words, "--edges", 0, 1.3, 2.5)
    assert found["verdict"] == "insufficient_data"
    assert not found["test"]["reject"]
    assert not any(cell["flagged"] for cell in found["cells"])
    assert any("noise scale is zero" in reason for reason in found["reasons"])


def test_case_1_constant_response(cli):
    pd.DataFrame({"x": range(100), "y": 0}).to_csv("t.csv", index=False)
    code, out, err = cli("diagnose", "t.csv", *LINE, "--library", "x^2")
    assert (code, out) == (2, "")
    assert "'y' is constant (0 in all 100 rows in use), so the noise scale cannot be" in err


def test_case_2_exact_fit_is_no_crash(diagnose):
    x = np.arange(1.0, 21.0)
    y = 2 + 3 * x + np.where(x > 14, 20, 0)
    found = diagnose(pd.DataFrame({"x": x, "y": y, "v": 1.0}), *LINE, *SQUARES, "--trim", 0.3)
    coefficients = [p["coefficient"] for p in found["physics"]]
    # Without noise the answer is the exact line or none, never a line in between.
    if found["scale"] is not None:
        np.testing.assert_allclose(coefficients, [2, 3], rtol=1e-9)
    else:
        assert coefficients == [None, None]


def test_case_3_too_few_rows(cli):
    frame = pd.DataFrame(np.eye(5, 4), columns=list("abcd"))
    frame.assign(y=[1000, 1100, 1050, 950, 1003]).to_csv("t.csv", index=False)
    words = ["--response", "y", "--physics", "a", "b", "c", "d", "--axis", "a"]
    code, _, err = cli("diagnose", "t.csv", *words, "--library", "a^2")
    assert code == 2
    assert "got 5 rows in use for 4 of the physics" in err


def test_case_4_missing_values_are_counted(diagnose):
    x = [58.4890, np.nan, 54.2880, 53.7940, 50, 59.7240, np.nan, 25.9955, 40]
    y = [3.505, 3.1, 3.530, 3.440, np.nan, 3.420, 3.2, 3.430, np.nan]
    found = diagnose(pd.DataFrame({"x": x, "y": y, "v": 1.0}), *LINE, *SQUARES)
    assert found["rows"] == {"read": 9, "used": 5, "dropped": 4, "excluded": 0}
    assert found["warnings"][0] == "4 of 9 rows dropped for missing values in y (2), x (2)"
    coefficients = [p["coefficient"] for p in found["physics"]]
    np.testing.assert_allclose(coefficients, [3.404677, 0.0011955], rtol=2e-5)


def test_case_6_huge_offset(diagnose):
    t = np.linspace(1.7e12, 1.7e12 + 2e4, 24)
    noise = np.random.default_rng(0).normal(size=24)
    frame = pd.DataFrame({"x": t, "v": noise**2, "y": 0.002 * (t - t[0]) + 5 + noise})
    found = diagnose(frame, *LINE, "--library", "sin(x)", "v")
    slope = found["physics"][1]
    assert abs(slope["coefficient"] - 0.002) < 4 * slope["stderr"]
    assert slope["stderr"] < 1e-4


def test_case_7_a_point_on_an_edge(diagnose):
    frame = pd.DataFrame({"x": [0, 1, 2], "y": [1, 1.5, 1.2]})
    words = ["--response", "y", "--physics", "1", "--axis", "x", "--library", "x"]
    found = diagnose(frame, *words, "--paper", "--edges", 0, 1, 2)
    assert [cell["count"] for cell in found["cells"]] == [1, 2]


@pytest.mark.parametrize(
    "library, words",
    [
        (["u", "u^2"], "not identifiable: u^2 equals u on the rows in use"),
        (["w", "twin"], "not identifiable: twin is 2 times w on the rows in use"),
        (["c", "u"], "not identifiable: c is constant (3) on the rows in use"),
        (["z", "u"], "not identifiable: z is zero where x >= "),
    ],
)
def test_case_10_terms_that_cannot_be_told_apart(diagnose, library, words):
    rng = np.random.default_rng(0)
    x, u = np.linspace(-3, 3, 60), (rng.random(60) < 0.5).astype(float)
    y = 1 + 2 * x + np.where(x > 1.5, 2 * u + 1, 0) + 0.1 * rng.normal(size=60)
    w, z = rng.normal(size=60), np.where(x > 1, 0.0, 1.0)
    frame = pd.DataFrame({"x": x, "u": u, "c": 3.0, "w": w, "twin": 2 * w, "z": z, "y": y})
    found = diagnose(frame, *LINE, "--library", *library)
    assert found["regions"]
    assert any(warning.startswith(words) for warning in found["warnings"])


def test_case_18_skewed_axis(diagnose):
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.exponential(0.1, 57), [3, 3.5, 5]])
    frame = pd.DataFrame({"x": x, "v": 1.0, "y": 1 + x + 0.1 * rng.normal(size=60)})
    found = diagnose(frame, *LINE, *SQUARES)
    assert found["verdict"] == "clean"
    assert any("--quantile-cells" in warning for warning in found["warnings"])
    even = diagnose(frame, *LINE, *SQUARES, "--quantile-cells", 14)
    counts = [cell["count"] for cell in even["cells"]]
    assert sum(counts) == 60
    assert max(counts) - min(counts) <= 2
    merged = diagnose(frame, *LINE, *SQUARES, "--min-rows-per-cell", 5)
    assert all(cell["count"] >= 5 for cell in merged["cells"])


@pytest.mark.parametrize(
    "words, message",
    [
        (["none.csv", *LINE, *SQUARES], "table 'none.csv' does not exist"),
        (["text.csv", *LINE, *SQUARES], "column 'x' must hold numbers, got 'abc' in data row 3"),
        (["t.csv", *LINE, "--library", "x2"], "unknown column 'x2'"),
        (["t.csv", *LINE, "--library", "x^2", "x**2"], "got 'x^2' more than once"),
        (["t.csv", *LINE, "--library", "x^"], "at position 3 of 'x^', got the end"),
        (["t.csv", *LINE, *SQUARES, "--where", "x > 9"], "no rows are left to use"),
        (["t.csv", *LINE, *SQUARES, "--where", "x > 2.6"], "more rows than coefficients"),
        (["t.csv", *LINE, *SQUARES, "--axis", "x - x"], "is constant"),
        (["t.csv", *LINE, *SQUARES, "--edges", "0", "1", "2"], "edges must cover the axis"),
        (["t.csv", *LINE, *SQUARES, "--cells", "1"], "num_cells must be at least 2, got 1"),
        (["t.csv", *LINE, *SQUARES, "--no-paper", "--cells", "2"], "must be at least 3, got 2"),
        (["t.csv", *LINE, *SQUARES, "--no-paper", "--edges", "0", "1", "2"], "at least 3, got 2"),
        (["t.csv", *LINE, *SQUARES, "--cells", "100000000"], "of every cell are held in memory"),
        (["t.csv", *LINE, *SQUARES, "--seed", "-1"], "--seed must be an integer of at least 0"),
        (["t.csv", *LINE, *SQUARES, "--seed", "1" + 23 * "0"], "at most 4294967295, got 1000"),
        (["t.csv", *LINE, *SQUARES, "--block", "vv"], "block: unknown column 'vv'"),
        (["t.csv", *LINE, *SQUARES, "--time", "v +"], "time: expected a number, a column"),
        (["t.csv", *LINE, *SQUARES, "--trusted", "x > 9"], "trusted: no row in use meets"),
        (["t.csv", *LINE, *SQUARES, "--noise-scale", "v"], "noise_scale must be positive, got"),
        (["t.csv", *LINE, *SQUARES, "--sep", "::"], "sep must be one character"),
        (["t.csv", *LINE, *SQUARES, "--decimal", "x"], "decimal must be a point or a comma"),
        (["t.csv", *LINE, *SQUARES, "--encoding", "x"], "encoding must be one that Python knows"),
        (["t.csv", *LINE, *SQUARES, "--sheet", "1"], "is no Excel workbook"),
        (["t.csv", *LINE, *SQUARES, "--predictions", "t.csv"], "would overwrite an input"),
        (["t.csv", *LINE, *SQUARES, "--json", "-", "--predictions", "-"], "must differ, got '-'"),
        (["t.csv", *LINE, *SQUARES, "--cells", "9", "--quantile-cells", "9"], "one way only"),
        (["t.csv", *LINE, *SQUARES, "--trim", "0.7"], "trim must lie between 0 and 0.5"),
        (
            ["t.csv", *LINE, *SQUARES, "--negligible", "1"],
            "belongs to the default method",
        ),
        (["t.csv", *LINE[:-1], *SQUARES, "--trim", "0"], "belongs to the published method"),
        (["t.csv", *LINE, *SQUARES, "--json", "none/a.json"], "folder 'none'"),
        (["t.csv", *LINE, *SQUARES, "--report", "./t.csv"], "would overwrite an input"),
        (["t.csv", *LINE, *SQUARES, "--json", "a", "--report", "a"], "must differ"),
        (["--spec", "bad.toml"], "unknown key 'respones'; did you mean response"),
        (["--spec", "bad.toml", "--json", "bad.toml"], "unknown key"),
        (["t.csv", *SQUARES], "response, physics and axis are required: give --response,"),
        ([*LINE, "--library", "x^2", "noext"], "'noext' was read as an expression: put the table"),
        (["t.csv", "--respones", "y"], "--response"),
        ([], "table, response, physics, axis and library are required: give a TABLE, --resp"),
    ],
)
def test_bad_input_is_one_sentence_and_loses_nothing(cli, words, message):
    sample().to_csv("t.csv", index=False)
    Path("text.csv").write_text("x,v,y\n1,1,1\n2,2,2\nabc,3,3\n")
    Path("bad.toml").write_text("respones = 'y'\n")
    Path("noext").write_text("x,v,y\n1,1,1\n")
    before = {path: path.read_bytes() for path in Path().iterdir()}
    code, out, err = cli("diagnose", *words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.startswith("lisdd-jax: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


def test_a_specification_is_read_and_overridden(cli, diagnose):
    sample().to_csv("data.csv", index=False)
    Path("s.toml").write_text(
        'table = "data.csv"\nresponse = "y"\nphysics = ["v"]\nintercept = true\naxis = "x"\n'
        'library = ["x^2", "v"]\npaper = true\njson = "from_spec.json"\n[config]\nalpha = 0.01\n'
    )
    code, _, _ = cli("diagnose", "--spec", "s.toml", "--physics", "x", "--seed", 5)
    assert code == 0
    found = json.loads(Path("from_spec.json").read_text())
    assert [p["name"] for p in found["physics"]] == ["intercept", "x"]
    assert (found["config"]["seed"], found["config"]["alpha"]) == (5, 0.01)
    plain = diagnose("data.csv", *LINE, *SQUARES, "--seed", 5, "--alpha", 0.01)
    assert {k: v for k, v in plain.items() if k != "config"} == {
        k: v for k, v in found.items() if k != "config"
    }


def test_json_on_stdout_stands_alone(cli):
    sample().to_csv("t.csv", index=False)
    code, out, err = cli("diagnose", "t.csv", *LINE, *SQUARES, "--json", "-")
    assert code == 0
    assert json.loads(out)["verdict"] == "discrepancy"
    assert err.startswith("DISCREPANCY")


def test_page_is_written(cli):
    sample().to_csv("t.csv", index=False)
    code, out, _ = cli("diagnose", "t.csv", *LINE, *SQUARES, "--report", "page.html")
    assert code == 0
    assert "Written: page.html" in out
    page = Path("page.html").read_text(encoding="utf-8")
    assert "<h1>The physics of y is wrong for x &gt;=" in page
    # Five figures, drawn for wide and for narrow screens.
    assert page.count("<svg") == 10
    assert sorted(path.name for path in Path().iterdir()) == ["page.html", "t.csv"]


def test_help_lists_the_commands(cli):
    code, out, _ = cli("--help")
    assert code == 0
    for command in (
        "diagnose predict check init doctor study reproduce power simulate --show-completion"
    ).split():
        assert command in out


def test_help_and_version(cli):
    code, out, _ = cli("--version")
    assert (code, out.split()) == (0, ["lisdd-jax", lisdd_jax.__version__])
    code, out, _ = cli("diagnose", "--help")
    assert code == 0
    assert "lisdd-jax diagnose pipe.csv" in out
    # What a user chooses stands before what tunes the algorithm.
    panels = [out.index(f"─ {panel} ─") for panel in ("Data", "Model", "Method", "Output")]
    advanced = out.index("─ Advanced ─")
    assert sorted(panels) == panels
    assert out.index("--predictions") < advanced < out.index("--alpha-cell")
    assert max(map(len, out.splitlines())) <= 80
    for name in spec.setting_kinds():
        assert f"--{'cells' if name == 'num_cells' else name.replace('_', '-')}" in out
    code, _, err = cli("diagnos")
    assert code == 2
    assert "diagnos" in err


@pytest.mark.parametrize(
    "words, expected",
    [
        ("--physics a b --axis x", "--physics a --physics b --axis x"),
        ("--physics a --physics b", "--physics a --physics b"),
        ("--physics=a b", "--physics=a --physics b"),
        ("--library a b t.csv", "--library a --library b t.csv"),
        ("--library a b T.TSV", "--library a --library b T.TSV"),
        ("--library a t.txt --axis b", "--library a t.txt --axis b"),
        ("--library a t.csv.gz", "--library a t.csv.gz"),
        ("--library a t.xlsx", "--library a t.xlsx"),
        ("--library a -", "--library a -"),
        ("t.csv --library -x 1 --seed 3", "t.csv --library -x --library 1 --seed 3"),
        ("--edges -1 0 1", "--edges -1 --edges 0 --edges 1"),
        ("--response a b", "--response a b"),
        ("--physics", "--physics"),
    ],
)
def test_several_values_after_one_option(words, expected):
    assert arguments.repeat_options(words.split()) == expected.split()


def test_expressions_with_commas_and_blanks_stay_whole():
    words = ["--library", "max(a, b)", "clip(a, 0, 1)", "--axis", "a"]
    expected = ["--library", "max(a, b)", "--library", "clip(a, 0, 1)", "--axis", "a"]
    assert arguments.repeat_options(words) == expected


def terminal(**options):
    return Console(file=io.StringIO(), width=80, **options)


def test_waiting_is_shown_on_a_terminal_after_a_while(monkeypatch):
    monkeypatch.setattr(waiting, "DELAY", 0.05)
    slow, fast = terminal(force_terminal=True), terminal(force_terminal=True)
    piped = terminal(force_terminal=False)
    for console, seconds in ((slow, 0.4), (fast, 0.0), (piped, 0.4)):
        with waiting.waiting("Working", console):
            time.sleep(seconds)
    assert "Working" in slow.file.getvalue()
    assert fast.file.getvalue() == ""
    assert piped.file.getvalue() == ""


def test_cache_folder_can_be_chosen_and_turned_off(monkeypatch, tmp_path):
    assert environment.cache_folder() is None
    monkeypatch.setenv(environment.CACHE_VARIABLE, str(tmp_path / "here"))
    assert environment.cache_folder() == tmp_path / "here"
    monkeypatch.delenv(environment.CACHE_VARIABLE)
    assert environment.cache_folder().name == "lisdd-jax"


@pytest.mark.slow
def test_case_5_time_stamp_as_regressor(diagnose):
    row = np.arange(2000)
    t, x = 1.7e9 + 1e4 * row, 0.01 * np.sin(0.7 * row)
    noise = 0.01 * np.random.default_rng(0).normal(size=2000)
    frame = pd.DataFrame({"t": t, "x": x, "y": 1 + 1e-7 * t + 3 * x + noise})
    for physics in (["t", "x"], ["x", "t"]):
        words = ["--response", "y", "--physics", *physics, "--intercept", "--axis", "x"]
        found = diagnose(frame, *words, "--library", "x^2", "--paper")
        (slope,) = (p for p in found["physics"] if p["name"] == "x")
        assert abs(slope["coefficient"] - 3) < 5 * slope["stderr"]
        assert slope["stderr"] < 0.1


def run_program(*words, **options):
    program = [sys.executable, "-c", "from lisdd_jax.cli import main; main()", *words]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", **options.pop("env", {})}
    return subprocess.run(
        program, capture_output=True, text=True, timeout=300, env=environment, **options
    )


def test_the_example_runs_as_a_program_and_keeps_what_it_compiled(tmp_path):
    words = ["diagnose", "--spec", str(EXAMPLES / "blasius_pipe.toml"), "--json", "a.json"]
    cache = tmp_path / "cache"
    done = run_program(*words, env={environment.CACHE_VARIABLE: str(cache)})
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    found = json.loads((tmp_path / "a.json").read_text())
    assert found["rows"] == {"read": 323, "used": 244, "dropped": 0, "excluded": 79}
    assert found["verdict"] != "clean"
    assert found["regions"]
    assert all(region["upper"] > 5 for region in found["regions"])
    # Blasius' exponent is -1/4; the rows below Re = 1e5 give -0.26.
    assert abs(found["physics"][1]["coefficient"] + 0.26) < 0.015
    assert any(cache.iterdir())


@pytest.mark.slow
def test_single_precision_is_right_or_refused(tmp_path):
    sample().to_csv("t.csv", index=False)
    words = ["diagnose", "t.csv", *LINE, *SQUARES, "--float32", "--json", "a.json"]
    done = run_program(*words)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "a.json").read_text())
    assert abs(found["physics"][1]["coefficient"] + 2) < 0.05
    sample().assign(x=sample()["x"] + 1.7e9).to_csv("t.csv", index=False)
    done = run_program(*words)
    assert done.returncode == 2
    assert "float32" in done.stderr
