"""The published method and its pieces in plain NumPy, by loops: slow, and sharing no code with it.

Tests compare the library with these; ``data/make_references.py`` records some of their answers.
"""

import itertools

import numpy as np
from scipy import stats


def least_squares(columns, response):
    """Coefficients and residual sum of squares."""
    coefficients = np.linalg.lstsq(columns, response, rcond=None)[0]
    return coefficients, float(np.sum((response - columns @ coefficients) ** 2))


def trimmed_by_subsets(design, response, num):
    """Least trimmed squares by every subset of ``num`` rows: objective, coefficients, rows."""
    best = (np.inf, None, None)
    for rows in itertools.combinations(range(len(response)), num):
        rows = list(rows)
        coefficients, objective = least_squares(design[rows], response[rows])
        if objective < best[0]:
            best = (objective, coefficients, rows)
    return best


def trimmed_by_pairs(design, response, num):
    """Concentration from the line through every pair of rows, to convergence; the best."""
    best = (np.inf, None)
    for pair in itertools.combinations(range(len(response)), 2):
        rows = list(pair)
        if abs(np.linalg.det(design[rows])) < 1e-6:
            continue
        before = np.inf
        while True:
            coefficients = np.linalg.lstsq(design[rows], response[rows], rcond=None)[0]
            squares = (response - design @ coefficients) ** 2
            rows = list(np.argsort(squares, kind="stable")[:num])
            objective = float(np.sum(squares[rows]))
            if not objective < before:
                break
            before = objective
        if before < best[0]:
            best = (before, coefficients)
    return best


def median_absolute_deviation(values):
    ordered = sorted(values)
    half = len(ordered) // 2
    middle = ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
    apart = sorted(abs(value - middle) for value in values)
    spread = apart[half] if len(apart) % 2 else (apart[half - 1] + apart[half]) / 2
    return 1.4826 * spread


def cell_of(value, edges):
    """Half-open cells, the last one closed; None outside."""
    for k in range(len(edges) - 1):
        if edges[k] <= value < edges[k + 1]:
            return k
    widths = [k for k in range(len(edges) - 1) if edges[k] < edges[k + 1]]
    return widths[-1] if value == edges[-1] else None


def energy_tests(residual, cell, num_cells, scale):
    """Statistic and log p-value of every cell."""
    statistic, log_p = np.full(num_cells, np.nan), np.full(num_cells, np.nan)
    for k in range(num_cells):
        squares = [r**2 for r, c in zip(residual, cell, strict=True) if c == k]
        if squares and scale > 0:
            statistic[k] = sum(squares) / scale**2
            log_p[k] = stats.chi2.logsf(statistic[k], len(squares))
    return statistic, log_p


def clean_regime(design, response, cell, num_cells, theta, alpha_cell, max_iterations=4):
    """Algorithm 1, lines 2 to 6: coefficients, flags and scale of the last test, iterations."""
    before = None
    for iteration in range(1, max_iterations + 1):
        residual = response - design @ theta
        scale = median_absolute_deviation(residual)
        statistic, log_p = energy_tests(residual, cell, num_cells, scale)
        flagged = [bool(value < np.log(alpha_cell)) for value in log_p]
        clean = [i for i in range(len(response)) if not flagged[cell[i]]]
        theta = np.linalg.lstsq(design[clean], response[clean], rcond=None)[0]
        if before == flagged:
            break
        before = flagged
    return {
        "coefficients": theta,
        "flagged": flagged,
        "scale": scale,
        "statistic": statistic,
        "log_p_value": log_p,
        "num_iterations": iteration,
    }


def runs_of(flagged):
    """First and last position of every run of True."""
    found, start = [], None
    for k, value in enumerate([*flagged, False]):
        if value and start is None:
            start = k
        if not value and start is not None:
            found.append((start, k - 1))
            start = None
    return found


def unit_ranks(mask, block=None):
    """Rank of every row's unit by first appearance; None out of use."""
    seen, ranks = [], []
    for i, used in enumerate(mask):
        label = i if block is None else block[i]
        if used and label not in seen:
            seen.append(label)
        ranks.append(seen.index(label) if used else None)
    return ranks


