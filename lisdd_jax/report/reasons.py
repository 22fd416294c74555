"""Why the verdict is what it is, in clauses."""

from collections.abc import Iterator, Sequence

from lisdd_jax.report import numbers, words
from lisdd_jax.report.summary import Estimate, Region, Summary, interval_words
from lisdd_jax.status import FIRST_FAILURE, Status

# Why a verdict abstains though every stage succeeded.
_GROUNDS = {
    "no_clean_regime": "the physics misfits even the rows that it fits best",
    "insufficient_data": (
        "too few rows, or too few that are independent, to tell one part of the axis from another"
    ),
    "not_identifiable": "in some region no candidate term could be fitted and scored",
}

# What stands before the findings in regions, where the verdict does not rest on them.
_PREMISES = {
    "ambiguous_regime": "if that of the physics is the law, ",
    "no_clean_regime": "if it were wrong in a part only, ",
    "not_certified": "if the rows were independent, ",
}


def reasons(summary: Summary) -> list[str]:
    """Why the verdict is what it is, as clauses without a final stop."""
    return list(dict.fromkeys(_reasons(summary)))


def _reasons(summary: Summary) -> Iterator[str]:
    for status in (summary.status, summary.form_status):
        if status >= FIRST_FAILURE:
            yield words.cause(status)
    if summary.status >= FIRST_FAILURE:
        return
    explained = summary.form_status >= FIRST_FAILURE or _bends(summary)
    if summary.verdict in _GROUNDS and not explained:
        yield _GROUNDS[summary.verdict]
    yield from _everywhere(summary)
    yield from _laws(summary)
    yield from _dependent(summary)
    if summary.regions:
        yield from _found(summary)
    else:
        yield from _quiet(summary)
    yield from _noisier(summary)
    yield from _certificate(summary)


def _asks_place(summary: Summary) -> bool:
    """Whether the method has a certificate of the place."""
    return summary.evidence.place_log_p_value <= 0


def _premise(summary: Summary) -> str:
    told = _asks_place(summary) and not summary.evidence.everywhere
    return _PREMISES.get(summary.verdict, "") if told else ""


def _found(summary: Summary) -> Iterator[str]:
    """What the regions show."""
    for region in summary.regions:
        yield _premise(summary) + _deviation(region, summary)
        yield from _onset(region)
    if _asks_place(summary) and not summary.evidence.everywhere:
        yield _premise(summary) + _place(summary)
    if len(summary.regions) > 1 and summary.shared:
        yield "the regions share one mechanism: held-out rows show no gain from one for each"


def _certificate(summary: Summary) -> Iterator[str]:
    if summary.verdict in ("clean", "holds_nearly") and not summary.regions:
        # Without a region there is nothing to certify, whatever kept the test from running.
        return
    if summary.evidence.everywhere:
        terms = " + ".join(summary.evidence.everywhere)
        yield f"physics and {terms} are fitted together on all rows, with none left to certify it"
        return
    if summary.test.status >= FIRST_FAILURE:
        yield f"there is no certificate of the terms: {words.cause(summary.test.status)}"
    elif summary.test.status == Status.NOTHING_FLAGGED and summary.regions:
        yield "there is no certificate: half of the rows alone show no deviating cell"
    elif summary.test.terms:
        yield _premise(summary) + certificate(summary)
    lacking = [region.interval for region in summary.regions if region.lacking]
    if lacking:
        yield (
            f"for {' and '.join(lacking)} no candidate term predicts held-out rows nearly as well"
            " as other coefficients of the physics would: the library lacks the term"
        )


def _deviation(region: Region, summary: Summary) -> str:
    evidence = words.evidence(region)
    rows = f"{numbers.count(region.count, 'row')} with {region.interval}"
    if region.bound:
        return f"{rows} deviate ({evidence}, the search paid for)"
    if region.same_rows:
        return f"{rows} deviate ({evidence} on the same rows that chose them, so too small)"
    alpha = summary.config.get("alpha")
    if alpha is not None and not region.p_value < alpha:
        return f"{rows} deviate, but held-out rows do not confirm that region ({evidence})"
    return f"{rows} deviate ({evidence})"


