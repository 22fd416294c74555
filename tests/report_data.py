"""Diagnoses made by hand, one for every verdict, and the table they speak of."""

import dataclasses
import math

import numpy as np

from lisdd_jax.report import summarize
from lisdd_jax.results import (
    Cells,
    Certificate,
    Dependence,
    Diagnosis,
    Exactness,
    Form,
    Place,
    Regions,
    Rival,
    Verdict,
)
from lisdd_jax.status import Status
from lisdd_jax.tables import problem

CONFIG = {"max_terms": 2, "alpha": 0.05, "alpha_cell": 1e-3, "seed": 0, "mode": "paper"}
DEFAULT = {**CONFIG, "negligible": 0.0, "mode": "default"}
LIBRARY = ["x^2", "x^3", "sin(x)"]
NAN = math.nan


def fill(cls, **given):
    """A result; fields that are not given are NaN."""
    return cls(**{f.name: given.get(f.name, np.array(NAN)) for f in dataclasses.fields(cls)})


def write_problem(path):
    """A table of 41 rows, two of them incomplete, and its problem."""
    x = np.linspace(-2.0, 2.0, 41)
    lines = [f"{value},{1 + value},{'' if k < 2 else 0.5}" for k, value in enumerate(x)]
    path.write_text("\n".join(["x,y,v", *lines]))
    return problem.from_table(
        path,
        response="y",
        physics=["x + 0*v"],
        axis="x",
        library=LIBRARY,
        intercept=True,
    )


def diagnosis(*, verdict=Verdict.DISCREPANCY, status=Status.OK, flagged=(3,), **changes):
    flags = np.isin(np.arange(4), flagged)
    failed = status >= 100
    one = np.array(NAN if failed else 1.0)
    support = np.array([[False, True, False], [False] * 3]) & bool(flags.any())
    lower, upper = np.array([-2.0, -1.0, 0.0, 1.0]), np.array([-1.0, 0.0, 1.0, 2.0])
    log_p = np.where(flags, -2000.0, -0.5)
    parts = {
        "coefficients": np.array([1.0, -2.0]) * one,
        "covariance": np.diag([1e-4, 4e-4]) * one,
        "scale": 0.3 * one,
        "cells": fill(
            Cells,
            lower=lower,
            upper=upper,
            count=np.array([9, 10, 10, 10]),
            mean=np.where(flags, 1.0, 0.0) * one,
            rms=np.where(flags, 1.1, 0.3) * one,
            statistic=np.where(flags, 900.0, 9.0) * one,
            p_value=np.exp(log_p) * one,
            log_p_value=log_p * one,
            flagged=flags,
            noisier=np.zeros(4, bool),
        ),
        "regions": fill(
            Regions,
            lower=np.array([lower[flags][0] if flags.any() else NAN, NAN]),
            upper=np.array([upper[flags][-1] if flags.any() else NAN, NAN]),
            open_below=np.array([bool(flags[0]), False]),
            open_above=np.array([bool(flags[-1]), False]),
            present=np.array([bool(flags.any()), False]),
            same_rows=np.array(False),
            count=np.array([10, 0]),
            support=support,
            coefficients=np.where(support, 0.2, 0.0),
            stderr=np.where(support, 0.013, NAN),
            # Order of supports: x^2, x^3, sin, then pairs.
            equivalent=np.array([[1, 1, 0, 1, 0, 0], [0] * 6], bool) & bool(flags.any()),
            p_value=np.array([0.0, NAN]),
            log_p_value=np.array([-2000.0, NAN]),
            adjusted_p_value=np.array([0.0, NAN]),
            lower_interval=np.array([[0.98, 1.01], [NAN, NAN]]),
            upper_interval=np.full((2, 2), NAN),
            shared=np.array(False),
            softness=np.full((2, 2), NAN),
            lacking=np.zeros(2, bool),
        ),
        "form": fill(
            Form,
            support=support[0],
            errors=np.array([1.0, 0.9, 3.0, 0.95, 2.0, 2.0]),
            certified=np.array(True),
            status=np.int32(Status.OK if flags.any() else Status.NOTHING_FLAGGED),
        ),
        "test": fill(
            Certificate,
            statistic=np.array(3826.0),
            df_num=np.array(1.0),
            df_den=np.array(16.0),
            p_value=np.array(0.0),
            log_p_value=np.array(-3826.0),
            reject=np.array(True),
            support=support[0],
            flagged=flags,
            status=np.int32(Status.OK),
        ),
        "place": fill(Place, certified=np.array(False)),
        "exactness": fill(Exactness),
        "rival": fill(Rival, coefficients=np.full(2, NAN)),
        "everywhere": np.zeros(3, bool),
        "dependence": fill(Dependence, significant=np.array(False)),
        "outliers": np.zeros(39, bool),
        "row_noise": np.ones(39),
        "noise_exponents": np.zeros((4, 2)),
        "num_rows": np.int32(39),
        "verdict": np.int32(verdict),
        "status": np.int32(status),
    }
    return fill(Diagnosis, **{**parts, **changes})


