"""What is missing? Two forms compete; held-out rows decide, or say that they cannot."""

import numpy as np

import lisdd_jax


def ask(noise):
    """The force of a spring that stiffens beyond a stretch of 2, measured with some noise."""
    rng = np.random.default_rng(3)
    stretch, speed = rng.uniform(0, 3, 400), rng.normal(size=400)
    cubic = np.where(stretch > 2, 0.5 * stretch**3, 0.0)
    force = 4 * stretch + 0.5 * speed + cubic + noise * rng.normal(size=400)
    table = {"force": force, "stretch": stretch, "speed": speed}
    library = ["stretch^2", "stretch^3"]
    return lisdd_jax.fit("force ~ stretch + speed | stretch", table, library=library)


def main():
    for noise in (0.5, 5.0):
        region = ask(noise).findings.regions[0]
        others = " or ".join(" + ".join(terms) for terms in region.alternatives) or "none"
        print(f"noise {noise}: {region.formula.strip()} for {region.interval}; as good: {others}")


if __name__ == "__main__":
    main()
