"""The context of a partition's anomalies: faults, leaders and epochs, and truncations of copies. It
is gathered from the evidence of a run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ackproof.checkers.context.broker_logs import ReplicaTruncation, Role
from ackproof.checkers.context.faults import DISK_FULL, FOREVER, FaultFacts, Partition
from ackproof.checkers.context.observed import Absence, Observed, PartitionState
from ackproof.checkers.context.partition_guarantees import surroundings_of
from ackproof.checkers.context.run import RunEvidence
from ackproof.checkers.context.surroundings import PartitionSurroundings
from ackproof.checkers.context.timeline import PartitionTimeline, timeline
from ackproof.checkers.context.validity import data_loss_span, elected_cleanly
from ackproof.history.cell import LIBRARIES, Cell, as_text, library_of
from ackproof.history.storage import AnyPath


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadershipTerm:
    """A leadership term: a leader epoch and its leader.

    Attributes:
        epoch: The leader epoch.
        leader: The id of the leader.
        seen: The time at which it was first observed in ZooKeeper, or -1 if only a broker's log
            shows it.
        elected_after: The time before which certainly no leader was elected in it.
        deposed: The time from which on its leader must have learned that another one leads.
        failing: The time from which on the fault was active that was active at its end, or -1.
        log_end: The log end offset with which its leader began, as that reported it.
        high_watermark: The high watermark that its leader reported at that moment.
        isr_before: The last ISR that was observed before it.
        clean: Whether its leader was in that ISR, or None if unknown.
        unaware: Whether that leader was in the ISR and certainly never learned that it leads. No
            request was then served in this epoch, and nothing was appended.
    """

    epoch: int
    leader: int
    seen: int
    elected_after: int
    deposed: int
    failing: int = -1
    log_end: int = -1
    high_watermark: int = -1
    isr_before: Sequence[int] = ()
    clean: bool | None = None
    unaware: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrExpansion:
    """An observed expansion of the ISR in an epoch that had begun before. ``time`` is when the
    broker was first observed in it."""

    broker: int
    epoch: int
    time: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextFault:
    """A fault that affected the partition.

    Attributes:
        label: The label of the fault.
        servers: The affected servers, or None if unknown.
        start, end: The times between which it was active.
        took: The time by which it had taken data from their disks, or -1 if it takes none.
        taker: The label with how it took data, where the kind of the fault does not tell.
    """

    label: str
    servers: Sequence[str] | None
    start: int
    end: int
    took: int = -1
    taker: str = ""

    def affected(self, broker: int) -> bool:
        """Return whether it affected a broker, or may have."""
        return self.servers is None or f"broker-{broker}" in self.servers


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionProducers:
    """The producers of the partition.

    Attributes:
        client: Their library, as in the cell, or an empty string if unknown.
        idempotent: Whether the cell sets ``enable.idempotence``.
        retries: The number of times that a record is sent again, or -1 if only time limits it.
        resends_after: The shortest time after which a record is sent again, in nanoseconds. 0
            stands for at once, or unknown.
    """

    client: str = ""
    idempotent: bool = False
    retries: int = -1
    resends_after: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionContext:
    """The context of one partition.

    Attributes:
        leadership_terms: The leadership terms by epoch, without those of no leader.
        faults: The faults that affected it.
        absences: The times in which brokers had no ZooKeeper session.
        truncations: The truncations that its brokers report.
        isr_times, isrs: The observed ISRs, and the time of each.
        isr_expansions: The expansions of the ISR, by time.
        brokers, directories: The brokers whose logs were collected, in sync or not, and the
            directories.
        sender: The producers.
        readers_bound: The clock bound of its consumers.
        contended: The epochs in which more than one broker led by its own log.
        logged_brokers: The brokers whose own logs mention it.
    """

    leadership_terms: Sequence[LeadershipTerm] = ()
    faults: Sequence[ContextFault] = ()
    absences: Sequence[Absence] = ()
    truncations: Sequence[ReplicaTruncation] = ()
    isr_times: Sequence[int] = ()
    isrs: Sequence[Sequence[int]] = ()
    isr_expansions: Sequence[IsrExpansion] = ()
    brokers: Sequence[int] = ()
    directories: Sequence[str] = ()
    sender: PartitionProducers = PartitionProducers()
    readers_bound: int = -1
    contended: Sequence[int] = ()
    logged_brokers: Sequence[int] = ()


NO_CONTEXT = PartitionContext()


# --- gathering ------------------------------------------------------------------------------------
#
# The context of a partition's anomalies, from the small tables of a run.


_UNKNOWN = -1
_NS_PER_MS = 1_000_000
_BACKOFF_MS = 100
"""The default ``retry.backoff.ms`` of librdkafka, Java and aiokafka; franz-go waits longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSources:
    """The facts about a partition that a run provides.

    Attributes:
        cell, partition: The cell and the partition.
        around: The surroundings of the partition.
        timeline: Its timeline.
        roles, truncations: The roles and truncations that its brokers report.
        orders: The leader epochs that the controller sent to each broker, in order.
        absences: The absences of all brokers.
        logs: The brokers with collected logs, and the directories.
        readers_bound: The clock bound of its consumers in nanoseconds, or None if unknown.
    """

    cell: Cell
    partition: Partition
    around: PartitionSurroundings
    timeline: PartitionTimeline
    roles: Sequence[Role]
    truncations: Sequence[ReplicaTruncation]
    orders: Mapping[int, Sequence[int]]
    absences: Sequence[Absence]
    logs: Sequence[tuple[int, AnyPath]]
    readers_bound: int | None = None


