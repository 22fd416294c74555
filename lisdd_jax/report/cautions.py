"""What limits a diagnosis, in sentences: rows left out, dependence, thin cells, twin terms."""

from collections.abc import Iterator, Sequence

import numpy as np
from scipy import special

from lisdd_jax import expressions
from lisdd_jax.expressions import Expression
from lisdd_jax.library import Term
from lisdd_jax.report import numbers
from lisdd_jax.report.identifiability import Finding, identifiability
from lisdd_jax.report.summary import PREDICTION, Cell, Evidence, Region, Test
from lisdd_jax.results import Diagnosis
from lisdd_jax.status import FIRST_FAILURE, Status, describe
from lisdd_jax.tables.problem import Problem

_FEW_ROWS = 5
_MOST_NAMED = 8
_UNDETERMINED = ("zero", "twin", "combination")

_BY_CHANCE = 0.01
"""Probability below which rows set aside lie on one side for a reason."""


def find(
    found: Diagnosis,
    problem: Problem,
    regions: Sequence[Region],
    test: Test,
    cells: Sequence[Cell],
    evidence: Evidence,
) -> Iterator[str]:
    """Warnings of a report, in the order of the stages.

    Args:
      found: the diagnosis, on the host.
      problem: the rows and their names.
      regions, test, cells, evidence: what the summary says of them.

    Yields:
      Sentences without a final stop.
    """
    yield from _rows(problem)
    yield from _outliers(evidence)
    yield from _long_tail(found, problem, regions)
    known = problem.block is not None or problem.time is not None
    yield from _dependence(evidence, problem.axis_name, known)
    yield from _noise(evidence)
    yield from _thin_cells(cells)
    on_terms = list(_terms(problem, regions, np.asarray(found.form.support)))
    yield from on_terms
    # Failures stand in the reasons of the verdict; here stand the notes on results that hold.
    for status in sorted({int(found.status), int(found.form.status)}):
        told = status == Status.NOTHING_FLAGGED or (
            status == Status.RANK_DEFICIENT_TERMS and on_terms
        )
        if Status.OK < status < FIRST_FAILURE and not told:
            yield _note(status)
    yield from _differences(regions, test)


def _note(status: int) -> str:
    _, _, words = describe(status).partition(": ")
    return words


def _rows(problem: Problem) -> Iterator[str]:
    rows = problem.rows
    if rows.dropped:
        columns = ", ".join(f"{name} ({n})" for name, n in problem.missing.items())
        where = f" in {columns}" if columns else ""
        yield (
            f"{rows.dropped} of {numbers.count(rows.read, 'row')} dropped for missing values{where}"
        )


def _thin_cells(cells: Sequence[Cell]) -> Iterator[str]:
    thin = sum(cell.count < _FEW_ROWS for cell in cells)
    if thin:
        empty = sum(cell.count == 0 for cell in cells)
        beside = f" ({empty} of them none)" if empty else ""
        yield (
            f"{thin} of {numbers.count(len(cells), 'cell')} hold fewer than {_FEW_ROWS} rows"
            f"{beside}; --quantile-cells or --min-rows-per-cell would even them out"
        )


def _terms(problem: Problem, regions: Sequence[Region], support: np.ndarray) -> Iterator[str]:
    names = problem.library.names
    known = set()
    for finding in identifiability(problem.features, names, problem.design):
        yield from _sentence(finding, problem.library.terms[finding.term], support)
        known.add(finding.term if finding.kind in _UNDETERMINED else None)
    for region in regions:
        inside = region.contains(problem.axis)
        # So few rows determine no set of terms, which says nothing about any one of them.
        if inside.sum() <= len(names):
            continue
        place = f"where {region.interval}"
        for finding in identifiability(
            problem.features, names, problem.design, inside, place=place
        ):
            if finding.kind in _UNDETERMINED and finding.term not in known:
                yield from _sentence(finding, problem.library.terms[finding.term], support)


def _is_literal(term: Term) -> bool:
    """Whether a term is a number by its own definition, so that this needs no warning."""
    return isinstance(term.source, Expression) and not expressions.column_names(term.source)


