"""What is known of a partition around its anomalies: faults, leaders and epochs, where copies were
truncated; and how it is gathered from the evidence of a run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ackproof.checkers.context.broker_logs import Truncation, Word
from ackproof.checkers.context.faults import FOREVER, FaultFacts, Partition
from ackproof.checkers.context.observed import Absence, Observed, State
from ackproof.checkers.context.surroundings import Surroundings
from ackproof.checkers.context.timeline import Timeline
from ackproof.checkers.context.validity import clean, strike
from ackproof.history.cell import LIBRARIES, Cell, as_text
from ackproof.history.storage import AnyPath


@dataclass(frozen=True, slots=True, kw_only=True)
class Reign:
    """A leader epoch and who led in it.

    Attributes:
        seen: When it was first seen in ZooKeeper; -1 where only a broker's log tells of it.
        elected_after: Before when certainly nobody was elected in it.
        deposed: From when on its leader must have heard that another one leads.
        failing: From when on the fault was at work that was on when it ended; -1 where none was.
        log_end: Where its leader's log ended when it began to lead, by its own word.
        high_watermark: That leader's at this moment, likewise.
        isr_before: Who was last seen in sync before it.
        clean: Whether its leader was among these; None where nobody knows.
        unheard: Whether that one was, and certainly never heard that it leads: in this epoch nobody
            was served, and nothing was appended.
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
    unheard: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LetIn:
    """A broker was seen to come into the ISR in a leader epoch that had begun before; ``time``:
    when it was first seen there."""

    broker: int
    epoch: int
    time: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSeen:
    """A fault that befell the partition. ``servers``: None where nobody knows whom; ``took``: by
    when at the latest it had taken data from their disks, -1 where it takes none."""

    label: str
    servers: Sequence[str] | None
    start: int
    end: int
    took: int = -1

    def befell(self, broker: int) -> bool:
        """Whether it befell a broker, for all that is known."""
        return self.servers is None or f"broker-{broker}" in self.servers


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """The producers of the partition.

    Attributes:
        client: Their library, as in the cell; empty where nobody knows.
        idempotent: Whether the cell asks for ``enable.idempotence``.
        retries: How often a record is sent again; -1 for as often as there is time.
        resends_after: How soon at the earliest, in nanoseconds after it was sent; 0: at once, for
            all that is known.
    """

    client: str = ""
    idempotent: bool = False
    retries: int = -1
    resends_after: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Of one partition.

    Attributes:
        reigns: By epoch; those of nobody are left out.
        isr_times, isrs: From when on who was seen in sync.
        let_in: Who came into the ISR when, by time.
        brokers, directories: Whose copies of the log were collected, in sync or not, and where.
        sender: Who sent to it.
        readers_bound: How far the clocks of those who read it may be off.
        contended: The epochs in which more than one broker led, by its own word.
        speak: The brokers whose own logs tell of it.
    """

    reigns: Sequence[Reign] = ()
    faults: Sequence[FaultSeen] = ()
    absences: Sequence[Absence] = ()
    truncations: Sequence[Truncation] = ()
    isr_times: Sequence[int] = ()
    isrs: Sequence[Sequence[int]] = ()
    let_in: Sequence[LetIn] = ()
    brokers: Sequence[int] = ()
    directories: Sequence[str] = ()
    sender: Sender = Sender()
    readers_bound: int = -1
    contended: Sequence[int] = ()
    speak: Sequence[int] = ()


NOTHING_KNOWN = Scene()


# --- gathering ------------------------------------------------------------------------------------
#
# Putting together what is known around the anomalies of a partition, from a run's small tables.


_UNKNOWN = -1
_NS_PER_MS = 1_000_000
_BACKOFF_MS = 100
"""``retry.backoff.ms`` of librdkafka, Java and aiokafka where nothing is said; franz-go waits
longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a run tells of a partition. ``words``, ``truncations``: by its brokers; ``orders``: the
    leader epochs of what the controller told each of them, in this order; ``absences``: of all
    brokers; ``replicas``: the directory of the copies of their logs; ``readers_bound``: of the
    clocks of those who read it, nanoseconds, None where that is not known."""

    cell: Cell
    partition: Partition
    around: Surroundings
    timeline: Timeline
    words: Sequence[Word]
    truncations: Sequence[Truncation]
    orders: Mapping[int, Sequence[int]]
    absences: Sequence[Absence]
    logs: Sequence[tuple[int, AnyPath]]
    readers_bound: int | None = None


def scene(told: Told) -> Scene:
    """Of one partition."""
    faults = [fault for fault in told.around.faults if fault.touches(told.partition)]
    states = told.around.observed.states
    return Scene(
        reigns=list(_reigns(told, faults)),
        faults=[_seen(fault) for fault in faults if fault.begun],
        absences=list(told.absences),
        truncations=list(told.truncations),
        isr_times=[state.time for state in states],
        isrs=[list(state.isr) for state in states],
        let_in=list(_let_in(told.around.observed)),
        brokers=[broker for broker, _ in told.logs],
        directories=[str(path) for _, path in told.logs],
        sender=_sender(told.cell),
        readers_bound=_UNKNOWN if told.readers_bound is None else told.readers_bound,
        contended=sorted(set(_contended(told.words))),
        speak=sorted(
            {word.broker for word in told.words}
            | {truncation.broker for truncation in told.truncations}
        ),
    )


def _sender(cell: Cell) -> Sender:
    said = as_text(cell.settings.get("producer.retry.backoff.ms", _BACKOFF_MS))
    backoff_ms = int(said) if said.isdecimal() and cell.client in LIBRARIES else 0
    return Sender(
        client=cell.client,
        idempotent=cell.enable_idempotence,
        retries=_UNKNOWN if cell.retries is None else cell.retries,
        # Libraries take up to 20 % off it, by chance (KIP-580).
        resends_after=backoff_ms * _NS_PER_MS // 2,
    )


def _let_in(observed: Observed) -> Iterator[LetIn]:
    for before, after in observed.changes():
        if before.leader_epoch == after.leader_epoch and before.leader == after.leader >= 0:
            for broker in sorted(set(after.isr) - set(before.isr)):
                yield LetIn(broker=broker, epoch=after.leader_epoch, time=after.time)


def _contended(words: Sequence[Word]) -> Iterator[int]:
    leaders: dict[int, int] = {}
    for word in words:
        if word.leads and leaders.setdefault(word.leader_epoch, word.broker) != word.broker:
            yield word.leader_epoch


def _seen(fault: FaultFacts) -> FaultSeen:
    struck = strike(fault) if fault.destroys != "unclean" else None
    return FaultSeen(
        label=fault.label,
        servers=None if fault.servers is None else list(fault.servers),
        start=fault.start,
        end=fault.end,
        took=_UNKNOWN if struck is None else struck.end,
    )


# --- reigns -------------------------------------------------------------------------------------


def _reigns(told: Told, faults: Sequence[FaultFacts]) -> Iterator[Reign]:
    observed = told.around.observed
    leaders = _leaders(observed, told.words)
    first = {state.leader_epoch: state for state in reversed(observed.states)}
    ends = {epoch: first[epoch].time for epoch in leaders if epoch in first}
    for epoch in sorted(leaders):
        state = first.get(epoch)
        first_ack, last_ack = _bounds(epoch, leaders[epoch], told)
        in_sync, is_clean = _election(observed, state)
        later = [time for other, time in ends.items() if other > epoch]
        reign = Reign(
            epoch=epoch,
            leader=leaders[epoch],
            seen=_UNKNOWN if state is None else state.time,
            elected_after=first_ack,
            deposed=last_ack,
            failing=_failing(min(later, default=FOREVER), told.around, faults),
            log_end=_of_epoch(told.timeline, told.timeline.log_ends, epoch, _said(epoch, told)),
            high_watermark=_watermark(epoch, told.words),
            isr_before=in_sync,
            clean=is_clean,
        )
        yield replace(reign, unheard=_unheard(reign, told))


def _unheard(reign: Reign, told: Told) -> bool:
    """Whether a reign's leader, one of the ISR, certainly never heard that it leads: of what the
    controller told it, it wrote down what is of earlier and then what is of later epochs.

    Nothing follows where nothing later is written: it may have ended as soon as it led. Nor:

    - Broker 4 leads epoch 2 and loses power, and with it the last lines of its log, perhaps. Back
      again, it is told of epoch 3.
    - Broker 4 is elected in epoch 2, outside the ISR, and never hears of it. As the ISR has nobody
      else now, it leads epoch 3: it was the election before that which lost the records.
    """
    if reign.clean is not True or reign.log_end >= 0:
        return False
    orders = told.orders.get(reign.leader, ())
    passed = any(before < reign.epoch < after for before, after in pairwise(orders))
    heard = reign.epoch in orders or any(
        word.leader_epoch == reign.epoch and (word.leads or word.broker == reign.leader)
        for word in told.words
    )
    faults = (_seen(fault) for fault in told.around.faults if fault.begun)
    taken = any(one.took >= reign.elected_after and one.befell(reign.leader) for one in faults)
    return passed and not heard and not taken


def _leaders(observed: Observed, words: Sequence[Word]) -> dict[int, int]:
    """Who led in each epoch: by ZooKeeper, and where that showed none, by the broker's own word.
    Of two that led in one epoch the one that ZooKeeper showed."""
    said = {word.leader_epoch: word.broker for word in words if word.leads}
    seen = {state.leader_epoch: state.leader for state in observed.states if state.leader >= 0}
    return {epoch: leader for epoch, leader in (said | seen).items() if epoch >= 0}


def _of_epoch(timeline: Timeline, values: Sequence[int], epoch: int, otherwise: int) -> int:
    found = dict(zip(timeline.epochs, values, strict=False))
    return found.get(epoch, otherwise)


def _bounds(epoch: int, leader: int, told: Told) -> tuple[int, int]:
    """Between what an epoch's acks were given. Nothing is concluded from clocks that nobody has
    compared."""
    if told.timeline.clock_bound_ns is None:
        return 0, FOREVER
    heard = _of_epoch(told.timeline, told.timeline.deposed, epoch, FOREVER)
    elected_after = _of_epoch(told.timeline, told.timeline.elected_after, epoch, 0)
    return elected_after, min(heard, _followed(epoch, leader, told.around))


def _followed(epoch: int, leader: int, around: Surroundings) -> int:
    """From when on the leader of an epoch certainly followed a later one: it was seen out of that
    one's ISR, and then in it, where nobody comes who does not fetch in that leader's epoch."""
    out = False
    for state in around.observed.states:
        if state.leader_epoch <= epoch or state.leader == leader:
            continue
        if out and leader in state.isr:
            return min(state.time + (around.clock_bound_ns or 0), FOREVER)
        out = out or (bool(state.isr) and leader not in state.isr)
    return FOREVER


def _said(epoch: int, told: Told) -> int:
    """Where the log of the leader of an epoch ended that ZooKeeper never showed."""
    said = [word.log_end for word in told.words if word.leads and word.leader_epoch == epoch]
    return said[0] if said and said[0] is not None else _UNKNOWN


def _watermark(epoch: int, words: Sequence[Word]) -> int:
    said = [word for word in words if word.leads and word.leader_epoch == epoch]
    known = [word.high_watermark for word in said[:1] if word.high_watermark is not None]
    return known[0] if known else _UNKNOWN


def _election(observed: Observed, state: State | None) -> tuple[list[int], bool | None]:
    """Who was last seen in sync before a state, and whether its leader was one of them."""
    for before, after in observed.changes():
        if after is state:
            in_sync = [] if observed.missed(before, after) else list(before.isr)
            return in_sync, clean(before, after, observed)
    return [], None


def _failing(end: int, around: Surroundings, faults: Sequence[FaultFacts]) -> int:
    """Since when a fault was at work that was on within the settling time before ``end``."""
    if end == FOREVER:
        return _UNKNOWN
    on = [one.start for one in faults if one.start <= end <= around.settled(one.end)]
    # What was acked up to the replica lag before it may not have been fetched by anybody.
    return max(min(on) - around.settle_ns, 0) if on else _UNKNOWN
