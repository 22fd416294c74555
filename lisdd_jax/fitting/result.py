"""A diagnosis with its names: what ``fit`` returns."""

import dataclasses
import functools
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import jax
import numpy as np

from lisdd_jax.fitting import frames, saved
from lisdd_jax.fitting.plots import Plots
from lisdd_jax.report import figures, files, html, json_report, summarize, words
from lisdd_jax.report.summary import Summary
from lisdd_jax.results import Diagnosis
from lisdd_jax.tables import model, model_format, model_function
from lisdd_jax.tables.errors import import_extra
from lisdd_jax.tables.problem import Problem
from lisdd_jax.version import VERSION

_WIDTH = 80
_FRAME_STYLE = "width: 100%; height: 40rem; border: 0"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Result:
    """Where the model is wrong, what is missing there, and whether that is real, by name.

    Attributes:
      problem: the rows in use as named arrays.
      arrays: the diagnosis of these rows, a pytree.
      config: settings of the run, in types that JSON has.
      labels: ``(n,)`` what the rows in use are called.
      source: name of the file that held the table; empty for none.
      version: of the package that made the diagnosis.

    Example:
      >>> import numpy as np
      >>> from lisdd_jax import fit
      >>> t = np.linspace(0, 1, 200)
      >>> y = 2 * t + np.where(t > 0.7, 5 * (t - 0.7), 0) + 0.05 * np.sin(997 * t**2)
      >>> found = fit("y ~ t | t", {"t": t, "y": y}, library=["1", "t"])
      >>> [round(float(end), 1) for end in found.regions.lower], found.terms.term.tolist()
      ([0.7], ['1', 't'])
      >>> [round(float(value), 1) for value in found.predict({"t": [0.5, 0.9]})]
      [1.0, 2.8]
    """

    problem: Problem
    arrays: Diagnosis
    config: Mapping[str, Any]
    labels: np.ndarray
    source: str = ""
    version: str = VERSION

    @functools.cached_property
    def findings(self) -> Summary:
        """All that reports say, as names and plain numbers."""
        return summarize(self.arrays, self.problem, config=self.config, version=self.version)

    @functools.cached_property
    def model(self) -> model.Model:
        """The corrected model by names."""
        return model.from_diagnosis(self.arrays, self.problem)

    @property
    def verdict(self) -> str:
        """Name of a ``Verdict`` in lower case."""
        return self.findings.verdict

    @property
    def regions(self) -> Any:
        """One row per discrepant interval, with the 95 % intervals of its ends."""
        return frames.regions_frame(self.findings)

    @property
    def terms(self) -> Any:
        """One row per missing term and region: ``region, term, coefficient, stderr``."""
        return frames.terms_frame(self.findings)

    @property
    def physics(self) -> Any:
        """Coefficients of the trusted physics and their standard errors, by term."""
        return frames.physics_frame(self.findings)

    @property
    def cells(self) -> Any:
        """The map over the axis, one row per cell."""
        return frames.cells_frame(self.findings)

    @property
    def plot(self) -> Plots:
        """Figures: ``plot.fit()``, ``plot.map()``, ``plot.residuals()``."""
        return Plots(self.findings, self.problem)

    def __repr__(self) -> str:
        """The verdict in one sentence."""
        return f"<lisdd_jax.Result {self._headline()}>"

    def _headline(self) -> str:
        return f"{words.TITLES[self.verdict]}: {words.headline(self.findings)}"

    def _repr_html_(self) -> str:
        """The page in a frame of its own, so that its style leaves the notebook alone."""
        try:
            page = self.to_html()
        except figures.FigureError:
            return f"<p>{escape(self._headline())}</p>"
        return f'<iframe sandbox srcdoc="{escape(page)}" style="{_FRAME_STYLE}"></iframe>'

    def summary(self) -> str:
        """The report of the command line, 80 columns wide.

        Raises:
          TableError: rich is not installed.
        """
        import_extra("rich", "rich", "a report as text")
        from lisdd_jax.report import terminal

        return terminal.report_text(self.findings, source=self.source, width=_WIDTH)

    def predict(self, data: Any, corrected: bool = True) -> np.ndarray:
        """Predict the rows of a table.

        Args:
          data: what ``fit`` takes, with the columns that physics, axis and terms use.
          corrected: whether with the missing terms, or the trusted physics alone.

        Returns:
          ``(m,)`` float64; NaN where a row lacks a value. A warning counts such rows, and those
          beyond the range of the fit.

        Raises:
          ExpressionError: a column is unknown.
          ProblemError: coefficients are undefined, or a column holds dates in one table only.
          TableError: the table cannot be read, or a column in use holds no numbers.
        """
        found = model.predict(self.model, data)
        for note in found.notes:
            warnings.warn(note, UserWarning, stacklevel=2)
        return found.corrected if corrected else found.physics

    def residuals(self, corrected: bool = True) -> Any:
        """Response less prediction at the rows in use, as a pandas series by label.

        Args:
          corrected: whether of the corrected model, or of the trusted physics alone.
        """
        problem, found = self.problem, jax.device_get(self.arrays)
        predicted = problem.design @ np.asarray(found.coefficients, float)
        if corrected:
            inside = np.asarray(found.regions.contains(problem.axis))
            missing = problem.features @ np.asarray(found.regions.coefficients, float).T
            predicted = predicted + np.where(inside.T, missing, 0.0).sum(axis=1)
        pandas = frames.pandas()
        return pandas.Series(problem.response - predicted, index=pandas.Index(self.labels))

    def outliers(self) -> Any:
        """Labels of the rows set aside as gross errors, as a pandas index."""
        return frames.pandas().Index(self.labels[np.flatnonzero(self.arrays.outliers)])

    def to_callable(self) -> Callable[[Mapping[str, Any]], jax.Array]:
        """The corrected model as a function that JAX traces; see ``tables.model_function``.

        Raises:
          ProblemError: the diagnosis left coefficients undefined.
        """
        return model_function.as_function(self.model)

    def to_html(self, path: str | Path | None = None) -> str:
        """The report as one page with figures.

        Args:
          path: file to write it to as well.

        Raises:
          FigureError: matplotlib is not installed.
          OutputError: the file cannot be written.
        """
        return _written(html.render(self.findings, self.problem, source=self.source), path)

    def to_json(self, path: str | Path | None = None) -> str:
        """The report for programs, with all that ``from_json`` needs, to the last bit.

        What ``lisdd-jax predict`` reads. Labels of rows that are neither numbers nor times become
        text.

        Args:
          path: file to write it to as well.

        Raises:
          OutputError: the file cannot be written.
        """
        content = json_report.to_dict(self.findings, model=model_format.to_dict(self.model))
        kept = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        text = json_report.json_text({**content, saved.KEY: saved.pack_result(**kept)})
        return _written(text, path)

    @classmethod
    def from_json(cls, text_or_path: str | Path) -> "Result":
        """The result that ``to_json`` wrote; its arrays are those of NumPy.

        Args:
          text_or_path: the text, which starts with a brace, or the path of the file.

        Raises:
          FileError: the file cannot be read, or is no JSON.
          ProblemError: it holds no result, one of a newer version, or one that was damaged.
        """
        return cls(**saved.unpack_result(saved.read_content(text_or_path)))


def _written(text: str, path: str | Path | None) -> str:
    if path is not None:
        files.check_target(path)
        files.write_text(path, text)
    return text
