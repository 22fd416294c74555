import ahead
import jax
import jax.numpy as jnp
import numpy as np
import published_sample as sample
import pytest
import references

from lisdd_jax import Config, PublishedConfig, Verdict, diagnose
from lisdd_jax.published.method import decide
from lisdd_jax.results import Certificate, Form
from lisdd_jax.status import Status

KEY = jax.random.key(2)


def test_is_the_recorded_run_of_another_program():
    case = references.read()["pipeline"]
    data = {name: np.array(value) for name, value in case["data"].items()}
    edges, num_rows = data.pop("edges"), len(data["response"])
    # Rows out of use up to the number of the other tests, whose programs these then are.
    extra = sample.NUM - num_rows
    data = {n: np.pad(part, [(0, extra)] + [(0, 0)] * (part.ndim - 1)) for n, part in data.items()}
    config = PublishedConfig(
        **case["settings"], num_cells=len(edges) - 1, num_starts=sample.CONFIG.num_starts
    )
    mask = np.arange(sample.NUM) < num_rows
    key = jax.random.key(case["key"])
    found = diagnose(**data, key=key, config=config, edges=edges, mask=mask)
    expected = case["found"]
    np.testing.assert_allclose(found.coefficients, expected["coefficients"], rtol=1e-10)
    assert found.cells.flagged.tolist() == expected["flagged"]
    assert found.scale == pytest.approx(expected["scale"], rel=1e-10)
    assert found.num_iterations == expected["num_iterations"]
    np.testing.assert_allclose(found.cells.statistic, expected["statistic"], rtol=1e-9)
    present = np.asarray(found.regions.present)
    both = (found.regions.lower, found.regions.upper)
    bounds = np.column_stack([np.asarray(ends)[present] for ends in both])
    np.testing.assert_allclose(bounds, expected["regions"], rtol=1e-14)
    form = expected["form"]
    np.testing.assert_allclose(found.form.errors, form["errors"], rtol=1e-9)
    assert np.flatnonzero(found.form.support).tolist() == form["support"]
    np.testing.assert_allclose(
        found.form.coefficients[jnp.array(form["support"])], form["coefficients"], rtol=1e-9
    )
    np.testing.assert_allclose(
        found.form.stderr[jnp.array(form["support"])], form["stderr"], rtol=1e-8
    )
    assert np.flatnonzero(found.test.support).tolist() == expected["test_support"]
    for name, value in expected["test"].items():
        assert getattr(found.test, name) == pytest.approx(value, rel=1e-8), name
    assert bool(found.test.reject) is expected["reject"]
    assert found.verdict == Verdict.DISCREPANCY


def run(arrays, **options):
    return diagnose(*arrays, key=KEY, config=sample.CONFIG, edges=sample.EDGES, **options)


def test_blocks_enter_by_the_splits_alone():
    """Every row a block of its own is the same as no blocks; larger ones change the halves."""
    arrays = sample.arrays(3)
    plain = run(arrays)
    single = run(arrays, block=np.random.default_rng(0).permutation(sample.NUM))
    together = run(arrays, block=sample.blocks(3, size=6))
    assert single.test.statistic == pytest.approx(float(plain.test.statistic), rel=1e-12)
    assert together.test.statistic != plain.test.statistic
    for found in (single, together):
        np.testing.assert_allclose(found.coefficients, plain.coefficients, rtol=1e-10)
        assert found.cells.flagged.tolist() == plain.cells.flagged.tolist()
        assert found.verdict == Verdict.DISCREPANCY


def test_its_programs_are_made_ahead():
    made, taken = ahead.programs_of(lambda: run(sample.arrays(3)))
    assert made == taken
    # The half is padded to the shape of all rows, so that both share their programs.
    assert len(made) == 6


def test_one_block_certifies_nothing():
    found = run(sample.arrays(3), block=np.zeros(sample.NUM, int))
    assert not found.test.reject
    assert found.verdict == Verdict.INSUFFICIENT_DATA


