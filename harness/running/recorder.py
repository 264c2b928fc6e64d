"""The harness's own part of the history: phases, faults, and its observations of the cluster.

Every row is on disk when the call returns. Whatever ends the harness, the steps that it had begun
are readable. Rows come from several threads (steps, watches, the observer of ZooKeeper), one at a
time.
"""

import json
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

from ackproof.harness.campaign.plan.runs import HARNESS, HARNESS_TABLES
from ackproof.harness.running.deadline import TimeSource
from ackproof.history.errors import WriteFailed
from ackproof.history.writer import Row, TableWriter
from ackproof.infra.api.capabilities import ClockReading
from ackproof.infra.api.interface import ZooKeeperCounters
from ackproof.infra.api.metadata import ClusterChange
from ackproof.nemesis.interface import Proof, Target
from ackproof.workloads.failover import PartitionTimes

log = logging.getLogger(__name__)


class RecordedFault(Protocol):
    """The kind of a fault in the history, with the data that it takes from disks."""

    @property
    def name(self) -> str: ...

    @property
    def destroys(self) -> str | None: ...


class RunRecorder:
    """The writer of the harness's tables of one run into the directory ``history``."""

    def __init__(self, history: Path, clock: TimeSource) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._closed = False
        self._writers = {table: TableWriter(history, table, HARNESS) for table in HARNESS_TABLES}

    def phase(self, phase: str, event: str, detail: str | None = None) -> None:
        """Record a step's ``start``, ``end`` or ``failed``; ``detail`` is the reason of a
        failure."""
        self._write("phases", phase=phase, event=event, time=self._clock.time_ns(), detail=detail)

    def fault(
        self,
        fault_id: int,
        fault: RecordedFault,
        event: str,
        *,
        target: Target | str,
        proof: Proof | None = None,
        error: Exception | None = None,
        seen: Mapping[str, object] | None = None,
        destroys: str | None = None,
    ) -> None:
        """Record one event of a fault (:data:`history.schema.FAULTS`).

        ``target`` is the expression alone if it could not be resolved. ``error`` belongs to
        ``failed``, in place of a proof. ``seen`` are other observations in place of both.
        ``destroys`` is the damage of its plan to disks.
        """
        observed = seen if error is None and proof is None else _observed(proof, error)
        self._write(
            "faults",
            fault_id=fault_id,
            fault=fault.name,
            event=event,
            time=self._clock.time_ns(),
            target=target if isinstance(target, str) else target.expression,
            **({} if isinstance(target, str) else _resolved(target)),
            destroys=destroys or fault.destroys,
            proven=None if proof is None else proof.proven,
            evidence=None if observed is None else json.dumps(observed, default=str),
        )

    def cluster(self, change: ClusterChange) -> None:
        """Record one change seen in ZooKeeper."""
        columns = asdict(change)
        self._write("cluster", time=columns.pop("time_ns"), **columns)

    def server(
        self,
        server: str,
        event: str,
        *,
        exit_code: int | None = None,
        fault_id: int | None = None,
        detail: str | None = None,
    ) -> None:
        """Record that a server's process ``started`` or ``ended``; ``fault_id`` is the fault that
        ended it, and ``detail`` the reason that Kubernetes gives."""
        self._write(
            "servers",
            time=self._clock.time_ns(),
            server=server,
            event=event,
            exit_code=exit_code,
            fault_id=fault_id,
            detail=detail,
        )

    def scheduled(self, server: str, span_ns: int, ran_ns: int, waited_ns: int) -> None:
        """Record how long a server ran, and waited for a processor, in the last ``span_ns``."""
        self._write(
            "scheduling",
            time=self._clock.time_ns(),
            server=server,
            span_ns=span_ns,
            ran_ns=ran_ns,
            waited_ns=waited_ns,
        )

    def client(
        self,
        client: str,
        exit_code: int | None,
        fault_id: int | None,
        detail: str | None,
        session: int | None = None,
    ) -> None:
        """Record that a client of the workload ended unexpectedly, or fell silent.

        ``fault_id`` is the fault that explains it. Otherwise ``detail`` says how it ended, or what
        did not come. If ``session`` is given, the client runs on, and so many of its sessions have
        ended, the last for the reason ``detail``.
        """
        self._write(
            "clients",
            time=self._clock.time_ns(),
            client=client,
            exit_code=exit_code,
            fault_id=fault_id,
            detail=detail,
            session=session,
        )

    def recovery(
        self, topic: str, partition: int, leader: int, isr: Sequence[int], whole: bool
    ) -> None:
        """Record the state of a partition at the end of the recovery."""
        self._write(
            "recovery",
            time=self._clock.time_ns(),
            topic=topic,
            partition=partition,
            leader=leader,
            isr=list(isr),
            whole=whole,
        )

    def collected(self, digests: Mapping[str, str]) -> None:
        """Record the digests of files that were copied from a server, by their paths from the run's
        directory."""
        self._write_all("collected", list(digests.items()))

    def log_start(self, topic: str, partition: int, asked: int, answered: int, start: int) -> None:
        """Record an answer with the start of a partition's log, and the times of question and
        answer."""
        self._write(
            "log_starts",
            topic=topic,
            partition=partition,
            asked=asked,
            time=answered,
            log_start_offset=start,
        )

    def clock(self, node: str, moment: str, reading: ClockReading) -> None:
        """Record a node's clock at the ``start`` or the ``end`` of the workload."""
        self._write(
            "clocks",
            node=node,
            moment=moment,
            time=self._clock.time_ns(),
            offset_ns=reading.offset_ns,
            bound_ns=reading.bound_ns,
        )

    def zookeeper(
        self,
        moment: str,
        partitions: int | None,
        counted: Sequence[ZooKeeperCounters],
        harness_watches: int,
    ) -> None:
        """Record the counters of ZooKeeper's servers at a moment of
        :data:`history.schema.ZOOKEEPER`."""
        for server in counted:
            self._write(
                "zookeeper",
                moment=moment,
                partitions=partitions,
                time=self._clock.time_ns(),
                **asdict(server),
                harness_watches=harness_watches,
            )

    def failover(
        self, partitions: int, broker: int, killed: int, seen: Mapping[int, PartitionTimes]
    ) -> None:
        """Record the failover of the partitions that a broker led when it was killed: all rows, or
        none."""
        rows = [
            (partitions, number, broker, len(seen), killed, one.led, one.acked)
            for number, one in sorted(seen.items())
        ]
        self._write_all("failovers", rows)

    def close(self) -> None:
        """Close the tables. Idempotent."""
        with self._lock:
            self._closed = True
            for table, writer in self._writers.items():
                with _noted(table):
                    writer.close()

    def _write(self, table: str, **columns: object) -> None:
        with self._lock, _noted(table):
            if self._closed:  # by a step that was left behind
                log.warning("too late for the table %s: %s", table, columns)
                return
            self._writers[table].write(**columns)

    def _write_all(self, table: str, rows: Sequence[Row]) -> None:
        """Write rows that belong together: all of them, or none."""
        with self._lock, _noted(table):
            if self._closed:
                log.warning("too late for the table %s: %d rows", table, len(rows))
                return
            for row in rows:
                self._writers[table].append(row)
            self._writers[table].flush()


@contextmanager
def _noted(table: str) -> Iterator[None]:
    """Log a failure to write a table. A full disk must not end the run. The writer keeps the rows
    and tries them again with the next, and the rows already written are intact."""
    try:
        yield
    except WriteFailed:
        log.exception("the table %s", table)


def _resolved(target: Target) -> Mapping[str, object]:
    return {
        "servers": [*target.servers, *target.clients],
        "partitions": None if target.partitions is None else list(target.partitions),
        "facts": json.dumps(dict(target.facts), default=str),
    }


def _observed(proof: Proof | None, error: Exception | None) -> Mapping[str, object] | None:
    if error is not None:
        return {"error": f"{type(error).__name__}: {error}"}
    return None if proof is None else proof.observations
