"""One call on a table: the same numbers as every other way, and a result that can be kept."""

import dataclasses
import json
import math
import subprocess
import sys
import warnings

import autoregression
import jax
import numpy as np
import pandas as pd
import polars as pl
import pytest

import lisdd_jax
from lisdd_jax.cli import environment
from lisdd_jax.expressions import ExpressionError
from lisdd_jax.files import FileError
from lisdd_jax.fitting import execution, saved, time_blocks
from lisdd_jax.report import figures
from lisdd_jax.tables import ProblemError, as_table

FORMULA = "y ~ t + u | t"
LIBRARY = ["1", "t"]
NUM_ROWS = 400


def draw(seed=0):
    rng = np.random.default_rng(seed)
    t, u = rng.uniform(0, 30, NUM_ROWS), rng.normal(size=NUM_ROWS)
    noise = 0.4 * rng.normal(size=NUM_ROWS)
    noise[7] += 40.0
    return {"t": t, "u": u, "y": 3 + 0.5 * t - 2 * u + 1.5 * np.maximum(t - 22, 0) + noise}


COLUMNS = draw()
FRAME = pd.DataFrame(COLUMNS, index=[f"row {k}" for k in range(NUM_ROWS)])


def fit(data=COLUMNS, *words, **changes):
    return lisdd_jax.fit(*(words or (FORMULA,)), data=data, **{"library": LIBRARY, **changes})


@pytest.fixture(scope="module")
def result():
    return fit(FRAME)


def assert_same(found, expected):
    """Bit for bit, also where a number is NaN; batches and types included."""
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        one, other = np.asarray(one), np.asarray(other)
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert one.tobytes() == other.tobytes()


def test_the_same_numbers_as_from_arrays(result):
    t, u, y = (COLUMNS[name] for name in "tuy")
    found = lisdd_jax.diagnose(
        np.stack([np.ones_like(t), t, u], axis=1),
        y,
        t,
        np.stack([np.ones_like(t), t], axis=1),
        key=jax.random.key(0),
    )
    assert_same(result.arrays, found)
    assert result.verdict == "discrepancy"
    (region,) = result.regions.itertuples()
    assert region.lower_from < 22 < region.lower_to
    assert (region.Index, region.open_above) == (1, True)
    assert region.lower == float(found.regions.lower[0])
    assert region.lower_softness == float(found.regions.softness[0, 0])


def test_the_same_numbers_as_the_command_line(result, cli, tmp_path, monkeypatch):
    monkeypatch.setenv(environment.CACHE_VARIABLE, "")
    monkeypatch.chdir(tmp_path)
    FRAME.to_csv("t.csv", index=False)
    parts = ["--response", "y", "--physics", "t", "u", "--intercept", "--axis", "t"]
    code, out, err = cli("diagnose", "t.csv", *parts, "--library", *LIBRARY, "--json", "c.json")
    assert (code, err) == (0, "")
    result.to_json("f.json")
    said = [json.loads((tmp_path / name).read_text()) for name in ("c.json", "f.json")]
    differ = {name for name in said[0] if said[0][name] != said[1][name]}
    assert differ == {"config"}
    printed = out.replace(" from t.csv", "").replace("\nWritten: c.json", "")
    assert printed.strip() == result.summary().strip()
    code, out, _ = cli("predict", "f.json", "t.csv")
    written = pd.read_csv(pd.io.common.StringIO(out))
    np.testing.assert_allclose(written.corrected, result.predict(FRAME), rtol=1e-12)


@pytest.mark.parametrize(
    "physics",
    ["t + u", ["t", "u"], ["1", "t", "u"], ["t", lisdd_jax.library.Term.from_expression("u")]],
)
def test_parts_in_place_of_a_formula(result, physics):
    found = fit(COLUMNS, None, response="y", physics=physics, axis="t", seed=np.int64(0))
    assert_same(found.arrays, result.arrays)
    # Whatever the terms came as, the settings have them in words.
    told = lisdd_jax.Result.from_json(found.to_json()).config
    assert [term for term in told["physics"] if term != "1"] == ["t", "u"]
    assert told["intercept"] is True


