"""The verdict in sentences: what was found, and what to do next; the reasons are in ``reasons``."""

from collections.abc import Iterator

from lisdd_jax.report import numbers
from lisdd_jax.report.summary import Region, Summary
from lisdd_jax.status import FIRST_FAILURE, Status, describe

TITLES = {
    "discrepancy": "Discrepancy",
    "clean": "Clean",
    "not_certified": "Not certified",
    "no_clean_regime": "No clean regime",
    "ambiguous_regime": "Ambiguous regime",
    "not_identifiable": "Not identifiable",
    "insufficient_data": "Insufficient data",
    "holds_nearly": "Holds nearly",
}

# Verdicts under which the physics holds in some part of the axis.
_TRUSTED = ("discrepancy", "clean", "not_certified", "holds_nearly")

_REMEDIES = {
    "clean": (
        "keep the physics; a fault narrower than a cell or smaller than the noise can still hide,"
        " and more rows would show it",
    ),
    "not_certified": (
        "do not act on it yet: collect more rows where the map deviates and run again",
    ),
    "dependent": (
        "do not act on it yet: name the blocks of rows that depend on each other (--block, --time,"
        " or block= in Python), or collect rows that do not",
    ),
    "no_clean_regime": (
        "revise the physics itself (--physics, --intercept), or add what acts everywhere to it",
        "or widen the range of the axis to where the physics is known to hold",
    ),
    "ambiguous_regime": (
        "say on which rows the law is vouched for (--trusted CONDITION, or trusted= in Python)",
        "or collect rows of the part of the axis where the physics is known to hold",
    ),
    "not_identifiable": (
        "remove redundant columns from --physics and --library, or widen the range of the data",
    ),
    "insufficient_data": ("supply more rows, or a smaller model",),
    "holds_nearly": (
        "use the physics where an error of that size does not matter, or look for what it lacks"
        " everywhere",
        "say with --negligible SIZE which discrepancy does not matter",
    ),
}


def headline(summary: Summary) -> str:
    """The verdict in one sentence."""
    name, axis, found = summary.response, summary.axis, summary.evidence
    intervals = " and ".join(region.interval for region in summary.regions)
    size = numbers.short(found.law_scatter, 2)
    match summary.verdict:
        case "discrepancy" if intervals:
            return f"the physics of {name} is wrong for {intervals}; {_missing(summary)}"
        case "discrepancy":
            return f"the physics of {name} is wrong in some part of {axis}; which one is open"
        case "clean":
            within = f", to within {size}" if found.law_scatter > 0 else ""
            return f"the physics of {name} agrees with the data all along {axis}{within}"
        case "holds_nearly" if found.law_scatter > 0:
            return (
                f"the physics of {name} is off by about {size} all along {axis}, and no place"
                " stands out"
            )
        case "holds_nearly":
            return f"the physics of {name} does not hold exactly, and no place stands out"
        case "not_certified" if intervals:
            return f"the data deviate for {intervals}, which is not certified"
        case "not_certified":
            return "the data deviate, which is not certified"
        case "no_clean_regime" if found.everywhere:
            terms = " and ".join(found.everywhere)
            act = "acts" if len(found.everywhere) == 1 else "act"
            return f"the physics of {name} lacks {terms}, which {act} all along {axis}"
        case "no_clean_regime" if found.place_certified:
            return f"the physics of {name} lacks a curve, which acts all along {axis}"
        case "no_clean_regime":
            return f"no part of {axis} supports the physics of {name} well enough to trust it there"
        case "ambiguous_regime" if found.rival_share > 0:
            return f"two laws of the same form describe {name}; which one is the physics is open"
        case "ambiguous_regime":
            return "which part of the data follows the physics is open"
        case "not_identifiable":
            return "the data do not determine the physics or the missing term"
    return "the data do not suffice for a verdict"


