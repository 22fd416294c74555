"""Which side is the law? Half of the rows obey one line and half another: one is vouched for."""

import numpy as np

import lisdd_jax


def main():
    rng = np.random.default_rng(4)
    flow, temp = rng.uniform(0, 10, 400), rng.normal(size=400)
    pressure = 1 + 2 * flow + temp + np.where(flow > 5, 3 * (flow - 5), 0) + rng.normal(size=400)
    table = {"pressure": pressure, "flow": flow, "temp": temp}
    formula, library = "pressure ~ flow + temp | flow", ["1", "flow"]

    alone = lisdd_jax.fit(formula, table, library=library)
    print(f"data alone:           {alone.verdict}")
    vouched = lisdd_jax.fit(formula, table, library=library, trusted="flow < 2")
    region, slope = vouched.regions.iloc[0], vouched.physics.coefficient["flow"]
    print(f"trusted for flow < 2: {vouched.verdict} from {region.lower:.1f} on, slope {slope:.2f}")


if __name__ == "__main__":
    main()