def context_sources(run: RunEvidence, cell: Cell, partition: Partition) -> ContextSources:
    """Return the facts of a run about one partition."""
    surroundings = surroundings_of(run, partition)
    roles = run.roles.get(partition, ())
    ensemble = run.zookeepers != 1 and len(run.planned.combined) != 1
    return ContextSources(
        cell=cell,
        partition=partition,
        around=surroundings,
        timeline=timeline(cell, partition, surroundings, roles, ensemble=ensemble),
        roles=roles,
        orders=run.orders.get(partition, {}),
        truncations=run.truncations.get(partition, ()),
        absences=run.absences,
        # The logs of all replicas are included, in sync or not. Where a copy remains is another
        # question than which logs must agree.
        logs=(run.logs or {}).get(f"{partition[0]}-{partition[1]}", ()),
        readers_bound=run.clock_bound_ns(partition, "polls"),
    )


def partition_context(sources: ContextSources) -> PartitionContext:
    """Return the context of one partition."""
    faults = [fault for fault in sources.around.faults if fault.touches(sources.partition)]
    states = sources.around.observed.states
    return PartitionContext(
        leadership_terms=list(_leadership_terms(sources, faults)),
        faults=[_seen(fault) for fault in faults if fault.begun],
        absences=list(sources.absences),
        truncations=list(sources.truncations),
        isr_times=[state.time for state in states],
        isrs=[list(state.isr) for state in states],
        isr_expansions=list(_isr_expansions(sources.around.observed)),
        brokers=[broker for broker, _ in sources.logs],
        directories=[str(path) for _, path in sources.logs],
        sender=_sender(sources.cell),
        readers_bound=_UNKNOWN if sources.readers_bound is None else sources.readers_bound,
        contended=sorted(set(_contended(sources.roles))),
        logged_brokers=sorted(
            {role.broker for role in sources.roles}
            | {truncation.broker for truncation in sources.truncations}
        ),
    )


def _sender(cell: Cell) -> PartitionProducers:
    said = as_text(cell.settings.get("producer.retry.backoff.ms", _BACKOFF_MS))
    backoff_ms = int(said) if said.isdecimal() and library_of(cell.client) in LIBRARIES else 0
    return PartitionProducers(
        client=cell.client,
        idempotent=cell.enable_idempotence,
        retries=_UNKNOWN if cell.retries is None else cell.retries,
        # Libraries shorten it by up to 20 % at random (KIP-580).
        resends_after=backoff_ms * _NS_PER_MS // 2,
    )


def _isr_expansions(observed: Observed) -> Iterator[IsrExpansion]:
    for before, after in observed.changes():
        if before.leader_epoch == after.leader_epoch and before.leader == after.leader >= 0:
            for broker in sorted(set(after.isr) - set(before.isr)):
                yield IsrExpansion(broker=broker, epoch=after.leader_epoch, time=after.time)


def _contended(roles: Sequence[Role]) -> Iterator[int]:
    leaders: dict[int, int] = {}
    for role in roles:
        if role.leads and leaders.setdefault(role.leader_epoch, role.broker) != role.broker:
            yield role.leader_epoch


def _seen(fault: FaultFacts) -> ContextFault:
    struck = data_loss_span(fault) if fault.destroys != "unclean" else None
    return ContextFault(
        label=fault.label,
        servers=None if fault.servers is None else list(fault.servers),
        start=fault.start,
        end=fault.end,
        took=_UNKNOWN if struck is None else struck.end,
        taker=fault.taker,
    )


# --- reigns -------------------------------------------------------------------------------------


def _leadership_terms(
    sources: ContextSources, faults: Sequence[FaultFacts]
) -> Iterator[LeadershipTerm]:
    observed = sources.around.observed
    leaders = _leaders(observed, sources.roles)
    first = {state.leader_epoch: state for state in reversed(observed.states)}
    ends = {epoch: first[epoch].time for epoch in leaders if epoch in first}
    for epoch in sorted(leaders):
        state = first.get(epoch)
        first_ack, last_ack = _bounds(epoch, leaders[epoch], sources)
        in_sync, is_clean = _election(observed, state)
        later = [time for other, time in ends.items() if other > epoch]
        term = LeadershipTerm(
            epoch=epoch,
            leader=leaders[epoch],
            seen=_UNKNOWN if state is None else state.time,
            elected_after=first_ack,
            deposed=last_ack,
            failing=_failing(min(later, default=FOREVER), sources.around, faults),
            log_end=_of_epoch(
                sources.timeline, sources.timeline.log_ends, epoch, _said(epoch, sources)
            ),
            high_watermark=_watermark(epoch, sources.roles),
            isr_before=in_sync,
            clean=is_clean,
        )
        yield replace(term, unaware=_is_unaware(term, sources))


