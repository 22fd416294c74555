"""What is kept of a diagnosis predicts as the library does, also after the way through JSON."""

import json
import math

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from report_data import diagnosis, fill

import lisdd_jax
from lisdd_jax.results import Regions
from lisdd_jax.tables import ProblemError, model, model_format, problem

LIBRARY = ["x^2", "x^3", "sin(x)"]


def table(num_rows=41, seed=0):
    rng = np.random.default_rng(seed)
    x = np.linspace(-2.0, 2.0, num_rows)
    kinds = np.where(rng.random(num_rows) < 0.5, "a", "b")
    day = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 9, num_rows), "D")
    return pd.DataFrame({"x": x, "kind": kinds, "day": day, "y": rng.normal(size=num_rows)})


def read(data=None, **changes):
    parts = {"response": "log(abs(y) + 1)", "physics": ["kind"], "axis": "x", "library": LIBRARY}
    given = table() if data is None else data
    return problem.from_table(given, **{**parts, "intercept": True, **changes})


def regions(lower, upper, **changes):
    """Two regions with terms of their own; the first ends within the axis."""
    support = np.array([[False, True, False], [True, False, True]])
    parts = {
        "lower": np.array(lower),
        "upper": np.array(upper),
        "open_below": np.array(lower) <= -2.0,
        "open_above": np.array(upper) >= 2.0,
        "present": np.array([True, True]),
        "support": support,
        "coefficients": np.where(support, [[0.0, 0.2, 0.0], [-1.5, 0.0, 0.7]], 0.0),
    }
    return fill(Regions, **{**parts, **changes})


FOUND = diagnosis(regions=regions([-1.0, 1.0], [0.5, 2.0]))


def test_it_predicts_what_the_library_predicts():
    data = read()
    fitted = model.from_diagnosis(FOUND, data)
    found = model.predict(fitted, table())
    arrays = (data.design, data.axis, data.features)
    expected = lisdd_jax.predict(FOUND, *map(jnp.asarray, arrays))
    np.testing.assert_allclose(found.corrected, expected, rtol=1e-13)
    np.testing.assert_allclose(found.physics, data.design @ FOUND.coefficients, rtol=1e-13)
    np.testing.assert_array_equal(found.response, data.response)
    x = data.axis
    np.testing.assert_array_equal(found.region, np.where(x >= 1, 2, (x >= -1) & (x < 0.5)))
    assert found.notes == ()


def test_a_region_at_the_edge_goes_on_and_rows_beyond_are_named():
    fitted = model.from_diagnosis(FOUND, read())
    found = model.predict(fitted, {"x": [-9.0, 9.0], "kind": ["a", "a"]})
    assert found.region.tolist() == [0, 2]
    assert found.response is None
    assert set(found.columns()) == {"row", "physics", "corrected", "region"}
    assert found.notes == ("2 of 2 rows lie beyond the fit, which had x from -2 to 2",)


def test_json_keeps_every_bit():
    found = diagnosis(regions=regions([-math.pi, 1 / 3], [-1e-300, 2.0]))
    fitted = model.from_diagnosis(found, read(library=["x^2", "x*(kind == 'b')", "sin(x)"]))
    text = json.dumps(model_format.to_dict(fitted), allow_nan=False)
    assert model_format.from_dict(json.loads(text)) == fitted
    assert fitted.corrections[0].lower == -math.inf
    assert fitted.corrections[0].upper == -1e-300


def test_rows_that_cannot_be_predicted_are_blank_and_named():
    fitted = model.from_diagnosis(FOUND, read())
    found = model.predict(
        fitted, {"x": [0.0, np.nan, 1.5], "kind": ["a", "b", "z"], "y": [1.0, 2.0, np.nan]}
    )
    columns = found.columns()
    assert np.isnan(columns["corrected"]).tolist() == [False, True, True]
    assert columns["region"].tolist() == [1, None, 2]
    assert np.isnan(columns["response"]).tolist() == [False, False, True]
    np.testing.assert_allclose(columns["residual_physics"][0], math.log(2) - found.physics[0])
    assert found.notes == (
        "column 'kind' holds 'z' in 1 of 3 rows, which the fit has not seen",
        "2 of 3 rows have no prediction for want of a value",
    )


def test_dates_must_be_dates_again():
    data = read(physics=["day"], axis="x")
    fitted = model.from_diagnosis(FOUND, data)
    same = model.predict(fitted, table())
    np.testing.assert_allclose(same.physics, data.design @ FOUND.coefficients, rtol=1e-13)
    with pytest.raises(ProblemError, match="column 'day' held dates when the .* now none"):
        model.predict(fitted, {"x": [0.0], "day": [18262.0]})
    numeric = model.from_diagnosis(FOUND, read(table().assign(day=1.0 * np.arange(41))))
    assert numeric.dates == ()
    other = model.from_diagnosis(
        FOUND, read(table().assign(day=1.0 * np.arange(41)), physics=["day"])
    )
    with pytest.raises(ProblemError, match="held no dates when the model was fitted, now dates"):
        model.predict(other, table())


def test_a_table_without_the_columns_is_refused():
    fitted = model.from_diagnosis(FOUND, read())
    with pytest.raises(ValueError, match="unknown column 'kind'"):
        model.predict(fitted, {"x": [0.0]})


def test_an_undefined_model_predicts_nothing():
    broken = diagnosis(regions=FOUND.regions, coefficients=np.array([1.0, np.nan]))
    fitted = model.from_diagnosis(broken, read())
    assert model_format.to_dict(fitted)["physics"][1]["coefficient"] is None
    with pytest.raises(ProblemError, match="left coefficients undefined, so it predicts nothing"):
        model.predict(model_format.from_dict(model_format.to_dict(fitted)), table())


WRITTEN = model_format.to_dict(model.from_diagnosis(FOUND, read()))


@pytest.mark.parametrize(
    "content, words",
    [
        ([1], "a model must be a mapping, got list"),
        ({}, "must be of format 1, got None; a newer lisdd-jax may have written it"),
        ({**WRITTEN, "format": 2}, "must be of format 1, got 2"),
        ({k: v for k, v in WRITTEN.items() if k != "axis"}, "the model lacks 'axis'"),
        ({**WRITTEN, "physics": 3}, "the model is damaged: "),
        ({**WRITTEN, "axis": {"name": "x", "expression": "x +"}}, "the model is damaged: expected"),
        ({**WRITTEN, "range": ["a", 2]}, "the model is damaged: "),
        ({**WRITTEN, "levels": [1]}, "the model is damaged: "),
    ],
)
def test_damaged_models_are_refused(content, words):
    with pytest.raises(ProblemError) as caught:
        model_format.from_dict(content)
    assert words in str(caught.value)
