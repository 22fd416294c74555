"""Outliers: gross errors anywhere are set aside and named, and do not pass for a region."""

import numpy as np

import lisdd_jax


def main():
    rng = np.random.default_rng(6)
    load, age = rng.uniform(0, 10, 400), rng.normal(size=400)
    heat = 5 + 2 * load + age + rng.normal(size=400)
    bad = np.sort(rng.choice(400, 8, replace=False))
    heat[bad] += 40.0
    columns = np.stack([np.ones(400), load, age], axis=1)
    everywhere = np.linalg.lstsq(columns, heat)[0]

    table = {"heat": heat, "load": load, "age": age}
    found = lisdd_jax.fit("heat ~ load + age | load", table, library=["1", "load"])
    print(found.verdict)
    print("rows put in wrong:", *bad)
    print("rows set aside:   ", *found.outliers())
    print(
        f"intercept {found.physics.coefficient['intercept']:.2f}, true 5;"
        f" least squares on all rows {everywhere[0]:.2f}"
    )


if __name__ == "__main__":
    main()
