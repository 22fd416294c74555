"""The verdict in sentences: what was found, why, and what to do next."""

from collections.abc import Iterator

from lisdd_jax.report import numbers
from lisdd_jax.report.summary import Region, Summary, interval_words
from lisdd_jax.status import FIRST_FAILURE, Status, describe

TITLES = {
    "discrepancy": "Discrepancy",
    "clean": "Clean",
    "not_certified": "Not certified",
    "no_clean_regime": "No clean regime",
    "ambiguous_regime": "Ambiguous regime",
    "not_identifiable": "Not identifiable",
    "insufficient_data": "Insufficient data",
}

# Verdicts under which the physics holds in some part of the axis.
_TRUSTED = ("discrepancy", "clean", "not_certified")

# Why a verdict abstains though every stage succeeded.
_GROUNDS = {
    "no_clean_regime": "the physics misfits even the rows that it fits best",
    "insufficient_data": "too few cells have rows enough to tell one part of the axis from another",
    "not_identifiable": "in some region no candidate term could be fitted and scored",
}

_REMEDIES = {
    "clean": (
        "keep the physics; a fault narrower than a cell or smaller than the noise can still hide,"
        " and more rows would show it",
    ),
    "not_certified": (
        "do not act on it yet: collect more rows where the map deviates and run again",
        "running again with another seed on the same rows is no new evidence",
    ),
    "no_clean_regime": (
        "revise the physics itself (--physics, --intercept): no part of the axis supports it",
        "or widen the range of the axis to where the physics is known to hold",
    ),
    "ambiguous_regime": (
        "say which rows are trusted (--where), or collect rows of the regime in which the physics"
        " is known to hold",
    ),
    "not_identifiable": (
        "remove redundant columns from --physics and --library, or widen the range of the data",
    ),
    "insufficient_data": ("supply more rows, fewer cells (--cells) or a smaller model",),
}


def headline(summary: Summary) -> str:
    """The verdict in one sentence."""
    intervals = " and ".join(region.interval for region in summary.regions)
    match summary.verdict:
        case "discrepancy":
            found = (region.formula.removeprefix("+ ") for region in summary.regions)
            formulas = list(dict.fromkeys(formula or "unknown" for formula in found))
            return (
                f"the physics of {summary.response} is wrong for {intervals}; missing there:"
                f" {' and '.join(formulas)}"
            )
        case "clean":
            return (
                f"the physics of {summary.response} agrees with the data all along {summary.axis}"
            )
        case "not_certified" if intervals:
            return f"the data deviate for {intervals}, but held-out rows do not certify a term"
        case "not_certified":
            return "half of the rows suggest a fault that all rows together do not show"
        case "no_clean_regime":
            return (
                f"no part of {summary.axis} supports the physics of {summary.response} well enough"
                " to trust it there"
            )
        case "ambiguous_regime":
            return "which part of the data follows the physics is open"
        case "not_identifiable":
            return "the data do not determine the physics or the missing term"
    return "the data do not suffice for a verdict"


def section_titles(summary: Summary) -> tuple[str, str]:
    """Titles of the parts on the physics and on the missing terms: facts, or tentative."""
    physics = "Trusted physics" if summary.verdict in _TRUSTED else "Physics, tentative"
    missing = "What is missing" if summary.verdict == "discrepancy" else "What may be missing"
    return physics, missing


def reasons(summary: Summary) -> list[str]:
    """Why the verdict is what it is, as clauses without a final stop."""
    return list(dict.fromkeys(_reasons(summary)))


def _reasons(summary: Summary) -> Iterator[str]:
    for status in (summary.status, summary.form_status):
        if status >= FIRST_FAILURE:
            yield cause(status)
    if summary.status >= FIRST_FAILURE:
        return
    if summary.verdict in _GROUNDS and summary.form_status < FIRST_FAILURE:
        yield _GROUNDS[summary.verdict]
    yield from _rival(summary)
    yield from _everywhere(summary)
    for region in summary.regions:
        yield _deviation(region, summary)
    if len(summary.regions) > 1 and summary.shared:
        yield "the regions share one mechanism: held-out rows show no gain from one for each"
    if not summary.regions:
        yield _quiet_cells(summary)
    yield from _noisier(summary)
    if summary.verdict == "clean":
        # Without a region there is nothing to certify, whatever kept the test from running.
        return
    if summary.test.status >= FIRST_FAILURE:
        yield f"there is no certificate: {cause(summary.test.status)}"
    elif summary.test.status == Status.NOTHING_FLAGGED and summary.regions:
        yield "there is no certificate: half of the rows alone show no deviating cell"
    elif summary.test.terms:
        yield certificate(summary)


