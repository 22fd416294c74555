"""The findings of a diagnosis as data frames of pandas."""

from typing import Any

from lisdd_jax.report.inference import infer
from lisdd_jax.report.summary import Estimate, Region, Summary
from lisdd_jax.tables.errors import import_extra

_REGION_COLUMNS = (
    "lower", "lower_from", "lower_to", "lower_softness", "open_below",
    "upper", "upper_from", "upper_to", "upper_softness", "open_above",
    "count", "formula", "p_value", "log_p_value", "adjusted_p_value", "lacking",
)  # fmt: skip
_ESTIMATE_COLUMNS = ("term", "coefficient", "stderr", "statistic", "p_value", "lower", "upper")


def regions_frame(summary: Summary) -> Any:
    """One row per region, numbered from 1.

    ``lower_from`` to ``lower_to`` is a 95 % interval of the end, ``lower_softness`` the half width
    over which the correction grows there; see ``report.summary.Region``.
    """
    rows = [{**vars(region), **_ends(region)} for region in summary.regions]
    return _frame(rows, _REGION_COLUMNS).set_axis(_numbered(len(rows), "region"))


def _ends(region: Region) -> dict[str, float]:
    sides = zip(
        ("lower", "upper"),
        (region.lower_interval, region.upper_interval),
        region.softness,
        strict=True,
    )
    return {
        f"{side}_{name}": value
        for side, interval, softness in sides
        for name, value in zip(("from", "to", "softness"), (*interval, softness), strict=True)
    }


def terms_frame(summary: Summary) -> Any:
    """One row per missing term and region: the estimate, its t, p-value and 95 % interval."""
    rows = [
        {"region": k, **_estimate(term, summary.degrees)}
        for k, region in enumerate(summary.regions, 1)
        for term in region.terms
    ]
    return _frame(rows, ("region", *_ESTIMATE_COLUMNS))


def physics_frame(summary: Summary) -> Any:
    """Coefficients of the trusted physics by term: estimate, t, p-value and 95 % interval."""
    rows = [_estimate(estimate, summary.degrees) for estimate in summary.physics]
    return _frame(rows, _ESTIMATE_COLUMNS).set_index("term")


def _estimate(estimate: Estimate, degrees: float) -> dict[str, Any]:
    found = vars(infer(estimate, degrees))
    return {"term": estimate.name, **vars(estimate), **found}


def cells_frame(summary: Summary) -> Any:
    """The map over the axis, one row per cell, numbered from 1."""
    rows = [vars(cell) for cell in summary.cells]
    return _frame(rows, tuple(rows[0])).set_axis(_numbered(len(rows), "cell"))


def _frame(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> Any:
    return pandas().DataFrame(rows, columns=list(columns))


def _numbered(num: int, name: str) -> Any:
    return pandas().RangeIndex(1, num + 1, name=name)


def index_of(data: Any) -> Any:
    """The index of a pandas frame; None for other tables."""
    return getattr(data, "index", None) if hasattr(data, "iloc") else None


def pandas() -> Any:
    """The module, or a sentence on how to get it."""
    return import_extra("pandas", "pandas", "a data frame")