@pytest.mark.parametrize("physics", ["t + u - 1", ["t", "u", "-1"], ["0", "t", "u"]])
def test_no_intercept(physics):
    asked = lisdd_jax.fitting.tabular.read_law(None, "y", physics, "t", list(COLUMNS))
    assert (asked.physics, asked.intercept) == (("t", "u"), False)


def test_tables_of_every_kind(result):
    for data in (COLUMNS, pl.DataFrame(COLUMNS), as_table(COLUMNS)):
        found = fit(data)
        assert_same(found.arrays, result.arrays)
        assert found.outliers().tolist() == [7]
    assert result.outliers().tolist() == ["row 7"]


def test_rows_keep_their_labels():
    gaps = FRAME.copy()
    gaps.loc["row 2", "u"] = np.nan
    found = fit(gaps)
    residuals = found.residuals()
    assert "row 2" not in residuals.index
    assert found.findings.rows.dropped == 1
    predicted = found.predict(FRAME.loc[residuals.index])
    np.testing.assert_allclose(residuals, FRAME.y[residuals.index] - predicted, atol=1e-12)
    assert found.outliers().tolist() == ["row 7"]


def test_frames(result):
    assert list(result.physics.index) == ["intercept", "t", "u"]
    assert result.physics.coefficient["u"] == float(result.arrays.coefficients[2])
    tests = ["statistic", "p_value", "lower", "upper"]
    assert list(result.terms.columns) == ["region", "term", "coefficient", "stderr", *tests]
    assert list(result.physics.columns) == ["coefficient", "stderr", *tests]
    assert np.all((result.physics.lower < [3, 0.5, -2]) & (result.physics.upper > [3, 0.5, -2]))
    assert result.terms.term.tolist() == LIBRARY
    assert result.cells["count"].sum() == NUM_ROWS
    assert result.cells.flagged.tolist() == np.asarray(result.arrays.cells.flagged).tolist()
    none = np.zeros_like(result.arrays.regions.present)
    regions = dataclasses.replace(result.arrays.regions, present=none)
    clean = dataclasses.replace(result, arrays=dataclasses.replace(result.arrays, regions=regions))
    assert len(clean.regions) == len(clean.terms) == 0
    assert list(clean.regions.columns) == list(result.regions.columns)


def test_predictions(result):
    new = {"t": [10.0, 25.0, 99.0, np.nan], "u": [0.0, 1.0, 0.0, 0.0]}
    with pytest.warns(UserWarning, match=r"rows lie beyond|have no prediction") as caught:
        found = result.predict(new)
    assert len(caught) == 2
    assert np.isnan(found).tolist() == [False, False, False, True]
    with warnings.catch_warnings(action="ignore"):
        physics = result.predict(new, corrected=False)
    a, b, c = result.physics.coefficient
    np.testing.assert_allclose(physics[:3], [a + 10 * b, a + 25 * b + c, a + 99 * b])
    assert found[0] == physics[0]
    assert found[1] - physics[1] == pytest.approx(result.terms.coefficient @ [1, 25])


def coverage(seeds):
    """Share of rows that intervals of 90 % cover, by table: of the mean, of a measurement."""
    covered = []
    for seed in seeds:
        found, new = fit(draw(seed)), draw(seed + 10_000)
        t, u = new["t"], new["u"]
        mean = 3 + 0.5 * t - 2 * u + 1.5 * np.maximum(t - 22, 0)
        with warnings.catch_warnings(action="ignore"):
            ends = [
                found.predict(new, interval=kind, level=0.9)
                for kind in ("confidence", "prediction")
            ]
        pairs = zip((mean, new["y"]), ends, strict=True)
        # Beyond the range of the fit nothing is promised.
        known = (t >= found.problem.axis.min()) & (t <= found.problem.axis.max())
        covered.append([np.mean(((v >= e.lower) & (v <= e.upper))[known]) for v, e in pairs])
    return np.array(covered)


@pytest.mark.parametrize("num", [12, pytest.param(200, marks=pytest.mark.slow)])
def test_intervals_cover_what_they_say(num):
    found = coverage(range(num))
    error = found.std(axis=0, ddof=1) / math.sqrt(num)
    assert np.all(np.abs(found.mean(axis=0) - 0.9) < 5 * error)
    assert np.all(error < 0.06)


