"""The diagnosis as a regressor of scikit-learn."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np

try:
    from sklearn.base import BaseEstimator, RegressorMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import (
        check_consistent_length,
        check_is_fitted,
        column_or_1d,
        validate_data,
    )
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "sklearn":
        raise
    raise ImportError("DiscrepancyRegressor needs scikit-learn: pip install scikit-learn") from None

from lisdd_jax.config import Config, PublishedConfig
from lisdd_jax.expressions.tree import Column, Expression
from lisdd_jax.fitting.result import Result
from lisdd_jax.fitting.tabular import fit
from lisdd_jax.library import Term
from lisdd_jax.tables import model
from lisdd_jax.tables.formula import parse_physics

_SEEDS = 2**31
"""Seeds that are drawn where none is given."""


class DiscrepancyRegressor(RegressorMixin, BaseEstimator):
    """A trusted linear model, corrected where the data show it to be wrong.

    The prediction is the physics everywhere, and the missing terms in the regions where it fails.
    Whether to believe them is for ``result_`` to say: a region stands in the model only where its
    place was certified.

    Columns have the names of a data frame, else ``x0``, ``x1`` and so on; an integer stands for the
    column at that place. Texts are names or expressions over the columns, as for ``lisdd_jax.fit``.

    Args:
      axis: operating variable along which the model may fail: an integer, a name or an expression.
      physics: terms of the trusted model: integers, texts, expressions, terms or functions, or one
        text such as ``"t + u"``; every column where None.
      library: candidate terms: the same, or a feature library of PySINDy, whose variables are the
        columns of physics and axis in order of appearance; where None a change of level and of
        slope, ``["1", axis]``. A function takes the columns as a mapping from names to ``(n,)`` and
        returns ``(n,)``; its name is that of the term.
      fit_intercept: whether the physics has a constant.
      trusted: a condition on the rows where the law is vouched for (default method).
      config: settings, whose type chooses the method; ``lisdd_jax.Config()`` where None.
      random_state: of starts and splits of the published method; the default one draws nothing.
        An integer, a ``numpy.random.RandomState``, or None for another one each time.

    Attributes:
      result_: the ``Result`` of the last fit: verdict, regions, terms, report, figures. Functions
        are columns of its table, under their names.
      n_features_in_: number of columns.
      feature_names_in_: ``(n_features_in_,)``, where the table had names.

    Example:
      >>> import numpy as np
      >>> from lisdd_jax import DiscrepancyRegressor
      >>> t = np.linspace(0, 1, 60)
      >>> y = 2 * t + np.where(t > 0.7, 5 * (t - 0.7), 0) + 0.05 * np.sin(997 * t**2)
      >>> model = DiscrepancyRegressor(axis=0).fit(t[:, None], y)
      >>> model.result_.verdict, round(model.score(t[:, None], y), 3)
      ('discrepancy', 0.999)
    """

    def __init__(
        self,
        *,
        axis: Any = 0,
        physics: Any = None,
        library: Any = None,
        fit_intercept: bool = True,
        trusted: str | None = None,
        config: Config | PublishedConfig | None = None,
        random_state: Any = 0,
    ) -> None:
        """Keep the parameters as they are; ``fit`` checks them."""
        self.axis = axis
        self.physics = physics
        self.library = library
        self.fit_intercept = fit_intercept
        self.trusted = trusted
        self.config = config
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, block: Any = None, noise_scale: Any = None) -> Self:
        """Find the physics, the regions and the missing terms.

        Args:
          X: ``(n, n_features)`` numbers, without missing values.
          y: ``(n,)`` response.
          block: ``(n,)`` labels of dependent rows, which no split divides.
          noise_scale: ``(n,)`` relative size of the measurement error, positive.

        Returns:
          The estimator itself. That the data do not decide is a verdict, not an error.

        Raises:
          ValueError, TypeError: the rows or a parameter do not fit; see ``lisdd_jax.fit``.
        """
        values, response = validate_data(
            self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2
        )
        names = self._names()
        physics, intercept = self._physics(names)
        axis = _column_name("axis", self.axis, names)
        library = _parts("library", ["1", axis] if self.library is None else self.library, names)
        self._functions = {**_functions(physics), **_functions(library)}
        columns = _with_functions(values, names, self._functions)
        given = {"response": response, "block": block, "noise_scale": noise_scale}
        roles = {role: _unused(role, columns) for role, rows in given.items() if rows is not None}
        columns |= {label: _rows(role, given[role], response) for role, label in roles.items()}
        self.result_: Result = fit(
            data=columns,
            physics=[*map(_as_column, physics), *([] if intercept else ["0"])],
            axis=axis,
            library=list(map(_as_column, library)),
            trusted=self.trusted,
            seed=self._seed(),
            config=self.config,
            **roles,
        )
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Response of the corrected model.

        Rows beyond the range of the fit are extrapolated; ``result_.predict`` counts them, tells
        the physics alone, and gives intervals.

        Args:
          X: ``(m, n_features)``.

        Returns:
          ``(m,)`` float64.

        Raises:
          NotFittedError: ``fit`` was not called.
          ProblemError: the diagnosis left coefficients undefined.
        """
        check_is_fitted(self, "result_")
        values = validate_data(self, X, reset=False, dtype=np.float64)
        columns = _with_functions(values, self._names(), self._functions)
        return model.predict(self.result_.model, columns).corrected

    def _names(self) -> list[str]:
        named = getattr(self, "feature_names_in_", None)
        return [f"x{k}" for k in range(self.n_features_in_)] if named is None else list(named)

    def _physics(self, names: Sequence[str]) -> tuple[list[Any], bool]:
        """Terms of the physics, and whether it has a constant."""
        if self.physics is None:
            return list(map(Column, names)), self.fit_intercept
        if isinstance(self.physics, str):
            texts, intercept = parse_physics(self.physics, names)
            return list(texts), intercept and self.fit_intercept
        return _parts("physics", self.physics, names), self.fit_intercept

    def _seed(self) -> Any:
        if self.random_state is None or isinstance(self.random_state, np.random.RandomState):
            return int(check_random_state(self.random_state).randint(_SEEDS))
        return self.random_state


