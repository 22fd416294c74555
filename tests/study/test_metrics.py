"""Scores of cells, intervals and forms against a truth."""

import functools
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

from lisdd_jax.results import Verdict
from lisdd_jax.study.experiments import metrics, scenarios

EDGES = np.linspace(-3.3, 3.3, 15)
SIMULATE = jax.jit(scenarios.oscillator(20))
cells_inside = jax.jit(metrics.cells_inside, static_argnames="by")
f1_score = jax.jit(metrics.f1_score)


@functools.cache
def drawn(**numbers: float) -> scenarios.Sample:
    return SIMULATE(jax.random.key(0), **numbers)


def regions(*intervals: tuple[float, float]) -> dict[str, np.ndarray]:
    """So many places, some of them absent, that one program serves all."""
    absent = 3 - len(intervals)
    lower = [low for low, _ in intervals] + [np.nan] * absent
    upper = [high for _, high in intervals] + [np.nan] * absent
    present = [True] * len(intervals) + [False] * absent
    return {"lower": np.array(lower), "upper": np.array(upper), "present": np.array(present)}


@jax.jit
def compared(found: dict[str, jax.Array], sample: scenarios.Sample) -> tuple[jax.Array, jax.Array]:
    """Overlap of intervals, and error of their ends."""
    table: Any = SimpleNamespace(**found)
    return metrics.interval_iou(table, sample), metrics.edge_error(table, sample)


def interval_iou(found: dict[str, np.ndarray], sample: scenarios.Sample) -> float:
    return float(compared(found, sample)[0])


def edge_error(found: dict[str, np.ndarray], sample: scenarios.Sample) -> float:
    return float(compared(found, sample)[1])


@pytest.mark.parametrize(
    ("flagged", "truth", "score"),
    [
        ("110", "110", 1.0),
        ("111", "110", 0.8),
        ("100", "010", 0.0),
        ("000", "010", 0.0),
        ("010", "000", 0.0),
        ("000", "000", 1.0),
    ],
)
def test_f1(flagged: str, truth: str, score: float) -> None:
    table = [np.array([c == "1" for c in text]) for text in (flagged, truth)]
    assert float(f1_score(*table)) == pytest.approx(score)


def test_the_published_band_has_four_cells_by_centre_and_six_by_overlap() -> None:
    centre = cells_inside(EDGES, drawn(), by="centre")
    overlap = cells_inside(EDGES, drawn(), by="overlap")
    assert np.flatnonzero(centre).tolist() == [1, 2, 11, 12]
    assert np.flatnonzero(overlap).tolist() == [1, 2, 3, 10, 11, 12]
    # Flagging what overlaps scores 0.80 by the published definition, and everything 0.44.
    assert float(f1_score(overlap, centre)) == pytest.approx(0.8)
    assert float(f1_score(np.ones(14, bool), centre)) == pytest.approx(8 / 18)


def test_no_cell_is_discrepant_under_the_null() -> None:
    for by in ("centre", "overlap"):
        assert not cells_inside(EDGES, drawn(beta=0.0), by=by).any()


def test_definitions_are_named() -> None:
    with pytest.raises(ValueError, match='"centre" or "overlap"'):
        cells_inside(EDGES, drawn(), by="middle")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([(-2.7, -1.7), (1.7, 2.7)], 1.0),
        ([(1.7, 2.7)], 0.5),
        ([(1.7, 2.2)], 0.25),
        ([(-3.3, 3.3)], 2.0 / 6.6),
        ([], 0.0),
    ],
)
def test_interval_iou(found: list[tuple[float, float]], expected: float) -> None:
    assert interval_iou(regions(*found), drawn()) == pytest.approx(expected)


def test_nothing_found_where_nothing_is_there_is_right() -> None:
    assert interval_iou(regions(), drawn(beta=0.0)) == 1.0
    assert interval_iou(regions((0.0, 1.0)), drawn(beta=0.0)) == 0.0


def test_edge_error() -> None:
    error = edge_error(regions((-2.8, -1.7), (1.6, 2.7)), drawn())
    assert error == pytest.approx(0.05)
    assert np.isnan(edge_error(regions(), drawn()))
    assert np.isnan(edge_error(regions((0.0, 1.0)), drawn(beta=0.0)))


@pytest.mark.parametrize("verdict", list(Verdict))
def test_abstentions(verdict: Verdict) -> None:
    answers = {
        Verdict.CLEAN,
        Verdict.DISCREPANCY,
        Verdict.NOT_CERTIFIED,
        Verdict.HOLDS_NEARLY,
    }
    found: Any = SimpleNamespace(verdict=np.int32(verdict))
    assert bool(metrics.abstained(found)) == (verdict not in answers)


def test_rmse_counts_the_noise() -> None:
    predicted = drawn().response + np.array([3.0, -4.0] * 10)
    assert float(metrics.rmse(predicted, drawn())) == pytest.approx(np.sqrt(12.5))
