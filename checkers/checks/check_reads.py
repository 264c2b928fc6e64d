"""The check of what consumers read and committed of one partition: anomalies and counts.

Three counts say whether a group made progress during the quiet period:

- ``went_on``: the number of records sent in the quiet period that its members read.
- ``owed_since``: the time at which the first record was acked, in the quiet period, after the last
  read of any member. Such a record is in the final log, and no member read it. NONE if there is
  none.
- ``holders``: the number of members that were not crashed and had the partition assigned when the
  clients were asked to end.

All of them are None for a group whose records are incomplete. The unrecorded last moments of
crashed members do not count, because they precede the quiet period.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.checks import claims, latency, read_counts, reads
from ackproof.checkers.checks.catalogue import (
    COMMIT_LOST,
    COMMIT_REGRESSED,
    INCONSISTENT,
    NONMONOTONIC,
    SKIPPED,
    SKIPPED_BY_COMMIT,
    UNSEEN,
    UNSEEN_TOMBSTONE,
    VANISHED,
)
from ackproof.checkers.checks.claims import Claims
from ackproof.checkers.checks.group_offsets import COLUMNS as OFFSETS_COLUMNS
from ackproof.checkers.checks.group_offsets import Committed, read_back_after_a_commit
from ackproof.checkers.checks.read_anomalies import (
    AnomalyBuilder,
    PartitionGuarantees,
    ReadAnomalies,
)
from ackproof.checkers.checks.read_counts import (
    ClientShown,
    Consumer,
    ConsumerCounts,
    Counts,
    GroupRecords,
)
from ackproof.checkers.checks.reads import COLUMNS as SHOWN_COLUMNS
from ackproof.checkers.checks.reads import ConsumerReads, Event, ReadRecords
from ackproof.checkers.checks.tombstones import tombstones_read
from ackproof.checkers.context.observed import OBSERVATION_LAG_NS, Span
from ackproof.checkers.context.row_times import Expected
from ackproof.checkers.index import columns
from ackproof.checkers.index.partition_history import Fate, PartitionHistory
from ackproof.history import reader

COUNTS = ("went_on", "owed_since", "holders")


def progress_counts(
    history: PartitionHistory, shown: Array, last_shown: int, quiet_period: Span, *, whole: bool
) -> Mapping[str, int | None]:
    """Return the first two counts.

    Args:
        history: The history of the partition.
        shown: Whether a member read each record, by record number.
        last_shown: The time of the last read of any member, or NONE.
        quiet_period: The quiet period.
        whole: Whether all reads of the members are known.
    """
    if not whole:
        return dict.fromkeys(COUNTS[:2])
    standing = (history.first != NONE) & ~history.contradicted
    if history.visible is not None:
        standing[standing] = history.visible[history.first[standing]]
    # The clocks are those of two clients. A record may be read before its producer receives the
    # ack, and so seem to be acked later than it was read.
    behind = max(quiet_period.start, last_shown + OBSERVATION_LAG_NS)
    owed = standing & (history.fate == Fate.ACKED) & ~shown & (history.time >= behind)
    in_peace = shown & (history.asked >= quiet_period.start + OBSERVATION_LAG_NS)
    return {
        "went_on": int(np.count_nonzero(in_peace)),
        "owed_since": int(history.time[owed].min()) if owed.any() else NONE,
    }


def holders(events: Iterable[Sequence[tuple[int, str]]], until: int) -> int:
    """Return how many of the members had a partition assigned at the time ``until``. ``events``
    has, for each member, the time and event of each row of its assignments."""
    last = ([event for time, event in mine if time < until][-1:] for mine in events)
    return sum(told in (["assigned"], ["out-of-range"]) for told in last)


# --- looking --------------------------------------------------------------------------------------
#
# The reads and commits of one partition: what is wrong with them, and counts.
#
# The checkers are in :mod:`checkers.checks`, and :mod:`checkers.checks.read_counts` says what each
# count is. The files of one partition are read one client at a time, together with its
# reconciliation. Three things are kept of a client when the next one is read: the reads that
# disagree with the final log, the records that its group has read, and its commits. Files that
# cannot be read are reported, and what depends on them is unknown.


ASSIGNED_COLUMNS = ("time", "group", "event", "topic", "partition", "offset", "poll")
COMMITTED_COLUMNS = (*OFFSETS_COLUMNS, "topic", "partition")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerCheck:
    """The result of checking all consumers of a partition.

    Attributes:
        counted: The counts by client, then by group.
        clients: The names of the clients, by number.
        found: The anomalies.
        looked: The checkers that could examine everything.
        examined: The number of items that each checker examined: reads of records, answers with a
            committed offset, commits.
        seen: By record number, for the lost records: 1 if a consumer read it, 0 if none did, NONE
            if that is unknown.
        latencies: The latencies of tail readers, as :mod:`checkers.checks.latency` counts them.
        problems: The problems of files that could not be read.
    """

    counted: list[ConsumerCounts]
    clients: Sequence[str]
    found: list[ReadAnomalies]
    looked: set[str]
    examined: Mapping[str, int]
    seen: Array
    latencies: Counter[str]
    problems: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerRows:
    """The readable records of one consumer about the partition.

    Attributes:
        client: The name of the client.
        member: Whether it is a member of a group. Otherwise it is a tail reader.
        group: Kafka's ``group.id``; None for a tail reader, or if it is unknown.
        rows: The rows of ``polls``, with :data:`checkers.checks.reads.COLUMNS`.
        events: The events of its assignments.
        commits: The rows of ``commits``, with :data:`checkers.checks.group_offsets.COLUMNS`.
        rows_whole, events_whole, commits_whole: Whether these are complete, except for the last
            moments of a crashed client.
        cut: Whether the client was crashed.
        problems: The problems of files that cannot be read.
    """

    client: str
    member: bool
    group: str | None
    rows: pa.Table
    events: Sequence[Event]
    commits: Sequence[Mapping[str, Any]]
    rows_whole: bool
    events_whole: bool
    commits_whole: bool
    cut: bool
    problems: Sequence[str] = ()


def check_consumers(
    consumers: Sequence[Consumer], history: PartitionHistory, promises: PartitionGuarantees
) -> ConsumerCheck:
    """Check all consumers of a partition. Their files are read one after the other."""
    return check_rows((_left(one, history) for one in consumers), history, promises)


def check_rows(
    everyone: Iterable[ConsumerRows], history: PartitionHistory, promises: PartitionGuarantees
) -> ConsumerCheck:
    """Check the records of several consumers of a partition, one after the other."""
    looking = _ConsumerChecks(history, promises)
    for left in everyone:
        looking.at(left)
    return looking.result()


class _ConsumerChecks:
    """The state of checking the consumers of a partition."""

    def __init__(self, history: PartitionHistory, promises: PartitionGuarantees) -> None:
        self._history = history
        self._promises = promises
        self._records = ReadRecords(history)
        self._claims: list[Claims] = []
        self._members: list[_Member] = []
        self._counted: list[ConsumerCounts] = []
        self._found: list[ReadAnomalies] = []
        self._clients: list[str] = []
        self._readers: list[ConsumerCounts] = []
        self._examined: Counter[str] = Counter()
        self._latencies: list[Counter[str]] = []
        self._whole = True
        self._ordered = True
        self._cut = False
        self._problems: list[str] = []
        self._anomalies = AnomalyBuilder(
            history=history, records=self._records, promises=promises, clients=self._clients
        )

    @cached_property
    def _contested(self) -> Claims:
        """The acks that the final log contradicts. They are computed only if the partition has a
        consumer, which most have not."""
        return claims.contested_acks(self._history)

    def at(self, left: ConsumerRows) -> None:
        """Check one consumer."""
        history = self._history
        seen = self._records.seen(left.rows)
        own_claims = claims.made_by(len(self._clients), seen, self._records, self._contested)
        client_shown = ClientShown(
            seen=seen,
            events=left.events if left.events_whole else None,
            whole=left.rows_whole,
            cut=left.cut,
            all_of_it=not left.member,
            claims=own_claims,
        )
        found = read_counts.check_client(client_shown, history)
        counts = read_counts.client_counts(client_shown, found, self._contested, history)
        counted = ConsumerCounts(client=left.client, group=left.group, counts=counts)
        self._clients.append(left.client)
        self._counted.append(counted)
        self._claims.append(own_claims)
        self._whole &= left.rows_whole
        self._ordered &= left.events_whole
        for anomaly in (VANISHED, INCONSISTENT, SKIPPED, NONMONOTONIC):
            self._examined[anomaly] += len(seen.offset)
        self._cut |= left.cut
        self._problems += left.problems
        if found.steps is not None:
            self._add(self._anomalies.nonmonotonic(left.client, seen, found.steps))
        if found.passed is not None:
            self._add(self._anomalies.skipped(left.client, seen, found.passed))
        if found.unseen is not None:
            self._add(self._anomalies.unseen(left.client, seen, found.unseen))
        if found.missed is not None:
            self._add(self._anomalies.missed(left.client, seen, found.missed))
            self._examined[UNSEEN_TOMBSTONE] += tombstones_read(seen, history)
            self._examined[UNSEEN_TOMBSTONE] += len(found.missed.tombstones)
        if left.member:
            records = reads.records_shown(seen, history)
            committed = _committed(left, seen)
            last = int(seen.time.max(initial=NONE))
            self._members.append(
                _Member(group=left.group, committed=committed, shown=records, last_shown=last)
            )
        else:
            self._readers.append(counted)
            self._examined[UNSEEN] += len(seen.offset)
            self._latencies.append(latency.of_reader(history, seen.record, seen.time))

    def result(self) -> ConsumerCheck:
        """Return the result after all consumers have been checked."""
        # Without consumers no read can have vanished, and no read can be contradicted.
        if self._clients:
            made = claims.together([self._contested, *self._claims])
            self._add(self._anomalies.vanished(made))
            self._add(self._anomalies.inconsistent(made))
            seen = self._seen(made)
        else:
            seen = np.full(len(self._history.sequence), NONE, dtype=np.int64)
        self._counted += self._groups()
        return ConsumerCheck(
            counted=self._counted,
            clients=self._clients,
            found=self._found,
            looked=set(self._looked()),
            examined=self._examined,
            seen=seen,
            latencies=latency.together(self._latencies),
            problems=self._problems,
        )

    def _read(self, reader: ConsumerCounts) -> bool:
        """Return whether a tail reader read anything, if there is anything to read."""
        all_rows = np.arange(len(self._history.log_offset))
        return bool(reader.counts["shown"] or not len(self._history.shown_to_consumers(all_rows)))

    def _groups(self) -> Iterator[ConsumerCounts]:
        # A member whose group is unknown may belong to any group.
        ungrouped_whole = all(
            one.committed.whole and one.committed.shown_whole
            for one in self._members
            if one.group is None
        )
        for name in sorted({one.group for one in self._members if one.group is not None}):
            group_members = [one for one in self._members if one.group == name]
            group = GroupRecords(
                name=name,
                members=[one.committed for one in group_members],
                shown=np.logical_or.reduce([one.shown for one in group_members]),
                whole=ungrouped_whole and all(one.committed.whole for one in group_members),
                shown_whole=all(one.committed.shown_whole for one in group_members),
            )
            promise = self._promises.to(name)
            found = read_counts.check_group(group, promise, self._history)
            for anomaly in (COMMIT_LOST, COMMIT_REGRESSED):
                self._examined[anomaly] += read_back_after_a_commit(group.members)
            self._examined[SKIPPED_BY_COMMIT] += len(found.furthest.offset)
            for lost in (True, False):
                self._add(self._anomalies.read_back(name, found.told, lost))
            if found.passed is not None:
                past = self._anomalies.skipped_by_commit(
                    name, found.passed, found.furthest, group.members
                )
                self._add(past)
            counts = {
                **read_counts.group_counts(group, found, self._history),
                **self._going_on(
                    group, promise.quiet_period, max(one.last_shown for one in group_members)
                ),
            }
            yield ConsumerCounts(client=None, group=name, counts=counts)

    def _going_on(self, group: GroupRecords, quiet_period: Span, last_shown: int) -> Counts:
        whole = group.whole and group.shown_whole
        # A crashed member has no row that it lost its partitions.
        alive = [one for one in group.members if not one.cut]
        events = [[(e.time, e.event) for e in one.events] for one in alive]
        return {
            **progress_counts(self._history, group.shown, last_shown, quiet_period, whole=whole),
            "holders": holders(events, quiet_period.end) if whole else None,
        }

    def _add(self, found: ReadAnomalies) -> None:
        if len(found.rows):
            self._found.append(found)

    def _looked(self) -> Iterator[str]:
        """Yield the checkers that could examine everything that they need."""
        whole = self._whole and self._history.read.complete
        if whole and not self._history.is_keyless:
            yield VANISHED
        if whole and self._history.sends_whole:
            yield INCONSISTENT
        clients = [one for one in self._counted if one.client is not None]
        groups = {str(one.group): one.counts for one in self._counted if one.client is None}
        if whole and self._ordered and not self._history.is_keyless:
            yield UNSEEN_TOMBSTONE
        asked = {SKIPPED: clients, NONMONOTONIC: clients, UNSEEN: self._readers}
        for anomaly, some in asked.items():
            told = all(one.counts[_COUNTS[anomaly]] is not None for one in some)
            if told and (anomaly != UNSEEN or all(map(self._read, self._readers))):
                yield anomaly
        for anomaly in (COMMIT_LOST, COMMIT_REGRESSED, SKIPPED_BY_COMMIT):
            concerned = [
                name
                for name in {*self._promises.groups, *groups}
                if anomaly != SKIPPED_BY_COMMIT
                or self._promises.to(name).at_least_once is not False
            ]
            counts = (groups.get(name, {}).get(_COUNTS[anomaly]) for name in concerned)
            if None not in counts:
                yield anomaly

    def _seen(self, all_claims: Claims) -> Array:
        """Return for each lost record whether a consumer read it."""
        history = self._history
        known = len(history.sequence)
        told = self._whole and not self._cut
        found = np.full(known, 0 if told else NONE, dtype=np.int64)
        shown_to = all_claims.record[(all_claims.who != claims.ACK) & (all_claims.record < known)]
        found[shown_to[shown_to != NONE]] = 1
        lost = (history.fate == Fate.ACKED) & (history.first == NONE)
        return np.where(lost, found, NONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Member:
    """One member of a group, as it is kept until its group is checked.

    Attributes:
        group: Kafka's ``group.id``, or None if it is unknown.
        committed: Its commits.
        shown: Whether it read each record, by record number.
        last_shown: The time of its last read, or NONE.
    """

    group: str | None
    committed: Committed
    shown: Array
    last_shown: int


_COUNTS = {
    SKIPPED: "skipped",
    NONMONOTONIC: "nonmonotonic",
    UNSEEN: "unseen",
    COMMIT_LOST: "commits_lost",
    COMMIT_REGRESSED: "commits_regressed",
    SKIPPED_BY_COMMIT: "skipped_by_commit",
}
"""The counts that are None if the checker could not examine everything."""


def _committed(left: ConsumerRows, seen: ConsumerReads) -> Committed:
    last = len(seen.offset) - 1
    return Committed(
        client=left.client,
        rows=left.commits,
        events=left.events,
        whole=left.commits_whole,
        shown_whole=left.rows_whole and left.events_whole,
        cut=left.cut,
        reached=int(seen.offset[last]) + 1 if last >= 0 else NONE,
        last_poll=int(seen.poll[last]) if last >= 0 else 0,
        highest=seen.highest,
    )


def _left(consumer: Consumer, history: PartitionHistory) -> ConsumerRows:
    expected = consumer.expected
    rows, of_rows = _read("polls", consumer.polls, SHOWN_COLUMNS, expected)
    assignments, of_events = _read("assignments", consumer.assignments, ASSIGNED_COLUMNS, expected)
    commits, of_commits = _read("commits", consumer.commits, COMMITTED_COLUMNS, expected)
    events = [
        Event(event=row["event"], poll=row["poll"], offset=row["offset"], time=row["time"])
        for row in _of(assignments, history)
    ]
    return ConsumerRows(
        client=consumer.client,
        member=consumer.member,
        group=_group(assignments, commits),
        rows=rows,
        events=events,
        commits=_of(commits, history),
        rows_whole=not of_rows and consumer.polls_whole,
        events_whole=not of_events and consumer.assignments_whole,
        commits_whole=not of_commits and consumer.commits_whole,
        cut=consumer.cut,
        problems=[*of_rows, *of_events, *of_commits],
    )


def _read(
    table: str, files: Sequence[str], names: Sequence[str], expected: Expected
) -> tuple[pa.Table, list[str]]:
    """Return the rows of the readable files, and the problems of the others."""
    found, problems = columns.sound(
        files, lambda file: reader.read_files(table, [file], names), expected
    )
    return pa.concat_tables([reader.read_files(table, [], names), *found]), problems


def _of(rows: pa.Table, history: PartitionHistory) -> list[dict[str, Any]]:
    """Return the rows about this partition."""
    mine = pc.and_(
        pc.equal(rows["topic"], history.topic), pc.equal(rows["partition"], history.partition)
    )
    told: list[dict[str, Any]] = rows.filter(mine).to_pylist()
    return told


def _group(*tables: pa.Table) -> str | None:
    names = (name for rows in tables for name in pc.unique(rows["group"]).to_pylist())
    return next((name for name in names if name is not None), None)