def _parts(role: str, given: Any, names: Sequence[str]) -> list[Any]:
    """Terms in one list: places of columns become columns, functions become terms."""
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        return [Column(_column_name(role, given, names))]
    if isinstance(given, str | Expression | Term) or hasattr(given, "get_feature_names"):
        return [given]
    if callable(given):
        return [Term(getattr(given, "__name__", type(given).__name__), given)]
    if not isinstance(given, Iterable):
        raise TypeError(
            f"{role} must hold places of columns, texts, expressions, terms, functions or libraries"
            f" of terms, got {type(given).__name__}"
        )
    return [part for item in given for part in _parts(role, item, names)]


def _column_name(role: str, given: Any, names: Sequence[str]) -> Any:
    """The name of the column at a place; anything else as it is."""
    if not isinstance(given, int | np.integer) or isinstance(given, bool):
        return given
    if not -len(names) <= given < len(names):
        raise ValueError(f"{role} must be the place of one of {len(names)} columns, got {given}")
    return names[int(given)]


def _functions(parts: Iterable[Any]) -> dict[str, Term]:
    """The functions among terms, by name."""
    terms = (part for part in parts if isinstance(part, Term))
    return {term.name: term for term in terms if not isinstance(term.source, Expression)}


def _as_column(part: Any) -> Any:
    """A function as the column that holds its values; anything else as it is."""
    return Column(part.name) if _functions([part]) else part


def _with_functions(
    values: np.ndarray, names: Sequence[str], functions: Mapping[str, Term]
) -> dict[str, np.ndarray]:
    """Columns by name, and the values of functions among them.

    Raises:
      ValueError: a function has the name of a column, or returns another shape.
    """
    columns = dict(zip(names, values.T, strict=True))
    for name in functions:
        if name in columns:
            raise ValueError(f"a function must not have the name of a column, got {name!r}")
    return columns | {name: term.evaluate(columns, xp=np) for name, term in functions.items()}


def _rows(role: str, values: Any, response: np.ndarray) -> np.ndarray:
    """Values of one per row."""
    if role == "response":
        return response
    checked: np.ndarray = column_or_1d(values, dtype=None if role == "block" else np.float64)
    check_consistent_length(response, checked)
    return checked


def _unused(label: str, taken: Iterable[str]) -> str:
    """The label, with a stroke for every time that it is taken."""
    while label in taken:
        label += "_"
    return label
