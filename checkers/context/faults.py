"""The faults of a run as the history tells them: when each was on, whom it befell, what is proven.

A fault is on from ``inject`` (about to) until it is proven healed; one that was not proven healed
is on until the end. In between it is in full strength from ``injected`` until ``heal`` (about
to)."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ackproof.history.manifest import PlannedFault

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

CLOCKS = frozenset({"step-clock", "fast-clock", "strobe-clock"})
"""Faults that change a server's time of day, and nothing else. Sessions are measured by the time
since boot."""

SILENT = frozenset(
    {
        *("pause", "isolate", "cut", "minority", "halves", "majorities-ring", "bridge"),
        *("flap", "lossy", "narrow", "slow"),
    }
)
"""Faults that end no connection and no process."""

RESTARTS = frozenset(
    {
        *("kill", "terminate", "restart", "replace", "power-failure"),
        *("disk-full", "disk-failure", "read-only"),
        *("bit-flip", "corrupt-index", "lose-checkpoint", "lose-epochs"),
    }
)
"""Faults that end processes, and start them again when they are healed."""

ORDERS = frozenset(
    {
        *("reassign", "elect-preferred", "elect-unclean", "alter-min-isr", "add-broker"),
        *("create-topic", "grow-topic", "delete-topic", "delete-records"),
        *("add-partitions", "advance-log-start"),
    }
)
"""Faults that are an administrator's orders. They stop, slow and cut off no server."""

TAKE_NOTHING = frozenset(
    {
        *(SILENT | CLOCKS | ORDERS) - {"elect-unclean"},
        *("kill", "terminate", "restart", "starve-cpu", "starve-memory", "reset", "remove-broker"),
        *("crash-client", "pause-client", "expire-session", "conflicted-node"),
        *("disk-full", "slow-disk", "corrupt-index", "lose-checkpoint", "command"),
    }
)
"""Faults that destroy nothing, unless their campaign declares it."""

COMMAND = "command"
"""A fault by commands of the user's own. Its campaign declares its effects."""

_WORDS = (None, UNSYNCED, "all", SILENTLY, UNCLEANLY)
"""What a fault can destroy."""

BROKER = re.compile(r"broker-(\d{1,9})")


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
        planned: Whether the manifest plans it.
        title: What its campaign calls it; empty where it has no name of its own.
        declared: Of a fault by commands, the effects that its campaign declares.
        complaint: What was said where it could not be injected, or its proof failed.
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
        """Return its name and number, such as ``kill#1`` or ``command:az-outage#1``."""
        return label_of(self.name, self.fault_id, self.title)

    @property
    def taker(self) -> str:
        """Return the label of a fault that took data. Of a fault by commands it says that nothing
        has observed the loss: its campaign declares it."""
        return f"{self.label}, as its campaign declares," if self.name == COMMAND else self.label

    @property
    def silent(self) -> bool:
        """Return whether it ends no connection, so that clients take a while to notice it."""
        return self.name in SILENT or "cuts-off" in self.declared

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
        found = (BROKER.fullmatch(server) for server in self.servers)
        return frozenset(int(match.group(1)) for match in found if match)

    @property
    def proven(self) -> bool:
        """Whether it is known to have happened, and can excuse anything."""
        return self.bit and self.injected is not None and self.trusted

    @property
    def trusted(self) -> bool:
        """Whether it can excuse anything.

        A fault that the manifest does not plan, or that destroys what is no word of the schema, may
        leave a promise unknown. It never ends one for certain. Nor does a loss by commands that
        their campaign does not declare.
        """
        declared = self.name != COMMAND or self.destroys == _declared_loss(self.declared)
        return self.planned and self.destroys in _WORDS and declared

    @property
    def disturbs(self) -> bool:
        """Whether it may keep a server that it befell from hearing of anything."""
        return self.begun and self.name not in CLOCKS | ORDERS and self.min_isr is None

    def befell_keepers(self, combined: Collection[str]) -> bool:
        """Return whether it befell a server that keeps the metadata.

        A fault on the links between these and brokers is the brokers' own: the others hear as
        before.

        Args:
            combined: The brokers that keep the metadata, too, by name.
        """
        servers = set(self.servers or ())
        keepers = {one for one in servers if one.startswith(KEEPERS) or one in combined}
        return bool(keepers) and not ("->" in self.target and servers - keepers)

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
        if any(not BROKER.fullmatch(server) for server in self.servers):
            return True
        return partition in self.partitions


def faults_of(
    rows: Sequence[Mapping[str, Any]], planned: Sequence[PlannedFault] | None = None
) -> tuple[FaultFacts, ...]:
    """Return the faults that rows of the table ``faults`` tell of, by their number.

    Args:
        planned: What the manifest says of them; None: it is not asked.
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
                planned=planned is None or (number, fault.name) in plans,
                title=title_of(fault.name, parameters),
                declared=_declared(fault.name, parameters),
            )
        )
    return tuple(found)


def possible(plan: PlannedFault) -> FaultFacts:
    """Return what a planned fault may have done of which the history does not tell everything:
    whatever its kind can do, to any server and at any time. It excuses nothing for certain."""
    destroys: str | None = UNCLEANLY if plan.fault == "elect-unclean" else "all"
    declared = _declared(plan.fault, plan.parameters)
    if plan.fault in TAKE_NOTHING:
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
    """Below which offset an administrator had the records of a partition deleted, or may have; 0
    where nobody had. An order that was given and is not proven may have been carried out."""
    ordered = (
        fault.deleted_before or 0 for fault in faults if fault.begun and fault.touches(partition)
    )
    return max(ordered, default=0)


def _number(parameters: Mapping[str, Any], name: str) -> int | None:
    value = parameters.get(name)
    return value if isinstance(value, int) else None


def title_of(fault: str, parameters: Mapping[str, Any]) -> str:
    """Return what a campaign calls a fault by commands; empty for any other."""
    return str(parameters.get("name") or "") if fault == COMMAND else ""


def label_of(fault: str, number: int, title: str) -> str:
    """Return how a report names a fault."""
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
        # The last word on it: healed once more at the end of the run, it may be another.
        lifted=rows[-1]["time"] if rows[-1]["event"] == "lifted" else None,
        last=rows[-1]["time"],
        begun=any(row["event"] != "failed" for row in rows),
        verified=_time(proven, "verified"),
        complaint=_complaint(rows) if rows[0]["fault"] == COMMAND else "",
    )


def _complaint(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return what the commands of a fault said where one of them failed; empty where none did."""
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
    """None, too, where one of them has no number: then nobody knows which was meant."""
    told = [row["partitions"] for row in rows if row["partitions"] is not None]
    names = [str(name).rpartition("-") for partitions in told for name in partitions]
    if not told or not all(number.isdecimal() for _, _, number in names):
        return None
    return frozenset((topic, int(number)) for topic, _, number in names)
