"""From sums to results: map, terms, rival, verdict (docs/method.md, section 3.11)."""

from typing import Any, NamedTuple

import numpy as np

from lisdd_jax.default.form import ChosenForm, Sums, about_law
from lisdd_jax.default.layout import ColumnLayout
from lisdd_jax.default.physics import Physics
from lisdd_jax.numerics import small_systems, tolerances
from lisdd_jax.numerics.hosted import contract, namespace, safe_root
from lisdd_jax.results import Verdict
from lisdd_jax.statistics.f_tests import FRatio, f_ratio
from lisdd_jax.statistics.supports import term_places

TWO_LAWS = 0.5
"""Share of a rival from which its law and the reported one are two laws of the data, and nobody but
the user can say which is trusted: about half as many rows as the reported one has."""

USELESS = 0.5
"""Scatter over what a law explains from which it explains too little to be called a law."""

OTHERS = 2.0
"""Rows of one other law over those of the reported one, from which the data have two laws."""

SLIGHT = 0.005
"""Scatter over what a law explains below which it is exact for all that it is used for."""

_LENT_ROWS = 8.0
"""Degrees of freedom that the law's noise lends to that of a region, as to those of cells."""

INDEPENDENT = 2.0
"""Rows of a cell over those that count as one, below which cells depend on each other."""


class Terms(NamedTuple):
    """The regions' terms, each ``(R, s)``: columns, use, coefficients, standard errors."""

    place: Any
    used: Any
    coefficients: Any
    stderr: Any


def fit_terms(
    sums: Sums,
    form: ChosenForm,
    present: Any,
    law: Physics,
    variance: Any,
    inflation: Any,
    layout: ColumnLayout,
    max_terms: int,
) -> Terms:
    """Least squares of the terms on all rows of their regions, given the law.

    With ``b`` the terms' inverse Gram matrix and ``A`` their products with the physics, the
    covariance is ``b variance + b A covariance A' b``: the two are fitted on different rows. The
    variance is what the terms leave in their regions, to which that of the law lends rows.

    Args:
      sums: of the regions.
      form: the chosen terms.
      present: ``(R,)`` bool.
      law: the physics.
      variance: of the noise of the law.
      inflation: rows that count as one.
      layout: columns.
      max_terms: largest support.
    """
    gram = sums.gram[:-1].sum(1)
    count = sums.num_rows[:-1].sum(1).astype(gram.dtype)
    xp = namespace(gram)
    places, in_use = term_places(layout.num_terms, max_terms)
    place = xp.asarray(places)[form.support] + layout.num_directions
    used = xp.asarray(in_use)[form.support] & present[:, None]
    residual = about_law(gram, law.theta, layout)
    pooled, number = (
        xp.where(form.shared, xp.where(mask, part, 0.0).sum(0)[None], part)
        for mask, part in ((present[:, None, None], residual), (present, count))
    )
    rows = xp.arange(len(place))[:, None]
    both = used[:, :, None] & used[:, None, :]
    block = xp.where(both, pooled[rows[..., None], place[:, :, None], place[:, None, :]], 0.0)
    moment = xp.where(used, pooled[rows, place, -1], 0.0)
    solved = small_systems.solve_with_inverse(block, moment, tolerances.gram(gram.dtype))
    products = xp.where(used[..., None], pooled[rows, place][..., layout.physics], 0.0)
    carried = contract("rst,rtp->rsp", solved.inverse, products)
    left = xp.maximum(pooled[..., -1, -1] - (moment * solved.solution).sum(-1), 0.0)
    degrees = xp.maximum(number - used.sum(-1).astype(gram.dtype), 0)
    own = (_LENT_ROWS * variance + left) / (_LENT_ROWS + degrees)
    spread = xp.diagonal(solved.inverse, axis1=1, axis2=2) * (inflation * own)[:, None]
    spread = spread + contract("rsp,pq,rsq->rs", carried, law.covariance, carried)
    positive = spread > 0
    stderr = xp.where(positive, xp.sqrt(xp.where(positive, spread, 1.0)), xp.nan)
    return Terms(place - layout.num_directions, used, solved.solution, stderr)


