"""Commands around a diagnosis: check, predict, init, doctor, completion, and how they end."""

import dataclasses
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import lisdd_jax
from lisdd_jax.cli import application, environment, init
from lisdd_jax.study.planning import specification
from lisdd_jax.tables import spec

ROOT = Path(__file__).resolve().parents[1]
MESSY = (
    "Datum;Wärme °C;Strom kW;Art;leer\n01.01.2020;1,5;2,25;a;\n02.01.2020;2,5;4,12;b;\n"
    "03.01.2020;999,5;4,0;a;\n04.01.2020;2,7;3,1;a;\n05.01.2020;2,1;4,3;;\n05.01.2020;2,1;4,3;;\n"
)


@pytest.fixture(autouse=True)
def here(monkeypatch, tmp_path):
    monkeypatch.setenv(environment.CACHE_VARIABLE, "")
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.chdir(tmp_path)


def test_check_tells_what_a_table_holds(cli):
    Path("t.csv").write_bytes(MESSY.encode("latin-1"))
    code, out, err = cli("check", "t.csv", "--axis", "Datum", "--cells", 2)
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    assert not re.search(r" \n", out)
    words = " ".join(out.split())
    assert words.startswith(
        "t.csv: 6 rows, 5 columns, 0 rows without missing values, 1 row equal to an earlier one"
        " - the table is not UTF-8;"
    )
    for line in (
        r"Datum +date +2020-01-01 to 2020-01-05",
        r"Wärme °C +number +1\.5 to 999\.5, median 2\.3 +1 value far off: row 3",
        r"Art +text +2 +a \(3\), b \(1\)",
        r"leer +empty +6",
        r"Rows in 2 cells of equal width over Datum",
        r"2020-01-01 to 2020-01-03 +2",
        r"2020-01-03 to 2020-01-05 +4",
    ):
        assert re.search(line, out), (line, out)


def test_check_remarks_on_faults(cli):
    frame = pd.DataFrame({"a": [1, 2, 3], "b": [1, 2, 3], "c": 5.0, "d": ["1", "x", "2"]})
    frame.to_csv("t.csv", index=False)
    _, out, _ = cli("check", "t.csv")
    for line in (r"b .*same as a", r"c .*constant", r"text and\s", r"'x' in data row 2"):
        assert re.search(line, out), (line, out)


def test_check_never_cuts_a_number(cli):
    frame = pd.DataFrame(
        {"a long name of a column " * 4: np.arange(9) * 1e-300, "n": [-1.23456e-200] * 9}
    )
    frame.to_csv("t.csv", index=False)
    _, out, _ = cli("check", "t.csv", "--axis", "`" + frame.columns[0].strip() + "`")
    assert "…" not in out
    assert max(map(len, out.splitlines())) <= 80
    assert "-1.23456e-200" in out


