"""Blocks of rows that depend on each other, and the parts of them that lie in one cell (3.6)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lisdd_jax.default.cells import SortedCells


class Blocks(NamedTuple):
    """Rows block by block, in each along the axis.

    Attributes:
      order: ``(n,)`` places of such rows among those sorted along the axis.
      label: ``(n,)`` int32 their blocks.
      label_along: ``(n,)`` int32 the blocks of the rows sorted along the axis.
    """

    order: jax.Array
    label: jax.Array
    label_along: jax.Array


def gather_blocks(block: jax.Array) -> Blocks:
    """Blocks of rows that are sorted along the axis; ``block (n,)`` are their labels."""
    order = jnp.argsort(block, stable=True).astype(jnp.int32)
    return Blocks(order, block[order], block)


class Groups(NamedTuple):
    """Groups of the rows of one block and cell; arrays have room for ``n`` of them.

    Attributes:
      of_row: ``(n,)`` group of every row, block by block.
      cell_of_row: ``(n,)`` its cell.
      block_of_row: ``(n,)`` a number of its block.
      cell: ``(n,)`` cell of every group.
      beside: ``(n - 1,)`` bool, the next group lies in the same block and the next cell.
    """

    of_row: jax.Array
    cell_of_row: jax.Array
    block_of_row: jax.Array
    cell: jax.Array
    beside: jax.Array

    def totals(self, values: jax.Array) -> jax.Array:
        """Sums ``(n, ...)`` over groups of ``values (n, ...)``, block by block."""
        return jnp.zeros_like(values).at[self.of_row].add(values)

    def totals_of_blocks(self, values: jax.Array) -> jax.Array:
        """Sums ``(n, ...)`` over blocks of ``values (n, ...)``, block by block."""
        return jnp.zeros_like(values).at[self.block_of_row].add(values)


def group_rows(blocks: Blocks, cells: SortedCells) -> Groups:
    """Group rows by block and cell."""
    block, cell = blocks.label, cells.of_row[blocks.order]
    yes = jnp.ones(1, bool)
    new_block = jnp.concatenate([yes, block[1:] != block[:-1]])
    new_group = new_block | jnp.concatenate([yes, cell[1:] != cell[:-1]])
    group, number = (jnp.cumsum(new, dtype=jnp.int32) - 1 for new in (new_group, new_block))
    first_cell = jnp.zeros(cell.shape, jnp.int32).at[group].max(cell)
    first_block = jnp.zeros(block.shape, jnp.int32).at[group].max(number)
    beside = (first_block[1:] == first_block[:-1]) & (first_cell[1:] == first_cell[:-1] + 1)
    return Groups(group, cell, number, first_cell, beside)
