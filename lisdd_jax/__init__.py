"""Localized, identifiable sparse discovery of model discrepancy."""

from typing import TYPE_CHECKING, Any

from lisdd_jax.candidates import CandidateRegions, diagnose_regions
from lisdd_jax.config import Config, PublishedConfig
from lisdd_jax.diagnosis import diagnose
from lisdd_jax.numerics.tails import chi2_logsf, chi2_sf, f_logsf, f_sf
from lisdd_jax.prediction import predict
from lisdd_jax.program_cache import compile_cache
from lisdd_jax.published.physics import CleanRegime, fit_clean_regime
from lisdd_jax.results import Cells, Certificate, Diagnosis, Form, Regions, Verdict
from lisdd_jax.statistics.f_tests import FTest, f_test
from lisdd_jax.statistics.holdout import Selection, select_form
from lisdd_jax.statistics.multiplicity import adjust_p_values
from lisdd_jax.statistics.supports import supports
from lisdd_jax.statistics.trimmed.fit import TrimmedFit, fit_trimmed
from lisdd_jax.status import FailedError, Status, describe, raise_if_failed
from lisdd_jax.version import VERSION

if TYPE_CHECKING:
    from lisdd_jax.fitting import Result, fit
    from lisdd_jax.fitting.estimator import DiscrepancyRegressor as DiscrepancyRegressor

__version__ = VERSION

__all__ = [
    "CandidateRegions",
    "Cells",
    "Certificate",
    "CleanRegime",
    "Config",
    "Diagnosis",
    "FTest",
    "FailedError",
    "Form",
    "PublishedConfig",
    "Regions",
    "Result",
    "Selection",
    "Status",
    "TrimmedFit",
    "Verdict",
    "adjust_p_values",
    "chi2_logsf",
    "chi2_sf",
    "compile_cache",
    "describe",
    "diagnose",
    "diagnose_regions",
    "f_logsf",
    "f_sf",
    "f_test",
    "fit",
    "fit_clean_regime",
    "fit_trimmed",
    "predict",
    "raise_if_failed",
    "select_form",
    "supports",
]


def __getattr__(name: str) -> Any:
    """What stands on tables and reports is imported when it is first used."""
    if name in ("Result", "fit"):
        from lisdd_jax import fitting

        return getattr(fitting, name)
    # It needs scikit-learn, so that it is not among the names of a star import.
    if name == "DiscrepancyRegressor":
        from lisdd_jax.fitting import estimator

        return estimator.DiscrepancyRegressor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
