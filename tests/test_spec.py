"""Specifications: strict reading, overriding, and agreement with Config."""

import dataclasses

import pytest

from lisdd_jax.config import Config, PublishedConfig
from lisdd_jax.tables import ReadOptions, SpecError, spec
from lisdd_jax.tables.spec import Spec

FULL = """
table = "data/t.csv"
response = "y"
physics = ["x", "max(x, 0)"]
axis = "x"
library = ["x^2"]
intercept = true
where = "x > 0"
paper = true
edges = [0, 1.5, 2]
min_rows_per_cell = 3
seed = 4
float32 = false
json = "out.json"
report = "out.html"
predictions = "-"
sep = ";"
decimal = ","
encoding = "latin-1"
sheet = "1"
block = "day"
time = "hour"
trusted = "x < 1"
noise_scale = "s"

[config]
alpha = 0.01
trim = 0
max_terms = 1
"""


def write(tmp_path, text, name="s.toml"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_full_specification(tmp_path):
    found = spec.load(write(tmp_path, FULL))
    assert found.table == str(tmp_path / "data/t.csv")
    assert found.physics == ("x", "max(x, 0)")
    assert found.edges == (0.0, 1.5, 2.0)
    assert found.json == str(tmp_path / "out.json")
    assert found.predictions == "-"
    assert (found.block, found.time, found.trusted, found.noise_scale) == (
        "day",
        "hour",
        "x < 1",
        "s",
    )
    assert found.reading() == ReadOptions(sep=";", decimal=",", encoding="latin-1", sheet="1")
    assert found.config == {"alpha": 0.01, "trim": 0.0, "max_terms": 1}
    spec.check(found)
    assert found.settings() == Config.paper(alpha=0.01, trim=0.0, max_terms=1)


@pytest.mark.parametrize(
    "text, words",
    [
        ("respose = 'y'", "unknown key 'respose'; did you mean response"),
        ("[config]\nalfa = 0.1", "unknown setting 'alfa'; did you mean alpha"),
        ("physics = 'x'", "physics must be a list of texts, got 'x'"),
        ("physics = [1]", "physics must be a list of texts"),
        ("edges = ['a', 'b']", "edges must be a list of numbers"),
        ("seed = 1.5", "seed must be an integer, got 1.5"),
        ("seed = true", "seed must be an integer, got True"),
        ("intercept = 1", "intercept must be true or false, got 1"),
        ("response = 3", "response must be a text, got 3"),
        ("config = 3", "config must be a table of settings"),
        ("[config]\nmax_terms = 2.0", "config.max_terms must be an integer"),
        (f"[config]\nalpha = {10**400}", "config.alpha must be a number that floating point holds"),
        ("[config]\nalpha = 'a'", "config.alpha must be a number"),
        ("response = ", "is not valid TOML"),
        ("response = 'y'\nresponse = 'z'", "is not valid TOML"),
    ],
)
def test_errors_name_file_key_and_value(tmp_path, text, words):
    path = write(tmp_path, text)
    with pytest.raises(SpecError) as caught:
        spec.load(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)


def test_missing_and_unreadable_files(tmp_path):
    with pytest.raises(SpecError, match="does not exist"):
        spec.load(tmp_path / "none.toml")
    with pytest.raises(SpecError, match="cannot be read"):
        spec.load(tmp_path)
    (tmp_path / "b.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError, match="not valid TOML"):
        spec.load(tmp_path / "b.toml")


def test_later_words_override(tmp_path):
    base = spec.load(write(tmp_path, FULL))
    found = base.override(Spec(physics=("v",), intercept=False, seed=0, config={"trim": 0.2}))
    assert (found.physics, found.intercept, found.seed) == (("v",), False, 0)
    assert found.config == {"alpha": 0.01, "trim": 0.2, "max_terms": 1}
    assert found.response == "y"


@pytest.mark.parametrize(
    "later, expected",
    [
        (Spec(quantile_cells=5), ["quantile_cells"]),
        (Spec(config={"num_cells": 5}), ["num_cells"]),
        (Spec(edges=(0.0, 1.0, 2.0)), ["edges"]),
        (Spec(), ["num_cells"]),
    ],
)
def test_a_layout_of_cells_replaces_another(later, expected):
    base = Spec(config={"num_cells": 9, "alpha": 0.1})
    found = base.override(later)
    assert spec.layouts(found) == expected
    assert found.config["alpha"] == 0.1


COMPLETE = Spec(table="t.csv", response="y", physics=("x",), axis="x", library=("x^2",))


@pytest.mark.parametrize("name", ["table", "response", "physics", "axis", "library"])
def test_every_part_is_required(name):
    with pytest.raises(SpecError, match=f"{name} is required"):
        spec.check(dataclasses.replace(COMPLETE, **{name: None}))


def test_all_that_is_missing_is_named_at_once():
    with pytest.raises(SpecError) as caught:
        spec.check(Spec(axis="x"))
    assert str(caught.value) == (
        "table, response, physics and library are required: give a TABLE, --response, --physics (or"
        " --intercept), --library, or a --spec FILE.toml that says so"
    )


def test_two_cells_are_enough_for_the_published_method():
    spec.check(dataclasses.replace(COMPLETE, quantile_cells=2, paper=True))


def test_an_intercept_is_physics_enough():
    spec.check(dataclasses.replace(COMPLETE, physics=None, intercept=True))


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"edges": (0.0, 1.0, 2.0), "quantile_cells": 3}, "one way only"),
        ({"quantile_cells": 3, "config": {"num_cells": 3}}, "one way only"),
        ({"quantile_cells": 1, "paper": True}, "quantile_cells must be at least 2, got 1"),
        ({"quantile_cells": 2}, "at least 3, got 2; the default method compares cells"),
        ({"config": {"num_cells": 2}}, "num_cells must be at least 3, got 2"),
        ({"edges": (0.0, 1.0, 2.0)}, "between edges must be at least 3, got 2"),
        ({"config": {"num_cells": 10**8}}, "at most 10000, got 100000000; sums and tests of every"),
        ({"min_rows_per_cell": 0}, "at least 1"),
        ({"min_rows_per_cell": 10**12}, "at most 2147483647"),
        ({"seed": -1}, "at least 0 and at most 4294967295, got -1"),
        ({"seed": 10**23}, "at most 4294967295"),
    ],
)
def test_contradictions_are_refused(changes, words):
    with pytest.raises(SpecError, match=words):
        spec.check(dataclasses.replace(COMPLETE, **changes))


def test_bad_settings_are_refused():
    with pytest.raises(SpecError, match="max_terms must be an integer of at least 1, got 0"):
        Spec(config={"max_terms": 0}).settings()


def test_settings_are_the_fields_of_config():
    kinds = spec.setting_kinds()
    fields = [*dataclasses.fields(Config), *dataclasses.fields(PublishedConfig)]
    assert set(kinds) == {field.name for field in fields}
    assert {"trim", "alpha", "alpha_cell", "tolerance", "max_terms", "num_cells"} <= set(kinds)
    assert Spec().settings() == Config()
    assert Spec(paper=True).settings() == Config.paper()
    # No setting can run another method than the one that is recorded.
    for paper in (True, False):
        with pytest.raises(SpecError, match="'method' is no setting"):
            Spec(paper=paper, config={"method": "published"}).settings()