def _is_unaware(term: LeadershipTerm, sources: ContextSources) -> bool:
    """Return whether a term's leader, a member of the ISR, certainly never learned that it leads.
    Its log must name an earlier epoch and then a later one, without this one.

    Without a later epoch nothing follows, because the broker may have ended as soon as it led.
    Three further cases are excluded:

    - Broker 4 leads epoch 2 and loses power, and perhaps the last lines of its log. After its
      restart it receives the order for epoch 3.
    - Broker 4 is elected in epoch 2 outside the ISR and never learns of it. As the only member of
      the ISR, it leads epoch 3. The election in epoch 2 is the one that lost the records.
    - The disk of broker 4 is full, perhaps also for its log.
    """
    if term.clean is not True or term.log_end >= 0:
        return False
    orders = sources.orders.get(term.leader, ())
    passed = any(before < term.epoch < after for before, after in pairwise(orders))
    heard = term.epoch in orders or any(
        role.leader_epoch == term.epoch and (role.leads or role.broker == term.leader)
        for role in sources.roles
    )
    taken = any(
        fault.name == DISK_FULL or _seen(fault).took >= term.elected_after
        for fault in sources.around.faults
        if fault.begun and _seen(fault).affected(term.leader)
    )
    return passed and not heard and not taken


def _leaders(observed: Observed, roles: Sequence[Role]) -> dict[int, int]:
    """Return the leader of each epoch: from ZooKeeper, or from the broker's own log if ZooKeeper
    showed none. If two brokers led in one epoch, ZooKeeper's counts."""
    said = {role.leader_epoch: role.broker for role in roles if role.leads}
    seen = {state.leader_epoch: state.leader for state in observed.states if state.leader >= 0}
    return {epoch: leader for epoch, leader in (said | seen).items() if epoch >= 0}


def _of_epoch(
    timeline: PartitionTimeline, values: Sequence[int], epoch: int, otherwise: int
) -> int:
    found = dict(zip(timeline.epochs, values, strict=False))
    return found.get(epoch, otherwise)


def _bounds(epoch: int, leader: int, sources: ContextSources) -> tuple[int, int]:
    """Return the times between which an epoch's acks were given. Nothing is concluded from clocks
    that were not compared."""
    if sources.timeline.clock_bound_ns is None:
        return 0, FOREVER
    heard = _of_epoch(sources.timeline, sources.timeline.deposed, epoch, FOREVER)
    elected_after = _of_epoch(sources.timeline, sources.timeline.elected_after, epoch, 0)
    return elected_after, min(heard, _followed(epoch, leader, sources.around))


def _followed(epoch: int, leader: int, around: PartitionSurroundings) -> int:
    """Return the time from which on the leader of an epoch certainly followed a later one. It was
    observed out of that one's ISR and then in it, which takes fetching in the later epoch."""
    out = False
    for state in around.observed.states:
        if state.leader_epoch <= epoch or state.leader == leader:
            continue
        if out and leader in state.isr:
            return min(state.time + (around.clock_bound_ns or 0), FOREVER)
        out = out or (bool(state.isr) and leader not in state.isr)
    return FOREVER


def _said(epoch: int, sources: ContextSources) -> int:
    """Return the log end offset that the leader of an epoch reported if ZooKeeper never showed that
    epoch."""
    said = [role.log_end for role in sources.roles if role.leads and role.leader_epoch == epoch]
    return said[0] if said and said[0] is not None else _UNKNOWN


def _watermark(epoch: int, roles: Sequence[Role]) -> int:
    said = [role for role in roles if role.leads and role.leader_epoch == epoch]
    known = [role.high_watermark for role in said[:1] if role.high_watermark is not None]
    return known[0] if known else _UNKNOWN


def _election(observed: Observed, state: PartitionState | None) -> tuple[list[int], bool | None]:
    """Return the last observed ISR before a state, and whether its leader was a member."""
    for before, after in observed.changes():
        if after is state:
            in_sync = [] if observed.missed(before, after) else list(before.isr)
            return in_sync, elected_cleanly(before, after, observed)
    return [], None


def _failing(end: int, around: PartitionSurroundings, faults: Sequence[FaultFacts]) -> int:
    """Return the time since which a fault was active that was active within the settling time
    before ``end``."""
    if end == FOREVER:
        return _UNKNOWN
    on = [one.start for one in faults if one.start <= end <= around.settled(one.end)]
    # Records acked up to one replica lag before the fault may not have been fetched by any
    # follower.
    return max(min(on) - around.settle_ns, 0) if on else _UNKNOWN