def halves(coins, mask, block=None):
    """Of every two consecutive units a coin sends one to the first half: rows of either."""
    first, second = [], []
    for i, rank in enumerate(unit_ranks(mask, block)):
        if rank is not None:
            (first if (rank % 2 == 1) == bool(coins[rank // 2]) else second).append(i)
    return first, second


def all_supports(num_terms, max_terms):
    return [
        list(positions)
        for size in range(1, min(max_terms, num_terms) + 1)
        for positions in itertools.combinations(range(num_terms), size)
    ]


def choose_support(errors, supports, tolerance):
    """Position of the choice, and which supports are within the tolerance."""
    best = min(errors)
    within = [bool(np.isfinite(error) and error <= (1 + tolerance) * best) for error in errors]
    sizes = [len(support) for support, ok in zip(supports, within, strict=True) if ok]
    if not sizes:
        return 0, within
    eligible = [i for i, ok in enumerate(within) if ok and len(supports[i]) == min(sizes)]
    return min(eligible, key=lambda i: errors[i]), within


def holdout(features, residual, fit, score, max_terms, tolerance):
    """Error of every support, and the position of the chosen one."""
    supports, errors = all_supports(features.shape[1], max_terms), []
    for support in supports:
        columns = features[:, support]
        weights = np.linalg.lstsq(columns[fit], residual[fit], rcond=None)[0]
        errors.append(float(np.mean((residual[score] - columns[score] @ weights) ** 2)))
    return errors, choose_support(errors, supports, tolerance)[0]


def fit_terms(columns, residual):
    """Coefficients and standard errors of terms on the rows of a region."""
    weights, left = least_squares(columns, residual)
    variance = left / (len(residual) - columns.shape[1])
    return weights, np.sqrt(variance * np.diag(np.linalg.inv(columns.T @ columns)))


def f_test(design, extra, response):
    """Statistic, degrees of freedom and log p-value of the partial F-test."""
    columns = np.column_stack([design, extra])
    before, after = (least_squares(part, response)[1] for part in (design, columns))
    df_num, df_den = extra.shape[1], len(response) - columns.shape[1]
    statistic = (before - after) / df_num / (after / df_den)
    return statistic, df_num, df_den, float(stats.f.logsf(statistic, df_num, df_den))


def inside_region(value, lower, upper, first, last):
    """Half-open, without an end on a side where it reaches the end of the axis."""
    if np.isnan(value):
        return False
    return (value >= lower or lower <= first) and (value < upper or upper >= last)


def predict(coefficients, regions, weights, first, last, design, axis, features):
    """Physics everywhere, terms in the regions that hold the row."""
    found = []
    for i in range(len(axis)):
        value = design[i] @ coefficients
        for (lower, upper), own in zip(regions, weights, strict=True):
            if inside_region(axis[i], lower, upper, first, last):
                value += features[i] @ own
        row = [*design[i], axis[i], *features[i]]
        found.append(np.nan if np.isnan(row).any() else value)
    return np.array(found)


def published_method(design, response, axis, features, edges, coins, settings):
    """The whole method.

    Args:
      design, response, axis, features, edges: as for ``diagnose``; all rows are in use.
      coins: ``split``, ``full`` and ``half``: of the two halves, and of the halves of the holdout
        on all rows and on the first half.
      settings: ``trim, alpha_cell, max_terms, tolerance, alpha``.
    """
    num_cells = len(edges) - 1
    cell = [cell_of(value, edges) for value in axis]

    def stages(rows, coins):
        d, r = design[rows], response[rows]
        own = [cell[i] for i in rows]
        num = int(np.ceil((1 - settings["trim"]) * len(rows) - 1e-9))
        start = trimmed_by_pairs(d, r, num)[1]
        found = clean_regime(d, r, own, num_cells, start, settings["alpha_cell"])
        mask = [found["flagged"][c] for c in own]
        fit, score = halves(coins, mask)
        residual = r - d @ found["coefficients"]
        errors, chosen = holdout(
            features[rows], residual, fit, score, settings["max_terms"], settings["tolerance"]
        )
        support = all_supports(features.shape[1], settings["max_terms"])[chosen]
        inside = np.flatnonzero(mask)
        weights, stderr = fit_terms(features[rows][inside][:, support], residual[inside])
        form = {"support": support, "errors": errors, "coefficients": weights, "stderr": stderr}
        return found, form

    everything = list(range(len(response)))
    first, second = halves(coins["split"], [True] * len(response))
    physics, form = stages(everything, coins["full"])
    half_physics, half_form = stages(first, coins["half"])
    extra = features[second][:, half_form["support"]]
    inside = np.array([half_physics["flagged"][cell[i]] for i in second])
    test = f_test(design[second], np.where(inside[:, None], extra, 0.0), response[second])
    return {
        **physics,
        "form": form,
        "regions": [(edges[a], edges[b + 1]) for a, b in runs_of(physics["flagged"])],
        "test": {**dict(zip(("statistic", "df_num", "df_den", "log_p_value"), test, strict=True))},
        "test_support": half_form["support"],
        "reject": bool(test[3] < np.log(settings["alpha"])),
    }
