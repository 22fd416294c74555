"""Where the columns of the default method stand: directions, candidate terms, response."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class ColumnLayout:
    """Columns ``[1, axis, physics (p), terms (L), response]``.

    Attributes:
      num_physics: ``p``.
      num_terms: ``L``.
    """

    num_physics: int
    num_terms: int

    @property
    def num_directions(self) -> int:
        """Directions ``[1, axis, physics]`` in which a law may change."""
        return self.num_physics + 2

    @property
    def physics(self) -> slice:
        """The physics' columns."""
        return slice(2, self.num_directions)

    @property
    def terms(self) -> slice:
        """The candidate terms."""
        return slice(self.num_directions, self.num_directions + self.num_terms)

    @property
    def size(self) -> int:
        """Number of columns, the response too."""
        return self.num_directions + self.num_terms + 1

    def without_terms(self) -> "ColumnLayout":
        """The columns but for the terms."""
        return ColumnLayout(self.num_physics, 0)

    def drop_terms(self, columns: jax.Array) -> jax.Array:
        """Columns ``(m, n)`` but for the terms."""
        return jnp.concatenate([columns[: self.num_directions], columns[-1:]])
