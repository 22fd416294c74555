"""The report as one self-contained page: no script, no link, figures inside."""

from collections.abc import Iterable, Sequence
from html import escape

import numpy as np

from lisdd_jax.report import figures, numbers, reasons, words
from lisdd_jax.report.curves import Curves
from lisdd_jax.report.figure_words import describe_figure
from lisdd_jax.report.inference import infer
from lisdd_jax.report.page_style import style_sheet
from lisdd_jax.report.summary import Estimate, Region, Summary
from lisdd_jax.report.svg import figure_elements
from lisdd_jax.tables.problem import Problem


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
    curves = Curves(summary, problem)
    physics, missing = words.section_titles(summary)
    basis = words.rows_of_physics(summary)
    title = f"{words.TITLES[summary.verdict]}: {summary.response}"
    body = "\n".join(
        part
        for part in (
            _header(summary, source),
            _fit(curves),
            _section("Why", _items(reasons.reasons(summary))),
            _section("What to do next", _items(words.remedies(summary))),
            _section("Warnings", _items(summary.warnings)) if summary.warnings else "",
            _section("Reading the table", _items(summary.notes)) if summary.notes else "",
            _section(missing, _missing(summary)) if summary.regions else "",
            _section(physics, _estimates(summary.physics, basis, summary.degrees)),
            _section("Residuals", _residuals(curves)),
            _section(f"Map over {summary.axis}", _map(curves)),
            _settings(summary),
        )
        if part
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style_sheet(summary.verdict)}</style>\n"
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
        f'<div class="scroll"><table><caption>{escape(caption)}</caption>'
        f"<thead><tr>{titles}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def _number(position: int) -> str:
    return ' class="number"' if position else ""


def _estimates(estimates: Sequence[Estimate], caption: str, degrees: float) -> str:
    rows = [(_estimate(estimate, degrees), False) for estimate in estimates]
    head = ("term", "coefficient", "std error", "t", "p", "95 % interval")
    return _table(caption, head, rows)


def _estimate(estimate: Estimate, degrees: float) -> tuple[str, ...]:
    found = infer(estimate, degrees)
    value, error = numbers.with_error(estimate.coefficient, estimate.stderr)
    ends = [numbers.with_error(end, estimate.stderr)[0] for end in (found.lower, found.upper)]
    p = "<1e-300" if found.p_value < 1e-300 else numbers.short(found.p_value, 2)
    return (estimate.name, value, error, numbers.short(found.statistic, 3), p, " to ".join(ends))


def _missing(summary: Summary) -> str:
    note = (
        "<p>The p-values of single terms do not pay for the choice of term and region by the same"
        " rows.</p>"
    )
    regions = "".join(_region(region, summary.degrees) for region in summary.regions)
    return regions + (note if any(region.terms for region in summary.regions) else "")


def _region(region: Region, degrees: float) -> str:
    formula = region.formula or "no term could be chosen"
    facts = f"{numbers.count(region.count, 'row')}, {words.evidence(region)}"
    parts = [
        f'<p class="formula"><strong>{escape(formula)}</strong> for {escape(region.interval)}</p>',
        _estimates(region.terms, facts, degrees) if region.terms else f"<p>{escape(facts)}</p>",
    ]
    ends = words.region_ends(region)
    if ends:
        parts.append(f"<p>{escape(ends)}</p>")
    if region.alternatives:
        listed = "; ".join(" + ".join(support) for support in region.alternatives)
        parts.append(f"<p>Predict as well: {escape(listed)}.</p>")
    return "".join(parts)


def _figure(name: str, curves: Curves, caption: str) -> str:
    drawn = figure_elements(name, curves, describe_figure(name, curves))
    return f"<figure>{drawn}<figcaption>{escape(caption)}</figcaption></figure>"


def _has_physics(curves: Curves) -> bool:
    return bool(np.all(np.isfinite(curves.coefficients)))


def _fit(curves: Curves) -> str:
    """The figure that says most, before any words; nothing without a physics."""
    if not _has_physics(curves):
        return ""
    summary = curves.summary
    caption = f"{summary.response} over {summary.axis}, and the trusted physics."
    if summary.regions:
        caption += " Shaded: where it is wrong, with the corrected curve."
    if any(map(words.region_ends, summary.regions)):
        caption += " Darker: 95 % intervals of the ends."
    if curves.others:
        caption += " Terms of the physics that do not follow the axis are held at their means."
    return _section("Fit", _figure("fit", curves, caption))


def _residuals(curves: Curves) -> str:
    if not _has_physics(curves):
        return "<p>There is no trusted physics to take residuals from.</p>"
    summary = curves.summary
    shaded = " Shaded: the regions, with the missing term in them." if summary.regions else ""
    order = "of time" if curves.problem.time is not None else "of the table"
    captions = {
        "residuals": f"Response less trusted physics over {summary.axis}. Dotted: one noise scale."
        + shaded,
        "record": f"Residuals of the corrected model in the order {order}: rows that depend on each"
        " other drift together.",
        "qq": "Residuals of the corrected model, sorted: on the line the noise is normal with the"
        " reported scale.",
    }
    return "".join(_figure(name, curves, caption) for name, caption in captions.items())


def _map(curves: Curves) -> str:
    summary = curves.summary
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
    caption = f"Residual of the physics per cell of {summary.axis}. Dotted: the noise scale."
    told = "".join(f"<p>{escape(words.sentence(c))}</p>" for c in words.cells_and_regions(summary))
    figure = _figure("map", curves, caption) if drawn else ""
    cells = _table("Cells, their rows, and the evidence against the physics", head, rows)
    return told + figure + cells


def _settings(summary: Summary) -> str:
    rows = [((key, str(value)), False) for key, value in summary.config.items() if value != ""]
    table = _table("Settings of this run", ("setting", "value"), rows)
    return f"<details><summary>Settings</summary>{table}</details>"