def _deviation(region: Region, summary: Summary) -> str:
    evidence = numbers.probability(region.log_p_value)
    rows = f"{numbers.count(region.count, 'row')} with {region.interval}"
    if region.log_p_value == 0:
        return f"{rows} deviate, but half of the rows alone do not show that region"
    alpha = summary.config.get("alpha")
    if region.same_rows:
        return f"{rows} deviate ({evidence} on the same rows that chose them, so too small)"
    if region.shared_test:
        evidence += ", one test for several regions"
    if alpha is not None and not region.p_value < alpha:
        return f"{rows} deviate, but held-out rows do not confirm that region ({evidence})"
    return f"{rows} deviate ({evidence})"


def _noisier(summary: Summary) -> Iterator[str]:
    intervals = [
        interval_words(summary.axis, cell.lower, cell.upper, summary.cells)
        for cell in summary.cells
        if cell.noisier
    ]
    if intervals:
        yield f"the noise is larger, but the mean not wrong, for {' and '.join(intervals)}"


def _rival(summary: Summary) -> Iterator[str]:
    least = summary.config.get("ambiguity", 0.0)
    if summary.verdict == "ambiguous_regime" and summary.runner_up > least:
        yield (
            "the physics fits a rival regime with other coefficients, which has"
            f" {summary.runner_up:.0%} as many rows as the one reported here"
        )


def _everywhere(summary: Summary) -> Iterator[str]:
    level = summary.config.get("alpha_elsewhere", 0.0)
    if summary.verdict == "ambiguous_regime" and summary.p_value_elsewhere >= level:
        yield (
            "the missing term may act on the rows called clean as well, where the physics would"
            f" take it up: they do not contradict it (p = {summary.p_value_elsewhere:.2g})"
        )


def _quiet_cells(summary: Summary) -> str:
    tested = [cell.log_p_value for cell in summary.cells if cell.log_p_value <= 0]
    least = f"; the least of {len(tested)} has {numbers.probability(min(tested))}" if tested else ""
    level = summary.config.get("alpha_cell")
    at = f" at the level {level:g}" if level is not None else ""
    return f"no cell deviates{at}{least}"


def certificate(summary: Summary) -> str:
    """The held-out test in one clause."""
    test = summary.test
    ratio = f"F({numbers.short(test.df_num)}, {test.df_den:.0f}) = {numbers.short(test.statistic)}"
    alpha = summary.config.get("alpha")
    level = f" {'<' if test.reject else '>='} alpha = {alpha:g}" if alpha is not None else ""
    if test.p_value_robust >= 0:
        # Only the number itself is kept, so where it underflows there is a bound.
        robust = (
            numbers.short(test.p_value_robust, 2) if test.p_value_robust > 0 else "below 1e-300"
        )
        level = f" (with unequal noise {robust}){level}"
    outcome = "confirm" if test.reject else "do not confirm"
    return (
        f"held-out rows {outcome} {' + '.join(test.terms)} for {' and '.join(test.intervals)}:"
        f" {ratio}, {numbers.probability(test.log_p_value)}{level}"
    )


def region_ends(region: Region) -> str:
    """Confidence intervals of the ends in words; empty where unknown, or fixed by the axis."""
    known = [
        " to ".join(numbers.positions([*pair, region.lower, region.upper])[:2])
        for pair in (region.lower_interval, region.upper_interval)
        if pair[0] < pair[1]
    ]
    return f"95 % intervals of the ends: {', '.join(known)}" if known else ""


def remedies(summary: Summary) -> list[str]:
    """What to do next, as clauses without a final stop."""
    return list(dict.fromkeys(_next_steps(summary)))


def _next_steps(summary: Summary) -> Iterator[str]:
    for status in (summary.status, summary.form_status, summary.test.status):
        if status >= FIRST_FAILURE and summary.verdict != "clean":
            yield remedy(status)
    if summary.verdict == "discrepancy":
        yield (
            "use the physics with the correction inside its interval (lisdd_jax.predict), or look"
            " there for the cause"
        )
        if any(region.alternatives for region in summary.regions):
            yield "other forms predict as well: choose by knowledge, or measure over a wider range"
    yield from _REMEDIES.get(summary.verdict, ())


def cause(status: Status) -> str:
    """What a status code means."""
    _, _, words = describe(status).partition(": ")
    return words.partition("; ")[0]


def remedy(status: Status) -> str:
    """What to do about a status code."""
    return describe(status).partition("; ")[2]


def sentence(clause: str) -> str:
    """A clause with a capital letter and a stop; clauses never start with a name or a formula.

    Example:
      >>> sentence("no cell deviates")
      'No cell deviates.'
    """
    return clause[:1].upper() + clause[1:] + "."
