"""What of the session can change a number of a study: versions, options, compiler flags."""

import os
from importlib import metadata
from typing import Any

import jax

from lisdd_jax.numerics import compiler_passes

# Options of JAX that reach random streams, precision or the order of sums. An option that a
# release does not have reads as None.
_OPTIONS = (
    "jax_threefry_partitionable",
    "jax_default_prng_impl",
    "jax_default_matmul_precision",
    "jax_enable_x64",
    "jax_allow_f16_reductions",
    "jax_high_dynamic_range_gumbel",
    "jax_disable_jit",
    "jax_disable_most_optimizations",
    "jax_optimization_level",
    "jax_memory_fitting_level",
    "jax_exec_time_optimization_effort",
    "jax_memory_fitting_effort",
)
_VARIABLES = ("LIBTPU_INIT_ARGS", "NVIDIA_TF32_OVERRIDE", "CUBLAS_WORKSPACE_CONFIG")
_PACKAGES = ("jax", "jaxlib", "lisdd-jax")
# Flags that choose how many devices there are, how much is logged, and where.
_NEUTRAL_FLAGS = ("--xla_force_host_platform_device_count", "--xla_dump", "--xla_hlo_profile")


def numeric_environment() -> dict[str, Any]:
    """Settings of the session on which digits may depend, as JSON values.

    ``XLA_FLAGS`` counts as it stands, but for the order of flags and for those that change no
    number. XLA reads it once, when the first device is used.
    """
    options = {name: getattr(jax.config, name, None) for name in _OPTIONS}
    return {
        **{
            name: v if isinstance(v, bool | int | float) else _text(v)
            for name, v in options.items()
        },
        **{name: os.environ.get(name) for name in _VARIABLES},
        "XLA_FLAGS": _numeric_flags(),
        **{name: _version(name) for name in _PACKAGES},
    }


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _numeric_flags() -> list[str]:
    # Of a flag said twice the last one counts.
    flags = {flag.partition("=")[0]: flag for flag in compiler_passes.flags_of_xla()}
    return sorted(flag for flag in flags.values() if not flag.startswith(_NEUTRAL_FLAGS))
