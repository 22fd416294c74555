"""The compiled program that runs many replications on the devices of this process.

On a CPU replications run one after another inside a loop on each device, which keeps a data set in
cache; on an accelerator a batch of them runs at once. Several devices form a mesh over which the
replications are sharded. No communication is involved.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from lisdd_jax.numerics import compiler_passes
from lisdd_jax.study.engine import interval_sets, machine
from lisdd_jax.study.engine.replication import Replication

# Replications per device and call: enough to hide the cost of a call, small as a buffer.
CAPACITY = 1 << 14
LARGEST_BATCH = 1 << 10


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How replications lie on the devices: ``rows`` batches on each device of a mesh."""

    mesh: Mesh
    rows: int
    batch_size: int

    @property
    def granule(self) -> int:
        """Replications in one batch on every device; chunks are best multiples of it."""
        return self.mesh.size * self.batch_size

    @property
    def capacity(self) -> int:
        """Most replications in one call."""
        return self.granule * self.rows

    def deal(self, members: np.ndarray, params: dict[str, np.ndarray]) -> tuple[Any, ...]:
        """Arguments of ``run_batches`` after the key: the members dealt out to devices in turn."""
        devices, slots = np.indices((self.mesh.size, self.rows * self.batch_size))
        dealt = slots * self.mesh.size + devices
        used = np.sum(dealt < len(members), axis=1)
        # Padding repeats the last member, which is as safe to compute as the member itself.
        order = np.minimum(dealt, max(len(members) - 1, 0)).reshape(-1, self.batch_size)
        cells, numbers = interval_sets.split_members(members if len(members) else np.zeros(1, int))
        arguments = (
            cells.astype(np.uint32)[order],
            numbers.astype(np.uint32)[order],
            {name: values[cells][order] for name, values in params.items()},
            (-(-used // self.batch_size)).astype(np.int32),
        )
        return jax.device_put(arguments, NamedSharding(self.mesh, P("devices")))

    def collect(self, metrics: dict[str, jax.Array], count: int) -> dict[str, np.ndarray]:
        """Undo ``deal`` on the host."""
        dealt = (self.mesh.size, self.rows * self.batch_size)
        return {
            name: np.asarray(values).reshape(dealt).T.reshape(-1)[:count]
            for name, values in metrics.items()
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class Program:
    """A compiled program for one group of cells.

    Attributes:
      compiled: the executable.
      layout: how replications lie on the devices.
      key: key of the study, on every device.
      params: traced parameters of every cell of the study.
      static: static parameters of the group.
      num_threads: calls that may run at once.
    """

    compiled: Any
    layout: Layout
    key: jax.Array
    params: dict[str, np.ndarray]
    static: tuple[tuple[str, Any], ...]
    num_threads: int

    def load(self, members: np.ndarray) -> tuple[Any, ...]:
        """Arguments for these replications, on the devices."""
        return (self.key, *self.layout.deal(members, self.params))

    def run(self, arguments: tuple[Any, ...], count: int) -> dict[str, np.ndarray]:
        """Metrics of the ``count`` replications loaded; may be called from several threads."""
        return self.layout.collect(self.compiled(*arguments), count)


def cpu_options() -> dict[str, str]:
    """Compiler options of a study on CPU: without the passes that cost it time."""
    return compiler_passes.without_slow_passes(jnp.result_type(float), many_at_once=True)


def run_batches(
    replication: Replication,
    key: jax.Array,
    cells: jax.Array,
    numbers: jax.Array,
    params: dict[str, jax.Array],
    num_batches: jax.Array,
    *,
    mesh: Mesh,
) -> dict[str, jax.Array]:
    """Run the first ``num_batches[d]`` of the rows of device ``d``.

    Arrays of replications are ``(devices * rows, batch_size)``. The number of batches is traced,
    so a chunk of any size runs the same program and does no wasted work.
    """

    # Traced outside of the mesh, where the trace that the engine has made is found again.
    closed, shapes = replication.trace(key.dtype, {n: v.dtype for n, v in params.items()})

    def one(*arguments: Any) -> dict[str, jax.Array]:
        values = jax.extend.core.jaxpr_as_fun(closed)(*jax.tree.leaves(arguments))
        return jax.tree.unflatten(jax.tree.structure(shapes), values)

    def on_device(key: Any, *local: Any) -> dict[str, jax.Array]:
        *members, num_batches = local

        def run_batch(index: Any) -> dict[str, jax.Array]:
            batch = jax.tree.map(lambda x: lax.dynamic_index_in_dim(x, index, 0, False), members)
            if members[0].shape[1] > 1:
                return jax.vmap(partial(one, key))(*batch)
            metrics = one(key, *jax.tree.map(lambda x: x[0], batch))
            return jax.tree.map(lambda x: x[None], metrics)

        def step(index: Any, out: dict[str, jax.Array]) -> dict[str, jax.Array]:
            write = partial(lax.dynamic_update_index_in_dim, index=index, axis=0)
            return jax.tree.map(write, out, run_batch(index))

        start = jax.tree.map(lambda x: jnp.zeros(members[0].shape, x.dtype), shapes)
        return lax.fori_loop(0, num_batches[0], step, start)

    split = P("devices")
    return jax.shard_map(
        on_device,
        mesh=mesh,
        in_specs=(P(), split, split, split, split),
        out_specs=split,
        # The user's loops may start from constants, which the check would refuse.
        check_vma=False,
    )(key, cells, numbers, params, num_batches)


def build_program(
    replication: Replication,
    key: jax.Array,
    params: dict[str, np.ndarray],
    *,
    devices: Sequence[jax.Device],
    batch_size: int | None = None,
    memory_limit: int | None = None,
    num_threads: int | None = None,
    capacity: int = CAPACITY,
    largest_batch: int | None = None,
) -> Program:
    """Compile the program of a group of cells within a memory budget.

    Args:
      replication: what to run.
      key: key of the study.
      params: traced parameters of every cell.
      devices: devices of this process.
      batch_size: replications run at once on a device. By default the largest power of two up
        to ``largest_batch`` whose working memory fits.
      memory_limit: bytes of working memory on a device; by default half of what it offers.
      num_threads: calls that may run at once. By default one per core that the devices leave
        idle on a CPU, fewer where the memory would not suffice, and one on an accelerator.
      capacity: replications per device that one call must be able to hold.
      largest_batch: limit of the batch; by default one on a CPU and 1024 on an accelerator.

    Returns:
      The program.

    Raises:
      MemoryError: a single replication needs more than the device offers.
    """
    on_cpu = devices[0].platform == "cpu"
    mesh = Mesh(np.array(devices), ("devices",))
    offered = machine.available_bytes(devices[0])
    limit = memory_limit or offered // 2
    on_mesh = jax.device_put(key, NamedSharding(mesh, P()))
    chosen = batch_size or largest_batch or (1 if on_cpu else LARGEST_BATCH)
    while True:
        layout = Layout(mesh=mesh, rows=-(-capacity // chosen), batch_size=chosen)
        arguments = (on_mesh, *layout.deal(np.zeros(0, np.int64), params))
        function = replication.jit(run_batches, static_argnames=("mesh",))
        lowered = function.lower(*arguments, mesh=mesh)
        compiled = lowered.compile(compiler_options=cpu_options() if on_cpu else None)
        needed = machine.working_bytes(compiled)
        if batch_size or chosen == 1 or needed <= limit:
            break
        chosen = machine.smaller_batch(chosen, needed, limit)
    if needed > offered:
        raise MemoryError(
            f"{chosen} replications at once must fit into the memory of the device,"
            f" {machine.as_memory(offered)}, but need {machine.as_memory(needed)}; make the data"
            " sets smaller"
        )
    if num_threads is None:
        idle = machine.usable_cores() // len(devices) if on_cpu else 1
        num_threads = max(1, min(idle, limit // max(needed, 1)))
    return Program(
        compiled=compiled,
        layout=layout,
        key=on_mesh,
        params=params,
        static=replication.static,
        num_threads=num_threads,
    )
