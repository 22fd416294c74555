"""The scripts under examples/, run as they are: what they print must be what they claim."""

import importlib.util
from pathlib import Path

import jax
import numpy as np
import pytest

from lisdd_jax import Verdict

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def run(name):
    """Under the settings of JAX that users have; those of the tests are for the library."""
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        return execute(name)


def execute(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, module.main()


@pytest.mark.slow
def test_the_parameter_inside_the_physics_is_recovered(capsys):
    module, found = run("oscillator_frequency")
    true = module.WAVE_NUMBER
    assert abs(found["polished"] / true - 1) < 0.01
    assert abs(found["trained"] / true - 1) < 0.01
    assert abs(found["everywhere"] / true - 1) > 0.1
    assert "DISCREPANCY" in capsys.readouterr().out


def test_the_corrected_zone_forecasts_best(capsys):
    module, found = run("building_zone")
    assert found["verdict"] == Verdict.DISCREPANCY
    np.testing.assert_allclose([found["lower"], found["upper"]], module.BAND, atol=25)
    assert found["corrected in the band"] < 0.6 * found["corrected everywhere"]
    assert found["corrected everywhere"] < found["uncorrected"]
    assert "DISCREPANCY" in capsys.readouterr().out


def test_the_hybrid_predicts_to_the_noise(capsys):
    _, found = run("neural_hybrid")
    assert found["hybrid, trained together"] < 0.12
    assert found["hybrid, trained together"] < 0.5 * found["physics and localised term"]
    assert found["hybrid, trained together"] < 0.5 * found["network alone"]
    assert found["stiffness"] == pytest.approx(1.0, abs=0.01)
    assert found["weight"] == pytest.approx(0.2, abs=0.005)
    assert "true [1, 0.3]" in capsys.readouterr().out
