"""Which candidate terms the rows cannot tell apart, in words."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from lisdd_jax.numerics import tolerances

_TOLERANCE = tolerances.HOST_SPAN(np.float64)

Kind = Literal["zero", "constant", "twin", "combination", "physics"]


class Finding(NamedTuple):
    """One term that the rows do not determine.

    Attributes:
      term: position of the term.
      kind: what is wrong with it.
      reason: a clause that names the term, such as ``u^2 equals u``.
    """

    term: int
    kind: Kind
    reason: str


def identifiability(
    features: np.ndarray,
    names: Sequence[str],
    design: np.ndarray,
    inside: np.ndarray | None = None,
    *,
    place: str = "on the rows in use",
) -> list[Finding]:
    """Terms that are zero, constant, multiples or combinations of others, or part of the physics.

    A term acts in a region only. One in the span of the physics can still be told from it, by the
    rows outside the region, and then stands for other coefficients of the same law; that is what a
    finding of kind ``physics`` says.

    Args:
      features: ``(n, L)`` candidate terms, finite.
      names: of the terms.
      design: ``(n, p)`` physics.
      inside: ``(n,)`` bool, rows to look at; all where None.
      place: words for these rows.

    Returns:
      Findings by position of the term; at most one of the first four kinds for each, and one of
      kind ``physics``.

    Example:
      >>> u = np.array([0.0, 1.0, 1.0, 0.0])
      >>> found = identifiability(np.column_stack([u, u**2]), ["u", "u^2"], np.ones((4, 1)))
      >>> found[0].reason
      'u^2 equals u on the rows in use'
    """
    rows = np.ones(len(features), bool) if inside is None else np.asarray(inside, bool)
    if not rows.any():
        return []
    columns = features[rows]
    scales = _largest(columns)
    stacked = np.column_stack([columns / scales, _unit(design[rows])])
    factor = np.asarray(np.linalg.qr(stacked, mode="r"))
    terms, physics = factor[:, : len(names)], factor[:, len(names) :]
    found = []
    sound: list[int] = []
    for j, name in enumerate(names):
        kind, clause = _inspect(terms, columns, scales, names, j, sound)
        if kind is not None:
            found.append(Finding(j, kind, f"{name} {clause} {place}"))
        if kind in (None, "constant"):
            sound.append(j)
        if kind != "zero" and _weights(physics, terms[:, j]) is not None:
            reason = f"{name} lies in the span of the physics {place}"
            found.append(Finding(j, "physics", reason))
    return found


def _largest(columns: np.ndarray) -> np.ndarray:
    largest = np.max(np.abs(columns), axis=0)
    return np.where(largest > 0, largest, 1.0)


def _unit(columns: np.ndarray) -> np.ndarray:
    return columns / _largest(columns)


def _inspect(
    factor: np.ndarray,
    columns: np.ndarray,
    scales: np.ndarray,
    names: Sequence[str],
    j: int,
    sound: Sequence[int],
) -> tuple[Kind | None, str]:
    """What is wrong with term ``j`` beside the sound ones before it, and a clause that says so."""
    if not np.any(columns[:, j]):
        return "zero", "is zero"
    for i in sound:
        weight = _weights(factor[:, [i]], factor[:, j])
        if weight is not None:
            ratio = float(weight[0] * scales[j] / scales[i])
            same = abs(ratio - 1) < _TOLERANCE
            return "twin", f"equals {names[i]}" if same else f"is {ratio:.4g} times {names[i]}"
    weights = _weights(factor[:, list(sound)], factor[:, j]) if sound else None
    if weights is not None:
        parts = [names[i] for i, w in zip(sound, weights, strict=True) if abs(w) > 1e-6]
        return "combination", f"is a combination of {' and '.join(parts)}"
    if np.ptp(columns[:, j]) <= _TOLERANCE * scales[j]:
        return "constant", f"is constant ({columns[0, j]:.4g})"
    return None, ""


def _weights(basis: np.ndarray, column: np.ndarray) -> np.ndarray | None:
    """Weights that make the column from the basis, or None where it is not in its span."""
    weights, *_ = np.linalg.lstsq(basis, column, rcond=_TOLERANCE)
    rest = np.linalg.norm(column - basis @ weights)
    return weights if rest <= _TOLERANCE * np.linalg.norm(column) else None