class Map(NamedTuple):
    """The cells of the map, each ``(R_map,)``.

    Attributes:
      mean, rms: of the residual.
      misfit: F of the cell's own ``[1, axis, physics]`` against the law of the others.
      own_noise: the same with the cell's own variance.
      louder: F of the cell's own variance against that of the others.
    """

    mean: Any
    rms: Any
    misfit: FRatio
    own_noise: FRatio
    louder: FRatio


def map_cells(
    gram: Any, law_gram: Any, count: Any, theta: Any, floor: Any, layout: ColumnLayout
) -> Map:
    """Every cell of the map against the law.

    The law is fitted on the clean rows of the other cells, so the ratio has the F distribution for
    Gaussian noise of one variance.

    Args:
      gram, law_gram: ``(R_map, q + 1, q + 1)`` of ``[1, axis, physics, response]`` over all kept
        rows, and over those of the law.
      count: ``(R_map,)`` kept rows.
      theta: ``(p,)`` the law.
      floor: variance at which residuals are rounding errors.
      layout: columns.
    """
    xp = namespace(gram)
    size = layout.num_directions
    short = ColumnLayout(layout.num_physics, 0)
    gram, law_gram = (about_law(part, theta, short) for part in (gram, law_gram))
    tolerance = tolerances.gram(gram.dtype)
    own = small_systems.eliminate(gram, size, xp.ones(size, bool), tolerance)
    rank = own.independent.sum(-1).astype(gram.dtype)
    rest = xp.maximum(own.rest[:, -1, -1], 0.0)
    others = law_gram.sum(0)[None] - law_gram
    square = gram[:, -1, -1] - rest

    # The law of the others, and of all with the cell.
    both = xp.stack([others, others + gram])[:, :, layout.physics]
    fit = small_systems.solve(both[..., layout.physics], both[..., -1], tolerance)
    whole = xp.stack([others[:, -1, -1], others[:, -1, -1] + square])
    before, after = whole - xp.sum(fit.solution * both[..., -1], -1)
    rank_before, rank_after = fit.rank
    rounding = tolerances.CANCELLATION(gram.dtype) * (others[:, -1, -1] + gram[:, -1, -1])
    gain = xp.maximum(after - before - rounding, 0.0)
    df_num = rank + rank_before - rank_after
    degrees = xp.maximum(count - rank, 0.0)
    pooled = rest.sum() / xp.maximum(degrees.sum(), 1) + floor
    known = (rank_before == layout.num_physics) & (count > 0)
    variance = rest / xp.maximum(degrees, 1) + floor
    elsewhere = (rest.sum() - rest) / xp.maximum(degrees.sum() - degrees, 1) + floor
    number = xp.maximum(count, 1)
    empty = count == 0
    df_num = xp.where(known, df_num, 0.0)
    return Map(
        mean=xp.where(empty, xp.nan, gram[:, 0, -1] / number),
        rms=xp.where(empty, xp.nan, safe_root(gram[:, -1, -1] / number)),
        misfit=f_ratio(gain, df_num, xp.broadcast_to(degrees.sum(), rank.shape), variance=pooled),
        own_noise=f_ratio(gain, df_num, degrees, variance=variance),
        louder=f_ratio(variance * degrees, degrees, degrees.sum() - degrees, variance=elsewhere),
    )


class Grounds(NamedTuple):
    """What the verdict rests on, each a scalar bool.

    Attributes:
      enough: there are cells enough to tell one from the others.
      exact: the test that the law holds exactly does not reject.
      certified: a place stands out.
      everywhere: terms of the library act on all rows.
      useless: the law explains less than what it leaves.
      slight: it is wrong by next to nothing of what it explains.
      doubtful: dependence leaves too few independent cells.
      untold: the law is rejected but for a dependence that cannot be told from a misfit.
      two_laws: another law explains rows about as many, or nobody can tell the law's part.
      usable: some region has a support that could be judged.
    """

    enough: Any
    exact: Any
    certified: Any
    everywhere: Any
    useless: Any
    slight: Any
    doubtful: Any
    untold: Any
    two_laws: Any
    usable: Any


