"""A session of Spark that is started before it is needed: while the cluster is torn down, when
nothing is measured any more, so that nobody waits for it.
"""

import logging
import shutil
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


log = logging.getLogger(__name__)


class SparkPrewarm:
    """The session for the check of a campaign, if it is begun; ended with the context.

    Args:
        scratch: Directory for the session's files, not there yet. Removed with the context; where
            that is ended by force, by whoever removes what it is in.
    """

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._stack = ExitStack()
        self._spark: SparkSession | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "SparkPrewarm":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, KeyboardInterrupt) and self._thread and self._thread.is_alive():
            # Who asks a second time waits for nothing. Spark ends with this process.
            return
        self._wait()
        self._stack.close()

    def at(self, step: str) -> Callable[[str], None]:
        """What begins it when it is told that this step begins."""

        def begins(name: str) -> None:
            if name == step:
                self.begin()

        return begins

    def begin(self) -> None:
        """Start it, in a thread."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._start, name="spark", daemon=True)
            self._thread.start()

    def session(self) -> "SparkSession | None":
        """It, when it is there; None where it was not begun, or could not be: the check then starts
        one itself, and tells what is wrong."""
        self._wait()
        return self._spark

    def _wait(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def _start(self) -> None:
        try:
            from ackproof.checkers.engine.spark import session  # Spark takes seconds to import

            self._stack.callback(shutil.rmtree, self._scratch, ignore_errors=True)
            spark = self._stack.enter_context(session.session(self._scratch))
            # The first task starts Spark's SQL engine and a Python worker, which takes seconds.
            session.require_workers(spark, self._scratch)
            self._spark = spark
        except Exception:
            log.exception("starting Spark ahead of the check")
