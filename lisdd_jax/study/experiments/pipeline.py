"""The diagnosis as studies run it: on one simulated sample, inside a trace."""

import jax

from lisdd_jax import diagnosis
from lisdd_jax.config import Config, PublishedConfig
from lisdd_jax.results import Diagnosis
from lisdd_jax.study.experiments.scenarios import Sample


def diagnose_sample(
    key: jax.Array,
    sample: Sample,
    *,
    config: Config | PublishedConfig,
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
