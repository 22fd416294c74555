"""The gallery of the documentation: every specification under examples/, diagnosed anew.

``python benchmarks/gallery.py`` writes docs/gallery.md and its figures. Nothing on that page is
written by hand but the line of each table that follows here, on what domain knowledge expects.
"""

import tomllib
from pathlib import Path

import jax
import matplotlib as mpl
import numpy as np
import pandas as pd

import lisdd_jax
from lisdd_jax.report import words

ROOT = Path(__file__).resolve().parents[1]
PAGE, FIGURES = ROOT / "docs" / "gallery.md", ROOT / "docs" / "gallery"
EXPECTED = {
    "ball_drops": "quadratic drag acts at any speed and drowns in the noise below 7 m/s.",
    "blasius_pipe": "the law ends near Re = 10^5 (5 on the axis), and reads too low beyond.",
    "pipe_transition": "the law ends near Re = 2100 (3.32 on the axis); the laminar slope is -1.",
    "sphere_drag": "24/Re and a boundary-layer term are missing below Re = 1000 (3 on the axis).",
}
HEAD = """# Gallery

Measured tables that may be passed on, each with the specification it ships with. This page and its
figures are written by `python benchmarks/gallery.py`; sources, columns and licences of the tables
are in `examples/README.md`. A verdict that decides nothing is shown as it came.
"""


def diagnose(spec: dict) -> lisdd_jax.Result:
    """The diagnosis that a specification asks for."""
    table = pd.read_csv(ROOT / "examples" / spec["table"])
    if "where" in spec:
        table = table.query(spec["where"])
    physics = spec["physics"]
    if not spec["intercept"] and "1" not in physics:
        physics = [*physics, "0"]
    return lisdd_jax.fit(
        data=table,
        response=spec["response"],
        physics=physics,
        axis=spec["axis"],
        library=spec["library"],
        trusted=spec.get("trusted"),
        seed=spec["seed"],
    )


def section(path: Path) -> str:
    """One table: the question, the answer and its figure."""
    text = path.read_text()
    question = text.splitlines()[0].removeprefix("# ")
    found = diagnose(tomllib.loads(text))
    axes = found.plot.fit()
    FIGURES.mkdir(exist_ok=True)
    axes.figure.savefig(FIGURES / f"{path.stem}.png", dpi=90, metadata={"Software": None})
    headline = words.headline(found.findings)
    lines = [f"## {question}", "", f"`lisdd-jax diagnose --spec examples/{path.name}`", ""]
    lines += [f"**{words.TITLES[found.verdict]}:** {headline}.", ""]
    for name, row in found.physics.iterrows():
        lines.append(f"* physics: {name} {row.coefficient:.4g}, standard error {row.stderr:.2g}")
    for region in found.regions.itertuples():
        ends = (region.lower_from, region.lower_to, region.upper_from, region.upper_to)
        known = [f"{value:.4g}" for value in ends if np.isfinite(value)]
        where = f"; 95 % intervals of the ends: {', '.join(known)}" if known else ""
        lines.append(f"* {region.count} rows from {region.lower:.4g} to {region.upper:.4g}{where}")
    lines += ["", f"By domain knowledge {EXPECTED[path.stem]}", ""]
    lines += [f"![{question} {headline}](gallery/{path.stem}.png)"]
    return "\n".join(lines)


def main() -> None:
    """Write the page."""
    jax.config.update("jax_enable_x64", True)
    mpl.use("Agg")
    specs = sorted((ROOT / "examples").glob("*.toml"))
    PAGE.write_text("\n\n".join([HEAD.rstrip(), *map(section, specs)]) + "\n")


if __name__ == "__main__":
    main()
