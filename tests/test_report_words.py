"""What a report says of the default method: every finding is told, and no two sentences differ."""

import dataclasses
import math
import re

import numpy as np
import pytest
from report_data import (
    DEFAULT,
    NAN,
    OUTCOMES,
    dependence,
    searched,
    write_problem,
)

from lisdd_jax.report import json_report, reasons, summarize, words
from lisdd_jax.results import Rival, Verdict
from lisdd_jax.status import Status

DEPENDENT = dependence(record=0.83, rows=9.6, significant=True)
TWO_LAWS = Rival(share=np.array(0.25), coefficients=np.array([4.0, 3.0]), gap=np.array(2.0))


def with_regions(found, **changes):
    return dataclasses.replace(found, regions=dataclasses.replace(found.regions, **changes))


def with_form(found, **changes):
    return dataclasses.replace(found, form=dataclasses.replace(found.form, **changes))


TEST = searched().test
QUIET = {"place": -0.5, "flagged": ()}
FINDINGS = {
    "certified": searched(),
    "form not certified": with_form(
        searched(test=dataclasses.replace(TEST, p_value=np.array(0.4), reject=np.array(False))),
        certified=np.array(False),
    ),
    "lacking": with_regions(
        with_form(searched(), certified=np.array(False)), lacking=np.array([True, False])
    ),
    "certified without a region": searched(flagged=()),
    "exact": searched(verdict=Verdict.CLEAN, **QUIET),
    "slight": searched(verdict=Verdict.CLEAN, exact=-30.0, law_scatter=np.array(0.004), **QUIET),
    "holds nearly": OUTCOMES["holds_nearly"],
    "dependent place": searched(verdict=Verdict.NOT_CERTIFIED, dependence=DEPENDENT),
    "dependent": searched(
        verdict=Verdict.NOT_CERTIFIED, exact=-30.0, dependence=DEPENDENT, **QUIET
    ),
    "everywhere": searched(
        verdict=Verdict.NO_CLEAN_REGIME, everywhere=np.array([True, False, False])
    ),
    "a curve": searched(verdict=Verdict.NO_CLEAN_REGIME),
    "everywhere, no place": searched(
        verdict=Verdict.NO_CLEAN_REGIME,
        exact=-30.0,
        everywhere=np.array([True, False, True]),
        **QUIET,
    ),
    "useless": searched(
        verdict=Verdict.NO_CLEAN_REGIME, exact=-300.0, law_scatter=np.array(2.0), **QUIET
    ),
    "two laws": searched(verdict=Verdict.AMBIGUOUS_REGIME, rival=TWO_LAWS),
    "larger part": with_regions(
        searched(verdict=Verdict.AMBIGUOUS_REGIME), count=np.array([9000, 0], np.int32)
    ),
    "few parts": searched(verdict=Verdict.AMBIGUOUS_REGIME),
    "no usable term": with_form(
        searched(verdict=Verdict.NOT_IDENTIFIABLE), status=np.int32(Status.NO_USABLE_TERMS)
    ),
    "few cells": searched(verdict=Verdict.INSUFFICIENT_DATA, **QUIET),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_problem(tmp_path_factory.mktemp("tables") / "t.csv")


def told(found, data, **config):
    """Headline, reasons and next steps."""
    summary = summarize(found, data, config={**DEFAULT, **config}, version="1")
    return words.headline(summary), reasons.reasons(summary), words.remedies(summary)


def says(found, data, **config):
    headline, why, steps = told(found, data, **config)
    return " | ".join([headline, *why, *steps])


# What a sentence claims, by its words; a report must not hold both of a pair.
CONTRADICTIONS = [
    (r"agrees with the data all along", r"is wrong"),
    (r"agrees with the data all along x$", r"is rejected"),
    (r"agrees with the data|off by about", r"(?<!no )place stands out \("),
    (r"no place stands out", r"most of all|the place stands out"),
    (r"is wrong for|is wrong in some part", r"no place stands out|does not stand out"),
    (r"missing there: ", r"do not confirm|library lacks the term(?! missing)"),
    (r"not certified", r"^held-out rows confirm "),
    (r"library lacks", r"use the physics with the correction"),
    (r"not certified; ", r"use the physics with the correction"),
    (r"which acts? all along", r"^the physics .* is wrong for|widen the range"),
]


@pytest.mark.parametrize("name", [*FINDINGS, *OUTCOMES])
def test_no_two_sentences_contradict_each_other(name, data):
    found = FINDINGS.get(name, OUTCOMES.get(name))
    headline, why, steps = told(found, data)
    sentences = [headline, *why, *steps]
    for first, second in CONTRADICTIONS:
        one = [s for s in sentences if re.search(first, s)]
        other = [s for s in sentences if re.search(second, s)]
        assert not (one and other), (one, other)


@pytest.mark.parametrize("name", FINDINGS)
def test_every_finding_has_a_reason_a_step_and_whole_numbers(name, data):
    headline, why, steps = told(FINDINGS[name], data)
    assert why
    assert steps
    text = " ".join([headline, *why, *steps])
    assert not re.search(r"\bnan\b|\binf\b|undefined|  | ,", text), text


def test_every_verdict_of_the_default_method_is_among_the_findings():
    assert {int(found.verdict) for found in FINDINGS.values()} == set(map(int, Verdict))


def test_a_clean_law_holds_to_within_its_scatter(data):
    headline, why, _ = told(FINDINGS["slight"], data)
    assert headline == "the physics of y agrees with the data all along x, to within 0.004"
    assert why == [
        "that the law holds exactly is rejected (p = 9.4e-14, largest change for x >= 0.000),"
        " though by too little to matter",
        "no place stands out from a law that is off by about 0.004",
    ]


def test_an_exact_law_is_not_rejected(data):
    headline, why, _ = told(FINDINGS["exact"], data)
    assert headline == "the physics of y agrees with the data all along x"
    assert why == [
        "that the law holds exactly is not rejected (p = 0.37, all runs and terms paid for)",
        "no place stands out",
    ]


def test_what_does_not_matter_is_part_of_the_claim(data):
    text = says(FINDINGS["exact"], data, negligible=0.25)
    assert "that the law holds to within 0.25 is not rejected" in text


def test_a_law_that_holds_nearly_has_its_size(data):
    headline, why, steps = told(FINDINGS["holds nearly"], data)
    assert headline == "the physics of y is off by about 0.3 all along x, and no place stands out"
    assert "is rejected (p = 9.4e-14" in why[0]
    assert any("--negligible" in step for step in steps)


def test_a_place_is_told_with_its_bound(data):
    found = dataclasses.replace(FINDINGS["certified"], law_scatter=np.array(0.0123))
    headline, why, _ = told(found, data)
    assert headline == "the physics of y is wrong for x >= 1.000; missing there: 0.2 x^3"
    assert why[:2] == [
        "10 rows with x >= 1.000 deviate (p <= 3.1e-17, the search paid for)",
        "elsewhere the law holds to within 0.012; the place stands out (p <= 4.2e-18, from all"
        " rows)",
    ]
    assert why[-1].startswith("held-out rows confirm x^3 for x >= 1.000: F(1, 16) = 3826")


def test_a_form_that_is_not_confirmed_is_no_finding(data):
    headline, _, steps = told(FINDINGS["form not certified"], data)
    assert headline.endswith("what is missing there is not certified; 0.2 x^3 predicts best")
    assert not any("lisdd_jax.predict" in step for step in steps)


def test_a_library_that_lacks_the_term_is_told(data):
    headline, why, steps = told(FINDINGS["lacking"], data)
    assert headline.endswith(
        "wrong for x >= 1.000; the library lacks the term that is missing there"
    )
    assert any(reason.startswith("for x >= 1.000 no candidate term predicts") for reason in why)
    assert any("add terms to the library" in step for step in steps)


def test_of_two_regions_one_may_lack_its_term(data):
    found = FINDINGS["certified"]
    both = with_regions(
        found,
        present=np.array([True, True]),
        lower=np.array([-2.0, 1.0]),
        upper=np.array([-1.0, 2.0]),
        open_below=np.array([True, False]),
        open_above=np.array([False, True]),
        support=np.array([[False, True, False], [True, False, False]]),
        coefficients=np.array([[0.0, 0.2, 0.0], [0.3, 0.0, 0.0]]),
        lacking=np.array([False, True]),
        count=np.array([10, 10]),
        log_p_value=np.array([-38.0, -20.0]),
        softness=np.full((2, 2), NAN),
    )
    headline, _, _ = told(both, data)
    assert headline == (
        "the physics of y is wrong for x < -1.000 and x >= 1.000; missing there: 0.2 x^3, and for"
        " x >= 1.000 a term that the library lacks"
    )


def test_two_laws_are_told_with_both_sets_of_numbers(data):
    headline, why, steps = told(FINDINGS["two laws"], data)
    assert headline == "two laws of the same form describe y; which one is the physics is open"
    assert why[0] == (
        "of the rows that follow either law 80% follow that of the physics (intercept 1,"
        " x + 0*v -2), and 20% another one (intercept 4, x + 0*v 3)"
    )
    assert why[1].startswith("if that of the physics is the law, 10 rows with x >= 1.000 deviate")
    assert any("--trusted" in step for step in steps)


def test_terms_that_act_everywhere_are_told(data):
    headline, why, steps = told(FINDINGS["everywhere"], data)
    assert headline == "the physics of y lacks x^2, which acts all along x"
    assert why[0] == "on all rows x^2 predicts held-out rows as well as regions do"
    assert why[-1] == (
        "physics and x^2 are fitted together on all rows, with none left to certify it"
    )
    assert not any("in a part only" in clause for clause in why)
    summary = summarize(FINDINGS["everywhere"], data, config=DEFAULT, version="1")
    assert words.rows_of_physics(summary) == "On all rows, together with x^2"
    assert steps == ["add x^2 to the physics, and run again"]
    headline, _, steps = told(FINDINGS["everywhere, no place"], data)
    assert headline == "the physics of y lacks x^2 and sin(x), which act all along x"
    assert steps == ["add x^2 and sin(x) to the physics, and run again"]


@pytest.mark.parametrize("name", ["dependent", "dependent place"])
def test_dependence_that_bars_a_certificate_is_its_reason(name, data):
    headline, why, steps = told(FINDINGS[name], data)
    assert "not certified" in headline
    assert why[0].startswith("rows depend on each other so much")
    assert "--block" in steps[0]


def test_dependence_is_named_with_advice(data):
    changes = {"dependence": dependence(axis=0.4, record=0.83, rows=9.6, significant=True)}
    summary = summarize(searched(**changes), data, config=DEFAULT, version="1")
    assert summary.warnings[1] == (
        "residuals of neighbours along x correlate by 0.40; residuals of neighbours in the record"
        " correlate by 0.83, so that 9.6 rows count as one; name the blocks (--block, --time, or"
        " block= in Python)"
    )
    known = dataclasses.replace(data, block=np.arange(39))
    summary = summarize(searched(**changes), known, config=DEFAULT, version="1")
    assert summary.warnings[1].endswith("so that 9.6 rows count as one")


@pytest.mark.parametrize(
    ("driver", "powers", "words"),
    [
        (2, (0.5, 0.0), "grows with x + 0*v"),
        (2, (-0.5, 0.25), "falls with x + 0*v and grows away from the middle of x + 0*v"),
        (0, (0.0, -1.0), "grows towards the middle of x"),
        (3, (0.0, 1.0), "grows with the size of the prediction"),
        (3, (0.0, -1.0), "falls with the size of the prediction"),
    ],
)
def test_what_noise_goes_with_is_told(data, driver, powers, words):
    exponents = np.zeros((4, 2))
    exponents[driver] = powers
    found = searched(noise_exponents=exponents)
    summary = summarize(found, data, config=DEFAULT, version="1")
    assert summary.warnings[1] == f"the noise {words}, and rows are weighted by it"
    told_of = summary.evidence.noise_goes_with
    assert [(power.rising, power.both_sides) for power in told_of] == [powers]


def test_repeated_rows_are_told(data):
    found = searched(dependence=dependence(repeated=0.5, rows=2.0, significant=True))
    summary = summarize(found, data, config=DEFAULT, version="1")
    assert summary.warnings[1].startswith(
        "50% of the rows repeat another one, so that 2.0 rows count as one"
    )


@pytest.mark.parametrize(
    "positions, words_told",
    [
        # The first two rows of the table are incomplete, so row 0 of the arrays is its third.
        ((0,), "row 3 lies far from all others near by and was set aside as a gross error"),
        ((0, 4), "2 rows lie far from all others near by and were set aside: 3, 7"),
        (
            range(10),
            "10 rows lie far from all others near by and were set aside: 3, 4, 5, 6, 7, 8, 9, 10"
            " and 2 more",
        ),
    ],
)
def test_outliers_are_named_as_rows_of_the_table(positions, words_told, data):
    found = searched(outliers=np.isin(np.arange(39), list(positions)))
    summary = summarize(found, data, config=DEFAULT, version="1")
    assert words_told in summary.warnings
    listed = json_report.to_dict(summary)["outliers"]
    assert listed == [2 + position for position in positions]


def law_of(found, data):
    return data.design @ np.asarray(found.coefficients)


@pytest.mark.parametrize(
    "above, below, told",
    [(8, 0, "above"), (0, 9, "below"), (14, 2, "above"), (7, 0, None), (5, 4, None), (0, 0, None)],
)
def test_rows_set_aside_on_one_side_may_be_a_tail(above, below, told, data):
    """Beyond chance at .01; and by how much they would move the mean."""
    found = with_regions(searched(), lower=np.full(2, NAN), upper=np.full(2, NAN))
    found = dataclasses.replace(found, outliers=np.arange(39) < above + below)
    off = np.r_[np.full(above, 3.9), np.full(below, -7.8), np.zeros(39 - above - below)]
    rows = dataclasses.replace(data, response=law_of(found, data) + off)
    summary = summarize(found, rows, config=DEFAULT, version="1")
    said = [line for line in summary.warnings if "long tail" in line]
    assert len(said) == (told is not None)
    if told:
        which = "14 of the 16" if below == 2 else f"all {above + below}"
        shift = abs(off.sum()) / 39
        assert said[0].startswith(f"{which} rows set aside outside of the regions lie {told} the")
        assert said[0].endswith(f"the mean of {data.response_name} is {shift:.2g} {told} the law")


def test_a_few_rows_further_off_on_the_other_side_are_no_tail(data):
    """Fourteen rows above the law, and two below that weigh more: no side has the tail."""
    found = dataclasses.replace(searched(), outliers=np.arange(39) < 16)
    found = with_regions(found, lower=np.full(2, NAN), upper=np.full(2, NAN))
    off = np.r_[np.full(14, 4.0), np.full(2, -60.0), np.zeros(23)]
    rows = dataclasses.replace(data, response=law_of(found, data) + off)
    summary = summarize(found, rows, config=DEFAULT, version="1")
    assert not any("long tail" in line for line in summary.warnings)


def test_rows_set_aside_in_regions_are_none_of_the_law(data):
    """The first region holds them all."""
    found = dataclasses.replace(searched(), outliers=np.arange(39) < 12)
    found = with_regions(found, lower=np.array([-np.inf, NAN]), upper=np.array([np.inf, NAN]))
    summary = summarize(found, data, config=DEFAULT, version="1")
    assert not any("long tail" in line for line in summary.warnings)


def test_a_gradual_onset_is_told(data):
    found = with_regions(searched(), softness=np.array([[0.25, NAN], [NAN, NAN]]))
    assert "the deviation begins gradually between 0.7500 and 1.2500" in says(found, data)
    abrupt = with_regions(searched(), softness=np.array([[0.0, NAN], [NAN, NAN]]))
    assert "gradually" not in says(abrupt, data)


def test_regions_are_listed_with_a_bound(data):
    summary = summarize(searched(), data, config=DEFAULT, version="1")
    (region,) = summary.regions
    assert words.evidence(region) == "p <= 3.1e-17"
    deep = dataclasses.replace(region, log_p_value=-2000.0)
    assert words.evidence(deep) == "log10 p <= -868.6"


def test_json_of_the_default_method_holds_its_evidence(data):
    found = json_report.to_dict(summarize(FINDINGS["two laws"], data, config=DEFAULT, version="1"))
    assert found["place"]["certified"]
    assert math.isclose(found["place"]["log_p_value"], -40.0)
    assert found["rival"]["share"] == 0.25
    assert [entry["coefficient"] for entry in found["rival"]["physics"]] == [4.0, 3.0]
    assert found["exactness"]["interval"] == "x >= 0.000"
