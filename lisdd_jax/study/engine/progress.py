"""Progress of a long study and the time it has left."""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far the share of this process is.

    Attributes:
      done, total: replications, those of an earlier run included.
      elapsed: seconds since the start of this run.
      seconds_left: estimate from the speed of this run; None before there is one.
    """

    done: int
    total: int
    elapsed: float
    seconds_left: float | None


class ProgressCounter:
    """Calls the user's function after every chunk."""

    def __init__(
        self,
        callback: Callable[[Progress], None] | None,
        *,
        total: int,
        left: int,
        started: float,
    ) -> None:
        """Report that ``total - left`` replications are done already."""
        self._callback = callback
        self._total = total
        self._left = self._left_at_start = left
        self._started = started
        self.advance(0)

    def advance(self, count: int) -> None:
        """Report ``count`` more replications."""
        self._left -= count
        if self._callback is None:
            return
        elapsed = monotonic() - self._started
        run = self._left_at_start - self._left
        self._callback(
            Progress(
                done=self._total - self._left,
                total=self._total,
                elapsed=elapsed,
                seconds_left=elapsed * self._left / run if run else None,
            )
        )
