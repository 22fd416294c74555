"""Rows in working columns."""

import jax
import jax.numpy as jnp
import numpy as np
import rows_data as data

from lisdd_jax import dataset
from lisdd_jax.default.ordering import order_rows

TABLE = data.straight(0, data.step(2.0, 7))
MASK = np.arange(data.NUM) % 10 != 3


def ordered(table=TABLE, mask=MASK, **optional):
    arrays = dataset.check_arguments(*table, num_cells=8, mask=mask, **optional)
    made, _ = jax.jit(dataset.prepare)(**arrays)
    return order_rows(made), made


def test_columns_are_those_of_the_rows_in_the_order_of_the_axis():
    rows, made = ordered()
    num = MASK.sum()
    assert int(rows.num_rows) == num
    axis = np.asarray(rows.axis)
    np.testing.assert_array_equal(axis[:num], np.sort(TABLE.axis[MASK]))
    assert np.isinf(axis[num:]).all()
    assert (np.asarray(rows.columns[:, num:]) == 0).all()
    source = TABLE.features[np.asarray(rows.order[:num])].T
    features = np.asarray(rows.columns[5:-1, :num] * rows.term_scale[:, None])
    np.testing.assert_allclose(features, source, rtol=1e-12)
    basis = np.asarray(made.basis)[np.asarray(rows.order[:num])].T
    np.testing.assert_allclose(rows.columns[2:5, :num], basis, rtol=1e-12)


def test_the_response_is_about_a_first_fit_of_unit_size():
    rows, made = ordered()
    order = np.asarray(rows.order)
    left = (
        np.asarray(made.centered)[order]
        - np.asarray(rows.initial) @ np.asarray(made.basis)[order].T
    )
    num = MASK.sum()
    np.testing.assert_allclose(rows.columns[-1, :num] * rows.unit, left[:num], atol=1e-12)
    np.testing.assert_allclose(np.mean(np.asarray(rows.columns[-1, :num]) ** 2), 1, rtol=1e-9)


def test_gross_errors_do_not_set_the_unit():
    response = TABLE.response.copy()
    response[5] = 1e9
    assert float(ordered(TABLE._replace(response=response))[0].unit) < 3 * float(ordered()[0].unit)


def test_folds_are_dealt_along_the_axis():
    """Neither the order of the record nor a key has a part in them."""
    num = MASK.sum() // 4 * 4
    turned = np.random.default_rng(0).permutation(data.NUM)
    folds = [
        np.asarray(ordered(data.Table(*(part[order] for part in TABLE)), MASK[order])[0].fold)
        for order in (np.arange(data.NUM), turned)
    ]
    np.testing.assert_array_equal(*folds)
    assert (np.sort(folds[0][:num].reshape(-1, 4)) == np.arange(4)).all()


def test_folds_never_divide_a_block():
    block = np.arange(data.NUM) // 7
    rows, _ = ordered(block=block)
    num = MASK.sum()
    fold, blocks = np.asarray(rows.fold[:num]), block[np.asarray(rows.order[:num])]
    assert all(len(set(fold[blocks == name])) == 1 for name in set(blocks))
    _, first = np.unique(blocks, return_index=True)
    in_order = fold[np.sort(first)]
    whole = len(in_order) // 4 * 4
    assert (np.sort(in_order[:whole].reshape(-1, 4)) == np.arange(4)).all()


def test_repeated_rows_are_seen():
    twice = data.Table(*(np.repeat(part, 2, axis=0) for part in TABLE))
    rows, _ = ordered(twice, None)
    assert int(jnp.sum(rows.equal)) == data.NUM
