"""The harness's own part of the history: cells, faults, cluster changes, phases.

Every row is on disk when the call returns, so that whatever ends the harness, what it had begun is
readable. Rows come from several threads (steps, the observer of ZooKeeper), one at a time.
"""

import json
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from harness.campaign import producers
from harness.running.deadline import Clock
from history.errors import WriteFailed
from history.writer import TableWriter
from infra.systems.observer import ClusterChange
from nemesis.interface import Fault, Proof, Target
from workloads.interface import Cell

log = logging.getLogger(__name__)

_TABLES = ("cells", "faults", "cluster", "phases")


class RunRecorder:
    """Writes the harness's tables of one run into the directory ``history``."""

    def __init__(self, history: Path, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._writers = {table: TableWriter(history, table, "harness") for table in _TABLES}

    def phase(self, phase: str, event: str, detail: str | None = None) -> None:
        """A step's ``start``, ``end`` or ``failed``; ``detail`` says why it failed."""
        self._write("phases", phase=phase, event=event, time=self._clock.time_ns(), detail=detail)

    def cells(self, cells: Sequence[Cell], minimum_acked: int) -> None:
        """The cells of the run, before the first send."""
        for cell in cells:
            self._write("cells", **_cell_row(cell), minimum_acked=minimum_acked)

    def fault(
        self,
        fault_id: int,
        fault: Fault,
        event: str,
        *,
        target: Target | str,
        proof: Proof | None = None,
        error: Exception | None = None,
    ) -> None:
        """One event of a fault (:data:`history.schema.FAULTS`). ``target``: the expression alone
        where it could not be resolved. ``error``: of a ``failed``, in the place of a proof."""
        observed = _observed(proof, error)
        self._write(
            "faults",
            fault_id=fault_id,
            fault=fault.name,
            event=event,
            time=self._clock.time_ns(),
            target=target if isinstance(target, str) else target.expression,
            **({} if isinstance(target, str) else _resolved(target)),
            destroys=fault.destroys,
            proven=None if proof is None else proof.proven,
            evidence=None if observed is None else json.dumps(observed, default=str),
        )

    def cluster(self, change: ClusterChange) -> None:
        """One change seen in ZooKeeper."""
        columns = asdict(change)
        self._write("cluster", time=columns.pop("time_ns"), **columns)

    def close(self) -> None:
        """Close the tables. Idempotent."""
        with self._lock:
            for table, writer in self._writers.items():
                with _noted(table):
                    writer.close()

    def _write(self, table: str, **columns: object) -> None:
        with self._lock, _noted(table):
            self._writers[table].write(**columns)


@contextmanager
def _noted(table: str) -> Iterator[None]:
    """A full disk must not end the run: the rows stay with the writer, which tries them again with
    the next, and what was written is intact."""
    try:
        yield
    except WriteFailed:
        log.exception("the table %s", table)


def _resolved(target: Target) -> Mapping[str, object]:
    return {
        "servers": list(target.servers),
        "partitions": None if target.partitions is None else list(target.partitions),
        "facts": json.dumps(dict(target.facts), default=str),
    }


def _observed(proof: Proof | None, error: Exception | None) -> Mapping[str, object] | None:
    if error is not None:
        return {"error": f"{type(error).__name__}: {error}"}
    return None if proof is None else proof.observations


def _cell_row(cell: Cell) -> Mapping[str, object]:
    return {
        "cell": cell.name,
        "topic": cell.topic,
        "partitions": cell.partitions,
        "replication_factor": cell.replication_factor,
        "acks": cell.acks,
        "min_insync_replicas": cell.min_insync_replicas,
        "unclean_leader_election": cell.unclean_leader_election,
        "enable_idempotence": producers.idempotent(cell),
        "max_in_flight": producers.max_in_flight(cell),
    }
