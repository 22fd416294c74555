"""The report for programs: JSON in which undefined numbers are ``null``."""

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

from lisdd_jax.report import reasons, words
from lisdd_jax.report.summary import Cell, Estimate, Evidence, Region, Summary


def to_dict(summary: Summary, model: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The report as plain objects; numbers that are NaN or infinite are None.

    Args:
      summary: of a diagnosis.
      model: what is kept to predict with, as plain objects.

    Returns:
      Keys ``verdict, physics, scale, law_scatter, outliers, place, form, regions, test, cells,
      rows, warnings, config, version``; then ``exactness, rival, everywhere, dependence,
      noise_goes_with, degrees_of_freedom, notes, status, shared``, ``reasons`` and ``next_steps``
      in words, and ``model``.
      A probability that underflows to 0 stands beside its natural logarithm; rows set aside are
      numbered from 0.

    Example:
      >>> import numpy as np
      >>> from lisdd_jax import fit
      >>> t = np.linspace(0, 1, 60)
      >>> y = 2 * t + np.where(t > 0.7, 5 * (t - 0.7), 0) + 0.05 * np.sin(997 * t**2)
      >>> found = fit("y ~ t | t", {"t": t, "y": y}, library=["1", "t"])
      >>> to_dict(found.findings)["rows"]["used"]
      60
    """
    left_out = ("status", "same_cells")
    test = {key: value for key, value in vars(summary.test).items() if key not in left_out}
    content = {
        "verdict": summary.verdict,
        "physics": [vars(estimate) for estimate in summary.physics],
        "scale": summary.scale,
        "degrees_of_freedom": summary.degrees,
        **_evidence(summary.evidence),
        "regions": [_region(region) for region in summary.regions],
        "test": {**test, "status": summary.test.status.name},
        "cells": [_cell(cell) for cell in summary.cells],
        "rows": summary.rows._asdict(),
        "warnings": list(summary.warnings),
        "config": dict(summary.config),
        "version": summary.version,
        "notes": list(summary.notes),
        "status": summary.status.name,
        "shared": summary.shared,
        "reasons": reasons.reasons(summary),
        "next_steps": words.remedies(summary),
    }
    return _finite({**content, "model": model} if model else content)


def to_json(summary: Summary, model: Mapping[str, Any] | None = None) -> str:
    """The report as strict JSON text with a final line break.

    Example:
      >>> import numpy as np
      >>> from lisdd_jax import fit
      >>> t = np.linspace(0, 1, 60)
      >>> y = 2 * t + np.where(t > 0.7, 5 * (t - 0.7), 0) + 0.05 * np.sin(997 * t**2)
      >>> found = fit("y ~ t | t", {"t": t, "y": y}, library=["1", "t"])
      >>> to_json(found.findings).splitlines()[1]
      ' "verdict": "discrepancy",'
    """
    return json_text(to_dict(summary, model))


def json_text(content: Mapping[str, Any]) -> str:
    """Plain objects as strict JSON text with a final line break."""
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _evidence(found: Evidence) -> dict[str, Any]:
    return {
        "law_scatter": found.law_scatter,
        "outliers": list(found.outliers),
        "place": {
            "p_value": found.place_p_value,
            "log_p_value": found.place_log_p_value,
            "certified": found.place_certified,
        },
        "form": {"certified": found.form_certified},
        "exactness": {
            "p_value": found.exact_p_value,
            "log_p_value": found.exact_log_p_value,
            "interval": found.exact_interval,
        },
        "rival": {
            "share": found.rival_share,
            "physics": [{"name": e.name, "coefficient": e.coefficient} for e in found.rival],
        },
        "everywhere": list(found.everywhere),
        "dependence": {
            "axis_correlation": found.axis_correlation,
            "record_correlation": found.record_correlation,
            "rows_as_one": found.rows_as_one,
            "repeated": found.repeated,
            "significant": found.dependent,
        },
        "noise_goes_with": [vars(power) for power in found.noise_goes_with],
    }


def _region(region: Region) -> dict[str, Any]:
    left_out = ("interval", "formula")
    kept = {key: value for key, value in vars(region).items() if key not in left_out}
    return {**kept, "terms": [vars(term) for term in region.terms]}


def _cell(cell: Cell) -> dict[str, Any]:
    return dataclasses.asdict(cell)


def _finite(value: Any) -> Any:
    match value:
        case dict():
            return {key: _finite(item) for key, item in value.items()}
        case list() | tuple():
            return [_finite(item) for item in value]
        case Estimate():
            return _finite(vars(value))
        case float() if not math.isfinite(value):
            return None
    return value
