"""E2: form recovery over width and amplitude, and with several libraries."""

from typing import Any

from lisdd_jax.study.experiments import oscillator_runs as runs
from lisdd_jax.study.experiments import scenarios
from lisdd_jax.study.experiments.rows import Published, Row, Tables, key_of, make_row
from lisdd_jax.study.experiments.setup import Experiment, Setup, count_statuses

WIDTHS, BETAS = (0.6, 1.0, 1.4), (0.10, 0.15, 0.20, 0.30)
_GRID = {"width": list(WIDTHS), "beta": list(BETAS)}

_GRID_TABLE, _LIBRARY_TABLE = "phase grid of E2 (tab:phase)", "libraries of E2 (tab:lib)"
_PRINTED_GRID = {0.6: (1.0, 1.0, 1.0, 1.0), 1.0: (0.0, 1.0, 1.0, 1.0), 1.4: (0.0, 0.0, 0.0, 0.0)}
_PUBLISHED = {
    key_of("lisdd", "form_recovery", width=width, beta=beta): Published(
        value=value, decimals=1, source=_GRID_TABLE
    )
    for width, values in _PRINTED_GRID.items()
    for beta, value in zip(BETAS, values, strict=True)
}
_PUBLISHED |= {
    key_of("lisdd", "form_recovery", library=library): Published(
        value=1.0, decimals=2, source=_LIBRARY_TABLE
    )
    # The publication does not list its eight-term libraries; saturation and sign are named.
    for library in ("six", "eight_second_variable", "eight_saturation_sign")
}
_EDGES = (
    "the flagged bins reach past the band, where a flatter curve fits better than the true cubic;"
    " the published statement holds for some libraries only"
)
_WIDE = (
    "58 % of the rows are clean at width 1.4; the trimmed start (0.36 < 0.42 discrepant) and the"
    " inflated scale fail, and the algorithm flags wrong bins instead of reporting a clean region"
)
_TABLES = Tables(
    published=_PUBLISHED,
    reasons={
        **{key_of("lisdd", "form_recovery", library=library): _EDGES for library in runs.LIBRARIES},
        key_of("lisdd", "form_recovery", width=1.4, beta=0.3): (
            "from the global minimum of the trimmed fit the iteration mostly escapes the"
            " contamination and flags all eight bins of the band, with unbiased physics: in five of"
            " six data sets of 6000 rows, two of three of 4000, in a plain NumPy loop as here; with"
            " a poorer start or fewer rows it does not"
        ),
        key_of("lisdd", "form_recovery"): (
            "the cell lies on the phase boundary, where seeds and the number of rows decide"
        ),
    },
    cautions={key_of("lisdd", "form_recovery", width=1.4, beta=beta): _WIDE for beta in BETAS},
)
_METRICS = ("form_recovery", "physics_bias", "f1_overlap", "abstention_rate", "flagged_rate")


def _measure(setup: Setup) -> dict[str, Any]:
    """Rows over the phase grid (params ``width``, ``beta``) and the libraries (``library``)."""
    simulate = scenarios.oscillator(setup.num_rows)
    rows: list[Row] = []
    statuses: list[dict[str, Any]] = []
    for mode in setup.modes:
        evaluate = runs.pipeline_evaluator(setup.config(mode), setup.num_rows)
        grid = setup.study(f"E2 grid {mode}", simulate, evaluate, _GRID)
        libraries = setup.study(
            f"E2 libraries {mode}",
            runs.library_simulator(setup.num_rows),
            runs.library_evaluator(setup.config(mode)),
            {"beta": [0.2], "width": [1.0], "library": list(range(len(runs.LIBRARIES)))},
        )
        statuses += count_statuses(f"E2 grid {mode}", grid)
        statuses += count_statuses(f"E2 libraries {mode}", libraries)
        for cell in grid.cells:
            where = {"width": _printed(cell.params["width"]), "beta": _printed(cell.params["beta"])}
            rows += [
                make_row(_TABLES, cell.metrics[m], mode=mode, method="lisdd", metric=m, **where)
                for m in _METRICS
            ]
        for cell in libraries.cells:
            rows.append(
                make_row(
                    _TABLES,
                    cell.metrics["form_recovery"],
                    mode=mode,
                    method="lisdd",
                    metric="form_recovery",
                    library=runs.LIBRARIES[cell.params["library"]],
                )
            )
    terms = {name: list(scenarios.LIBRARIES[name].names) for name in runs.LIBRARIES}
    return {"settings": {"grid": _GRID, "libraries": terms}, "rows": rows, "statuses": statuses}


def _printed(value: float) -> float:
    """The grid value as written, whatever the precision that it went through."""
    return round(value, 6)


E2 = Experiment(
    name="E2",
    title="Form recovery and the localization phase boundary",
    tables=_TABLES,
    measure=_measure,
)
