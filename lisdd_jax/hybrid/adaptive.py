"""Solvers of Diffrax for ``rollout``: steps that adapt, and implicit ones for stiff laws."""

from typing import Any

import jax
import jax.numpy as jnp

from lisdd_jax.hybrid.integration import Solver
from lisdd_jax.hybrid.runge_kutta import Rate

try:
    import diffrax
except ModuleNotFoundError as error:
    raise ImportError(
        "lisdd_jax.hybrid.adaptive needs Diffrax: run `pip install 'lisdd-jax[hybrid]'`"
    ) from error


def adaptive_solver(
    method: Any = None,
    *,
    rtol: float = 1e-6,
    atol: float = 1e-9,
    max_steps: int = 16384,
    **options: Any,
) -> Solver:
    """A solver with steps that keep to tolerances.

    Args:
      method: of Diffrax; ``diffrax.Kvaerno5()``, which is implicit and so bears stiff laws, where
        None. For laws that are not stiff ``diffrax.Tsit5()`` is faster.
      rtol, atol: tolerances of a step, relative and in units of the state.
      max_steps: most steps; the solver gives up beyond.
      **options: more for ``diffrax.diffeqsolve``, such as a step-size controller of one's own, or
        ``adjoint=diffrax.DirectAdjoint()`` for derivatives in forward mode.

    Returns:
      The solver, for ``rollout(..., solver=)``. Differentiable in reverse mode.

    Example:
      >>> import numpy as np, jax.numpy as jnp
      >>> from lisdd_jax.hybrid import rollout
      >>> times = np.linspace(0.0, 1.0, 3)
      >>> stiff = lambda time, state: -1000 * (state - jnp.cos(time))
      >>> int(rollout(stiff, 0.0, times, solver=adaptive_solver(rtol=1e-4)).status)
      0

    References:
      Kidger (2022), On Neural Differential Equations, chapter 5. Kværnø (2004), Singly diagonally
      implicit Runge-Kutta methods with an explicit first stage, BIT 44.
    """
    chosen = diffrax.Kvaerno5() if method is None else method
    options.setdefault("stepsize_controller", diffrax.PIDController(rtol=rtol, atol=atol))

    def solve(rate: Rate, initial: Any, times: jax.Array) -> tuple[Any, jax.Array]:
        found = diffrax.diffeqsolve(
            diffrax.ODETerm(lambda time, state, _: rate(jnp.asarray(time), state)),
            chosen,
            times[0],
            times[-1],
            None,
            initial,
            saveat=diffrax.SaveAt(ts=times),
            max_steps=max_steps,
            throw=False,
            **options,
        )
        succeeded = found.result == diffrax.RESULTS.successful
        return found.ys, jnp.asarray(succeeded)

    return solve
