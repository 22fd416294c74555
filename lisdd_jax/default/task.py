"""What the steps of the default method hand on (docs/method.md, algorithm 2)."""

from typing import Any, NamedTuple

import jax

from lisdd_jax.config import Config
from lisdd_jax.default.first_look import FirstLook
from lisdd_jax.default.layout import ColumnLayout
from lisdd_jax.default.ordering import Ordered
from lisdd_jax.default.survey import Known, Survey


class Task(NamedTuple):
    """The data set with what is known of its cells.

    Attributes:
      live, ordered: its rows, with derivatives and without.
      look: what single cells show, and ``state`` the small part of it.
      keep: ``(n,)`` bool, rows near the law.
      survey: of the cells.
      layout, config: columns and settings.
    """

    live: Ordered
    ordered: Ordered
    look: FirstLook
    keep: jax.Array
    state: Known
    survey: Survey
    layout: ColumnLayout
    config: Config


class Standing(NamedTuple):
    """What stands out from the law.

    Attributes:
      certified: bool, a place does.
      members: ``(R, K)`` bool, cells of the regions; ``present (R,)`` which there are.
      gains: ``(R,)`` nats of each.
      clean: ``(K,)`` bool, cells of the law.
      theta: ``(p,)`` the law; ``scatter`` its own.
    """

    certified: Any
    members: Any
    present: Any
    gains: Any
    clean: Any
    theta: Any
    scatter: Any
