"""The default method as one traced program, whose compilation takes a gigabyte, on many tables."""

import jax
import numpy as np
import rows_data as data
from jax.tree_util import keystr, tree_leaves_with_path

from lisdd_jax import diagnose


def test_a_batch_gives_what_single_diagnoses_give():
    tables = [
        data.straight(1, data.step(2.0, 7)),
        data.straight(2, data.sound),
        data.straight(3, data.step(3.0, 3, 6)),
    ]
    stacked = [np.stack(parts) for parts in zip(*tables, strict=True)]
    keys = jax.random.split(jax.random.key(0), len(tables))
    together = jax.jit(jax.vmap(lambda key, *table: diagnose(*table, key=key)))
    batch = jax.device_get(together(keys, *stacked))
    for i, table in enumerate(tables):
        alone = diagnose(*table, key=keys[i])
        one = jax.tree.map(lambda leaf, i=i: leaf[i], batch)
        pairs = zip(tree_leaves_with_path(one), tree_leaves_with_path(alone), strict=True)
        for (path, left), (_, right) in pairs:
            assert left.dtype == right.dtype, keystr(path)
            np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-9, err_msg=keystr(path))
