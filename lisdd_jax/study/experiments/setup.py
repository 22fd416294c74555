"""What every experiment is run with, and what it returns."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from lisdd_jax import validation
from lisdd_jax.config import MODES, Config, PublishedConfig
from lisdd_jax.study.engine import Progress, StudyResult, run_study
from lisdd_jax.study.experiments.rows import Row, Tables


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Size and settings of a reproduction.

    The start of the trimmed fit only seeds the iteration, so fewer random starts than the default
    of ``Config`` give the same figures in less time.

    Attributes:
      num_replications: per cell.
      seed: of everything.
      modes: algorithms to run, of ``config.MODES``.
      num_rows: rows of a data set.
      num_rows_forced: rows of a data set in the study of the test with a forced region.
      num_starts: random starts of the trimmed fit.
      num_bootstraps: of the ensemble.
      progress: called with the name of a study and its progress.
    """

    num_replications: int = 200
    seed: int = 0
    modes: tuple[str, ...] = ("paper",)
    num_rows: int = 6000
    num_rows_forced: int = 1500
    num_starts: int = 50
    num_bootstraps: int = 60
    progress: Callable[[str, Progress], None] | None = None

    def __post_init__(self) -> None:
        """Check the modes and the seed."""
        validation.check_seed("seed", self.seed)
        unknown = set(self.modes) - set(MODES)
        if unknown or not self.modes:
            raise ValueError(f"modes must be some of {tuple(MODES)}, got {self.modes!r}")

    def config(self, mode: str) -> Config | PublishedConfig:
        """Settings of a mode."""
        return self.paper_config() if mode == "paper" else Config()

    def paper_config(self) -> PublishedConfig:
        """Settings of the published method."""
        return PublishedConfig(num_starts=self.num_starts)

    def describe_config(self, mode: str) -> dict[str, Any]:
        """Settings of a mode as JSON values, with the method that they belong to."""
        config = self.config(mode)
        return {"method": config.method, **dataclasses.asdict(config)}

    def study(
        self, name: str, simulate: Any, evaluate: Any, grid: dict[str, Any], **options: Any
    ) -> StudyResult:
        """Run a study with the size and the seed of this setup."""
        factor = options.pop("factor", 1)

        def report(progress: Progress) -> None:
            if self.progress is not None:
                self.progress(name, progress)

        return run_study(
            simulate,
            evaluate,
            grid=grid,
            num_replications=factor * self.num_replications,
            key=jax.random.key(self.seed),
            progress=report,
            **options,
        )

    def describe(self) -> dict[str, Any]:
        """The settings as JSON values."""
        kept = {k: v for k, v in vars(self).items() if k != "progress"}
        return {
            **kept,
            "modes": list(self.modes),
            "config": {mode: self.describe_config(mode) for mode in self.modes},
            "precision": str(np.dtype(jax.dtypes.canonicalize_dtype(np.float64))),
            "platform": jax.default_backend(),
            "jax_version": jax.__version__,
        }


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What an experiment found.

    Attributes:
      name, title: of the experiment.
      settings: what the figures depend on.
      rows: the table.
      statuses: per study and cell, how many replications ended with which status.
      illustration: arrays of one data set, for a figure.
    """

    name: str
    title: str
    settings: dict[str, Any]
    rows: list[Row]
    statuses: list[dict[str, Any]] = field(default_factory=list)
    illustration: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The outcome with JSON values."""
        return {
            "experiment": self.name,
            "title": self.title,
            "settings": self.settings,
            "rows": [row.to_dict() for row in self.rows],
            "statuses": self.statuses,
            "illustration": self.illustration,
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class Experiment:
    """A published experiment.

    Attributes:
      name: ``"E1"`` to ``"E5"``.
      title: what it is about.
      tables: the printed numbers, and what is known about them.
      measure: from a setup to the rows and whatever else an ``Outcome`` holds.
    """

    name: str
    title: str
    tables: Tables
    measure: Callable[[Setup], dict[str, Any]]

    def run(self, setup: Setup) -> Outcome:
        """Measure what is printed, with the size and the modes of a setup."""
        found = self.measure(setup)
        settings = {**setup.describe(), **found.pop("settings")}
        return Outcome(name=self.name, title=self.title, settings=settings, **found)


def count_statuses(study: str, result: StudyResult) -> list[dict[str, Any]]:
    """Number of replications per status, cell by cell."""
    return [{"study": study, **row} for row in result.status_rows()]