def test_rows_of_known_relative_error_are_weighted():
    """Rows twenty times as noisy: with their scale known the law is found as without them."""
    design, response, x, features = sample.arrays(1)
    rng = np.random.default_rng(1)
    scale = np.where(rng.random(sample.NUM) < 0.3, 20.0, 1.0)
    noisy = response + np.where(scale > 1, 0.2 * scale * rng.normal(size=sample.NUM), 0.0)
    found = run((design, noisy, x, features), noise_scale=scale)
    assert found.verdict == Verdict.DISCREPANCY
    # Weighted least squares on the clean cells, in the units given.
    flagged = np.append(found.cells.flagged, False)
    cell = np.clip(np.searchsorted(sample.EDGES, x, side="right") - 1, 0, sample.CELLS - 1)
    clean = ~flagged[cell]
    weighted = (design / scale[:, None])[clean], (noisy / scale)[clean]
    np.testing.assert_allclose(found.coefficients, np.linalg.lstsq(*weighted)[0], rtol=1e-9)
    stderr = np.sqrt(np.diag(found.covariance))
    np.testing.assert_array_less(np.abs(found.coefficients - np.array([1.5, -1.0])), 5 * stderr)
    # Without their scale the noisy rows are noise of all rows, and hide a cell.
    blind = run((design, noisy, x, features))
    assert blind.scale > 1.5 * found.scale
    assert abs(float(blind.coefficients[0]) - 1.5) > 1.0


def test_equal_relative_errors_change_the_scale_only():
    arrays = sample.arrays(5)
    plain, scaled = run(arrays), run(arrays, noise_scale=np.full(sample.NUM, 4.0))
    np.testing.assert_allclose(scaled.coefficients, plain.coefficients, rtol=1e-9)
    np.testing.assert_allclose(scaled.covariance, plain.covariance, rtol=1e-8)
    assert scaled.scale == pytest.approx(float(plain.scale) / 4, rel=1e-9)
    assert scaled.test.statistic == pytest.approx(float(plain.test.statistic), rel=1e-8)
    np.testing.assert_allclose(scaled.form.coefficients, plain.form.coefficients, rtol=1e-8)


def test_an_offset_is_no_offset_to_weighted_rows():
    """A constant column stays a constant of the model when its rows are divided."""
    design, response, x, features = sample.arrays(6)
    scale = np.random.default_rng(6).uniform(0.5, 3.0, sample.NUM)
    # Without the second column and its part the model is as wide as that of the other tests.
    response = response + design[:, 1]
    constant = np.column_stack([np.ones(sample.NUM), design[:, 0]])
    first = run((constant, response, x, features), noise_scale=scale)
    shift = np.array([0.0, 1e6])
    moved = run((constant + shift, response + 1e5, x, features), noise_scale=scale)
    np.testing.assert_allclose(moved.coefficients[1:], first.coefficients[1:], rtol=1e-8)
    assert moved.test.statistic == pytest.approx(float(first.test.statistic), rel=1e-7)


def test_trusted_rows_are_refused():
    trusted = np.ones(sample.NUM, bool)
    with pytest.raises(ValueError, match="trusted must be None under the published method"):
        run(sample.arrays(0), trusted=trusted)


@pytest.mark.parametrize(
    "reject, flagged, form_status, test_status, status, expected",
    [
        (True, True, 0, 0, 0, Verdict.DISCREPANCY),
        (False, True, 0, 0, 0, Verdict.NOT_CERTIFIED),
        (True, False, 3, 0, 0, Verdict.NOT_CERTIFIED),
        (False, False, 3, 3, 0, Verdict.CLEAN),
        (False, True, Status.NO_USABLE_TERMS, 0, 0, Verdict.NOT_IDENTIFIABLE),
        (False, False, 3, Status.TOO_FEW_ROWS, 0, Verdict.INSUFFICIENT_DATA),
        (True, True, 0, 0, Status.NO_CLEAN_CELLS, Verdict.NO_CLEAN_REGIME),
        (True, True, 0, 0, Status.RANK_DEFICIENT_DESIGN, Verdict.NOT_IDENTIFIABLE),
        (True, True, 0, 0, Status.ZERO_SCALE, Verdict.INSUFFICIENT_DATA),
    ],
)
def test_verdicts(reject, flagged, form_status, test_status, status, expected):
    form = dict.fromkeys(Form.__dataclass_fields__) | {"status": jnp.int32(form_status)}
    test = dict.fromkeys(Certificate.__dataclass_fields__)
    test |= {"reject": jax.device_put(reject), "status": jnp.int32(test_status)}
    found = decide(
        jnp.int32(status), Form(**form), Certificate(**test), jnp.array([flagged, False])
    )
    assert found == expected


def test_the_type_of_the_settings_chooses_the_method():
    arrays = sample.arrays(3)
    found = diagnose(*arrays, key=KEY, config=Config.paper(num_cells=sample.CELLS, num_starts=50))
    assert np.isnan(found.place.p_value)
    with pytest.raises(TypeError, match=r"config must be lisdd_jax.Config\(...\)"):
        diagnose(*arrays, key=KEY, config={})
