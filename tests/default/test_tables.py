"""The default method on measured tables: what it finds, and where it abstains."""

import functools
import json

import jax
import numpy as np
import pytest
import testbed
from test_real_tables import EXTRA, NUM_ROWS, translate

from lisdd_jax import Config, Verdict, diagnose
from lisdd_jax.tables import problem

DISCREPANT = {
    # Ends of the axis where the law breaks, by the field's own account, and how far off is allowed.
    "blasius_pipe": (5.0, 0.5),
    "vic_electricity_daily": (18.0, 3.0),
    "traffic_i880": (28.0, 4.0),
    # Its gradual onset is seen from redshift 0.04 on; the rule of thumb is 0.1.
    "supernova_hubble": (-1.0, 0.5),
}
ABSTAINS = {
    "ball_drops": Verdict.NO_CLEAN_REGIME,
    "pipe_transition": Verdict.AMBIGUOUS_REGIME,
    "nile": Verdict.NOT_CERTIFIED,
    # Laws that hold nearly, on data precise enough to show that they do not hold exactly.
    "silverbox": Verdict.NO_CLEAN_REGIME,
    "sphere_drag": Verdict.NO_CLEAN_REGIME,
    "steel_tension": Verdict.NO_CLEAN_REGIME,
}
NEGLIGIBLE = {
    # What an engineer would not call a failure of the law, in units of the response.
    "silverbox": 5e-4,  # V, of a signal of 0.3 V
    "sphere_drag": 0.05,  # a tenth of the drag coefficient
    "steel_tension": 10.0,  # MPa, of a yield stress of 380 MPa
}


@pytest.fixture(scope="module")
def index(shared):
    entries = json.loads((shared / "data" / "index.json").read_text())
    return {entry["name"]: entry for entry in entries}


@pytest.fixture(scope="module")
def diagnosed(shared, index):
    """Diagnoses by name and negligible size, each made once."""
    folder = shared / "data"

    @functools.cache
    def run(name, negligible=0.0):
        entry = index[name]
        library = [translate(term) for terms in entry["library"].values() for term in terms]
        read = problem.from_table(
            folder / entry["csv"],
            response=translate(entry["y"]),
            physics=[translate(term) for term in entry["phi"].values()],
            axis=translate(entry["axis"]),
            library=list(dict.fromkeys(library + EXTRA.get(name, []))),
            where=entry["use"] and translate(entry["use"]),
        )
        mask = np.ones(len(read.axis), bool)
        table = testbed.Table(read.design, read.response, read.axis, read.features, mask)
        *arrays, mask = testbed.pad(table, NUM_ROWS.get(name, testbed.NUM_ROWS))
        return diagnose(
            *arrays, key=jax.random.key(0), config=Config(negligible=negligible), mask=mask
        )

    return run


def slow(names, *marked):
    return [
        pytest.param(name, marks=pytest.mark.slow) if name in marked else name for name in names
    ]


@pytest.mark.parametrize("name", DISCREPANT)
def test_the_known_break_is_found_and_certified(diagnosed, name):
    found = diagnosed(name)
    assert found.verdict == Verdict.DISCREPANCY
    place, tolerance = DISCREPANT[name]
    last = int(np.flatnonzero(found.regions.present)[-1])
    assert abs(found.regions.lower[last] - place) < tolerance
    # The law fails up to the end of the axis.
    np.testing.assert_allclose(found.regions.upper[last], found.cells.upper[-1])
    assert found.regions.adjusted_p_value[last] < 1e-6


@pytest.mark.parametrize("name", slow(NEGLIGIBLE, "silverbox"))
def test_a_law_that_holds_nearly_is_found_to_hold_up_to_what_matters(diagnosed, index, name):
    found = diagnosed(name, NEGLIGIBLE[name])
    assert found.verdict == Verdict.DISCREPANCY
    entry = index[name]
    flagged = set(np.flatnonzero(found.cells.flagged).tolist())
    truth = set(entry["paper_defaults"]["truth"])
    assert 2 * len(flagged & truth) / (len(flagged) + len(truth)) >= 0.85
    clean, everything = (
        np.array(list(entry[f"theta_{kind}"].values())) for kind in ("clean", "global")
    )
    distance = np.abs((found.coefficients - clean) / clean)
    assert (distance < np.abs((everything - clean) / clean)).all()


def test_a_law_that_is_right_up_to_what_matters_is_clean(diagnosed):
    """The efficiency curve of the inverter bends by less than half a per cent of its 10 kW."""
    found = diagnosed("pv_inverter_null", 30.0)
    assert found.verdict == Verdict.CLEAN
    np.testing.assert_allclose(found.coefficients, [-33.6993, 0.978806], rtol=1e-5)


@pytest.mark.parametrize("name", slow(ABSTAINS, "silverbox"))
def test_it_abstains_where_the_table_does_not_tell(diagnosed, name):
    assert diagnosed(name).verdict == ABSTAINS[name]


def test_larger_noise_of_a_right_law_is_called_so(diagnosed):
    """The heavy tails that the published method flags in five cells or more."""
    found = diagnosed("pv_inverter_null")
    assert found.cells.noisier.sum() >= 1
    assert found.cells.flagged.sum() <= 3
