"""Monte Carlo studies of any computation: cells times replications, streamed into statistics.

It knows nothing of the method that the rest of the package is about.
"""

from lisdd_jax.study.engine.assembly import read_study
from lisdd_jax.study.engine.failures import ReplicationError
from lisdd_jax.study.engine.progress import Progress
from lisdd_jax.study.engine.replication import release_programs, replication_keys
from lisdd_jax.study.engine.statistics import MetricSummary
from lisdd_jax.study.engine.storage import StudyFolderError
from lisdd_jax.study.engine.study import run_study
from lisdd_jax.study.engine.summary import CellSummary, StudyResult

__all__ = [
    "CellSummary",
    "MetricSummary",
    "Progress",
    "ReplicationError",
    "StudyFolderError",
    "StudyResult",
    "read_study",
    "release_programs",
    "replication_keys",
    "run_study",
]