def _onset(region: Region) -> Iterator[str]:
    ends = zip(("begins", "ends"), (region.lower, region.upper), region.softness, strict=True)
    for verb, place, width in ends:
        if width > 0:
            low, high, _ = numbers.positions([place - width, place + width, place])
            yield f"the deviation {verb} gradually between {low} and {high}"


def _place(summary: Summary) -> str:
    found = summary.evidence
    size = numbers.short(found.law_scatter, 2)
    holds = f"to within {size}" if found.law_scatter > 0 else "to within the noise"
    stands = "stands out" if found.place_certified else "does not stand out beyond chance"
    bound = numbers.at_most(found.place_log_p_value)
    return f"elsewhere the law holds {holds}; the place {stands} ({bound}, from all rows)"


def _noisier(summary: Summary) -> Iterator[str]:
    intervals = [
        interval_words(summary.axis, cell.lower, cell.upper, summary.cells)
        for cell in summary.cells
        if cell.noisier
    ]
    if intervals:
        yield f"the noise is larger, but the mean not wrong, for {' and '.join(intervals)}"


def _laws(summary: Summary) -> Iterator[str]:
    found = summary.evidence
    if summary.verdict != "ambiguous_regime":
        return
    if not found.rival_share > 0:
        larger = 2 * sum(region.count for region in summary.regions) > summary.rows.used
        yield (
            "a part of the axis that deviates holds more than twice as many rows as the law"
            if larger
            else f"along {summary.axis} fewer than four parts can be told apart, of which any may"
            " follow the law"
        )
        return
    share = found.rival_share / (1 + found.rival_share)
    yield (
        f"of the rows that follow either law {1 - share:.0%} follow that of the physics"
        f" ({_numbers(summary.physics)}), and {share:.0%} another one ({_numbers(found.rival)})"
    )


def _numbers(estimates: Sequence[Estimate]) -> str:
    return ", ".join(f"{e.name} {numbers.short(e.coefficient)}" for e in estimates)


def _bends(summary: Summary) -> bool:
    """Whether something that acts on all rows explains why there is no clean regime."""
    found = summary.evidence
    return summary.verdict == "no_clean_regime" and bool(found.everywhere or found.place_certified)


def _everywhere(summary: Summary) -> Iterator[str]:
    if not _bends(summary):
        return
    terms = summary.evidence.everywhere
    acting = " + ".join(terms) if terms else "a curve of the axis, the physics and all terms"
    shown = (
        "predicts held-out rows as well as regions do"
        if summary.evidence.place_certified
        else "explains more than any change of the law in a part of them"
    )
    yield f"on all rows {acting} {shown}"


def _dependent(summary: Summary) -> Iterator[str]:
    if summary.verdict == "not_certified" and _asks_place(summary):
        yield (
            "rows depend on each other so much that too few are left to tell a wrong law from"
            " chance"
        )


def _quiet(summary: Summary) -> Iterator[str]:
    """What is known where there is no region."""
    found = summary.evidence
    if not _asks_place(summary):
        yield _quiet_cells(summary)
        return
    size = numbers.short(found.law_scatter, 2)
    margin = summary.config.get("negligible", 0.0)
    claim = f"that the law holds {f'to within {margin:g}' if margin > 0 else 'exactly'}"
    p = numbers.probability(found.exact_log_p_value)
    if found.exact_p_value < summary.config.get("alpha", 0.05):
        slight = ", though by too little to matter" if summary.verdict == "clean" else ""
        yield f"{claim} is rejected ({p}, largest change for {found.exact_interval}){slight}"
    else:
        yield f"{claim} is not rejected ({p}, all runs and terms paid for)"
    if found.place_certified:
        return
    nearly = found.law_scatter > 0
    yield (
        f"no place stands out from a law that is off by about {size}"
        if nearly
        else ("no place stands out")
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
    level = ""
    if alpha is not None:
        below = test.p_value < alpha and not test.p_value_robust >= alpha
        level = f" {'<' if below else '>='} alpha = {alpha:g}"
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
