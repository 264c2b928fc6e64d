"""A Spark session that is started before it is needed: during the teardown of the cluster, when
nothing is measured any more. The check then does not have to wait for it.
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
    """The session for the check of a campaign, if it is begun. It ends with the context.

    Args:
        scratch: The directory for the session's files, which does not exist yet. It is removed with
            the context. If the process is killed, it is removed with the directory that holds it.
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
            # At the second request to stop, nothing is waited for. Spark ends with this process.
            return
        self._wait()
        self._stack.close()

    def at(self, step: str) -> Callable[[str], None]:
        """Return a function that begins the session when it is called with the name of this
        step."""

        def begins(name: str) -> None:
            if name == step:
                self.begin()

        return begins

    def begin(self) -> None:
        """Start the session in a thread."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._start, name="spark", daemon=True)
            self._thread.start()

    def session(self) -> "SparkSession | None":
        """Return the prewarmed session, or None if prewarming was not started or failed. The check
        then starts its own session and reports the error."""
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
