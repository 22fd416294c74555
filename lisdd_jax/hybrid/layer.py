"""A localised correction as a building block of models that are trained.

The layer holds functions and structure; its numbers are a pytree of their own. Together they are a
pure ``apply(parameters, inputs)``, which is all that an optimiser or another library needs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import register_dataclass

from lisdd_jax import validation
from lisdd_jax.hybrid import gates
from lisdd_jax.hybrid.padding import in_use
from lisdd_jax.results import Diagnosis
from lisdd_jax.status import nan_where, raise_if_failed


@register_dataclass
@dataclass(frozen=True, kw_only=True, eq=False)
class Parameters:
    """The numbers of a layer, all floating-point: any optimiser can train them.

    Attributes:
      physics: whatever the physics takes, usually its coefficients ``(p,)``.
      lower, upper: ``(K,)`` ends of the regions, in units of the axis. The lesser of the two is the
        lower one, so that ends which pass each other in training exchange their roles, and no
        region turns inside out; see ``CorrectedModel.ends``.
      log_width: ``(K,)`` log of the width over which a region fades, in units of the axis.
      weights: ``(K, L)`` coefficients of the terms.
    """

    physics: Any
    lower: jax.Array
    upper: jax.Array
    log_width: jax.Array
    weights: jax.Array


@dataclass(frozen=True, kw_only=True)
class CorrectedModel:
    """Physics everywhere, and missing terms that act in regions of the operating axis.

    ``apply`` gives ``physics(theta, x) + sum_k gate_k(axis(x)) features(x) weights_k``, where
    ``gate_k`` is one inside region k and fades logistically over its width at both ends.

    Hashable if its functions are: pass it to ``jit`` as static, or close over it.

    Attributes:
      physics: ``physics(theta, inputs)``, ``(n,)`` predictions of the trusted model.
      axis: ``axis(inputs)``, ``(n,)`` operating variable.
      features: ``features(inputs)``, ``(n, L)`` candidate terms.
      support: ``K`` rows of ``L`` booleans, terms in use in every region; the others keep weight
        zero whatever the optimiser does.
      open_below, open_above: ``K`` booleans, regions without an end on that side.

    Example:
      >>> model = CorrectedModel(
      ...     physics=lambda theta, t: theta * t,
      ...     axis=lambda t: t,
      ...     features=lambda t: t[:, None] ** 2,
      ...     support=((True,),), open_below=(False,), open_above=(True,),
      ... )
      >>> parameters = model.init(1.0, [2.0], [np.inf], width=0.01, weights=[[3.0]])
      >>> jax.jit(model.apply)(parameters, np.array([1.0, 4.0])).tolist()
      [1.0, 52.0]
    """

    physics: Callable[[Any, Any], jax.Array]
    axis: Callable[[Any], jax.Array]
    features: Callable[[Any], jax.Array]
    support: tuple[tuple[bool, ...], ...]
    open_below: tuple[bool, ...]
    open_above: tuple[bool, ...]

    def init(
        self, physics: Any, lower: Any, upper: Any, *, width: Any, weights: Any = None
    ) -> Parameters:
        """Parameters from given numbers; the missing terms begin at zero.

        Args:
          physics: parameters of the physics, floating-point.
          lower, upper: ``(K,)`` ends of the regions; those of open sides are not used.
          width: positive, one or ``(K,)``.
          weights: ``(K, L)``; zero where None.

        Returns:
          The parameters.

        Raises:
          ValueError, TypeError: shapes, types or concrete values do not fit; among them ends in the
            wrong order.
        """
        lower = validation.float_array("lower", lower)
        upper = validation.float_array("upper", upper)
        num, num_terms = len(self.support), len(self.support[0]) if self.support else 0
        for name, ends in (("lower", lower), ("upper", upper)):
            if ends.shape != (num,):
                raise ValueError(
                    f"{name} must have shape ({num},), one per region, got {ends.shape}"
                )
        self._check_ends(lower, upper)
        width = jnp.broadcast_to(validation.float_array("width", width), (num,))
        if validation.is_concrete(width) and not np.all((width > 0) & (width < np.inf)):
            raise ValueError(f"width must be positive and finite, got {np.asarray(width).tolist()}")
        shape = (num, num_terms)
        weights = (
            jnp.zeros(shape) if weights is None else validation.float_array("weights", weights)
        )
        if weights.shape != shape:
            raise ValueError(f"weights must have shape {shape}, got {weights.shape}")
        validation.check_finite("weights", weights)
        dtype = jnp.result_type(lower, *jax.tree.leaves(physics))
        return Parameters(
            physics=jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), physics),
            lower=lower.astype(dtype),
            upper=upper.astype(dtype),
            log_width=jnp.log(width).astype(dtype),
            weights=weights.astype(dtype),
        )

    def _check_ends(self, lower: jax.Array, upper: jax.Array) -> None:
        """Refuse concrete ends that are not finite, or in the wrong order, where they are used."""
        if not (validation.is_concrete(lower) and validation.is_concrete(upper)):
            return
        low, high = np.asarray(lower), np.asarray(upper)
        below, above = (~np.array(side, bool) for side in (self.open_below, self.open_above))
        bad = (below & ~np.isfinite(low)) | (above & ~np.isfinite(high))
        bad |= below & above & ~(low < high)
        if bad.any():
            k = int(np.argmax(bad))
            raise ValueError(
                "lower and upper must be finite, and lower below upper, where a region has ends,"
                f" got {low[k]:g} and {high[k]:g} for region {k}"
            )

    def ends(self, parameters: Parameters) -> tuple[jax.Array, jax.Array]:
        """Lower and upper ends ``(K,)`` in their order, infinite on open sides."""
        lower = jnp.where(np.array(self.open_below, bool), -jnp.inf, parameters.lower)
        upper = jnp.where(np.array(self.open_above, bool), jnp.inf, parameters.upper)
        return jnp.minimum(lower, upper), jnp.maximum(lower, upper)

    def gate(self, parameters: Parameters, axis: jax.Array, temperature: Any = 1.0) -> jax.Array:
        """How far every row lies inside every region.

        Args:
          parameters: of this layer.
          axis: ``(n,)``.
          temperature: factor on the widths; at 0 the gates are ``Regions.contains``.

        Returns:
          ``(n, K)`` in [0, 1]; NaN for a region whose ends are NaN or whose width is not finite,
          for a row whose axis is NaN, and under a traced temperature that is NaN or negative.

        Raises:
          ValueError: a temperature known outside a trace is negative, NaN or infinite.
        """
        validation.check_number("temperature", temperature, 0, np.finfo(axis.dtype).max)
        lower, upper = self.ends(parameters)
        # Widths beyond are as good as these, whose ratios and derivatives stay finite.
        most = np.log(np.finfo(parameters.log_width.dtype).max) / 3
        log_width = jnp.clip(parameters.log_width, -most, most)
        log_width = nan_where(~jnp.isfinite(parameters.log_width), log_width)
        width = jnp.exp(log_width) * temperature
        return gates.between(axis[:, None], lower[None], upper[None], width[None])

    def correction(
        self, parameters: Parameters, inputs: Any, temperature: Any = 1.0, *, mask: Any = None
    ) -> jax.Array:
        """What the missing terms add, ``(n,)``; arguments as for ``apply``."""
        inputs, mask = in_use(inputs, mask)
        axis = self.axis(inputs)
        if not self.support:
            return jnp.zeros_like(axis)
        features, num_terms = self.features(inputs), len(self.support[0])
        if features.shape != (*axis.shape, num_terms):
            raise ValueError(
                f"features must give shape {(*axis.shape, num_terms)}, rows of the axis by terms of"
                f" the support, got shape {features.shape}"
            )
        used = jnp.where(np.array(self.support), parameters.weights, 0.0)
        added = jnp.sum(self.gate(parameters, axis, temperature) * (features @ used.T), axis=1)
        return added if mask is None else jnp.where(mask, added, 0.0)

    def apply(
        self, parameters: Parameters, inputs: Any, temperature: Any = 1.0, *, mask: Any = None
    ) -> jax.Array:
        """Predictions ``(n,)`` of the corrected model.

        A parameter or a temperature that is no number gives NaN, and so does a loss of it: a layer
        that training has spoilt does not pass for one whose regions are off.

        Args:
          parameters: of this layer.
          inputs: operating variables, as the functions of the layer take them.
          temperature: factor on the widths; at 0 the regions end sharply.
          mask: ``(n,)`` bool, rows to use, the others being padding, NaN or not. They give 0 with
            derivative 0; arrays of ``inputs`` with ``n`` rows are filled with a row in use there
            before any function sees them. All rows where None.

        Returns:
          ``(n,)``, differentiable in parameters and inputs; at temperature 0 not in the ends.

        Raises:
          ValueError, TypeError: a shape does not fit, or a temperature known outside a trace is
            negative, NaN or infinite.
        """
        inputs, mask = in_use(inputs, mask)
        physics = self.physics(parameters.physics, inputs)
        total = physics + self.correction(parameters, inputs, temperature)
        return total if mask is None else jnp.where(mask, total, 0.0)

    __call__ = apply


def from_diagnosis(
    diagnosis: Diagnosis,
    *,
    physics: Callable[[Any, Any], jax.Array],
    axis: Callable[[Any], jax.Array],
    features: Callable[[Any], jax.Array],
    width: float | None = None,
    theta: Any = None,
) -> tuple[CorrectedModel, Parameters]:
    """The corrected model of a diagnosis, ready to be trained further.

    Args:
      diagnosis: of one data set, outside any trace.
      physics, axis, features: functions of ``CorrectedModel``; for a model linear in its
        coefficients the physics is ``lambda theta, inputs: design(inputs) @ theta``.
      width: over which a region fades, in units of the axis; where None, of every region, a
        hundredth of its length. Ends learn from rows within a few widths of them.
      theta: parameters of the physics; the coefficients of the diagnosis where None.

    Returns:
      The layer, with the regions present and their terms, and its parameters. At temperature 0
      ``apply`` is ``predict``.

    Raises:
      FailedError: the diagnosis failed, so there is no model.
      TypeError: the diagnosis is traced; its regions must be known.
      ValueError: ``width`` is not positive.

    Example:
      >>> from lisdd_jax import diagnose
      >>> t = np.linspace(0.0, 1.0, 60)
      >>> y = 2 * t + np.where(t > 0.7, 5 * (t - 0.7), 0.0) + 0.05 * np.sin(997 * t**2)
      >>> columns = np.stack([np.ones(60), t], axis=1)
      >>> found = diagnose(columns, y, t, columns, key=jax.random.key(0))
      >>> law = lambda theta, t: theta[0] + theta[1] * t
      >>> terms = lambda t: jnp.stack([jnp.ones_like(t), t], axis=1)
      >>> model, parameters = from_diagnosis(found, physics=law, axis=lambda t: t, features=terms)
      >>> predicted = jax.jit(model.apply)(parameters, np.array([0.5, 0.9]))
      >>> [round(value, 1) for value in predicted.tolist()]
      [1.0, 2.8]
    """
    if not all(map(validation.is_concrete, jax.tree.leaves(diagnosis))):
        raise TypeError(
            "diagnosis must be known outside jit, grad and vmap, since its regions fix the"
            " structure of the layer; got a traced one"
        )
    raise_if_failed(diagnosis)
    regions = diagnosis.regions
    here = np.flatnonzero(np.asarray(regions.present))
    lower, upper = np.asarray(regions.lower)[here], np.asarray(regions.upper)[here]
    model = CorrectedModel(
        physics=physics,
        axis=axis,
        features=features,
        support=tuple(map(tuple, np.asarray(regions.support)[here].tolist())),
        open_below=tuple(np.asarray(regions.open_below)[here].tolist()),
        open_above=tuple(np.asarray(regions.open_above)[here].tolist()),
    )
    parameters = model.init(
        diagnosis.coefficients if theta is None else theta,
        jnp.asarray(lower),
        jnp.asarray(upper),
        width=jnp.asarray(upper - lower) / 100 if width is None else width,
        weights=regions.coefficients[here] if len(here) else None,
    )
    return model, parameters
