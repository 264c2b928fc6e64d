"""The faults of a run as the history records them: when each was active, which servers it affected,
and what is proven.

A fault is active from ``inject`` (it is about to be injected) until it is proven healed, or until
the end if that is never proven. It is in full strength from ``injected`` until ``heal`` (it is
about to be healed).
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from ackproof.history.manifest import UNORDERED, PlannedFault

Partition = tuple[str, int]
"""The topic and the number of a partition."""

FOREVER = 2**63 - 1
"""A time later than any of a history."""

UNSYNCED = "unsynced"
SILENTLY = "bits"
"""The value of ``destroys`` for a fault that changes some bits of synced data without any error."""
UNCLEANLY = "unclean"
"""The value of ``destroys`` for a fault that takes no data but allows any replica to be elected."""

KEEPERS = ("zookeeper-", "controller-")
"""The prefixes of the names of servers that keep the metadata and are no brokers: ZooKeeper
servers, or controllers with KRaft."""

CLIENT_NODES = "client-"
"""The prefix of the names of nodes where clients run."""

CLOCKS = frozenset({"step-clock", "fast-clock", "strobe-clock"})
"""Faults that only change a server's time of day. Sessions are measured by the time since boot."""

SILENT = frozenset(
    {
        *("pause", "isolate", "cut", "minority", "halves", "majorities-ring", "bridge"),
        *("flap", "lossy", "narrow", "slow"),
    }
)
"""Faults that end no connection and no process."""

DISK_FULL = "disk-full"

DRAIN = "drain"
OPERATOR_ROLL = "operator-roll"
BY_THEMSELVES = frozenset({DRAIN, OPERATOR_ROLL, UNORDERED})
"""Faults whose brokers start again before they are healed, because the owners of their pods make
others."""

RESTARTS = frozenset(
    {
        *("kill", "terminate", "restart", "replace", "power-failure"),
        *("disk-full", "disk-failure", "read-only"),
        *("bit-flip", "corrupt-index", "lose-checkpoint", "lose-epochs"),
        *(BY_THEMSELVES | {"node-failure"}),
    }
)
"""Faults that end processes and start them again when they are healed, or before."""

ADD_BROKER = "add-broker"

ORDERS = frozenset(
    {
        *("reassign", "elect-preferred", "elect-unclean", "alter-min-isr", ADD_BROKER),
        *("create-topic", "grow-topic", "delete-topic", "delete-records"),
        *("add-partitions", "advance-log-start", "move-log-dir"),
    }
)
"""Faults that are an administrator's orders. They do not stop, slow or cut off any server."""

TAKE_NOTHING = frozenset(
    {
        *(SILENT | CLOCKS | ORDERS) - {"elect-unclean"},
        *("kill", "terminate", "restart", "starve-cpu", "starve-memory", "reset", "remove-broker"),
        *(BY_THEMSELVES | {"node-failure"}),
        *("upgrade", "downgrade", "migrate", "migrate-back", "remove-voter"),
        *("rotate-certificates", "bad-certificate"),
        *("crash-client", "pause-client", "expire-session", "conflicted-node"),
        *("disk-full", "slow-disk", "corrupt-index", "lose-checkpoint", "command"),
        "disturb-remote-tier",
    }
)
"""Faults that destroy no data, unless their campaign declares it, or pods take it along."""

COMMAND = "command"
"""The name of a fault by the user's own commands. Its campaign declares its effects."""

_WORDS = (None, UNSYNCED, "all", SILENTLY, UNCLEANLY)
"""The values that ``destroys`` can have."""

BROKER = re.compile(r"broker-(\d{1,9})")