def parts_covered(seeds):
    """Shares of measurements that intervals of 90 % cover where noise is small, large, anywhere."""
    covered = []
    for seed in seeds:
        data, new = draw(seed), draw(seed + 10_000)
        rng = np.random.default_rng([seed, 1])
        for table in (data, new):
            table["y"] += 0.8 * np.abs(table["u"]) * rng.normal(size=NUM_ROWS)
        with warnings.catch_warnings(action="ignore"):
            ends = fit(data).predict(new, interval="prediction", level=0.9)
        inside, size = (new["y"] >= ends.lower) & (new["y"] <= ends.upper), np.abs(new["u"])
        covered.append([inside[size < 0.4].mean(), inside[size > 1.2].mean(), inside.mean()])
    return np.array(covered)


@pytest.mark.parametrize("num", [12, pytest.param(100, marks=pytest.mark.slow)])
def test_intervals_of_measurements_go_with_the_noise(num):
    """Standard deviations of ``sqrt(0.16 + 0.64 u^2)``; with one for all .99 and .69 are."""
    small, large, both = parts_covered(range(num)).mean(axis=0)
    assert 0.86 < small < 0.97
    assert 0.78 < large < 0.94
    assert both == pytest.approx(0.9, abs=0.03)


def test_a_function_that_jax_traces(result):
    function = result.to_callable()
    columns = {name: np.asarray(COLUMNS[name]) for name in ("t", "u")}
    expected = result.predict(COLUMNS)
    np.testing.assert_allclose(function(columns), expected, rtol=1e-12)
    np.testing.assert_allclose(jax.jit(function)(columns), expected, rtol=1e-12)
    slope = jax.jit(jax.grad(lambda t: function({"t": t, "u": 1.0})))(25.0)
    expected_slope = result.physics.coefficient["t"] + result.terms.coefficient[1]
    assert float(slope) == pytest.approx(expected_slope, rel=1e-12)
    assert math.isnan(function({"t": np.nan, "u": 1.0}))


def test_words(result):
    assert repr(result).startswith("<lisdd_jax.Result Discrepancy: the physics of y is wrong for t")
    assert "\n" not in repr(result)
    lines = result.summary().splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("DISCREPANCY")
    assert "  400 read, 400 used" in lines


def test_the_page_stands_in_a_frame_of_its_own(result, tmp_path, monkeypatch):
    page = result.to_html(tmp_path / "p.html")
    assert (tmp_path / "p.html").read_text() == page
    assert page.count("<svg") == 10, "five figures, for two widths"
    shown = result._repr_html_()
    assert shown.startswith('<iframe sandbox srcdoc="&lt;!DOCTYPE html&gt;')
    assert "<style" not in shown
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert result._repr_html_().startswith("<p>Discrepancy: the physics of y is wrong")
    with pytest.raises(figures.FigureError, match="figures need matplotlib"):
        result.plot.fit()


def test_figures(result):
    plt = pytest.importorskip("matplotlib.pyplot")
    figure, (first, second, third, fourth, fifth) = plt.subplots(1, 5)
    assert result.plot.fit(first) is first
    result.plot.map(second)
    result.plot.residuals(third)
    result.plot.residuals(fourth, order="record")
    result.plot.qq(fifth)
    labels = first.get_legend_handles_labels()[1]
    assert labels == ["measured", "set aside", "physics", "region", "corrected", "end, 95 %"]
    shaded = [patch.get_extents().width for patch in first.patches]
    assert len(shaded) == 2, "the region, and the interval of its one closed end"
    assert (first.get_xlabel(), first.get_ylabel()) == ("t", "y, u at the mean")
    assert len(second.patches) == len(result.cells) + 1
    assert third.get_ylabel() == "y: residual of the physics"
    points, aside = fourth.lines[:2]
    kept = np.delete(np.arange(NUM_ROWS), 7)
    np.testing.assert_array_equal(points.get_xdata(), kept + 1)
    np.testing.assert_allclose(points.get_ydata(), result.residuals().to_numpy()[kept])
    assert aside.get_xdata().tolist() == [8]
    scaled = fifth.lines[0].get_ydata() * float(result.arrays.scale)
    np.testing.assert_allclose(scaled, np.sort(result.residuals().to_numpy()[kept]), atol=1e-12)
    own = result.plot.fit()
    assert own.figure is not figure
    plt.close("all")
    assert "4 of 399 lie beyond 3 noise scales" in result.plot.describe("qq")
    with pytest.raises(ValueError, match=r"name must be one of \('fit', .*, got 'pie'"):
        result.plot.describe("pie")
    with pytest.raises(ValueError, match="order must be one of"):
        result.plot.residuals(order="time")