def _sentence(finding: Finding, term: Term, support: np.ndarray) -> Iterator[str]:
    match finding.kind:
        case "zero":
            yield f"not identifiable: {finding.reason}, so no coefficient can be given to it"
        case "twin" | "combination":
            yield f"not identifiable: {finding.reason}, so its coefficient may belong to either"
        case "constant" if not _is_literal(term):
            yield (
                f"not identifiable: {finding.reason}, so it can only stand for a shift of the level"
            )
        case "physics" if support[finding.term]:
            yield f"the term {finding.reason}: the region follows the same law with other numbers"


def _differences(regions: Sequence[Region], test: Test) -> Iterator[str]:
    if not (test.terms and regions):
        return
    terms = {term.name for region in regions for term in region.terms}
    if terms != set(test.terms):
        yield (
            f"the certificate is for {' + '.join(test.terms)}, chosen on half of the rows; all rows"
            f" together choose {' + '.join(sorted(terms))}"
        )
    if not test.same_cells:
        yield (
            f"the certificate is for {' and '.join(test.intervals)}, found on half of the rows; all"
            f" rows together show {' and '.join(region.interval for region in regions)}"
        )


def _dependence(found: Evidence, axis: str, known: bool) -> Iterator[str]:
    """What rows have to do with each other, where it is beyond chance."""
    if not found.dependent:
        return
    causes = []
    if found.repeated > 0.2:
        causes.append(f"{found.repeated:.0%} of the rows repeat another one")
    for name, value in (
        (f"along {axis}", found.axis_correlation),
        ("in the record", found.record_correlation),
    ):
        if value > 0.1:
            causes.append(f"residuals of neighbours {name} correlate by {value:.2f}")
    said = "; ".join(causes) or "rows depend on each other"
    advice = "" if known else "; name the blocks (--block, --time, or block= in Python)"
    one = f", so that {found.rows_as_one:.1f} rows count as one" if found.rows_as_one > 1.05 else ""
    yield f"{said}{one}{advice}"


def _noise(found: Evidence) -> Iterator[str]:
    """With what the noise of rows goes."""
    said = []
    for power in found.noise_goes_with:
        if power.rising:
            said.append(f"{'grows' if power.rising > 0 else 'falls'} with {power.name}")
        if power.both_sides:
            grows = power.both_sides > 0
            if power.name == PREDICTION:
                said.append(f"{'grows' if grows else 'falls'} with the size of {power.name}")
            else:
                far = "away from" if grows else "towards"
                said.append(f"grows {far} the middle of {power.name}")
    if said:
        yield f"the noise {' and '.join(said)}, and rows are weighted by it"


def _outliers(found: Evidence) -> Iterator[str]:
    """Rows set aside, numbered as in the table, from 1 below its header."""
    rows = found.outliers
    if not rows:
        return
    named = ", ".join(str(row + 1) for row in rows[:_MOST_NAMED])
    more = f" and {len(rows) - _MOST_NAMED} more" if len(rows) > _MOST_NAMED else ""
    if len(rows) == 1:
        yield f"row {named} lies far from all others near by and was set aside as a gross error"
    else:
        yield f"{len(rows)} rows lie far from all others near by and were set aside: {named}{more}"


def _long_tail(found: Diagnosis, problem: Problem, regions: Sequence[Region]) -> Iterator[str]:
    """Rows set aside that lie on one side of the law: gross errors, or the tail of its noise."""
    outside = np.ones(len(problem.response), bool)
    for region in regions:
        outside &= ~region.contains(problem.axis)
    law = problem.design @ np.asarray(found.coefficients, float)
    left = (problem.response - law)[outside & found.outliers]
    above, below = int(np.sum(left > 0)), int(np.sum(left < 0))
    most, total = max(above, below), left.sum()
    # The upper tail of a binomial distribution, to either side.
    if not most or 2 * special.betainc(most, len(left) - most + 1, 0.5) > _BY_CHANCE:
        return
    # A few rows further off on the other side are no tail of this one.
    if (total > 0) != (above > below):
        return
    side = "above" if above > below else "below"
    shift = numbers.short(abs(total) / np.sum(outside), 2)
    which = f"all {most}" if most == len(left) else f"{most} of the {len(left)}"
    place = " outside of the regions" if regions else ""
    yield (
        f"{which} rows set aside{place} lie {side} the law: unless they are errors, the noise has a"
        f" long tail there and the mean of {problem.response_name} is {shift} {side} the law"
    )
