"""A model that is non-linear in its parameters as a linear one near a point."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from lisdd_jax import diagnosis
from lisdd_jax.config import Config, PublishedConfig
from lisdd_jax.dataset import prepare
from lisdd_jax.numerics import order, scaling
from lisdd_jax.numerics.frame import whiten
from lisdd_jax.published.physics import fit_from
from lisdd_jax.results import Diagnosis
from lisdd_jax.status import is_failure

# An iteration, its derivative and what follows all run it: a function of arrays is traced once.
_run = jax.jit(diagnosis.run)


@dataclass(frozen=True)
class LinearizedModel:
    """The model as a function of its parameters in one vector, and what it is compared with.

    Attributes:
      predicted: ``(n,)`` of parameters ``(p,)``.
      arrays: arguments of ``dataset.prepare`` by name, all but the design.
      config: settings of the diagnosis.
      start: settings of the robust start and of the refit near it.
    """

    predicted: Callable[[jax.Array], jax.Array]
    arrays: dict[str, Any]
    config: Config | PublishedConfig
    start: PublishedConfig

    @property
    def mask(self) -> jax.Array:
        """Rows in use, ``(n,)`` bool."""
        mask: jax.Array = self.arrays["mask"]
        return mask

    def residual(self, theta: jax.Array) -> jax.Array:
        """Residuals ``(n,)``, zero in rows out of use."""
        return jnp.where(self.mask, self.arrays["response"] - self.predicted(theta), 0.0)

    def linear_model(self, theta: jax.Array) -> dict[str, Any]:
        """Arguments of ``dataset.prepare`` for the model linearised at ``theta``."""
        design = jax.jacfwd(self.predicted)(theta)
        response = self.residual(theta) + design @ theta
        return {**self.arrays, "design": design, "response": response}

    def diagnose(self, key: jax.Array, theta: jax.Array) -> Diagnosis:
        """The diagnosis of the model linearised at ``theta``."""
        return _run(key, self.linear_model(theta), self.config)

    def refit_on_clean_cells(self, theta: jax.Array) -> jax.Array:
        """The published refit, which bears the curvature that is left of a start far away."""
        data, status = prepare(**self.linear_model(theta))
        refitted = fit_from(data, data.frame.solution(theta), status, self.start).regime
        return jnp.where(is_failure(refitted.status), theta, refitted.coefficients)

    def standard_errors(self, theta: jax.Array) -> jax.Array:
        """Roughly those of the parameters: units in which small changes do not matter."""
        design, left = jax.jacfwd(self.predicted)(theta), self.residual(theta)
        count = jnp.maximum(jnp.sum(self.mask), 1).astype(left.dtype)
        frame = whiten(design, left, self.mask)
        inverse = frame.covariance(jnp.eye(len(theta), dtype=left.dtype) / count)
        scale = order.median_absolute_deviation(left, self.mask)
        spread = scaling.root(jnp.diagonal(inverse)) * scale
        return lax.stop_gradient(jnp.where(spread > 0, spread, 1.0))
