"""Settings by method, as pytrees: what fixes shapes or loops is static, numbers are traced.

The type of the settings chooses the method.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
from jax.tree_util import register_dataclass

from lisdd_jax import validation

# Metadata of the fields: static whole numbers with the least one allowed, and traced numbers from 0
# with the largest one allowed.
_COUNT = {"static": True, "least": 1}
_LEVEL = {"most": 1.0}
_NUMBER = {"most": math.inf}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What both methods are told; see ``Config`` and ``PublishedConfig``.

    Attributes:
      alpha: level of the certificate: how often a sound law may be certified as wrong.
      alpha_cell: level of the test of one cell. Small, since every cell is tested.
      tolerance: relative excess of held-out error within which a smaller support wins: of two forms
        that predict alike the simpler one is reported.
      num_cells: cells of the axis where no edges are given (static). More cells follow a region
        more closely, and have fewer rows each.
      max_terms: largest support (static). The number of supports grows with this power of the
        library's size.
    """

    method: ClassVar[str]

    alpha: Any = field(default=0.05, metadata=_LEVEL)
    alpha_cell: Any = field(default=1e-3, metadata=_LEVEL)
    tolerance: Any = field(default=0.15, metadata=_NUMBER)
    num_cells: int = field(default=14, metadata={**_COUNT, "least": 2})
    max_terms: int = field(default=2, metadata=_COUNT)

    def __post_init__(self) -> None:
        """Check the static fields; traced numbers are checked at the public boundary."""
        for entry in dataclasses.fields(self):
            if "least" in entry.metadata:
                value = getattr(self, entry.name)
                validation.check_count(entry.name, value, entry.metadata["least"])

    def checked(self, dtype: Any) -> Self:
        """The same settings as arrays of one type, so that no kind of number compiles again.

        Raises:
          ValueError: a number is out of its range, or not a single one.
        """
        for entry in dataclasses.fields(self):
            if "most" in entry.metadata:
                number, most = getattr(self, entry.name), entry.metadata["most"]
                validation.check_number(f"config.{entry.name}", number, 0.0, most)
        return jax.tree.map(lambda number: jnp.asarray(number, dtype), self)


@register_dataclass
@dataclass(frozen=True, kw_only=True)
class PublishedConfig(Settings):
    """Settings of the published method, with the values of the publication.

    Attributes:
      trim: share of rows left out by the least-trimmed-squares start, in [0, 0.5]: the start bears
        as many rows that do not obey the law, and more of them bias it.
      max_iterations: limit of the clean-regime iteration (static). It repeats its flags after two
        or three.
      num_starts: random starts of the trimmed fit (static). The fit only seeds the iteration, which
        forgives a start that is not the best one.

    Example:
      >>> PublishedConfig(trim=0.2).method
      'published'
    """

    method: ClassVar[str] = "published"

    trim: Any = field(default=0.36, metadata={"most": 0.5})
    max_iterations: int = field(default=4, metadata=_COUNT)
    num_starts: int = field(default=100, metadata=_COUNT)


@register_dataclass
@dataclass(frozen=True, kw_only=True)
class Config(Settings):
    """Settings of the default method. Its other constants have their reasons in docs/method.md.

    Attributes:
      negligible: discrepancy, as a root mean square over the rows of a part of the axis and in
        units of the response, too small to matter: a law that holds to within it is called clean.
      max_regions: most regions reported, the longest ones (static).

    Example:
      >>> Config(alpha=0.01).num_cells
      14
      >>> Config.paper().trim
      0.36
    """

    method: ClassVar[str] = "default"

    negligible: Any = field(default=0.0, metadata=_NUMBER)
    max_regions: int = field(default=4, metadata=_COUNT)

    @classmethod
    def paper(cls, **changes: Any) -> PublishedConfig:
        """Settings of the published method; ``changes`` replace single fields."""
        return PublishedConfig(**changes)


MODES: dict[str, type[Config] | type[PublishedConfig]] = {
    "paper": PublishedConfig,
    "default": Config,
}
"""Settings of every method, by the name that commands and files give it."""


def mode_of(config: Settings) -> str:
    """The name that commands and files give to the method of some settings."""
    return next(mode for mode, kind in MODES.items() if type(config) is kind)


def settings_of(mode: str, changes: Mapping[str, Any]) -> Config | PublishedConfig:
    """Settings of a method from words.

    Args:
      mode: ``"paper"`` for the published method, or ``"default"``.
      changes: fields by name.

    Returns:
      The settings.

    Raises:
      ValueError: there is no such mode, or a field is unknown, of the other method, or not in its
        range.

    Example:
      >>> settings_of("paper", {"trim": 0.2}).trim
      0.2
    """
    if mode not in MODES:
        raise ValueError(f"mode must be one of {tuple(MODES)}, got {mode!r}")
    kind = MODES[mode]
    known = [entry.name for entry in dataclasses.fields(kind)]
    for name in changes:
        if name not in known:
            other = [
                entry.method
                for entry in MODES.values()
                if name in {part.name for part in dataclasses.fields(entry)}
            ]
            belongs = f"belongs to the {other[0]} method" if other else "is no setting"
            raise ValueError(
                f"settings of the {kind.method} method are {', '.join(known)}; {name!r} {belongs}"
            )
    return kind(**changes)


def check_config(config: Any) -> Config | PublishedConfig:
    """Settings of a method; those of the default method where None.

    Raises:
      TypeError: they are of another type.
    """
    if config is None:
        return Config()
    if type(config) not in MODES.values():
        raise TypeError(
            "config must be lisdd_jax.Config(...) or lisdd_jax.Config.paper(...), got"
            f" {type(config).__name__}"
        )
    return config


def check_published(config: Any) -> PublishedConfig:
    """Settings of the published method, for what has no other form; its own where None.

    Raises:
      TypeError: they are of another type.
    """
    if config is None:
        return PublishedConfig()
    if not isinstance(config, PublishedConfig):
        raise TypeError(
            "config must be settings of the published method, lisdd_jax.Config.paper(...), got"
            f" {type(config).__name__}"
        )
    return config
