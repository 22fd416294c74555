"""The report as one self-contained page: no script, no link, figures inside."""

from collections.abc import Iterable, Sequence
from html import escape

from lisdd_jax.report import figures, numbers, reasons, words
from lisdd_jax.report.summary import Estimate, Region, Summary
from lisdd_jax.tables.problem import Problem

_STYLE = """
:root { color-scheme: light; }
body { margin: 0 auto; max-width: 50rem; padding: 2rem 1.25rem 4rem; background: #fff;
  color: #1f2933; font: 1rem/1.55 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
header { border-left: .4rem solid var(--mark); padding-left: 1rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .2rem 0; }
h2 { font-size: 1.1rem; margin: 2.2rem 0 .5rem; border-bottom: 1px solid #d9e2ec; }
.label { color: var(--mark); font-weight: 700; letter-spacing: .06em; text-transform: uppercase; }
.meta, figcaption, footer { color: #52606d; font-size: .9rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .5rem 0; }
caption { color: #52606d; font-size: .9rem; padding: .25rem 0; text-align: left; }
th, td { border-bottom: 1px solid #e4e7eb; padding: .25rem .9rem .25rem 0; text-align: left; }
td.number, th.number { text-align: right; }
tr.flagged td, tr.flagged th { background: #fdf0ef; }
figure { margin: .75rem 0; overflow-x: auto; }
svg { height: auto; width: 100%; }
code, .formula { font-family: ui-monospace, "DejaVu Sans Mono", monospace; }
.formula { font-size: 1.05rem; overflow-wrap: anywhere; }
details { margin-top: 2rem; }
@media print { body { max-width: none; padding: 0; } }
"""
_MARKS = {"clean": "#1e7e4a", "discrepancy": "#b42318"}


def render(summary: Summary, problem: Problem, *, source: str = "") -> str:
    """The page of a diagnosis.

    Args:
      summary: of the diagnosis.
      problem: its rows, for the figures.
      source: name of the table.

    Returns:
      HTML text.

    Raises:
      FigureError: matplotlib is not installed.
    """
    figures.check_available()
    physics, missing = words.section_titles(summary)
    title = f"{words.TITLES[summary.verdict]}: {summary.response}"
    body = "\n".join(
        part
        for part in (
            _header(summary, source),
            _section("Why", _items(reasons.reasons(summary))),
            _section("What to do next", _items(words.remedies(summary))),
            _section("Warnings", _items(summary.warnings)) if summary.warnings else "",
            _section("Reading the table", _items(summary.notes)) if summary.notes else "",
            _section(missing, "".join(map(_region, summary.regions))) if summary.regions else "",
            _section("Residuals", _residuals(summary, problem)),
            _section(physics, _estimates(summary.physics, "Outside the regions")),
            _section(f"Map over {summary.axis}", _map(summary)),
            _settings(summary),
        )
        if part
    )
    mark = _MARKS.get(summary.verdict, "#8a5a00")
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>:root {{ --mark: {mark}; }}{_STYLE}</style>\n"
        f"</head>\n<body>\n<main>\n{body}\n</main>\n"
        f"<footer>lisdd-jax {escape(summary.version)}</footer>\n</body>\n</html>\n"
    )


def _header(summary: Summary, source: str) -> str:
    rows = summary.rows
    used = f"{rows.used} of {numbers.count(rows.read, 'row')} used"
    if rows.excluded:
        used += f", {rows.excluded} excluded by the row filter"
    if rows.dropped:
        used += f", {rows.dropped} dropped for missing values"
    scale = f"noise scale {numbers.short(summary.scale)}"
    details = " · ".join(part for part in (source, used, scale) if part)
    return (
        f'<header><span class="label">{escape(words.TITLES[summary.verdict])}</span>'
        f"<h1>{escape(words.sentence(words.headline(summary)))}</h1>"
        f'<p class="meta">{escape(details)}</p></header>'
    )


def _section(title: str, content: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{content}</section>"


def _items(clauses: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(words.sentence(c))}</li>' for c in clauses)}</ul>"


def _table(caption: str, head: Sequence[str], rows: Iterable[tuple[Sequence[str], bool]]) -> str:
    """A table whose first column heads its rows; the others hold numbers."""
    titles = "".join(
        f'<th scope="col"{_number(k)}>{escape(title)}</th>' for k, title in enumerate(head)
    )
    lines = []
    for values, flagged in rows:
        first, *rest = map(escape, values)
        cells = "".join(f'<td class="number">{value}</td>' for value in rest)
        mark = ' class="flagged"' if flagged else ""
        lines.append(f'<tr{mark}><th scope="row">{first}</th>{cells}</tr>')
    return (
        f"<table><caption>{escape(caption)}</caption><thead><tr>{titles}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table>"
    )


def _number(position: int) -> str:
    return ' class="number"' if position else ""


def _estimates(estimates: Sequence[Estimate], caption: str) -> str:
    rows = [((e.name, *numbers.with_error(e.coefficient, e.stderr)), False) for e in estimates]
    return _table(caption, ("term", "coefficient", "standard error"), rows)


def _region(region: Region) -> str:
    formula = region.formula or "no term could be chosen"
    facts = f"{numbers.count(region.count, 'row')}, {words.evidence(region)}"
    parts = [
        f'<p class="formula"><strong>{escape(formula)}</strong> for {escape(region.interval)}</p>',
        _estimates(region.terms, facts) if region.terms else f"<p>{escape(facts)}</p>",
    ]
    ends = words.region_ends(region)
    if ends:
        parts.append(f"<p>{escape(ends)}</p>")
    if region.alternatives:
        listed = "; ".join(" + ".join(support) for support in region.alternatives)
        parts.append(f"<p>Predict as well: {escape(listed)}.</p>")
    return "".join(parts)


def _figure(svg: str, caption: str) -> str:
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def _residuals(summary: Summary, problem: Problem) -> str:
    if any(estimate.coefficient != estimate.coefficient for estimate in summary.physics):
        return "<p>There is no trusted physics to take residuals from.</p>"
    caption = (
        f"Response less trusted physics over {summary.axis}. Dotted: one noise scale. Shaded: the"
        " discrepant regions, with the missing term drawn in them."
    )
    return _figure(figures.residual_figure(summary, problem), caption)


def _map(summary: Summary) -> str:
    ends = numbers.positions([c.lower for c in summary.cells] + [summary.cells[-1].upper])
    unit = summary.scale if summary.scale > 0 else 1.0
    rows = [
        (
            (
                f"{lower} to {upper}",
                str(cell.count),
                numbers.plain(cell.rms / unit, 2),
                numbers.plain(cell.mean / unit, 2),
                numbers.decimal_log(cell.log_p_value),
                "flagged" if cell.flagged else "noisier" if cell.noisier else "clean",
            ),
            cell.flagged,
        )
        for cell, lower, upper in zip(summary.cells, ends, ends[1:], strict=False)
    ]
    head = ("cell", "rows", "rms / scale", "mean / scale", "log10 p", "found")
    drawn = any(cell.rms >= 0 for cell in summary.cells)
    caption = f"Residual per cell of {summary.axis}. Dotted: the noise scale."
    figure = _figure(figures.evidence_figure(summary), caption) if drawn else ""
    return figure + _table("Cells, their rows, and the evidence against the physics", head, rows)


def _settings(summary: Summary) -> str:
    rows = [((key, str(value)), False) for key, value in summary.config.items() if value != ""]
    table = _table("Settings of this run", ("setting", "value"), rows)
    return f"<details><summary>Settings</summary>{table}</details>"
