"""The examples in docstrings run and print what they say, and every public name has one."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import lisdd_jax

# Compiling their examples takes from 6 to 45 seconds; the scripts under examples/ and the tests of
# these modules run the same functions in every run.
SLOW = {
    "lisdd_jax.candidates",
    "lisdd_jax.hybrid.nonlinear",
    "lisdd_jax.hybrid.smooth_diagnosis",
    "lisdd_jax.hybrid.soft_trimming",
}
MODULES = [
    module.name
    for module in pkgutil.walk_packages(lisdd_jax.__path__, "lisdd_jax.")
    if not module.name.endswith("__main__")
]
PUBLIC = (
    "lisdd_jax",
    "lisdd_jax.expressions",
    "lisdd_jax.fitting",
    "lisdd_jax.hybrid",
    "lisdd_jax.library",
    "lisdd_jax.report",
    "lisdd_jax.study.engine",
    "lisdd_jax.tables",
)
# Names outside of any ``__all__`` that the guides use.
FURTHER = (
    ("lisdd_jax.hybrid.adaptive", "adaptive_solver"),
    ("lisdd_jax.hybrid.training", "train"),
    ("lisdd_jax.tables.formula", "parse_formula"),
    ("lisdd_jax.tables.problem", "from_table"),
)
# What a function returns, and nobody builds: the function's example shows it.
RETURNED = {
    "CandidateRegions": "diagnose_regions",
    "Cells": "diagnose",
    "CellSummary": "run_study",
    "Certificate": "diagnose",
    "CleanRegime": "fit_clean_regime",
    "Diagnosis": "diagnose",
    "Expression": "parse",
    "FTest": "f_test",
    "Finding": "identifiability",
    "Form": "diagnose",
    "MetricSummary": "run_study",
    "NonlinearDiagnosis": "diagnose_nonlinear",
    "Parameters": "from_diagnosis",
    "Progress": "run_study",
    "Projected": "project",
    "Refit": "refit",
    "Regions": "diagnose",
    "Rollout": "rollout",
    "Selection": "select_form",
    "SmoothDiagnosis": "smooth_diagnose",
    "SmoothTrimmedFit": "smooth_fit_trimmed",
    "Smoothed": "local_polynomial",
    "StudyResult": "run_study",
    "Summary": "summarize",
    "TrimmedFit": "fit_trimmed",
}


def public_names() -> list[tuple[str, str]]:
    names = [
        (module, name) for module in PUBLIC for name in importlib.import_module(module).__all__
    ]
    return [*names, *FURTHER]


@pytest.mark.parametrize(
    "name", [pytest.param(m, marks=pytest.mark.slow if m in SLOW else ()) for m in MODULES]
)
def test_examples(name: str) -> None:
    outcome = doctest.testmod(importlib.import_module(name))
    assert outcome.failed == 0


@pytest.mark.parametrize("module, name", public_names())
def test_every_public_name_has_an_example(module: str, name: str) -> None:
    found = getattr(importlib.import_module(module), name)
    if not inspect.isroutine(found) and not inspect.isclass(found):
        return  # a constant
    if inspect.isclass(found) and issubclass(found, Exception):
        assert found.__doc__
        return  # raised, and never built by a user
    has_example = bool(doctest.DocTestParser().get_examples(inspect.getdoc(found) or ""))
    assert has_example != (name in RETURNED), f"{module}.{name}"


def test_what_is_returned_is_returned_by_a_public_function() -> None:
    assert set(RETURNED) | set(RETURNED.values()) <= {name for _, name in public_names()}
