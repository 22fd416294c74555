"""Rows of a record depend on each other: name their time, or a sound law may seem wrong.

In the order of time the method sees that neighbours are alike; this table is sorted by temperature.
"""

import numpy as np

import lisdd_jax


def main():
    rng = np.random.default_rng(1)
    noise = np.zeros(400)
    for k in range(1, 400):
        noise[k] = 0.5 * noise[k - 1] + rng.normal()
    hour = np.arange(400.0)
    temp = 15 + 10 * np.sin(hour / 30) + rng.normal(size=400)
    workday = (hour // 24 % 7 < 5).astype(int)
    table = {"demand": 80 + 25 * workday - 1.5 * temp + noise, "temp": temp, "workday": workday}
    table["hour"] = hour
    order = np.argsort(temp)
    table = {name: values[order] for name, values in table.items()}
    formula, library = "demand ~ workday + temp | temp", ["1", "temp"]

    blocks = lisdd_jax.fit(formula, table, library=library, time="hour")
    rows = lisdd_jax.fit(formula, table, library=library)
    print(f"as rows:   {rows.verdict}")
    print(f"in blocks: {blocks.verdict}")
    print(blocks.findings.notes[-1])


if __name__ == "__main__":
    main()
