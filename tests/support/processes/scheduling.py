"""The distribution of test files over the workers of pytest-xdist."""

from functools import cache
from pathlib import Path

from xdist.scheduler import LoadFileScheduling

ROOT = Path(__file__).parents[3]
WITH_SPARK = "tests with the shared Spark session"


class SparkOnOneWorker(LoadFileScheduling):
    """A scheduler of whole files. All files that use the session-scoped fixture ``spark`` go to one
    worker, because a session takes 7 to 9 s of processor time to start in each worker."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return WITH_SPARK if uses_spark(file) else file


@cache
def uses_spark(file: str) -> bool:
    """Return whether a test file, by its path below the root, uses the shared session."""
    path = ROOT / file
    return path.is_file() and "spark: SparkSession" in path.read_text(encoding="utf-8")