def searched(*, place=-40.0, exact=-1.0, verdict=Verdict.DISCREPANCY, flagged=(3,), **changes):
    """A diagnosis of the default method, by its log p-values of the place and of exactness."""
    certified = place < math.log(0.05)
    found = diagnosis(verdict=verdict, flagged=flagged)
    number = np.array([-38.0 if flagged else NAN, NAN])
    parts = {
        "regions": dataclasses.replace(
            found.regions,
            log_p_value=number,
            p_value=np.exp(number),
            adjusted_p_value=np.exp(number),
        ),
        "place": fill(
            Place,
            p_value=np.exp(place),
            log_p_value=np.array(place),
            certified=np.array(certified),
            region_log_p_value=number,
        ),
        "exactness": Exactness(
            statistic=np.array(9.0),
            p_value=np.exp(exact),
            log_p_value=np.array(exact),
            lower=np.array(0.0),
            upper=np.array(math.inf),
        ),
        "law_scatter": np.array(0.0),
        "rival": Rival(share=np.array(0.0), coefficients=np.full(2, NAN), gap=np.array(math.inf)),
        "dependence": dependence(),
        "test": found.test if flagged else UNDEFINED_TEST,
    }
    return dataclasses.replace(found, **{**parts, **changes})


def dependence(*, axis=0.0, record=0.0, rows=1.0, repeated=0.0, significant=False):
    return Dependence(
        axis_correlation=np.array(axis),
        record_correlation=np.array(record),
        rows=np.array(rows),
        repeated=np.array(repeated),
        significant=np.array(significant),
    )


UNDEFINED_TEST = fill(
    Certificate,
    reject=np.array(False),
    support=np.zeros(3, bool),
    flagged=np.zeros(4, bool),
    status=np.int32(Status.NOTHING_FLAGGED),
)
OUTCOMES = {
    "discrepancy": diagnosis(),
    "clean": diagnosis(verdict=Verdict.CLEAN, flagged=(), test=UNDEFINED_TEST),
    "not_certified": diagnosis(verdict=Verdict.NOT_CERTIFIED, test=UNDEFINED_TEST),
    "no_clean_regime": diagnosis(
        verdict=Verdict.NO_CLEAN_REGIME, status=Status.NO_CLEAN_CELLS, flagged=()
    ),
    "ambiguous_regime": diagnosis(verdict=Verdict.AMBIGUOUS_REGIME),
    "not_identifiable": diagnosis(
        verdict=Verdict.NOT_IDENTIFIABLE, status=Status.RANK_DEFICIENT_DESIGN, flagged=()
    ),
    "insufficient_data": diagnosis(
        verdict=Verdict.INSUFFICIENT_DATA, status=Status.ZERO_SCALE, flagged=()
    ),
    "holds_nearly": searched(
        verdict=Verdict.HOLDS_NEARLY, place=-0.5, exact=-30.0, flagged=(), law_scatter=np.array(0.3)
    ),
}


def summary_of(name, data):
    return summarize(OUTCOMES[name], data, config=CONFIG, version="1.2.3")