def test_checks_of_the_residuals(result):
    found = result.diagnostics()
    depend = result.arrays.dependence
    assert found.value["correlation in the record"] == float(depend.record_correlation)
    assert found.value["outliers set aside"] == 1
    assert abs(found.value["excess kurtosis"]) < 1
    assert found.p_value.min() > 0.01


def test_json_keeps_every_bit(result, tmp_path):
    text = result.to_json(tmp_path / "r.json")
    for kept in (text, tmp_path / "r.json", str(tmp_path / "r.json")):
        again = lisdd_jax.Result.from_json(kept)
        assert_same(again.arrays, jax.device_get(result.arrays))
        assert again.to_json() == text
    assert again.summary() == result.summary()
    assert again.to_html() == result.to_html()
    assert again.outliers().tolist() == ["row 7"]
    np.testing.assert_array_equal(again.predict(FRAME), result.predict(FRAME))
    for frame in ("regions", "terms", "physics", "cells"):
        pd.testing.assert_frame_equal(getattr(again, frame), getattr(result, frame))
    pd.testing.assert_frame_equal(again.diagnostics(), result.diagnostics())
    intervals = [found.predict(FRAME, interval="prediction") for found in (again, result)]
    pd.testing.assert_frame_equal(*intervals)
    assert again.to_latex() == result.to_latex()


def test_json_of_every_part():
    """Single precision, moments as labels, a category, blocks, and a setting that is infinite."""
    arrays = draw()
    frame = pd.DataFrame(arrays, index=pd.date_range("2020-01-01", periods=NUM_ROWS, freq="h"))
    frame["kind"] = np.where(np.arange(NUM_ROWS) % 3 == 0, "a", "b")
    frame["day"] = frame.index.floor("D")
    table = lisdd_jax.tables.problem.from_table(
        frame, response="y", physics=["t", "kind", "day"], axis="t", library=["t"], block="day"
    )
    found = fit(FRAME).arrays
    single = jax.tree.map(
        lambda leaf: np.asarray(leaf, np.float32 if leaf.dtype == np.float64 else None), found
    )
    given = {"problem": table, "arrays": single, "labels": np.asarray(frame.index)}
    config = {"tolerance": math.inf, "max_terms": 2, "unset": None}
    text = json.dumps({"result": saved.pack_result(**given, config=config)}, allow_nan=False)
    again = saved.unpack_result(json.loads(text))
    assert_same(again["arrays"], single)
    assert again["config"] == config
    np.testing.assert_array_equal(again["labels"], given["labels"])
    for name, value in vars(table).items():
        read = getattr(again["problem"], name)
        if isinstance(value, np.ndarray):
            assert (read.dtype, read.tobytes()) == (value.dtype, value.tobytes())
        else:
            assert read == value


