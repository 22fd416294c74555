"""Write ``references.json``: answers of other programs, so that a clone tests the method alone.

``python tests/data/make_references.py``; needs mpmath. Tails are computed with 40 digits, the
trimmed fit by every subset of rows, and the whole method by ``brute_force.py``.
"""

import json
import sys
from pathlib import Path

import jax
import mpmath
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import brute_force

PATH = Path(__file__).with_name("references.json")
SETTINGS = {"trim": 0.36, "alpha_cell": 1e-3, "max_terms": 2, "tolerance": 0.15, "alpha": 0.05}
KEY = 20


def chi2_log_tail(x: float, df: float) -> float:
    """Log of the regularised upper incomplete gamma function."""
    tail = mpmath.gammainc(mpmath.mpf(df) / 2, mpmath.mpf(x) / 2, mpmath.inf, regularized=True)
    return float(mpmath.log(tail))


def f_log_tail(x: float, df_num: float, df_den: float) -> float:
    """Log of the regularised incomplete beta function."""
    x, df_num, df_den = map(mpmath.mpf, (x, df_num, df_den))
    end = df_den / (df_den + df_num * x)
    tail = mpmath.betainc(df_den / 2, df_num / 2, 0, end, regularized=True)
    return float(mpmath.log(tail))


def tails() -> dict:
    chi2 = [(0.1, 1), (3.84, 1), (20.0, 7), (150.0, 100), (900.0, 14), (5000.0, 300)]
    f = [(0.5, 1, 10), (4.0, 2, 57), (12.5, 1, 2997), (300.0, 3, 40), (900.0, 2, 2990)]
    return {
        "chi2": [[*row, chi2_log_tail(*row)] for row in chi2],
        "f": [[*row, f_log_tail(*row)] for row in f],
    }


def trimmed() -> dict:
    rng = np.random.default_rng(3)
    x = rng.uniform(-2, 2, 13)
    design = np.column_stack([np.ones(13), x])
    response = 1.0 + 2.0 * x + 0.2 * rng.normal(size=13)
    response[[1, 4, 7, 11]] += [6.0, 9.0, -5.0, 7.0]
    objective, coefficients, rows = brute_force.trimmed_by_subsets(design, response, 9)
    return {
        "design": design.tolist(),
        "response": response.tolist(),
        "num_kept": 9,
        "objective": objective,
        "coefficients": coefficients.tolist(),
        "rows": rows,
    }


def pipeline() -> dict:
    rng = np.random.default_rng(5)
    num, num_cells = 120, 6
    x, other = rng.uniform(-1, 1, num), rng.normal(size=num)
    design = np.column_stack([x, other])
    inside = (x > 0.34) & (x < 1.0)
    response = 1.5 * x - other + np.where(inside, 6 * x**2, 0.0) + 0.2 * rng.normal(size=num)
    features = np.column_stack([x**2, other**2, np.sin(3 * x), x * other])
    edges = np.linspace(-1, 1, num_cells + 1)
    # The random choices of the method: keys of the start and the holdout, and of the two halves.
    keys = jax.random.split(jax.random.key(KEY), 5)
    first = num // 2 + 1
    names = {"split": (4, num // 2 + 1), "full": (1, num // 2 + 1), "half": (3, first // 2 + 1)}
    coins = {
        name: np.asarray(jax.random.bernoulli(keys[i], 0.5, (size,)))
        for name, (i, size) in names.items()
    }
    found = brute_force.published_method(design, response, x, features, edges, coins, SETTINGS)
    data = {"design": design, "response": response, "axis": x, "features": features, "edges": edges}
    return {"key": KEY, "settings": SETTINGS, "data": data, "found": found}


def plain(value):
    """Values that JSON has."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    mpmath.mp.dps = 40
    content = {"tails": tails(), "trimmed": trimmed(), "pipeline": pipeline()}
    PATH.write_text(json.dumps(plain(content)) + "\n")
    print(f"{PATH.stat().st_size} bytes")
    print(json.dumps(plain(content["pipeline"]["found"]), indent=1)[:1500])


if __name__ == "__main__":
    main()
