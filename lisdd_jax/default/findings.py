"""What the stages hand on and what they found, in working units, and these in units of the data."""

from typing import Any, NamedTuple

import jax

from lisdd_jax.config import Config
from lisdd_jax.default.everywhere import Everywhere
from lisdd_jax.default.exactness import ExactnessTest
from lisdd_jax.default.final_sums import Final
from lisdd_jax.default.first_look import FirstLook
from lisdd_jax.default.form import ChosenForm
from lisdd_jax.default.layout import ColumnLayout
from lisdd_jax.default.ordering import Ordered
from lisdd_jax.default.outcome import Map, Terms
from lisdd_jax.default.physics import Physics
from lisdd_jax.default.regions import FoundPlace
from lisdd_jax.default.settling import Settled
from lisdd_jax.default.survey import Known, Survey
from lisdd_jax.numerics.frame import Frame
from lisdd_jax.statistics.f_tests import FRatio


class Task(NamedTuple):
    """The data set with what is known of its cells.

    Attributes:
      live, ordered: its rows, with derivatives and without.
      look: what single cells show, and ``state`` the small part of it.
      keep: ``(n,)`` bool, rows near the law, and whether another pass ``repeats`` them, and another
        turn ends and terms.
      survey: of the cells.
      layout, config: columns and settings.
    """

    live: Ordered
    ordered: Ordered
    look: FirstLook
    keep: jax.Array
    repeats: Any
    state: Known
    survey: Survey
    layout: ColumnLayout
    config: Config


class Standing(NamedTuple):
    """What stands out from the law.

    Attributes:
      placed: bool, a place does that cells show; ``certified``, or a run too short for them.
      gain: nats of that which does most.
      members: ``(R, K)`` bool, cells of the regions; ``present (R,)`` which there are.
      gains: ``(R,)`` nats of each.
      clean: ``(K,)`` bool, cells of the law.
      theta: ``(p,)`` the law; ``scatter`` its own.
    """

    placed: Any
    certified: Any
    gain: Any
    members: Any
    present: Any
    gains: Any
    clean: Any
    theta: Any
    scatter: Any


class Units(NamedTuple):
    """From working columns (docs/method.md, equation 18) to those of the data.

    Attributes:
      response: units of the response in one of the working column.
      initial: ``(p,)`` first fit, in the frame.
      terms: ``(L,)`` root mean squares that the terms were divided by.
      frame: of the physics.
      edges: ``(R_map + 1,)`` of the map.
    """

    response: Any
    initial: Any
    terms: Any
    frame: Frame
    edges: Any

    def law(self, theta: Any) -> Any:
        """Coefficients ``(p,)`` of the physics for those about the first fit."""
        return self.frame.coefficients(self.initial + self.response * theta)

    def law_covariance(self, covariance: Any) -> Any:
        """Covariance ``(p, p)`` of the physics."""
        return self.frame.covariance(covariance) * self.response**2

    def weights(self, values: Any) -> Any:
        """Coefficients ``(R, L)`` of terms, or their standard errors."""
        return values * (self.response / self.terms)[None]


class Findings(NamedTuple):
    """All that was found, in working units.

    Attributes:
      look, place, exactness: of the cells.
      scatter: size of the law's scatter.
      variance: of the noise.
      certified: bool; ``gain`` the nats of what stands out most.
      members: ``(R, K)`` bool, cells of the regions.
      gains: ``(R,)`` nats of each.
      form, terms, settled, final: of the regions.
      law: the physics.
      everywhere: terms on all rows.
      share: of the rival.
      map: cells of the map.
      tests: held-out tests, ordinary and robust, ``(3, 2)`` each: both halves of every split.
      log_p: log p-values of the tests, then of the map.
      supports: ``(3, 2, R)`` supports tested.
      acts: bool, terms act on all rows, and the verdict is for them.
      verdict: int, of the method.
      status: of the stages.
    """

    look: FirstLook
    place: FoundPlace
    exactness: ExactnessTest
    scatter: Any
    variance: Any
    certified: Any
    gain: Any
    members: Any
    gains: Any
    form: ChosenForm
    terms: Terms
    settled: Settled
    final: Final
    law: Physics
    everywhere: Everywhere
    share: Any
    map: Map
    tests: tuple[FRatio, FRatio]
    log_p: tuple[Any, ...]
    supports: Any
    acts: Any
    verdict: Any
    status: Any
