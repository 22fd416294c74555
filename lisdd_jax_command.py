"""The console script ``lisdd-jax``.

It stands outside of the package, whose import takes a second: an interrupt within that second ends
the program as one at any other time does, without a traceback.
"""

import gc
import os
import signal
import sys
from types import FrameType


def main() -> None:
    """Run the command line."""
    signal.signal(signal.SIGINT, _leave)
    # Looking for rubbish among what is imported, all of which stays, takes a tenth of that time.
    thresholds = gc.get_threshold()
    gc.set_threshold(100_000)
    from lisdd_jax import cli

    run = cli.load_application()
    gc.set_threshold(*thresholds)
    # From here on an interrupt is an exception, so that unfinished files are removed.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    code = run(sys.argv[1:])
    # An interrupt while the interpreter shuts down changes nothing.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)


def _leave(_signal: int, _frame: FrameType | None) -> None:
    """End at once: a half-imported package cannot be left in another way without a traceback."""
    os.write(2, b"lisdd-jax: interrupted\n")
    os._exit(130)