@cache  # asked millions of times in a long run
def _ids(servers: tuple[str, ...]) -> frozenset[int]:
    found = (BROKER.fullmatch(server) for server in servers)
    return frozenset(int(match.group(1)) for match in found if match)


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultFacts:
    """One fault of a run. Times are in nanoseconds of the Unix epoch.

    Attributes:
        fault_id: The number of the fault.
        name: The kind of the fault.
        target: The expression that it was aimed at.
        servers: The affected servers and nodes of clients, or None if the target was not resolved.
        partitions: The partitions that these led, followed or coordinated, or None if unknown.
        destroys: The data that it takes from their disks, ``unsynced``, ``all`` or ``bits``;
            ``unclean`` for elections outside the ISR; None for none.
        start: The time at which it was about to be injected.
        injected: The time at which it was injected, or None.
        heal: The time at which it was about to be healed, or None.
        healed: The time at which it was proven healed, or None.
        last: The time of its last row.
        begun: Whether it was ever about to be injected. False if its target matched no server.
        verified: The time at which it was proven effective, or None.
        lifted: The time at which nothing of it was left although it was not proven healed, because
            the system did not do its part. None if it was proven healed or something was left.
        min_isr: The min.insync.replicas that it set for the topics of its partitions, or None.
        deleted_before: The offset below which it had records of its partitions deleted, or None.
        consumers_alone: Whether it only crashed consumers.
        planned: Whether the manifest plans it. What the harness saw done by others counts, too.
        title: The name that its campaign gives it, or an empty string.
        declared: The effects that its campaign declares, for a fault by commands.
        complaint: The error output if it could not be injected or its proof failed.
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
    planned: bool = True
    title: str = ""
    declared: frozenset[str] = frozenset()
    complaint: str = ""

    @property
    def label(self) -> str:
        """The name and number, such as ``kill#1`` or ``command:az-outage#1``."""
        return label_of(self.name, self.fault_id, self.title)

    @property
    def taker(self) -> str:
        """The label of a fault that took data. For a fault by commands it says that the loss was
        not observed but declared by the campaign, and for one that takes nothing by itself that the
        storage was lost with pods (``nemesis.process.pods.with_lost_storage``)."""
        if self.name == COMMAND:
            return f"{self.label}, as its campaign declares,"
        if self.destroys == "all" and self.name in TAKE_NOTHING:
            return f"{self.label}, with the storage of the pods that it ended,"
        return self.label

    @property
    def unordered(self) -> bool:
        """Whether the campaign did not order it: something else replaced the pod of a broker."""
        return self.name == UNORDERED

    @property
    def silent(self) -> bool:
        """Whether it ends no connection, so that clients take some time to notice it."""
        return self.name in SILENT or "cuts-off" in self.declared

    @property
    def is_effective(self) -> bool:
        """Whether it is proven effective."""
        return self.verified is not None

    @property
    def end(self) -> int:
        """The time at which it was over; its start if it never began."""
        if not self.begun:
            return self.start
        return FOREVER if self.healed is None else self.healed

    @property
    def over(self) -> int:
        """The time at which nothing of it was left, whether or not it was proven healed."""
        return self.end if self.lifted is None else self.lifted

    @property
    def brokers(self) -> frozenset[int] | None:
        """The ids of the affected brokers, or None if the history does not have them."""
        return None if self.servers is None else _ids(self.servers)

    @property
    def proven(self) -> bool:
        """Whether it is known to have happened, so that it can excuse a loss."""
        return self.is_effective and self.injected is not None and self.trusted

    @property
    def trusted(self) -> bool:
        """Whether it can excuse a loss.

        A fault that the manifest does not plan, or whose ``destroys`` is not in the schema, may
        make a guarantee unknown but never ends one for certain. The same holds for a loss by
        commands that their campaign does not declare.
        """
        declared = self.name != COMMAND or self.destroys == _declared_loss(self.declared)
        return self.planned and self.destroys in _WORDS and declared

    @property
    def disturbs(self) -> bool:
        """Whether it may keep an affected server from learning of a change."""
        return self.begun and self.name not in CLOCKS | ORDERS and self.min_isr is None

    def affected_metadata_servers(self, combined: Collection[str]) -> bool:
        """Return whether it affected a server that keeps the metadata.

        A fault on the links between these and brokers only affects those brokers. The others learn
        of changes as before.

        Args:
            combined: The names of the brokers that also keep the metadata.
        """
        servers = set(self.servers or ())
        keepers = {one for one in servers if one.startswith(KEEPERS) or one in combined}
        return bool(keepers) and not ("->" in self.target and servers - keepers)

    @property
    def on_clients(self) -> bool:
        """Whether it affected nodes where clients run."""
        return any(server.startswith(CLIENT_NODES) for server in self.servers or ())

    def touches(self, partition: Partition) -> bool:
        """Return whether it affected a server that led, followed or coordinated the partition.

        If the affected partitions are unknown, any partition may be one of them. A server that is
        no broker keeps the metadata of all partitions, or belongs to a client that may write to
        any. Consumers write to none.
        """
        if self.consumers_alone:
            return False
        if self.servers is None or self.partitions is None:
            return True
        if any(not BROKER.fullmatch(server) for server in self.servers):
            return True
        return partition in self.partitions


def faults_of(
    rows: Sequence[Mapping[str, Any]], planned: Sequence[PlannedFault] | None = None
) -> tuple[FaultFacts, ...]:
    """Return the faults that rows of the table ``faults`` describe, by their number.

    Args:
        rows: The rows.
        planned: The planned faults of the manifest. With None, every fault counts as planned.
    """
    events: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows:
        events.setdefault(row["fault_id"], []).append(row)
    plans = {(plan.fault_id, plan.fault): plan.parameters for plan in planned or ()}
    found = []
    for number, mine in sorted(events.items()):
        fault = _facts(number, mine)
        parameters = plans.get((number, fault.name), {})
        found.append(
            replace(
                fault,
                min_isr=_number(parameters, "min_insync_replicas"),
                deleted_before=_number(parameters, "before_offset"),
                planned=planned is None or (number, fault.name) in plans or fault.unordered,
                title=title_of(fault.name, parameters),
                declared=_declared(fault.name, parameters),
            )
        )
    return tuple(found)


