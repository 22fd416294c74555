"""The diagnosis as studies run it: on one simulated sample, inside a trace."""

from typing import Any

import jax

from lisdd_jax import diagnosis
from lisdd_jax.config import Config
from lisdd_jax.results import Diagnosis
from lisdd_jax.study.experiments.scenarios import Sample

MODES = ("paper", "default")


def config_of(mode: str, **changes: Any) -> Config:
    """Settings of a mode: ``"paper"`` is the published algorithm, ``"default"`` the library's own.

    Args:
      mode: one of ``MODES``.
      changes: fields of ``Config`` to replace.

    Raises:
      ValueError: there is no such mode.
    """
    if mode not in MODES:
        raise ValueError(f"mode must be one of {MODES}, got {mode!r}")
    return Config.paper(**changes) if mode == "paper" else Config(**changes)


def diagnose_sample(
    key: jax.Array,
    sample: Sample,
    *,
    config: Config,
    edges: jax.Array | None = None,
    mask: jax.Array | None = None,
) -> Diagnosis:
    """Diagnose a sample; under a trace no value is looked at on the host.

    Args:
      key: typed key.
      sample: the data set.
      config: settings.
      edges: ``(R + 1,)`` cell edges; equal widths over the rows in use where None.
      mask: ``(n,)`` bool, rows to use; all where None.

    Returns:
      A ``Diagnosis``.
    """
    return diagnosis.diagnose(
        sample.design,
        sample.response,
        sample.axis,
        sample.features,
        key=key,
        config=config,
        edges=edges,
        mask=mask,
    )
