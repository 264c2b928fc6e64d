"""A producer of one cell that writes in transactions.

``python -m ackproof.workloads.transactions.producer SPEC.json``

It sends at a steady rate (``workloads.producing.pacing``), each record to a drawn partition, or
with a drawn key. A transaction that has its drawn number of records ends as was drawn: committed,
aborted, or left to a zombie (``workloads.transactions.session``). While its end is asked for,
nothing is sent.

SIGTERM stops it: the open transaction is committed, then it ends.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from ackproof.workloads.process import main
from ackproof.workloads.producing.pacing import Pacer
from ackproof.workloads.spec import load
from ackproof.workloads.transactions.recorder import recording
from ackproof.workloads.transactions.session import (
    ClientDraws,
    ProducerSession,
    SessionSequence,
    TransactionEnd,
)
from ackproof.workloads.transactions.spec import TransactionalSpec

POLL_SECONDS_MIN = 0.002
POLL_SECONDS_MAX = 0.1


class TransactionalProducer:
    """A producer that sends until it is told to stop."""

    def __init__(self, draws: ClientDraws, lives: SessionSequence) -> None:
        self._draws = draws
        self._lives = lives
        self._session: ProducerSession | None = None
        self._due = 0
        self._end = TransactionEnd.COMMIT

    def run(self, rate: float, stopping: Callable[[], bool]) -> None:
        """Send ``rate`` records a second until ``stopping``."""
        self._session = self._lives.next()
        pacer = Pacer(rate, time.monotonic())
        while self._session is not None and not stopping():
            if pacer.due(time.monotonic()):
                pacer.take(1)
                self._send()
            if self._session is not None:
                self._session.serve(_pause_s(pacer.seconds_to_next(time.monotonic())))
                if self._session.over:
                    self._replace(self._session)
        if self._session is not None:
            if self._session.open:
                self._session.commit()
            self._session.close()

    def _send(self) -> None:
        session = self._session
        if session is None:
            return
        if not session.open:
            self._due, self._end = self._draws.records(), self._draws.end()
            if not session.begin():
                self._replace(session)
                return
        session.send(self._draws.record())
        if session.sent >= self._due:
            self._finish(session)

    def _finish(self, session: ProducerSession) -> None:
        if self._end is TransactionEnd.FENCE:
            self._session = self._lives.fence(session, self._draws.record())
            return
        if self._end is TransactionEnd.COMMIT:
            session.commit()
        else:
            session.abort()
        if session.over:
            self._replace(session)

    def _replace(self, session: ProducerSession) -> None:
        session.close()
        self._session = self._lives.next()


def _pause_s(until_next_s: float) -> float:
    """Return how long to listen to the client library; not at all where the next record is due."""
    return min(max(until_next_s, POLL_SECONDS_MIN), POLL_SECONDS_MAX) if until_next_s else 0.0


def run(specification: Path, stopping: Callable[[], bool]) -> None:
    """Produce as the specification file says, until ``stopping``."""
    spec = load(TransactionalSpec, specification)
    with recording(spec, time.time_ns) as (recorder, keep):
        lives = SessionSequence(spec, recorder, keep, stopping)
        assert spec.rate is not None, "the campaign refuses flat-out"
        TransactionalProducer(ClientDraws(spec), lives).run(spec.rate, stopping)


if __name__ == "__main__":
    sys.exit(main(run, sys.argv[1:]))
