"""The checkers of share groups (KIP-932): records that a group never received, gave up, received
although it was done with them, or received too often.

A share group delivers each record at least once. A member accepts the record, which ends its
deliveries, rejects it, which ends them, too, or releases it for another one. A record without an
answer is delivered again when its lock has ended. After ``group.share.delivery.count.limit``
deliveries it is archived: the group is done with it.

What is not promised is no anomaly: the order of deliveries, a second delivery after the lock has
ended, and exact delivery counts. A count is stored with an acknowledgement, so a new leader of the
partition may begin again at an older one.

A delivery is evidence for little. A member may be shown a record from its own buffer when another
one has accepted it long ago, and a broker confirms an acknowledgement of a record that the group is
already done with. Only the delivery count tells a new lock from an old one.

Not every delivery is recorded: an answer may be lost, or its member may crash. But members record
what they acknowledge before they do. A record therefore counts as given up if no member was about
to accept or reject it, it cannot have reached the limit, and the group left it alone for two locks
and 10 s: while it went on to newer records, or while nothing kept it from that.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ackproof.checkers.context.faults import FOREVER
from ackproof.checkers.interface import (
    Anomaly,
    Examined,
    PluginChecker,
    Promised,
    RecordedRows,
)
from ackproof.history.manifest import PlannedShareGroup
from ackproof.history.names import SendType

_DELIVERED = "delivered"
_ENDS = frozenset({"accept", "reject"})
"""The acknowledgements after which no delivery follows."""
_NS_PER_MS = 1_000_000
_SLACK_NS = 10_000 * _NS_PER_MS
"""The time beyond two locks that a group may take for the next delivery of a record: its members
may have to join again, and leaders may change."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmedAcknowledgement:
    """An acknowledgement that the broker confirmed.

    Attributes:
        how: ``accept``, ``release`` or ``reject``.
        asked: The time of the request.
        time: The time of the answer.
        client: The member.
        count: The delivery count that the member was given with the record, or 0 if unknown.
    """

    how: str
    asked: int
    time: int
    client: str
    count: int


@dataclass(slots=True)
class RecordDeliveries:
    """The deliveries of one record to one group.

    Attributes:
        times: The times of the recorded ones.
        highest: The highest count that the broker gave with one, or 0.
        confirmed: The acknowledgements that were confirmed.
        may_be_done: Whether a member may have accepted or rejected it.
    """

    times: list[int] = field(default_factory=list)
    highest: int = 0
    confirmed: list[ConfirmedAcknowledgement] = field(default_factory=list)
    may_be_done: bool = False

    @property
    def end(self) -> ConfirmedAcknowledgement | None:
        """The first confirmed accept or reject, or None."""
        ends = (one for one in self.confirmed if one.how in _ENDS)
        return min(ends, key=lambda one: one.time, default=None)


Records = Mapping[int, RecordDeliveries]
"""The deliveries of each record of a partition to one group, by offset."""


def _records(rows: RecordedRows, group: PlannedShareGroup) -> Records:
    found: dict[int, RecordDeliveries] = {}
    asked: dict[tuple[str, int], int] = {}
    counts: dict[tuple[str, int], int] = {}
    for row in rows.tables["deliveries"].to_pylist():
        if row["group"] != group.name:
            continue
        record = found.setdefault(row["offset"], RecordDeliveries())
        key = row["client"], row["offset"]
        if row["event"] == _DELIVERED:
            counts[key] = row["delivery"] or 0
            record.times.append(row["time"])
            record.highest = max(record.highest, counts[key])
        elif row["event"] == SendType.INVOKE:
            asked[key] = row["time"]
            record.may_be_done |= row["acknowledgement"] in _ENDS
        elif row["event"] == SendType.OK:
            record.confirmed.append(
                ConfirmedAcknowledgement(
                    how=row["acknowledgement"],
                    asked=asked.get(key, row["time"]),
                    time=row["time"],
                    client=row["client"],
                    count=counts.get(key, 0),
                )
            )
    return found


# --- deliveries after the end, and beyond the limit -----------------------------------------------


