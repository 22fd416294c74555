"""The parts of a result as plain objects for JSON and back, to the last bit.

Arrays are their bytes, little-endian, in base64, so that NaN, infinities and float32 come back as
they were; a checksum tells a damaged file.
"""

import base64
import dataclasses
import hashlib
import json
import math
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from lisdd_jax import expressions, files
from lisdd_jax.library import Library
from lisdd_jax.results import Diagnosis
from lisdd_jax.tables import model_format
from lisdd_jax.tables.complete_cases import Rows
from lisdd_jax.tables.errors import ProblemError
from lisdd_jax.tables.problem import Problem

FORMAT = 1
"""Version of the form; a reader refuses a newer one."""

KEY = "result"
"""Where it stands in the report for programs."""

_KINDS = "fiubM"
"""Kinds of arrays that are written: numbers, truth values and moments."""


def pack_result(
    problem: Problem, arrays: Diagnosis, labels: np.ndarray, **words: Any
) -> dict[str, Any]:
    """The parts of a result as plain objects.

    Args:
      problem: the rows in use.
      arrays: their diagnosis.
      labels: ``(n,)`` of the rows; those that are neither numbers nor moments become text.
      **words: further parts, of types that JSON has.
    """
    plain = labels.dtype.kind in _KINDS
    body = {
        "problem": _pack_problem(problem),
        "arrays": _pack_arrays(jax.device_get(arrays)),
        "labels": _pack_array(labels) if plain else list(map(str, labels)),
        **{name: _pack_plain(value) for name, value in words.items()},
    }
    return {"format": FORMAT, "sha256": checksum(body), **body}


def unpack_result(content: Any) -> dict[str, Any]:
    """The parts that ``pack_result`` was given; arrays are those of NumPy.

    Args:
      content: the report for programs, as read from JSON.

    Raises:
      ProblemError: it holds no result, one of a newer version, or a damaged one.
    """
    packed = content.get(KEY) if isinstance(content, Mapping) else None
    if not isinstance(packed, Mapping):
        raise ProblemError(
            "the text holds no result; it must be what Result.to_json wrote (the model that"
            " `diagnose --json` writes is read by `lisdd-jax predict`)"
        )
    if packed.get("format") != FORMAT:
        raise ProblemError(
            f"a result must be of format {FORMAT}, got {packed.get('format')!r}; a newer lisdd-jax"
            " may have written it"
        )
    body = {name: value for name, value in packed.items() if name not in ("format", "sha256")}
    if packed.get("sha256") != checksum(body):
        raise ProblemError("the result was changed or damaged after it was written")
    try:
        labels = body.pop("labels")
        return {
            "problem": _read_problem(body.pop("problem")),
            "arrays": _read_arrays(Diagnosis, body.pop("arrays")),
            "labels": np.array(labels, object) if isinstance(labels, list) else _read_array(labels),
            **{name: _read_plain(value) for name, value in body.items()},
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"lacks {error}" if isinstance(error, KeyError) else f"cannot be read: {error}"
        raise ProblemError(f"the result {what}") from None


def read_content(text_or_path: str | Path) -> Any:
    """What JSON holds, given as its text, which starts with a brace, or as the path of a file.

    Raises:
      FileError: the file cannot be read, or it is no JSON.
    """
    if isinstance(text_or_path, str) and text_or_path.lstrip().startswith("{"):
        return files.parse_json(text_or_path, "the result")
    return files.read_json(text_or_path, "result")


def checksum(body: Mapping[str, Any]) -> str:
    """SHA-256 of plain objects, in hexadecimal digits."""
    text = json.dumps(body, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _pack_problem(problem: Problem) -> dict[str, Any]:
    packed: dict[str, Any] = {}
    for name, value in vars(problem).items():
        match value:
            case np.ndarray():
                packed[name] = _pack_array(value)
            case Library():
                packed[name] = list(map(model_format.term_to_dict, value))
            case expressions.Expression():
                packed[name] = str(value)
            case Rows():
                packed[name] = value._asdict()
            case _:
                packed[name] = _pack_plain(value)
    return packed


def _read_problem(content: Mapping[str, Any]) -> Problem:
    given: dict[str, Any] = dict(content)
    for name in ("physics", "library"):
        given[name] = Library(tuple(map(model_format.term_from_dict, given[name])))
    for name in ("response_source", "axis_source"):
        given[name] = expressions.parse(given[name])
    given["rows"] = Rows(**given["rows"])
    given["levels"] = {name: tuple(levels) for name, levels in given["levels"].items()}
    for name in ("dates", "notes"):
        given[name] = tuple(given[name])
    arrays = {name: _read_array(value) for name, value in given.items() if _is_array(value)}
    return Problem(**{**given, **arrays})


def _pack_arrays(found: Any) -> dict[str, Any]:
    if dataclasses.is_dataclass(found):
        return {f.name: _pack_arrays(getattr(found, f.name)) for f in dataclasses.fields(found)}
    return _pack_array(np.asarray(found))


def _read_arrays(kind: Any, content: Mapping[str, Any]) -> Any:
    hints = typing.get_type_hints(kind)
    nested = {name: hint for name, hint in hints.items() if dataclasses.is_dataclass(hint)}
    return kind(
        **{
            name: _read_arrays(nested[name], content[name])
            if name in nested
            else _read_array(content[name])
            for name in hints
        }
    )


def _pack_array(values: np.ndarray) -> dict[str, Any]:
    little = np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<"), copy=False)
    data = base64.b64encode(little.tobytes()).decode()
    return {"dtype": little.dtype.str, "shape": list(values.shape), "base64": data}


def _is_array(content: Any) -> bool:
    return isinstance(content, Mapping) and set(content) == {"dtype", "shape", "base64"}


def _read_array(content: Mapping[str, Any]) -> np.ndarray:
    dtype = np.dtype(content["dtype"])
    if dtype.kind not in _KINDS:
        raise ValueError(f"an array is of type {dtype}")
    data = base64.b64decode(content["base64"], validate=True)
    return np.frombuffer(data, dtype).reshape(content["shape"]).copy()


def _pack_plain(value: Any) -> Any:
    """Plain objects; a number that JSON has no word for becomes its name."""
    match value:
        case Mapping():
            return {key: _pack_plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_pack_plain(item) for item in value]
        case float() if not math.isfinite(value):
            return {"float": str(value)}
    return value


def _read_plain(value: Any) -> Any:
    match value:
        case {"float": str(name)}:
            return float(name)
        case dict():
            return {key: _read_plain(item) for key, item in value.items()}
        case list():
            return [_read_plain(item) for item in value]
    return value
