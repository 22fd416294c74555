"""One Markdown report of the reproduced tables: ours beside the published, and why they differ."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lisdd_jax.status import describe

_COLUMNS = (
    "mode",
    "method",
    "metric",
    "parameters",
    "ours",
    "95 % interval",
    "published",
    "verdict",
)


def to_markdown(tables: Mapping[str, Mapping[str, Any]], figures: list[Path] | None = None) -> str:
    """The report.

    Args:
      tables: experiments by name, as ``reproduction.read_outcomes`` gives them.
      figures: image files to show; PNG files are linked by name.

    Returns:
      Markdown.
    """
    parts = ["# Reproduction of the published experiments", "", _summary(tables), ""]
    for name, table in tables.items():
        parts += [f"## {name}: {table['title']}", "", _settings(table["settings"]), ""]
        parts += [_table([row for row in table["rows"] if row["published"] is not None]), ""]
        extra = [row for row in table["rows"] if row["published"] is None]
        if extra:
            parts += ["### What the published tables leave out", "", _table(extra), ""]
        parts += [_remarks(table["rows"]), _failures(table["statuses"])]
    pictures = [path for path in figures or [] if path.suffix == ".png"]
    if pictures:
        parts += ["## Figures", ""]
        parts += [f"![{path.stem.replace('_', ' ')}]({path.name})\n" for path in pictures]
    return "\n".join(part for part in parts if part is not None).rstrip() + "\n"


def _summary(tables: Mapping[str, Mapping[str, Any]]) -> str:
    compared = [
        (name, row)
        for name, table in tables.items()
        for row in table["rows"]
        if row["verdict"] in ("reproduced", "not reproduced")
    ]
    good = sum(row["verdict"] == "reproduced" for _, row in compared)
    lines = [
        f"{good} of {len(compared)} printed numbers are reproduced by the published algorithm: the"
        " printed number, up to its rounding, lies in the 95 % interval of ours."
    ]
    missed = [(name, row) for name, row in compared if row["verdict"] == "not reproduced"]
    if missed:
        lines += ["", "Not reproduced:", ""]
        lines += [
            f"- {name}, {_where(row)}: {_number(row['mean'])} against {_number(row['published'])}"
            f" printed. {_sentence(row['reason'])}"
            for name, row in missed
        ]
    return "\n".join(lines)


def _where(row: Mapping[str, Any]) -> str:
    params = _params(row["params"])
    return f"{row['method']} {row['metric']}" + (f" ({params})" if params else "")


def _params(params: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in params.items())


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _number(value: float | None) -> str:
    if value is None:
        return "undefined"
    return f"{value:.4f}" if abs(value) < 100 else f"{value:.4g}"


def _table(rows: list[Mapping[str, Any]]) -> str:
    lines = [" | ".join(_COLUMNS), " | ".join("---" for _ in _COLUMNS)]
    for row in rows:
        ends = "" if row["lower"] is None else f"{_number(row['lower'])} to {_number(row['upper'])}"
        printed = "" if row["published"] is None else f"{row['published']:g}"
        cells = [row["mode"], row["method"], row["metric"], _params(row["params"])]
        cells += [_number(row["mean"]), ends, printed, row["verdict"]]
        lines.append(" | ".join(cells))
    return "\n".join(f"| {line} |" for line in lines)


def _settings(settings: Mapping[str, Any]) -> str:
    return (
        f"{settings['num_replications']} replications, seed {settings['seed']},"
        f" {settings['num_rows']} rows per data set, {settings['precision']} on"
        f" {settings['platform']}."
    )


def _remarks(rows: list[Mapping[str, Any]]) -> str:
    """Explanations and cautions, each once with the rows that it concerns."""
    grouped: dict[str, list[str]] = {}
    for row in rows:
        if row["reason"]:
            grouped.setdefault(row["reason"], []).append(_where(row))
    if not grouped:
        return ""
    lines = ["### How to read them", ""]
    for reason, concerned in grouped.items():
        named = list(dict.fromkeys(concerned))
        shown = "; ".join(named[:2]) + (f" and {len(named) - 2} more" if len(named) > 2 else "")
        lines.append(f"- {shown}: {_sentence(reason)}")
    return "\n".join([*lines, ""])


def _failures(statuses: list[Mapping[str, Any]]) -> str:
    noted = [row for row in statuses if row["status"] != 0]
    if not noted:
        return ""
    lines = ["### Replications that did not end with status OK", ""]
    for row in noted:
        where = {k: v for k, v in row.items() if k not in ("study", "status", "count")}
        lines.append(
            f"- {row['study']} ({_params(where)}): {row['count']} ended with"
            f" {_describe(row['status'])}"
        )
    return "\n".join([*lines, ""])


def _describe(code: int) -> str:
    try:
        return describe(code)
    except ValueError:
        return f"the unknown status {code}"