def redelivered(rows: RecordedRows) -> Examined:
    """Return the records that were locked again after an accept or a reject had been confirmed.

    The later lock has a confirmed acknowledgement of its own, which was requested after the first
    answer, and a delivery count that is not lower. A lower one belongs to a lock from before.
    """
    bound = rows.clock_bound_ns
    if bound is None:
        return Examined(examined=0, lacking=["the clocks of the clients were not compared"])
    anomalies, examined = [], 0
    for group in rows.share_groups:
        for offset, record in sorted(_records(rows, group).items()):
            end = record.end
            if end is None:
                continue
            examined += 1
            again = next(
                (
                    one
                    for one in record.confirmed
                    if one.asked > end.time + 2 * bound and one.count >= max(end.count, 1)
                ),
                None,
            )
            if again is not None:
                detail = (
                    f"the group {group.name} confirmed the {end.how} of {end.client}, and "
                    f"{(again.asked - end.time) // _NS_PER_MS:,} ms later {again.client} requested "
                    f"the {again.how} of delivery {again.count}, which was confirmed, too"
                )
                anomalies.append(Anomaly(detail=detail, time=again.asked, offset=offset))
    return Examined(anomalies=anomalies, examined=examined)


def over_limit(rows: RecordedRows) -> Examined:
    """Return the records that were delivered more often than the limit permits, by the broker's own
    count, or by the confirmed acknowledgements until the group was done with them. A count is
    stored before an acknowledgement is confirmed, so each of these belongs to another delivery."""
    anomalies, examined = [], 0
    for group in rows.share_groups:
        for offset, record in sorted(_records(rows, group).items()):
            examined += 1
            end = FOREVER if record.end is None else record.end.time
            until = sum(one.asked <= end for one in record.confirmed)
            many = max(record.highest, until)
            if many > group.deliveries:
                detail = (
                    f"delivery {many} to the group {group.name}, whose limit is {group.deliveries}"
                )
                time = max(record.times, default=None)
                anomalies.append(Anomaly(detail=detail, time=time, offset=offset))
    return Examined(anomalies=anomalies, examined=examined)


# --- records that were given up -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryProgress:
    """The progress of a group in a partition.

    Attributes:
        group: The group.
        records: The deliveries of each record.
        offsets: The offsets that were delivered, in order.
        newer: For each of these, the first and the last time at which it or a higher one was
            delivered.
        unrecorded: The largest number of deliveries of one record that no member recorded, by the
            broker's own count.
        quiet: The time in which nothing kept the group from deliveries, or None.
    """

    group: PlannedShareGroup
    records: Records
    offsets: Sequence[int]
    newer: Mapping[int, tuple[int, int]]
    unrecorded: int
    quiet: tuple[int, int] | None

    def left_alone(self, offset: int, acked: int | None) -> tuple[int, int]:
        """Return the longest time in which a record was due and was not delivered."""
        last = max(self.records[offset].times, default=0) if offset in self.records else 0
        spans = []
        place = bisect_right(self.offsets, offset)
        if place < len(self.offsets):
            first, end = self.newer[self.offsets[place]]
            spans.append((max(first, last), end))
        if self.quiet is not None and acked is not None:
            begun, end = self.quiet
            spans.append((max(begun, acked, last), end))
        return max(spans, key=lambda span: span[1] - span[0], default=(0, 0))


def _progress(rows: RecordedRows, group: PlannedShareGroup) -> DeliveryProgress:
    records = _records(rows, group)
    offsets = sorted(offset for offset, record in records.items() if record.times)
    newer: dict[int, tuple[int, int]] = {}
    first, last = FOREVER, 0
    for offset in reversed(offsets):
        times = records[offset].times
        first, last = min(first, *times), max(last, *times)
        newer[offset] = (first, last)
    return DeliveryProgress(
        group=group,
        records=records,
        offsets=offsets,
        newer=newer,
        unrecorded=max((one.highest - len(one.times) for one in records.values()), default=0),
        quiet=rows.quiet_periods.get(group.name),
    )


def _given_up(rows: RecordedRows, *, was_delivered: bool) -> Examined:
    """Return the records in the final log that a group was not done with, and left alone.

    ``was_delivered`` says whether those are meant of which a delivery is recorded, or the others.
    """
    bound = rows.clock_bound_ns
    if bound is None:
        return Examined(examined=0, lacking=["the clocks of the clients were not compared"])
    acked = {
        row["offset"]: row["time"]
        for row in rows.tables["sends"].to_pylist()
        if row["type"] == SendType.OK
    }
    anomalies: list[Anomaly] = []
    lacking: list[str] = []
    examined = 0
    log = sorted(rows.tables["log"].to_pylist(), key=lambda row: row["offset"])
    for group in rows.share_groups:
        progress = _progress(rows, group)
        counted: Counter[str] = Counter()
        for row in log:
            offset = row["offset"]
            record = progress.records.get(offset, RecordDeliveries())
            if record.may_be_done or record.highest >= group.deliveries:
                examined += 1
            elif bool(record.times) == was_delivered:
                span = progress.left_alone(offset, acked.get(offset))
                state = _state(progress, record, span, 2 * bound)
                counted[state] += 1
                if state == _GIVEN_UP:
                    anomalies.append(_anomaly(group, record, row, span))
        examined += counted[_GIVEN_UP]
        lacking += _lacking(group, counted)
    return Examined(anomalies=anomalies, examined=examined, lacking=lacking)


