"""The faults of a run as the history tells them: when each was on, whom it befell, what is proven.

A fault is on from ``inject`` (about to) until it is proven healed; one that was not proven healed
is on until the end. In between it is in full strength from ``injected`` until ``heal`` (about to).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from history.manifest import PlannedFault

Partition = tuple[str, int]
"""Topic and number."""

FOREVER = 2**63 - 1
"""Later than any time of a history."""

UNSYNCED = "unsynced"
SILENTLY = "bits"
"""What a fault destroys that changes some bits of what was synced: nobody is told."""
UNCLEANLY = "unclean"
"""Of a fault that takes nothing from disks, and orders that anybody may lead its partitions."""

KEEPERS = ("zookeeper-", "controller-")
"""How servers are called that keep the metadata and are no brokers: ZooKeeper's, or with KRaft the
controllers."""

CLIENT_NODES = "client-"
"""How nodes are called where clients run."""

_BROKER = re.compile(r"broker-(\d{1,9})")


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultFacts:
    """One fault of a run; times in nanoseconds of the Unix epoch.

    Attributes:
        target: The expression it was aimed at.
        servers: Those that it befell, and nodes of clients; None where the target was not
            resolved.
        partitions: What these led, followed or coordinated; None where that is not told.
        destroys: What it takes from their disks, ``unsynced``, ``all`` or ``bits``; ``unclean``
            for elections outside the ISR; None for nothing.
        min_isr: The min.insync.replicas that it set for the topics of its partitions; None where
            it set none.
        deleted_before: The offset below which it had records of its partitions deleted; None where
            it had none.
        start: When it was about to be injected.
        injected: When it was; None where it never got so far.
        heal: When it was about to be healed; None where it never was.
        healed: When it was proven to be; None where it never was.
        lifted: When nothing of it was left though it was not proven healed, because the system did
            not do what was for it to do; None where it was, or something was left.
        last: Of its last row.
        begun: Whether it ever was about to be injected; not where its target named nobody.
        verified: When it was proven to have bitten; None where it never was.
        consumers_alone: Whether it crashed consumers, and befell nobody else.
    """

    fault_id: int
    name: str
    target: str
    servers: tuple[str, ...] | None
    partitions: frozenset[Partition] | None
    destroys: str | None
    start: int
    injected: int | None
    heal: int | None
    healed: int | None
    last: int
    begun: bool
    verified: int | None
    lifted: int | None = None
    min_isr: int | None = None
    deleted_before: int | None = None
    consumers_alone: bool = False

    @property
    def label(self) -> str:
        """E.g. ``kill#1``."""
        return f"{self.name}#{self.fault_id}"

    @property
    def bit(self) -> bool:
        """Whether it is proven to have bitten."""
        return self.verified is not None

    @property
    def end(self) -> int:
        """When it was over; at once where it never began."""
        if not self.begun:
            return self.start
        return FOREVER if self.healed is None else self.healed

    @property
    def over(self) -> int:
        """When nothing of it was left, proven to be healed or not."""
        return self.end if self.lifted is None else self.lifted

    @property
    def brokers(self) -> frozenset[int] | None:
        """The ids of the brokers that it befell; None where the history does not tell."""
        if self.servers is None:
            return None
        found = (_BROKER.fullmatch(server) for server in self.servers)
        return frozenset(int(match.group(1)) for match in found if match)

    @property
    def on_clients(self) -> bool:
        """Whether it befell nodes where clients run."""
        return any(server.startswith(CLIENT_NODES) for server in self.servers or ())

    def touches(self, partition: Partition) -> bool:
        """Whether it befell a server that led, followed or coordinated the partition.

        What it befell is unknown: it may have been any partition. A server that is no broker
        keeps the metadata of all, or is a client's, which may write to any. Consumers
        write to none.
        """
        if self.consumers_alone:
            return False
        if self.servers is None or self.partitions is None:
            return True
        if any(not _BROKER.fullmatch(server) for server in self.servers):
            return True
        return partition in self.partitions


def faults_of(
    rows: Sequence[Mapping[str, Any]], planned: Sequence[PlannedFault] = ()
) -> tuple[FaultFacts, ...]:
    """The faults that rows of the table ``faults`` tell of, by their number; ``planned``: what the
    manifest says of them."""
    events: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows:
        events.setdefault(row["fault_id"], []).append(row)
    set_to = _planned(planned, "min_insync_replicas")
    deleted = _planned(planned, "before_offset")
    return tuple(
        replace(
            _facts(number, rows), min_isr=set_to.get(number), deleted_before=deleted.get(number)
        )
        for number, rows in sorted(events.items())
    )


def deleted_before(faults: Sequence[FaultFacts], partition: Partition) -> int:
    """Below which offset an administrator had the records of a partition deleted, or may have; 0
    where nobody had. An order that was given and is not proven may have been carried out."""
    ordered = (
        fault.deleted_before or 0 for fault in faults if fault.begun and fault.touches(partition)
    )
    return max(ordered, default=0)


def _planned(planned: Sequence[PlannedFault], parameter: str) -> dict[int, int]:
    """The parameter of those faults that have it, by their number."""
    return {
        plan.fault_id: value
        for plan in planned
        if isinstance(value := plan.parameters.get(parameter), int)
    }


def _facts(number: int, rows: Sequence[Mapping[str, Any]]) -> FaultFacts:
    rows = sorted(rows, key=lambda row: row["time"])
    proven = [row for row in rows if row["proven"]]
    return FaultFacts(
        fault_id=number,
        name=rows[0]["fault"],
        target=rows[0]["target"],
        servers=_servers(rows),
        partitions=_partitions(rows),
        destroys=next((row["destroys"] for row in rows if row["destroys"]), None),
        start=rows[0]["time"],
        injected=_time(rows, "injected"),
        heal=_time(rows, "heal"),
        healed=_time(proven, "healed"),
        # The last word on it: healed once more at the end of the run, it may be another.
        lifted=rows[-1]["time"] if rows[-1]["event"] == "lifted" else None,
        last=rows[-1]["time"],
        begun=any(row["event"] != "failed" for row in rows),
        verified=_time(proven, "verified"),
    )


def _time(rows: Sequence[Mapping[str, Any]], event: str) -> int | None:
    return next((row["time"] for row in rows if row["event"] == event), None)


def _servers(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...] | None:
    told = [row["servers"] for row in rows if row["servers"] is not None]
    return tuple(sorted({str(server) for servers in told for server in servers})) if told else None


def _partitions(rows: Sequence[Mapping[str, Any]]) -> frozenset[Partition] | None:
    """None, too, where one of them has no number: then nobody knows which was meant."""
    told = [row["partitions"] for row in rows if row["partitions"] is not None]
    names = [str(name).rpartition("-") for partitions in told for name in partitions]
    if not told or not all(number.isdecimal() for _, _, number in names):
        return None
    return frozenset((topic, int(number)) for topic, _, number in names)