def _missing(summary: Summary) -> str:
    """What is missing in the regions, as far as it is known."""
    lacking = [region for region in summary.regions if region.lacking]
    known = [region for region in summary.regions if not region.lacking]
    if not known:
        return "the library lacks the term that is missing there"
    found = (region.formula.removeprefix("+ ") for region in known)
    formulas = " and ".join(dict.fromkeys(formula or "unknown" for formula in found))
    if lacking:
        places = " and ".join(region.interval for region in lacking)
        return f"missing there: {formulas}, and for {places} a term that the library lacks"
    if not summary.evidence.form_certified:
        return f"what is missing there is not certified; {formulas} predicts best"
    return f"missing there: {formulas}"


def section_titles(summary: Summary) -> tuple[str, str]:
    """Titles of the parts on the physics and on the missing terms: facts, or tentative."""
    physics = "Trusted physics" if summary.verdict in _TRUSTED else "Physics, tentative"
    certain = summary.verdict == "discrepancy" and summary.evidence.form_certified
    return physics, "What is missing" if certain else "What may be missing"


def rows_of_physics(summary: Summary) -> str:
    """Which rows the physics was estimated from."""
    terms = " and ".join(summary.evidence.everywhere)
    return f"On all rows, together with {terms}" if terms else "Outside the regions"


def evidence(region: Region) -> str:
    """The p-value of a region, or its bound."""
    show = numbers.at_most if region.bound else numbers.probability
    return show(region.log_p_value)


def region_ends(region: Region) -> str:
    """Confidence intervals of the ends in words; empty where unknown, or fixed by the axis."""
    known = [
        " to ".join(numbers.positions([*pair, region.lower, region.upper])[:2])
        for pair in (region.lower_interval, region.upper_interval)
        if pair[0] < pair[1]
    ]
    return f"95 % intervals of the ends: {', '.join(known)}" if known else ""


def cells_and_regions(summary: Summary) -> Iterator[str]:
    """Why flagged cells begin and end elsewhere than the regions, where they do."""
    edges = {cell.lower for cell in summary.cells} | {cell.upper for cell in summary.cells}
    inner = [
        end
        for region in summary.regions
        for end, is_open in ((region.lower, region.open_below), (region.upper, region.open_above))
        if not is_open and end not in edges
    ]
    if inner:
        *named, _, _ = numbers.positions([*inner, min(edges), max(edges)])
        regions = "a region" if len(summary.regions) == 1 else "regions"
        yield (
            "cells are laid before the data are seen, and flagged where half of their rows or more"
            f" lie in {regions}; ends of {regions} lie within cells, at {' and '.join(named)}"
        )


def remedies(summary: Summary) -> list[str]:
    """What to do next, as clauses without a final stop."""
    return list(dict.fromkeys(_next_steps(summary)))


def _next_steps(summary: Summary) -> Iterator[str]:
    for status in (summary.status, summary.form_status, summary.test.status):
        if status >= FIRST_FAILURE and summary.verdict != "clean":
            yield remedy(status)
    if summary.verdict == "discrepancy":
        yield from _with_discrepancy(summary)
    if summary.evidence.everywhere and summary.verdict == "no_clean_regime":
        yield f"add {' and '.join(summary.evidence.everywhere)} to the physics, and run again"
        return
    if summary.evidence.place_certified and summary.verdict == "no_clean_regime":
        yield "revise the physics itself (--physics, --intercept)"
        yield "or add terms to the library that could describe the curve, and run again"
        return
    dependent = summary.verdict == "not_certified" and summary.evidence.dependent
    yield from _REMEDIES.get("dependent" if dependent else summary.verdict, ())


def _with_discrepancy(summary: Summary) -> Iterator[str]:
    if any(region.lacking for region in summary.regions):
        yield "look there for the cause, and add terms to the library that could describe it"
    elif summary.evidence.form_certified:
        yield (
            "use the physics with the correction inside its interval (lisdd_jax.predict), or look"
            " there for the cause"
        )
    else:
        yield "do not use the physics there; look for the cause, or collect more rows there"
    if any(region.alternatives for region in summary.regions):
        yield "other forms predict as well: choose by knowledge, or measure over a wider range"


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