def possible(plan: PlannedFault, *, external: bool = False) -> FaultFacts:
    """Return everything that a planned fault may have done if the history is incomplete: whatever
    its kind can do, to any server and at any time. It excuses nothing for certain.

    Args:
        plan: The fault.
        external: Whether the cluster existed before. A fault that ends its pods may have lost their
            storage: only the missing rows say whether it is an emptyDir.
    """
    destroys: str | None = UNCLEANLY if plan.fault == "elect-unclean" else "all"
    declared = _declared(plan.fault, plan.parameters)
    if plan.fault in TAKE_NOTHING and not (external and plan.fault in RESTARTS):
        destroys = _declared_loss(declared)
    return FaultFacts(
        fault_id=plan.fault_id,
        name=plan.fault,
        target=plan.target,
        servers=None,
        partitions=None,
        destroys=destroys,
        title=title_of(plan.fault, plan.parameters),
        declared=declared,
        min_isr=_number(plan.parameters, "min_insync_replicas"),
        deleted_before=_number(plan.parameters, "before_offset"),
        start=0,
        injected=None,
        heal=None,
        healed=None,
        last=FOREVER,
        begun=True,
        verified=None,
        planned=False,
    )


def deleted_before(faults: Sequence[FaultFacts], partition: Partition) -> int:
    """Return the offset below which an administrator had the records of a partition deleted, or may
    have, or 0. An order that was given and is not proven may have been executed."""
    ordered = (
        fault.deleted_before or 0 for fault in faults if fault.begun and fault.touches(partition)
    )
    return max(ordered, default=0)


def _number(parameters: Mapping[str, Any], name: str) -> int | None:
    value = parameters.get(name)
    return value if isinstance(value, int) else None


def title_of(fault: str, parameters: Mapping[str, Any]) -> str:
    """Return the name that a campaign gives to a fault by commands, or an empty string for any
    other."""
    return str(parameters.get("name") or "") if fault == COMMAND else ""


def label_of(fault: str, number: int, title: str) -> str:
    """Return the name of a fault in a report."""
    return f"{fault}:{title}#{number}" if title else f"{fault}#{number}"


def _declared(fault: str, parameters: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(map(str, parameters.get("effects") or ())) if fault == COMMAND else frozenset()


def _declared_loss(declared: Collection[str]) -> str | None:
    if "loses-all" in declared:
        return "all"
    return UNSYNCED if "loses-unsynced" in declared else None


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
        # The last row counts: a fault that is healed again at the end of the run may get another
        # one.
        lifted=rows[-1]["time"] if rows[-1]["event"] == "lifted" else None,
        last=rows[-1]["time"],
        begun=any(row["event"] != "failed" for row in rows),
        verified=_time(proven, "verified"),
        complaint=_complaint(rows) if rows[0]["fault"] == COMMAND else "",
    )


def _complaint(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the error output of the commands of a fault if one of them failed, or an empty
    string."""
    failed = [row for row in rows if row["event"] == "failed" or row["proven"] is False]
    try:
        told = json.loads(failed[-1]["evidence"] or "{}") if failed else {}
    except ValueError:
        return ""
    claims = ("error", "verify ended with 0", "healed ended with 0")
    said = [told[one] for one in claims if one in told] if isinstance(told, dict) else []
    return "; ".join(
        text if isinstance(text, str) else "; ".join(f"{k} {v}" for k, v in text.items())
        for text in said
        if isinstance(text, str | dict)
    )


def _time(rows: Sequence[Mapping[str, Any]], event: str) -> int | None:
    return next((row["time"] for row in rows if row["event"] == event), None)


def _servers(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...] | None:
    told = [row["servers"] for row in rows if row["servers"] is not None]
    return tuple(sorted({str(server) for servers in told for server in servers})) if told else None


def _partitions(rows: Sequence[Mapping[str, Any]]) -> frozenset[Partition] | None:
    """Return the affected partitions. Return None also if one of the names has no number, because
    the partition is then unknown."""
    told = [row["partitions"] for row in rows if row["partitions"] is not None]
    names = [str(name).rpartition("-") for partitions in told for name in partitions]
    if not told or not all(number.isdecimal() for _, _, number in names):
        return None
    return frozenset((topic, int(number)) for topic, _, number in names)
