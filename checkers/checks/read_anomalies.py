"""Anomalies of what consumers read and committed of a partition, as rows with their guarantee
status.

A read is guaranteed to stay from a certain time on (:func:`checkers.context.validity.read_window`).
The exact time at which it was read from the log is unknown. It is not before the record was sent
and not after the poll returned it, because a client library may hold records back.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ackproof.checkers.arrays import Array
from ackproof.checkers.checks import claims
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
from ackproof.checkers.checks.claims import ACK, Claims
from ackproof.checkers.checks.group_offsets import Committed, Furthest, ReadBack
from ackproof.checkers.checks.reads import ConsumerReads, Passed, ReadRecords, Steps
from ackproof.checkers.checks.rows import rows
from ackproof.checkers.checks.tombstones import Missed
from ackproof.checkers.context import status
from ackproof.checkers.context.fault_windows import NO_FAULTS, FaultWindows
from ackproof.checkers.context.faults import FOREVER
from ackproof.checkers.context.observed import NEVER, Span
from ackproof.checkers.context.status import BY_THE_DEPOSED, GuaranteeStatus
from ackproof.checkers.context.validity import ALWAYS_VALID, Stale, ValidityWindow
from ackproof.checkers.index.partition_history import PartitionHistory


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupGuarantees:
    """The guarantees for a group's committed offsets.

    Attributes:
        at_least_once: Whether the group commits exactly what its members read; None if that is
            unknown.
        terms: The validity window of the partition of ``__consumer_offsets`` that stores them.
        stale: The periods in which a deposed coordinator may have answered from its memory.
        faults: The faults that affect that partition or this one.
        quiet_period: The quiet period, in which nothing keeps the group from making progress
            (:mod:`checkers.context.quiet_period`).
    """

    at_least_once: bool | None = None
    terms: ValidityWindow = ALWAYS_VALID
    stale: tuple[Stale, ...] = ()
    faults: FaultWindows = NO_FAULTS
    quiet_period: Span = NEVER


_UNPLANNED = GroupGuarantees(terms=ValidityWindow(unknown_before=FOREVER))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionGuarantees:
    """The guarantees for a partition.

    Attributes:
        acked: The validity window for acked records.
        shown: The validity window for reads of consumers.
        groups: The guarantees to its groups, by Kafka's ``group.id``.
    """

    acked: ValidityWindow = ALWAYS_VALID
    shown: ValidityWindow = ALWAYS_VALID
    groups: Mapping[str, GroupGuarantees] = field(default_factory=dict)

    def to(self, group: str) -> GroupGuarantees:
        """Return the guarantees to a group. For a group that was not planned they are unknown."""
        return self.groups.get(group, _UNPLANNED)

    def counts(self, history: PartitionHistory) -> Counter[str]:
        """Count the partition by the status of the guarantees to its consumers, once for each
        group."""
        shown = status.of_partition(history.begun, self.shown)
        counts = Counter({status.count_name(status.READABLE, shown): 1})
        for group in self.groups.values():
            kept = status.of_partition(history.begun, group.terms)
            counts[status.count_name(status.COORDINATED, kept)] += 1
        return counts


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAnomalies:
    """Anomalies of one kind, as rows and as counts by guarantee status.

    Attributes:
        anomaly: The name of the anomaly.
        rows: The rows.
        standing: The counts by guarantee status.
        shown: The claims from which the rows were made, if the rows say that a read record is not
            in the log.
        whose: For each row, the places of its claims in ``shown``.
        promised: For each row, whether the guarantee applied.
    """

    anomaly: str
    rows: pa.Table
    standing: Mapping[str, int]
    shown: Claims | None = None
    whose: Sequence[Array] = ()
    promised: Array = field(default_factory=lambda: np.empty(0, dtype=bool))


@dataclass(frozen=True, slots=True, kw_only=True)
class AnomalyBuilder:
    """The builder of anomalies of one partition. ``clients`` has the names of its consumers by
    number."""

    history: PartitionHistory
    records: ReadRecords
    promises: PartitionGuarantees
    clients: Sequence[str]

    def vanished(self, made: Claims) -> ReadAnomalies:
        """Return one row for each offset and record that a consumer read and that vanished."""
        vanished_claims = claims.vanished(made, self.history)
        firsts, whose = _each(vanished_claims.offset, vanished_claims.record)
        until, since = _latest(vanished_claims.until, whose), _latest(vanished_claims.since, whose)
        details = (
            f"{self._shown(vanished_claims, mine)} "
            f"{self.records.name(vanished_claims.record[first])}; "
            f"{self._ending(vanished_claims.offset[first])}"
            for first, mine in zip(firsts, whose, strict=True)
        )
        return ReadAnomalies(
            anomaly=VANISHED,
            rows=rows(
                self.history,
                VANISHED,
                offsets=vanished_claims.offset[firsts],
                records=vanished_claims.record[firsts],
                details=details,
                times=until,
            ),
            standing=status.by_time(VANISHED, until, self.promises.shown, since),
            shown=vanished_claims,
            whose=whose,
            promised=~np.logical_or(*status.statuses(until, self.promises.shown, since)),
        )

    def inconsistent(self, made: Claims) -> ReadAnomalies:
        """Return one row for each offset with contradictory claims."""
        wrong = claims.overruled(made, self.history)
        firsts, whose = _each(wrong.offset)
        details = [self._disagreement(made, wrong, mine) for mine in whose]
        stands = self._best_of(wrong, whose)
        return ReadAnomalies(
            anomaly=INCONSISTENT,
            rows=rows(
                self.history,
                INCONSISTENT,
                offsets=wrong.offset[firsts],
                records=wrong.record[firsts],
                details=details,
                times=_latest(wrong.until, whose),
            ),
            standing=Counter(status.count_name(INCONSISTENT, best) for best in stands),
            shown=wrong,
            whose=whose,
            promised=np.array([best is GuaranteeStatus.PROMISED for best in stands], dtype=bool),
        )

    def nonmonotonic(self, client: str, seen: ConsumerReads, steps: Steps) -> ReadAnomalies:
        """Return one row for each step back."""
        details = (
            (
                f"read by {client} in poll {seen.poll[row]}, after offset {seen.offset[before]} "
                f"in poll {seen.poll[before]}"
            )
            for before, row in zip(steps.before, steps.rows, strict=True)
        )
        found = rows(
            self.history,
            NONMONOTONIC,
            offsets=seen.offset[steps.rows],
            records=seen.record[steps.rows],
            details=details,
            times=seen.time[steps.rows],
        )
        return self._of_partition(NONMONOTONIC, found)

    def skipped(self, client: str, seen: ConsumerReads, passed: Passed) -> ReadAnomalies:
        """Return one row for each record that the client skipped."""
        details = (
            f"{client} skipped it: poll {seen.poll[row]} continued at offset {seen.offset[row]}"
            for row in passed.rows
        )
        found = rows(
            self.history,
            SKIPPED,
            offsets=self.history.log_offset[passed.positions],
            records=self.history.log_record[passed.positions],
            details=details,
            times=seen.time[passed.rows],
        )
        return self._of_partition(SKIPPED, found)

    def unseen(self, client: str, seen: ConsumerReads, unseen: Array) -> ReadAnomalies:
        """Return one row for each record that the client never read."""
        detail = f"never read by {client}, which read up to offset {seen.highest}"
        found = rows(
            self.history,
            UNSEEN,
            offsets=self.history.first_offset(unseen),
            records=unseen,
            details=[detail] * len(unseen),
        )
        return self._of_partition(UNSEEN, found)

    def missed(self, client: str, seen: ConsumerReads, missed: Missed) -> ReadAnomalies:
        """Return one row for each tombstone that the client had to read and did not."""
        details = (
            f"{client} read an older value of its key at offset {seen.offset[value]}, and passed "
            f"the tombstone: poll {seen.poll[row]} continued at offset {seen.offset[row]}"
            for value, row in zip(missed.values, missed.rows, strict=True)
        )
        found = rows(
            self.history,
            UNSEEN_TOMBSTONE,
            offsets=self.history.acked_offset[missed.tombstones],
            records=missed.tombstones,
            details=details,
            times=seen.time[missed.rows],
        )
        return self._of_partition(UNSEEN_TOMBSTONE, found)

    def read_back(self, group: str, told: Sequence[ReadBack], lost: bool) -> ReadAnomalies:
        """Return one row for each answer to a member that said too little."""
        anomaly = COMMIT_LOST if lost else COMMIT_REGRESSED
        answers = [one for one in told if one.lost is lost]
        promise = self.promises.to(group)
        found = rows(
            self.history,
            anomaly,
            offsets=[one.offset if one.committed is None else one.committed for one in answers],
            details=[_told(group, one) for one in answers],
            times=np.array([one.time for one in answers], dtype=np.int64),
            faults=promise.faults,
        )
        certain = np.array([one.certain for one in answers], dtype=bool)
        answered = np.array([one.answered for one in answers], dtype=np.int64)
        stands = Counter(status.by_time(anomaly, answered[certain], promise.terms))
        # Whichever coordinator answered: it need not return a commit that was not guaranteed to be
        # kept.
        unpromised, _ = status.statuses(answered[~certain], promise.terms)
        stands[status.count_name(anomaly, GuaranteeStatus.UNPROMISED)] += int(unpromised.sum())
        stands[status.count_name(anomaly, GuaranteeStatus.UNKNOWN)] += int((~unpromised).sum())
        stands[BY_THE_DEPOSED] += int((~unpromised).sum())
        return ReadAnomalies(anomaly=anomaly, rows=found, standing=stands)

    def skipped_by_commit(
        self, group: str, passed: Array, furthest: Furthest, members: Sequence[Committed]
    ) -> ReadAnomalies:
        """Return one row for each record below the group's commit that no member read. ``passed``
        has the numbers of the records."""
        at = self.history.first_offset(passed)
        commit = furthest.past(at)
        details = (
            (
                f"{members[furthest.client[one]].client} committed offset {furthest.offset[one]} "
                f"for {group}, but no member had read this record"
            )
            for one in commit
        )
        found = rows(
            self.history,
            SKIPPED_BY_COMMIT,
            offsets=at,
            records=passed,
            details=details,
            times=furthest.answered[commit],
        )
        return self._of_partition(SKIPPED_BY_COMMIT, found)

    def _of_partition(self, anomaly: str, found: pa.Table) -> ReadAnomalies:
        """Return the anomalies of a consumer whose guarantee holds for a log that lost nothing that
        it had read."""
        stands = status.of_partition(self.history.begun, self.promises.shown)
        return ReadAnomalies(
            anomaly=anomaly,
            rows=found,
            standing={status.count_name(anomaly, stands): len(found)},
        )

    def _best_of(self, wrong: Claims, whose: Sequence[Array]) -> list[GuaranteeStatus]:
        """Return the status of each offset: the best status among the overruled claims."""
        acks = wrong.who == ACK
        shown = status.statuses(wrong.until, self.promises.shown, wrong.since)
        acked = status.statuses(wrong.until, self.promises.acked)
        unpromised, unknown = (
            np.where(acks, by_ack, by_read) for by_ack, by_read in zip(acked, shown, strict=True)
        )
        stands = []
        for mine in whose:
            if not (unpromised[mine] | unknown[mine]).all():
                stands.append(GuaranteeStatus.PROMISED)
            else:
                stands.append(
                    GuaranteeStatus.UNKNOWN if unknown[mine].any() else GuaranteeStatus.UNPROMISED
                )
        return stands

    def _disagreement(self, all_claims: Claims, wrong: Claims, mine: Array) -> str:
        offset = int(wrong.offset[mine[0]])
        said = (self._claim(wrong, one) for one in mine)
        held = self.history.standing_at(offset)
        if held != "no record":
            return f"{'; '.join(said)}; the final log holds {held}"
        there = slice(*np.searchsorted(all_claims.offset, [offset, offset + 1]))
        rest = set(range(len(all_claims))[there])
        overruled = {(int(wrong.record[one]), int(wrong.who[one])) for one in mine}
        others = (
            self._claim(all_claims, one)
            for one in sorted(rest)
            if (int(all_claims.record[one]), int(all_claims.who[one])) not in overruled
        )
        return "; ".join([*said, *others])

    def _claim(self, made: Claims, one: int) -> str:
        whose = "acked" if made.who[one] == ACK else f"read by {self.clients[made.who[one]]}"
        return f"{whose}: {self.records.name(made.record[one])}"

    def _shown(self, made: Claims, mine: Array) -> str:
        others = len(mine) - 1
        more = f" and {others} more" if others else ""
        return f"read by {self.clients[made.who[mine[0]]]}{more}:"

    def _ending(self, offset: int) -> str:
        end = self.history.read.end
        if end is not None and offset >= end:
            return f"truncated: the log ends at {end}"
        return "the final log has no record there"


def _told(group: str, one: ReadBack) -> str:
    if one.committed is None:
        return (
            f"{one.client} received offset {one.offset} when it asked the coordinator, "
            f"but no member of {group} had committed or reached that offset"
        )
    told = "no committed offset" if one.lost else f"offset {one.offset}"
    undecided = "" if one.certain else "; perhaps from a former coordinator, so it is undecided"
    return (
        f"{one.by} had committed it for {group} and received the answer; {one.client} "
        f"received {told} when it asked the coordinator{undecided}"
    )


def _each(*keys: Array) -> tuple[Array, list[Array]]:
    """Return where each distinct key begins, and the places of all that are equal. The arrays must
    be sorted by all of the keys."""
    count = len(keys[0])
    if not count:
        return np.empty(0, dtype=np.int64), []
    differs = np.logical_or.reduce([np.diff(key) != 0 for key in keys])
    firsts = np.concatenate([[0], np.flatnonzero(differs) + 1])
    return firsts, np.split(np.arange(count), firsts[1:])


def _latest(times: Array, whose: Sequence[Array]) -> Array:
    return np.array([times[mine].max() for mine in whose], dtype=np.int64)