@pytest.mark.parametrize(
    "words, message",
    [
        (["check"], "Missing argument 'TABLE'"),
        (["check", "none.csv"], "table 'none.csv' does not exist"),
        (["check", "t.csv", "--where", "x > 1"], "give --axis as well"),
        (["check", "t.csv", "--axis", "z"], "axis: unknown column 'z'"),
        (["check", "t.csv", "--axis", "x", "--cells", "1"], "--cells"),
        (["check", "t.csv", "--wher"], "--where"),
        (["predict", "none.json", "t.csv"], "result 'none.json' cannot be read: it does not exist"),
        (["predict", "t.csv", "t.csv"], "result 't.csv' is not valid JSON"),
        (["predict", "other.json", "t.csv"], "result 'other.json' holds no model"),
        (["predict", "old.json", "t.csv"], "result 'old.json': a model must be of format 1, got 0"),
        (["predict", "deep.json", "t.csv"], "result 'deep.json' is not valid JSON"),
        (["predict", "other.json", "t.csv", "--out", "t.csv"], "would overwrite an input"),
        (["predict", ".", "t.csv"], "result '.' cannot be read: Is a directory"),
        (["init", "novel"], "'novel' is not one of 'diagnosis', 'study'"),
        (["init", "--out", "t.csv"], "--out 't.csv' exists already"),
        (["init", "--out", "none/t.toml"], "folder 'none' of the output"),
        (["diagnos"], "diagnos"),
    ],
)
def test_bad_input_is_one_sentence(cli, words, message):
    Path("t.csv").write_text("x,y\n1,2\n2,3\n")
    Path("other.json").write_text("[]")
    Path("old.json").write_text('{"model": {"format": 0}}')
    Path("deep.json").write_text("[" * 100_000)
    before = {path: path.read_bytes() for path in Path().iterdir()}
    code, out, err = cli(*words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.startswith("lisdd-jax: ")
    assert err.count("\n") == 1
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


def uncommented(text):
    """The template with all that stands behind one ``#`` in use."""
    return re.sub(r"^#(?=\w)", "", text, flags=re.MULTILINE)


def test_the_template_of_a_diagnosis_is_a_specification(cli):
    code, out, _ = cli("init", "diagnosis", "--out", "d.toml")
    assert (code, out) == (0, "Written: d.toml\n")
    found = spec.load("d.toml")
    spec.check(found)
    found.settings()
    text = Path("d.toml").read_text()
    Path("all.toml").write_text(uncommented(text))
    every = spec.load("all.toml")
    # The published method does without one of the settings.
    dataclasses.replace(every, paper=False).settings()
    with pytest.raises(spec.SpecError, match="'negligible' belongs to the default method"):
        every.settings()
    every.reading()
    said = {name for name, value in vars(every).items() if value is not None}
    assert said == set(vars(every))
    # Of the three layouts of cells one may be chosen.
    with pytest.raises(spec.SpecError, match="num_cells and edges and quantile_cells"):
        spec.check(every)


def test_the_template_of_a_study_is_a_study(cli):
    code, out, _ = cli("init", "study")
    assert code == 0
    for name, text in (("s.toml", out), ("all.toml", uncommented(out))):
        Path(name).write_text(text)
        plan = specification.read_specification(name)
        assert specification.find_simulator(plan)
        assert plan.grid["beta"]
    tomllib.loads(uncommented(init.read_template(init.Template.STUDY)))


def test_doctor_names_versions_devices_and_extras(cli):
    code, out, _ = cli("doctor")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    for line in (
        rf"lisdd-jax +{re.escape(lisdd_jax.__version__)}",
        r"jax +\d",
        r"devices +cpu",
        r"computes +yes",
        r"precision +float64",
        r"compiled +not kept",
        r"pandas +\d",
        r"openpyxl +\d",
    ):
        assert re.search(line, out), (line, out)


def test_completion(cli, monkeypatch):
    monkeypatch.setenv("_LISDD_JAX_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "lisdd-jax diagnose t.csv --pre")
    monkeypatch.setenv("COMP_CWORD", "3")
    code, out, _ = cli()
    assert (code, out.split()) == (0, ["--predictions"])


def test_a_fault_of_the_program_says_how_to_see_more(cli, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("no such thing\nat all")

    monkeypatch.setattr(application.doctor, "_facts", broken)
    code, out, err = cli("doctor")
    assert (code, out) == (1, "")
    assert err == (
        "lisdd-jax: a fault of the program, not of the input: RuntimeError: no such thing at all;"
        " LISDD_JAX_TRACEBACK=1 shows where\n"
    )
    monkeypatch.setenv("LISDD_JAX_TRACEBACK", "1")
    code, _, err = cli("doctor")
    assert code == 1
    assert "Traceback" in err
    assert "in broken" in err
    code, _, err = cli("check", "none.csv")
    assert code == 2
    assert "Traceback" in err


PROGRAM = [sys.executable, "-X", "importtime", "-c", "import lisdd_jax_command as c; c.main()"]


@pytest.mark.parametrize("module", ["numpy", "jax._src.config", "jax", "typer"])
def test_an_interrupt_while_it_starts_leaves_no_traceback(module):
    """Interrupted right after a module of the start was imported, as Python itself reports."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    with subprocess.Popen(
        [*PROGRAM, "doctor"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environ,
    ) as program:
        heard = []
        for line in program.stderr:
            heard.append(line)
            if line.rstrip().endswith(f" {module}"):
                program.send_signal(signal.SIGINT)
                break
        heard += program.stderr.readlines()
    assert program.returncode == 130, "".join(heard[-20:])
    said = [line for line in heard if not line.startswith("import time:")]
    assert said == ["lisdd-jax: interrupted\n"]


def test_an_interrupt_while_it_waits_for_a_table(tmp_path):
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    os.mkfifo("pipe")
    words = [sys.executable, "-c", "import lisdd_jax_command as c; c.main()", "check", "pipe"]
    # Opening the other end of the pipe waits until the program reads.
    with (
        subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environ) as program,
        open("pipe", "wb"),
    ):
        program.send_signal(signal.SIGINT)
        said = program.stderr.read()
    assert (program.returncode, said) == (130, "lisdd-jax: interrupted\n")
