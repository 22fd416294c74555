"""Result types: what a diagnosis holds, as frozen pytrees.

One shape everywhere: estimates, then diagnostics, then ``status``. Batched results are the same
classes with leading axes, as ``vmap`` leaves them. Symbols for shapes: ``p`` physics columns, ``L``
candidate terms, ``R`` cells, ``K`` region slots, ``S`` supports in the order of ``supports``. ``K``
is ``(R + 1) // 2``, the most runs that the cells can hold, in the published method, and at most
``Config.max_regions`` in the default one.

"(default)" marks what the published method does not have: its numbers are NaN and its flags False
there.
"""

from lisdd_jax.results.diagnosis import Diagnosis, Form
from lisdd_jax.results.evidence import Certificate, Dependence, Exactness, Place, Rival
from lisdd_jax.results.places import Cells, Regions, in_interval, reaches_ends
from lisdd_jax.results.verdicts import Verdict, verdict_unless_failed

__all__ = [
    "Cells",
    "Certificate",
    "Dependence",
    "Diagnosis",
    "Exactness",
    "Form",
    "Place",
    "Regions",
    "Rival",
    "Verdict",
    "in_interval",
    "reaches_ends",
    "verdict_unless_failed",
]
