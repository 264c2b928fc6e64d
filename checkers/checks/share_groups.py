"""The checkers of share groups (KIP-932): lost records, and records that a group received although
it was done with them, or too often.

A share group delivers each record at least once. A member accepts the record, which ends its
deliveries, rejects it, which ends them, too, or releases it for another one. A record without an
answer is delivered again when its lock has ended. After ``group.share.delivery.count.limit``
deliveries it is archived: the group is done with it.

The clients' own buffers show nothing of the cluster. A member may be shown a record for which its
lock has ended long ago, after another one has accepted it. Only an acknowledgement with success
proves that the record was locked for this member.

Not every delivery is recorded: that to a member that crashed, or in an answer that was lost. So a
record counts as given up only if the group went on to newer ones for long enough. It counts as
archived without cause only if no delivery count of the group came close to the limit.
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
from ackproof.history.schema import SendType

_DELIVERED = "delivered"
_ENDS = frozenset({"accept", "reject"})
"""The acknowledgements after which no delivery follows."""
_NS_PER_MS = 1_000_000
_SLACK_NS = 10_000 * _NS_PER_MS
_SILENCE_NS = 5_000 * _NS_PER_MS

Row = Mapping[str, Any]


@dataclass(slots=True)
class RecordDeliveries:
    """The deliveries of one record to one group.

    Attributes:
        times: The times of the recorded ones.
        highest: The highest count that the broker gave with one, or 0.
        answered: The acknowledgements that were answered with success: how, the time of the
            question and that of the answer, and the client.
        may_be_done: Whether a member may have accepted or rejected it.
    """

    times: list[int] = field(default_factory=list)
    highest: int = 0
    answered: list[tuple[str, int, int, str]] = field(default_factory=list)
    may_be_done: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDeliveries:
    """The deliveries of a partition's records to one group.

    Attributes:
        group: The group as it was planned.
        records: The deliveries of each record, by offset.
        last: The time of each client's last row.
        offsets: The offsets that were delivered, in order.
        newer: For each of these the first and the last time at which it or a higher one was
            delivered.
        highest: The highest count that the broker gave with a delivery.
    """

    group: PlannedShareGroup
    records: Mapping[int, RecordDeliveries]
    last: Mapping[str, int]
    offsets: Sequence[int]
    newer: Mapping[int, tuple[int, int]]
    highest: int


def _gathered(rows: RecordedRows) -> Iterator[GroupDeliveries]:
    """Yield the deliveries to each group that has any."""
    by_group: dict[str, list[Row]] = {}
    for row in rows.tables["deliveries"].to_pylist():
        by_group.setdefault(row["group"], []).append(row)
    for group in rows.share_groups:
        if mine := by_group.get(group.name):
            yield _deliveries(group, mine)


def _deliveries(group: PlannedShareGroup, rows: Sequence[Row]) -> GroupDeliveries:
    records: dict[int, RecordDeliveries] = {}
    asked: dict[tuple[str, int], int] = {}
    last: dict[str, int] = {}
    for row in rows:
        client, offset, time = row["client"], row["offset"], row["time"]
        record = records.setdefault(offset, RecordDeliveries())
        last[client] = max(time, last.get(client, 0))
        if row["event"] == _DELIVERED:
            record.times.append(time)
            record.highest = max(record.highest, row["delivery"] or 0)
        elif row["event"] == SendType.INVOKE:
            asked[client, offset] = time
            record.may_be_done |= row["acknowledgement"] in _ENDS
        elif row["event"] == SendType.OK:
            begun = asked.get((client, offset)) or time
            record.answered.append((row["acknowledgement"], begun, time, client))
    offsets = sorted(offset for offset, record in records.items() if record.times)
    newer: dict[int, tuple[int, int]] = {}
    first, end = FOREVER, 0
    for offset in reversed(offsets):
        times = records[offset].times
        first, end = min(first, *times), max(end, *times)
        newer[offset] = (first, end)
    return GroupDeliveries(
        group=group,
        records=records,
        last=last,
        offsets=offsets,
        newer=newer,
        highest=max(record.highest for record in records.values()),
    )


# --- deliveries after the end, and beyond the limit -----------------------------------------------


def redelivered(rows: RecordedRows) -> Examined:
    """Return the records of which an acknowledgement succeeded although it was asked for after
    another one had ended the deliveries."""
    bound = rows.clock_bound_ns
    if bound is None:
        return Examined(examined=0, lacking=["the clocks of the clients were not compared"])
    anomalies, examined = [], 0
    for found in _gathered(rows):
        for offset, record in sorted(found.records.items()):
            ends = [one for one in record.answered if one[0] in _ENDS]
            examined += bool(ends)
            if not ends:
                continue
            how, _, ended, by = min(ends, key=lambda one: one[2])
            late = [one for one in record.answered if one[1] > ended + 2 * bound]
            if late:
                again, asked, _, client = late[0]
                detail = (
                    f"{by} got its {how} confirmed, and {(asked - ended) // _NS_PER_MS:,} ms later "
                    f"{client} asked for its {again}, which was confirmed, too: the group "
                    f"{found.group.name} had locked the record again"
                )
                anomalies.append(Anomaly(detail=detail, time=asked, offset=offset))
    return Examined(anomalies=anomalies, examined=examined)


def over_limit(rows: RecordedRows) -> Examined:
    """Return the records that were delivered more often than the limit permits, by the broker's own
    count or by the acknowledgements that succeeded, each of which ends another delivery."""
    anomalies, examined = [], 0
    for found in _gathered(rows):
        limit = found.group.deliveries
        for offset, record in sorted(found.records.items()):
            examined += 1
            many = max(record.highest, len(record.answered))
            if many > limit:
                detail = f"delivery {many} to the group {found.group.name}, whose limit is {limit}"
                time = max(record.times, default=None)
                anomalies.append(Anomaly(detail=detail, time=time, offset=offset))
    return Examined(anomalies=anomalies, examined=examined)


# --- records that were given up -------------------------------------------------------------------


def _given_up(rows: RecordedRows, *, was_delivered: bool) -> Examined:
    """Return the records in the final log that a group was not done with, and went on without.

    ``was_delivered`` says whether those are meant of which a delivery is recorded, or the others.
    """
    anomalies: list[Anomaly] = []
    lacking: list[str] = []
    examined = 0
    log = sorted(rows.tables["log"].to_pylist(), key=lambda row: row["offset"])
    for found in _gathered(rows):
        low, high = (found.offsets[0], found.offsets[-1]) if found.offsets else (0, 0)
        below = [row for row in log if low <= row["offset"] < high]
        states = [_state(found, row, rows, was_delivered=was_delivered) for row in below]
        counted = Counter(states)
        examined += counted["done"] + counted["given up"]
        lacking += _lacking(found, counted)
        for row, state in zip(below, states, strict=True):
            if state == "given up":
                anomalies.append(_anomaly(found, row))
    return Examined(anomalies=anomalies, examined=examined, lacking=lacking)


def _state(found: GroupDeliveries, row: Row, rows: RecordedRows, *, was_delivered: bool) -> str:
    """Return what is known of a record: ``done``, ``given up``, ``early`` (the group may still
    deliver it), ``limit`` (it may have been archived for its deliveries), or nothing for one that
    is not meant, or that a crashed member may have been done with."""
    record = found.records.get(row["offset"])
    if record is not None and (record.may_be_done or record.highest >= found.group.deliveries):
        return "done"
    delivered = record is not None and bool(record.times)
    first, end = _behind(found, row["offset"])
    touched = max([first, *(record.times if record is not None else ())])
    enough = 2 * found.group.lock_ms * _NS_PER_MS + _SLACK_NS
    if delivered != was_delivered or _may_be_of_crashed(found, touched, enough, rows):
        return ""
    if end - touched < enough + 2 * (rows.clock_bound_ns or 0):
        return "early"
    return "limit" if found.highest >= found.group.deliveries - 1 else "given up"


def _behind(found: GroupDeliveries, offset: int) -> tuple[int, int]:
    """Return the first and the last time at which a higher offset was delivered."""
    return found.newer[found.offsets[bisect_right(found.offsets, offset)]]


def _may_be_of_crashed(
    found: GroupDeliveries, touched: int, enough: int, rows: RecordedRows
) -> bool:
    """Return whether a member that crashed may have been done with a record without a trace. It was
    then among the last ones that it got."""
    if "deliveries" not in rows.crashed:
        return False
    end = max(found.last.values())
    gone = (time for time in found.last.values() if time < end - _SILENCE_NS)
    return any(abs(time - touched) <= enough for time in gone)


def _lacking(found: GroupDeliveries, counted: Mapping[str, int]) -> Iterator[str]:
    why = {
        "early": "may still have delivered them: it read on for less than two locks and 10 s",
        "limit": "may have archived them: deliveries of others came close to the limit",
    }
    for state, words in why.items():
        if many := counted[state]:
            yield (
                f"{many:,} records of the final log have no end in {found.group.name}, which {words}"
            )


def _anomaly(found: GroupDeliveries, row: Row) -> Anomaly:
    offset = row["offset"]
    record = found.records.get(offset, RecordDeliveries())
    first, end = _behind(found, offset)
    touched = max([first, *record.times])
    begun = (
        f"delivered {len(record.times)} times, the last with count {record.highest} of "
        f"{found.group.deliveries}, and never accepted or rejected"
        if record.times
        else "never delivered"
    )
    seconds = (end - touched) // 1_000_000_000
    detail = f"{begun}; the group {found.group.name} read newer records for {seconds:,} s more"
    return Anomaly(
        detail=detail,
        time=touched,
        offset=offset,
        producer=row["producer"],
        sequence=row["sequence"],
    )


def undelivered(rows: RecordedRows) -> Examined:
    """Return the records that a group never received, although it received newer ones."""
    return _given_up(rows, was_delivered=False)


def dropped(rows: RecordedRows) -> Examined:
    """Return the records that a group received and gave up below the limit, although no member was
    done with them."""
    return _given_up(rows, was_delivered=True)


_DELIVERIES = ("client", "group", "time", "event", "offset", "delivery", "acknowledgement")
_LOG = ("offset", "producer", "sequence")

SHARE_CHECKERS: Mapping[str, PluginChecker] = {
    one.name: one
    for one in (
        PluginChecker(
            name="share-undelivered",
            summary="in the final log, but a share group read on and never received it",
            guarantee=(
                "A share group receives every record of the part of the log that it reads past."
            ),
            reads={"deliveries": _DELIVERIES, "log": _LOG},
            examine=undelivered,
            promised=Promised.WHILE_SHARES_STAY,
        ),
        PluginChecker(
            name="share-dropped",
            summary="received by a share group, which gave it up without cause and read on",
            guarantee=(
                "A share group delivers a record until it is accepted or rejected, or has been "
                "delivered group.share.delivery.count.limit times."
            ),
            reads={"deliveries": _DELIVERIES, "log": _LOG},
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
                "by its own count."
            ),
            reads={"deliveries": _DELIVERIES},
            examine=over_limit,
            promised=Promised.WHILE_SHARES_STAY,
        ),
    )
}
"""The checkers of share groups, which use the interface of plug-ins' checkers, by name."""
