"""Peers of single stages in Python, for ``benchmarks/record.py``."""

import json
import sys
import time

import numpy as np
from stage_runs import make_data, processor_seconds


def stlsq(data: dict[str, np.ndarray]) -> float:
    """Sequentially thresholded least squares on the library."""
    import pysindy

    fitted = pysindy.STLSQ(threshold=0.05).fit(data["features"], data["response"])
    return float(np.count_nonzero(fitted.coef_))


def compare_f_test(data: dict[str, np.ndarray]) -> float:
    """The partial F test of two added columns; the fits are part of it."""
    import statsmodels.api as sm

    small = sm.OLS(data["response"], data["design"]).fit()
    columns = np.column_stack([data["design"], data["features"][:, :2]])
    return float(sm.OLS(data["response"], columns).fit().compare_f_test(small)[0])


def main() -> None:
    settings = json.loads(sys.argv[1])
    peer = {"stlsq": stlsq, "compare_f_test": compare_f_test}[settings["peer"]]
    data = make_data(settings["num_rows"], 6)
    value, turns = peer(data), []
    for _ in range(settings["turns"]):
        begin = processor_seconds(), time.perf_counter()
        peer(data)
        turns.append((processor_seconds() - begin[0], time.perf_counter() - begin[1]))
    cpu, wall = np.median(turns, axis=0)
    print(json.dumps({"run_cpu": cpu, "run_wall": wall, "value": value}))


if __name__ == "__main__":
    main()