_GIVEN_UP, _EARLY, _LIMIT = "given up", "early", "limit"


def _state(
    progress: DeliveryProgress, record: RecordDeliveries, span: tuple[int, int], skew_ns: int
) -> str:
    """Return whether a record was given up, may still be delivered, or may have reached the limit
    by deliveries that are not recorded: at most one more than of any other record."""
    group = progress.group
    if record.highest + progress.unrecorded + 1 >= group.deliveries:
        return _LIMIT
    enough = 2 * group.lock_ms * _NS_PER_MS + _SLACK_NS + skew_ns
    return _EARLY if span[1] - span[0] < enough else _GIVEN_UP


def _lacking(group: PlannedShareGroup, counted: Mapping[str, int]) -> Iterator[str]:
    why = {
        _EARLY: "it may still have delivered: too little time was left, or its members had ended",
        _LIMIT: "it may have archived: there were about as many deliveries as the limit permits",
    }
    for state, words in why.items():
        if many := counted[state]:
            yield f"{many:,} records of the final log are not done in {group.name}, which {words}"


def _anomaly(
    group: PlannedShareGroup, record: RecordDeliveries, row: Row, span: tuple[int, int]
) -> Anomaly:
    begun = (
        f"delivered {len(record.times)} times, the last with count {record.highest} of "
        f"{group.deliveries}, and never accepted or rejected"
        if record.times
        else "never delivered"
    )
    seconds = (span[1] - span[0]) // 1_000_000_000
    return Anomaly(
        detail=f"{begun}; the group {group.name} left it alone for {seconds:,} s",
        time=span[0],
        offset=row["offset"],
        producer=row["producer"],
        sequence=row["sequence"],
    )


def undelivered(rows: RecordedRows) -> Examined:
    """Return the records that a group never received."""
    return _given_up(rows, was_delivered=False)


def dropped(rows: RecordedRows) -> Examined:
    """Return the records that a group received and gave up below the limit, although no member was
    done with them."""
    return _given_up(rows, was_delivered=True)


# --- catalogue ------------------------------------------------------------------------------------


_DELIVERIES = ("client", "group", "time", "event", "offset", "delivery", "acknowledgement")
_LOG = ("offset", "producer", "sequence")
_SENDS = ("offset", "type", "time")

SHARE_CHECKERS: Mapping[str, PluginChecker] = {
    one.name: one
    for one in (
        PluginChecker(
            name="share-undelivered",
            summary="in the final log, but never delivered to a share group that had time for it",
            guarantee="A share group with members receives every record of the log.",
            reads={"deliveries": _DELIVERIES, "log": _LOG, "sends": _SENDS},
            examine=undelivered,
            promised=Promised.WHILE_SHARES_STAY,
        ),
        PluginChecker(
            name="share-dropped",
            summary="delivered to a share group, which archived it without cause",
            guarantee=(
                "A share group delivers a record until it is accepted or rejected, or has been "
                "delivered group.share.delivery.count.limit times."
            ),
            reads={"deliveries": _DELIVERIES, "log": _LOG, "sends": _SENDS},
            examine=dropped,
            promised=Promised.WHILE_SHARES_STAY,
        ),
        PluginChecker(
            name="share-redelivered",
            summary="locked again by a share group that had confirmed its accept or reject",
            guarantee=(
                "A share group never locks a record again for which it has confirmed an accept or "
                "a reject."
            ),
            reads={"deliveries": _DELIVERIES},
            examine=redelivered,
            promised=Promised.WHILE_SHARES_STAY,
        ),
        PluginChecker(
            name="share-over-limit",
            summary="delivered more often than group.share.delivery.count.limit",
            guarantee=(
                "A share group delivers a record at most group.share.delivery.count.limit times, "
                "by its own stored count."
            ),
            reads={"deliveries": _DELIVERIES},
            examine=over_limit,
            promised=Promised.WHILE_SHARES_STAY,
        ),
    )
}
"""The checkers of share groups, which use the interface of plug-ins' checkers, by name."""
