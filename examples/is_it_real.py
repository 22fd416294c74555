"""Is it real, or noise? The same question to a sound law and to one that fails a little."""

import numpy as np

import lisdd_jax


def main():
    rng = np.random.default_rng(2)
    load, age = rng.uniform(0, 10, 400), rng.normal(size=400)
    law = 5 + 2 * load + age
    noise = rng.normal(size=400)
    for name, missing in {"sound": 0.0, "fails beyond 7": 1.0}.items():
        heat = law + noise + np.where(load > 7, missing, 0.0)
        table = {"heat": heat, "load": load, "age": age}
        found = lisdd_jax.fit("heat ~ load + age | load", table, library=["1", "load"])
        p_value = float(np.exp(found.arrays.place.log_p_value))
        print(f"{name:15s} {found.verdict:12s} p <= {min(p_value, 1.0):.2g}, the search paid for")


if __name__ == "__main__":
    main()