def test_damaged_json_gives_a_sentence(result, tmp_path):
    text = result.to_json()
    content = json.loads(text)
    kept = content["result"]
    changed = {**kept, "source": "other.csv"}
    data = kept["arrays"]["coefficients"]
    turned = {**data, "base64": data["base64"][::-1]}
    for wrong, error, words in (
        (text[: len(text) // 2], FileError, "the result is not valid JSON: "),
        ("{", FileError, "the result is not valid JSON: "),
        ('{"a":' * 100_000, FileError, "the result is not valid JSON"),
        (tmp_path / "none.json", FileError, "cannot be read: it does not exist"),
        ("{}", ProblemError, "the text holds no result; it must be what Result.to_json wrote"),
        (changed, ProblemError, "the result was changed or damaged after it was written"),
        ({**kept, "arrays": {**kept["arrays"], "coefficients": turned}}, ProblemError, "damaged"),
        ({**kept, "format": 2}, ProblemError, "must be of format 1, got 2; a newer lisdd-jax may"),
        ({"format": 1}, ProblemError, "changed or damaged"),
    ):
        given = json.dumps({"result": wrong}) if isinstance(wrong, dict) else wrong
        with pytest.raises(error) as caught:
            lisdd_jax.Result.from_json(given)
        assert words in str(caught.value)
    body = {name: value for name, value in kept.items() if name != "arrays"}
    del body["sha256"], body["format"]
    whole = {**body, "format": 1, "sha256": saved.checksum(body)}
    with pytest.raises(ProblemError, match="the result lacks 'arrays'"):
        saved.unpack_result({"result": whole})


@pytest.mark.parametrize(
    "words, changes, error, message",
    [
        ((), {"data": None}, TypeError, "data must be a table, such as a data frame, got None"),
        ((), {"data": 3}, TypeError, "data must be a path, a data frame, or a mapping"),
        ((), {"axis": "t"}, ProblemError, "axis is part of the formula; give one or the other"),
        ((None,), {"response": "y"}, ProblemError, "physics and axis must be given, or a formula"),
        ((3,), {}, TypeError, "formula must be text such as 'y ~ t | t', got int"),
        (("y ~ t",), {}, ExpressionError, "the axis, along which it may fail, stands after '|'"),
        (("y ~ tt | t",), {}, ExpressionError, "physics: unknown column 'tt'"),
        ((), {"library": ["tt"]}, ExpressionError, "library: unknown column 'tt'"),
        ((), {"library": 3}, TypeError, "candidates must be strings, expressions, terms"),
        ((), {"trusted": COLUMNS["t"] < 3}, TypeError, "trusted must be the name of a column"),
        ((), {"seed": -1}, ValueError, "seed must be"),
        ((), {"config": {"alpha": 0.1}}, TypeError, "config must be lisdd_jax.Config"),
        ((), {"data": {name: values[:4] for name, values in COLUMNS.items()}}, ProblemError,
         "a diagnosis needs more rows than coefficients, got 4 rows"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(words, changes, error, message):
    given = {"data": COLUMNS, **changes}
    with pytest.raises(error) as caught:
        fit(given.pop("data"), *words, **given)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_terms_of_pysindy_are_over_the_columns_of_the_law(result):
    pysindy = pytest.importorskip("pysindy")
    asked = lisdd_jax.fitting.tabular.read_law(FORMULA, None, None, None, list(COLUMNS))
    columns = lisdd_jax.fitting.tabular.law_columns(asked, list(COLUMNS))
    assert columns == ["t", "u"]
    found = lisdd_jax.library.as_terms(pysindy.PolynomialLibrary(degree=1), columns)
    assert [term.name for term in found] == ["1", "t", "u"]


def correlated(rho, seed=0):
    """The table with noise of an autoregression in the order of ``when``, its rows shuffled."""
    rng = np.random.default_rng(seed)
    noise = autoregression.simulate(rng, rho, NUM_ROWS)
    t, u = rng.uniform(0, 30, NUM_ROWS), rng.normal(size=NUM_ROWS)
    y = 3 + 0.5 * t - 2 * u + 1.5 * np.maximum(t - 22, 0) + 0.4 * noise
    day = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(NUM_ROWS), "h")
    order = rng.permutation(NUM_ROWS)
    return pd.DataFrame({"t": t, "u": u, "y": y, "when": day}).iloc[order]


def test_blocks_follow_the_correlation_in_time():
    table = correlated(0.7)
    found = fit(table, time="when")
    block = found.problem.block
    place = np.argsort(found.problem.time)
    assert block[place].tolist() == sorted(block)
    # What the rows in the order of time say, and blocks of the length that this asks for.
    ordered = fit(table.sort_values("when"))
    rho = float(ordered.arrays.dependence.record_correlation)
    assert 0.5 < rho < 0.8
    ratio = math.sqrt(6) * rho / (1 - rho**2)
    length = math.ceil(ratio ** (2 / 3) * NUM_ROWS ** (1 / 3))
    np.testing.assert_array_equal(block[place], np.arange(NUM_ROWS) // length)
    note = f"correlate by {rho:.2f}, so blocks of {length} consecutive rows are kept together"
    assert note in found.findings.notes[-1]
    again = fit(table.sort_values("when").assign(b=np.arange(NUM_ROWS) // length), block="b")
    for part in ("regions", "form", "test", "place", "coefficients"):
        assert_same(getattr(found.arrays, part), getattr(again.arrays, part))


def test_no_blocks_without_correlation():
    table = correlated(0.0)
    table.iloc[11, table.columns.get_loc("y")] += 40
    found = fit(table, time="when")
    assert found.problem.block is None
    assert "which is not beyond chance, so rows count as independent" in found.findings.notes[-1]
    ordered = fit(table.sort_values("when"))
    assert_same(found.arrays.regions, ordered.arrays.regions)
    assert found.outliers().tolist() == ordered.outliers().tolist() == [table.index[11]]


def test_given_blocks_stay_and_the_published_method_takes_those_of_time():
    table = correlated(0.7).assign(day=lambda t: t.when.dt.floor("D"))
    found = fit(table, time="when", block="day")
    assert found.problem.block.max() + 1 == table.day.nunique()
    (dates,) = found.findings.notes
    assert dates.startswith("dates in 'when'")
    published = fit(table, time="when", config=lisdd_jax.Config.paper())
    np.testing.assert_array_equal(published.problem.block, fit(table, time="when").problem.block)


def test_the_command_line_takes_a_time(cli, tmp_path, monkeypatch):
    monkeypatch.setenv(environment.CACHE_VARIABLE, "")
    monkeypatch.chdir(tmp_path)
    table = correlated(0.7)
    table.to_csv("t.csv", index=False)
    parts = ["--response", "y", "--physics", "t", "u", "--intercept", "--axis", "t"]
    options = ["--library", *LIBRARY, "--time", "when", "--json", "-"]
    code, out, _ = cli("diagnose", "t.csv", *parts, *options)
    assert code == 0
    said, expected = json.loads(out), json.loads(fit(table, time="when").to_json())
    # The file's dates are announced in a note.
    assert said["notes"][-1] == expected["notes"][-1]
    assert "so blocks of " in said["notes"][-1]
    assert said["regions"] == expected["regions"]


def test_length_of_blocks():
    assert time_blocks.block_length(math.nan, 400) == 1
    assert time_blocks.block_length(3.5 / 20, 400) == 1
    assert time_blocks.block_length(-0.9, 400) == 1
    assert time_blocks.block_length(0.5, 400) == 11
    lengths = [time_blocks.block_length(rho, 400) for rho in np.linspace(0.18, 1.0, 50)]
    assert lengths == sorted(lengths)
    assert max(lengths) == time_blocks.block_length(0.98, 400) < 200
    assert time_blocks.block_length(1.0, 20) == 10


def test_settings_are_told(result):
    assert {name: result.config[name] for name in ("response", "axis", "library", "seed")} == {
        "response": "y", "axis": "t", "library": LIBRARY, "seed": 0,
    }  # fmt: skip
    assert (result.config["mode"], result.config["float32"]) == ("default", False)
    assert execution.settings_record(lisdd_jax.Config.paper())["mode"] == "paper"


LAZY = """
import sys
import lisdd_jax
heavy = {"pandas", "rich", "matplotlib", "lisdd_jax.fitting", "lisdd_jax.tables"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
lisdd_jax.fit
assert not {"pandas", "rich", "matplotlib"} & set(sys.modules)
try:
    lisdd_jax.fitt
except AttributeError as error:
    print(error)
"""


def test_names_on_tables_are_imported_when_they_are_used():
    done = subprocess.run([sys.executable, "-c", LAZY], capture_output=True, text=True)
    assert done.stdout == "module 'lisdd_jax' has no attribute 'fitt'\n", done.stderr
