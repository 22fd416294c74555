"""Where is my model wrong? A heating line that does not know of cooling."""

import numpy as np

import lisdd_jax


def main():
    rng = np.random.default_rng(0)
    temp, workday = rng.uniform(-5, 30, 400), rng.integers(0, 2, 400)
    demand = 80 + 25 * workday - 1.5 * temp + 4 * np.maximum(temp - 20, 0) + rng.normal(size=400)
    table = {"demand": demand, "workday": workday, "temp": temp}

    everywhere = np.linalg.lstsq(np.stack([np.ones(400), workday, temp], axis=1), demand)[0]
    found = lisdd_jax.fit("demand ~ workday + temp | temp", table, library=["1", "temp"])

    print(found.verdict)
    for region in found.regions.itertuples():
        print(
            f"wrong from {region.lower:.1f}, between {region.lower_from:.1f} and"
            f" {region.lower_to:.1f} degC, in {region.count} rows"
        )
    print(f"slope below: {found.physics.coefficient['temp']:.2f}, true -1.50")
    print(f"slope of one line through all rows: {everywhere[2]:.2f}")


if __name__ == "__main__":
    main()