def decide(grounds: Grounds) -> Any:
    """The verdict, int: the first reason to abstain, else what was found."""
    xp = namespace(grounds.certified)
    found = grounds
    inexact = ~found.exact & ~found.slight
    reasons = (
        (~found.enough & ~found.exact & ~found.certified, Verdict.NO_CLEAN_REGIME),
        (~found.enough & ~found.certified, Verdict.INSUFFICIENT_DATA),
        (found.everywhere & (found.certified | inexact), Verdict.NO_CLEAN_REGIME),
        (found.certified & found.doubtful, Verdict.NOT_CERTIFIED),
        (found.certified & found.two_laws, Verdict.AMBIGUOUS_REGIME),
        (found.certified & ~found.usable, Verdict.NOT_IDENTIFIABLE),
        (found.certified, Verdict.DISCREPANCY),
        (inexact & found.useless, Verdict.NO_CLEAN_REGIME),
        (inexact & found.doubtful, Verdict.NOT_CERTIFIED),
        (inexact, Verdict.HOLDS_NEARLY),
        (found.untold, Verdict.INSUFFICIENT_DATA),
    )
    verdict = xp.asarray(Verdict.CLEAN, np.int32)
    for condition, outcome in reversed(reasons):
        verdict = xp.where(condition, np.int32(outcome), verdict)
    return verdict


def rival_share(
    clean: Any, rival: Any, num_rows: Any, members: Any, inside: Any, places: Any, ends: Any
) -> Any:
    """How much of the data the rival law explains for one part that the law does.

    Its share in rows, drawn halfway to its share in the length of the axis where the two agree to
    two standard errors: where rows are spread evenly, the length is known better.

    Args:
      clean, rival: ``(K,)`` bool, cells of either law.
      num_rows: ``(K,)``.
      members: ``(R, K)`` bool, cells of the regions.
      inside: ``(R,)`` rows of the regions.
      places: ``(K + 1,)`` axis at the bounds of the cells.
      ends: ``(2, R)`` of the regions on the axis, infinite at its ends.
    """
    xp = namespace(num_rows)
    inside = inside.astype(num_rows.dtype)
    low, high = places[0], places[-1]
    ends = xp.clip(xp.where(xp.isnan(ends), low, ends), low, high)
    length = ends[1] - ends[0]
    size = members.sum(-1)
    mine = 2 * (members & rival[None]).sum(-1) > xp.maximum(size, 1)
    rows = xp.where(mine, inside, 0.0).sum()
    long = xp.where(mine, length, 0.0).sum()
    others = xp.maximum(num_rows.sum() - inside.sum(), 1)
    rest = high - low - length.sum()
    rest = xp.where(rest > 0, rest, 1.0)
    by_rows = xp.log(xp.maximum(rows, 0.5) / others)
    error = 2 * xp.sqrt(1 / xp.maximum(rows, 1) + 1 / others)
    tiny = float(np.finfo(np.float32).tiny)
    by_length = xp.log(xp.maximum(long / rest, tiny))
    share = xp.exp(0.5 * (by_rows + xp.clip(by_length, by_rows - error, by_rows + error)))
    return xp.where((rows > 0) & xp.any(~clean), share, 0.0)


def explained_spread(gram: Any, theta: Any, layout: ColumnLayout) -> Any:
    """Standard deviation over rows of what a law explains, beyond a constant.

    Args:
      gram: ``(K, m, m)`` of all columns; rows count as their weights.
      theta: ``(p,)`` the law, the first fit included.
      layout: columns.
    """
    xp = namespace(gram)
    total = gram.sum(0)
    num = xp.where(total[0, 0] > 0, total[0, 0], 1.0)
    square = contract("p,pq,q->", theta, total[layout.physics, layout.physics], theta) / num
    mean = contract("p,p->", total[0, layout.physics], theta) / num
    return safe_root(square - mean**2)
