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

from lisdd_jax import validation
from lisdd_jax.fitting import frames, intervals, residuals, saved
from lisdd_jax.fitting.plots import Plots
from lisdd_jax.report import figures, files, html, json_report, summarize, words
from lisdd_jax.report.summary import Summary
from lisdd_jax.results import Diagnosis
from lisdd_jax.tables import as_table, model, model_export, model_format, model_function
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
      >>> t = np.linspace(0, 1, 60)
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
        """One row per missing term and region: estimate, t, p-value and 95 % interval.

        The p-value, that the term's coefficient is zero, does not pay for the choice of the term
        and of the region by the same rows; the certificate (``arrays.test``) does.
        """
        return frames.terms_frame(self.findings)

    @property
    def physics(self) -> Any:
        """Coefficients of the trusted physics by term: estimate, t, p-value and 95 % interval.

        The p-value is that of a coefficient of zero. Standard errors carry the noise of every cell,
        how nearly the law holds, and what is known of dependent rows.
        """
        return frames.physics_frame(self.findings)

    @property
    def cells(self) -> Any:
        """The map over the axis, one row per cell."""
        return frames.cells_frame(self.findings)

    @property
    def plot(self) -> Plots:
        """Figures ``fit``, ``map``, ``residuals`` and ``qq``, and what they show in words."""
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

    def predict(
        self,
        data: Any,
        corrected: bool = True,
        interval: intervals.Kind | None = None,
        level: float = 0.95,
    ) -> Any:
        """Predict the rows of a table.

        Intervals cover the errors of the coefficients and, where the law holds only nearly, its
        scatter (``arrays.law_scatter``), which is taken to be as large within the regions. Within
        the interval of a region's end they span both sides of it. They do not cover the choice of
        regions and terms, nor what happens beyond the range of the fit.

        Args:
          data: what ``fit`` takes, with the columns that physics, axis and terms use.
          corrected: whether with the missing terms, or the trusted physics alone.
          interval: ``"confidence"`` for the mean response at a row, ``"prediction"`` for one more
            measurement there, which has the noise of all rows, or that of its columns where the
            noise was found to go with them, times the row's ``noise_scale`` where one was given.
          level: that an interval covers, between 0 and 1.

        Returns:
          ``(m,)`` float64, NaN where a row lacks a value. With an interval a data frame with the
          columns ``predicted, stderr, lower, upper``, by the index of a pandas frame. A warning
          counts rows without a value, and those beyond the range of the fit.

        Raises:
          ExpressionError: a column is unknown.
          ProblemError: coefficients are undefined, or a column holds dates in one table only.
          TableError: the table cannot be read, or a column in use holds no numbers.
          ValueError: ``interval`` or ``level`` is none of these.
        """
        if interval is not None and interval not in intervals.KINDS:
            raise ValueError(f"interval must be one of {intervals.KINDS} or None, got {interval!r}")
        validation.check_number("level", level, 0.0, 1.0)
        table = as_table(data)
        found = model.predict(self.model, table)
        for note in found.notes:
            warnings.warn(note, UserWarning, stacklevel=2)
        if interval is None:
            return found.corrected if corrected else found.physics
        diagnosis, given = jax.device_get(self.arrays), self.config.get("noise_scale")
        noise: Any = 0.0
        if interval == "prediction":
            noise = residuals.noise_of(table, found, self.problem, diagnosis, given)
        ends = intervals.interval(
            found,
            diagnosis,
            self.problem,
            degrees=self.findings.degrees,
            corrected=corrected,
            level=level,
            noise=noise,
        )
        return frames.pandas().DataFrame(ends._asdict(), index=frames.index_of(data))

    def residuals(self, corrected: bool = True) -> Any:
        """Response less prediction at the rows in use, as a pandas series by label.

        Args:
          corrected: whether of the corrected model, or of the trusted physics alone.
        """
        left = residuals.unexplained(self.problem, jax.device_get(self.arrays), corrected)
        pandas = frames.pandas()
        return pandas.Series(left, index=pandas.Index(self.labels))

    def diagnostics(self) -> Any:
        """Whether the residuals are what the errors assume, one check per row of a data frame.

        Columns: ``value``, what was ``expected`` of independent Gaussian noise of one variance, and
        the ``p_value`` of the difference where there is a test. Correlations of neighbours, rows
        that count as one, repeated rows and noisier cells are those that the diagnosis measures
        about its own cells; NaN under the published method, which does not. Tails and the largest
        against the smallest noise are of the residuals of the corrected model, outliers left out.
        """
        starts = [cell.lower for cell in self.findings.cells]
        left, cell = residuals.for_checks(self.problem, jax.device_get(self.arrays), starts)
        # SciPy's tests take a second to import, which a first answer does without.
        from lisdd_jax.fitting import diagnostics

        rows = diagnostics.check_residuals(self.findings, left, cell)
        return frames.pandas().DataFrame(rows).set_index("check")

    def outliers(self) -> Any:
        """Labels of the rows set aside as gross errors, as a pandas index."""
        return frames.pandas().Index(self.labels[np.flatnonzero(self.arrays.outliers)])

    def to_callable(self) -> Callable[[Mapping[str, Any]], jax.Array]:
        """The corrected model as a function that JAX traces; see ``tables.model_function``.

        Raises:
          ProblemError: the diagnosis left coefficients undefined.
        """
        return model_function.as_function(self.model)

    def to_latex(self, digits: int = 4) -> str:
        """The corrected model as an equation for math mode, with one ``cases`` per region.

        Args:
          digits: significant, of coefficients and ends.

        Raises:
          ProblemError: the diagnosis left coefficients undefined.
        """
        validation.check_count("digits", digits, 1)
        return model_export.as_latex(self.model, digits)

    def to_sympy(self) -> Any:
        """The corrected model as a ``sympy.Expr``, its regions as ``Piecewise``.

        Raises:
          ImportError: SymPy is not installed.
          ExpressionError: a term compares text, which SymPy has not.
          ProblemError: the diagnosis left coefficients undefined.
        """
        return model_export.as_sympy(self.model)

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
