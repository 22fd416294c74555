"""A model as plain objects for JSON: names, expressions, and numbers to the last bit."""

import math
from collections.abc import Mapping
from typing import Any

from lisdd_jax import expressions
from lisdd_jax.library import Term
from lisdd_jax.tables.errors import ProblemError
from lisdd_jax.tables.model import Correction, Model, WeightedTerm

FORMAT = 1
"""Version of the form; a reader refuses a newer one."""


def to_dict(model: Model) -> dict[str, Any]:
    """The model as plain objects for JSON; an open end and an undefined number are None."""
    return {
        "format": FORMAT,
        "response": term_to_dict(model.response),
        "axis": term_to_dict(model.axis),
        "physics": list(map(_weighted_dict, model.physics)),
        "corrections": [
            {
                "lower": _or_none(part.lower),
                "upper": _or_none(part.upper),
                "terms": list(map(_weighted_dict, part.terms)),
            }
            for part in model.corrections
        ],
        "range": [model.lower, model.upper],
        "levels": {name: list(levels) for name, levels in model.levels.items()},
        "dates": list(model.dates),
    }


def term_to_dict(term: Term) -> dict[str, Any]:
    """A term that is an expression, as plain objects for JSON."""
    return {"name": term.name, "expression": str(term.source)}


def _weighted_dict(weighted: WeightedTerm) -> dict[str, Any]:
    return {**term_to_dict(weighted.term), "coefficient": _or_none(weighted.coefficient)}


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def from_dict(content: Any) -> Model:
    """The model that ``to_dict`` wrote.

    Args:
      content: as read from JSON.

    Raises:
      ProblemError: it is of a newer version, or damaged.
    """
    if not isinstance(content, Mapping):
        raise ProblemError(f"a model must be a mapping, got {type(content).__name__}")
    version = content.get("format")
    if version != FORMAT:
        raise ProblemError(
            f"a model must be of format {FORMAT}, got {version!r}; a newer lisdd-jax may have"
            " written it"
        )
    try:
        lower, upper = map(float, content["range"])
        return Model(
            response=term_from_dict(content["response"]),
            axis=term_from_dict(content["axis"]),
            physics=tuple(map(_read_weighted, content["physics"])),
            corrections=tuple(
                Correction(
                    -math.inf if part["lower"] is None else float(part["lower"]),
                    math.inf if part["upper"] is None else float(part["upper"]),
                    tuple(map(_read_weighted, part["terms"])),
                )
                for part in content["corrections"]
            ),
            lower=lower,
            upper=upper,
            levels={name: tuple(levels) for name, levels in content["levels"].items()},
            dates=tuple(content["dates"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"lacks {error}" if isinstance(error, KeyError) else f"is damaged: {error}"
        raise ProblemError(f"the model {what}") from None


def term_from_dict(content: Any) -> Term:
    """The term that ``term_to_dict`` wrote."""
    return Term(content["name"], expressions.parse(content["expression"]))


def _read_weighted(content: Any) -> WeightedTerm:
    value = content["coefficient"]
    return WeightedTerm(term_from_dict(content), math.nan if value is None else float(value))
