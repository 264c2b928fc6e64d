"""The table of built-in guarantees, each with its judge.

docs/guarantees.md lists what each configuration promises, under which conditions, and with which
source. The judges are in :mod:`checkers.guarantees.findings`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ackproof.checkers.checks.catalogue import (
    ABORTED_READ,
    COMMIT_LOST,
    COMMIT_REGRESSED,
    G1C,
    INCONSISTENT,
    LOST_COMMIT,
    NONMONOTONIC,
    OFFSETS_ALONE,
    PRECOMMITTED_READ,
    RECORDS_ALONE,
    RESURRECTED,
    RESURRECTED_VALUE,
    SKIPPED,
    SKIPPED_BY_COMMIT,
    TOO_EARLY,
    TORN,
    TWICE,
    UNSEEN,
    UNSEEN_TOMBSTONE,
    VANISHED,
    ZOMBIE,
)
from ackproof.checkers.context.retention import retention_of
from ackproof.checkers.guarantees.facts import Facts
from ackproof.checkers.guarantees.findings import (
    GuaranteeFinding,
    acks_ascend,
    agreeing,
    always,
    committed,
    epochs_rise,
    keeps_order,
    kept,
    living,
    min_isr,
    of_producer,
    one_leader,
    recognises_retries,
    shown,
    told_by_all_in_sync,
    transacted,
    until_retention,
)


@dataclass(frozen=True, slots=True)
class Scope:
    """The cells that a guarantee concerns. ``otherwise`` says why it does not concern another."""

    includes: Callable[[Facts], bool]
    otherwise: str


_NO_GROUPS = "no consumer groups outside of transactions: workload.groups"
EVERY_CELL = Scope(lambda _: True, "")
_WITH_RETENTION = Scope(
    lambda facts: retention_of(facts.cell) is not None,
    "cells.topic sets neither retention.ms nor retention.bytes",
)
_NO_TOMBSTONES = "no tombstones are sent: workload.tombstones"
_WITH_TOMBSTONES = Scope(lambda facts: facts.tombstones, _NO_TOMBSTONES)
_READ_WITH_TOMBSTONES = Scope(lambda facts: facts.tombstones and facts.readers.any, _NO_TOMBSTONES)
_WITHOUT_GAPS = Scope(
    lambda facts: not facts.transactional and not facts.cell.compacts,
    "transactions and compaction leave offsets without a record",
)
_READ = Scope(
    lambda facts: facts.readers.any,
    "no consumers beside the final read: workload.readers",
)
_READ_BY_TAIL = Scope(lambda facts: facts.readers.tail, "no tail readers: workload.readers")
_READ_BY_GROUPS = Scope(lambda facts: facts.readers.groups, _NO_GROUPS)
_READ_AT_LEAST_ONCE = Scope(
    lambda facts: facts.readers.at_least_once,
    "no consumer groups with delivery: at-least-once: workload.groups",
)
_READ_BY_PLAIN_GROUPS = Scope(
    lambda facts: facts.readers.groups and not facts.transactional,
    _NO_GROUPS,
)
_TRANSACTIONAL = Scope(lambda facts: facts.transactional, "no transactions: workload.kind")


@dataclass(frozen=True, slots=True, kw_only=True)
class GuaranteeRule:
    """A guarantee. ``plugin`` is the plug-in that provides its checker, or None for a built-in
    one."""

    name: str
    words: str
    judge: Callable[[Facts], GuaranteeFinding]
    scope: Scope = EVERY_CELL
    plugin: str | None = None


NO_LOSS = "no-acked-record-lost"
STAYS_UP = "servers-stay-up"

_OF_TRANSACTIONS = (
    (
        "committed-transactions-kept",
        "All records of a transaction are committed if its commit was answered.",
        transacted(LOST_COMMIT),
    ),
    (
        "transactions-whole",
        "A transaction commits all of its records in all partitions, or none.",
        transacted(TORN),
    ),
    (
        "aborted-stays-aborted",
        "A record is committed only if its transaction is committed.",
        transacted(RESURRECTED),
    ),
    (
        "zombies-fenced",
        (
            "Once a producer has received the answer to init_transactions, no record that an "
            "older producer with the same transactional.id sends after that is committed."
        ),
        transacted(ZOMBIE),
    ),
    (
        "no-aborted-read",
        "A consumer reads only records of committed transactions (read_committed).",
        transacted(ABORTED_READ, isolated=True),
    ),
    (
        "no-precommitted-read",
        (
            "A consumer reads a record only after its transaction's commit was requested "
            "(read_committed)."
        ),
        transacted(PRECOMMITTED_READ, isolated=True),
    ),
    (
        "no-circular-reads",
        (
            "No cycle of transactions exists in which each one read from the one before (G1c; "
            "read_committed)."
        ),
        transacted(G1C, isolated=True),
    ),
    (
        "offsets-with-records",
        (
            "A group's transactional commit never moves past an input record that has no "
            "committed output record."
        ),
        transacted(OFFSETS_ALONE),
    ),
    (
        "records-with-offsets",
        (
            "If a committed transaction processed an input record, its group has committed that "
            "record's offset."
        ),
        transacted(RECORDS_ALONE),
    ),
    (
        "transformed-once",
        (
            "Each input record is processed by at most one committed transaction per group "
            "(read_committed)."
        ),
        transacted(TWICE, isolated=True),
    ),
)

BUILT_IN: Sequence[GuaranteeRule] = (
    GuaranteeRule(
        name=NO_LOSS,
        words=(
            "No acked record is lost. Conditions: with acks=all, only members of the ISR "
            "are elected and one of them keeps its data; with acks=1, the leader neither "
            "changes nor loses its disk."
        ),
        judge=kept("lost"),
    ),
    GuaranteeRule(
        name="kept-until-retention",
        words=(
            "A topic's retention deletes no acked record before it is older than retention.ms or "
            "is followed by retention.bytes."
        ),
        judge=until_retention,
        scope=_WITH_RETENTION,
    ),
    GuaranteeRule(
        name="tombstones-kept",
        words=(
            "Compaction keeps a tombstone for delete.retention.ms while it is the last record of "
            "its key (while no acked record is lost)."
        ),
        judge=kept(TOO_EARLY),
        scope=_WITH_TOMBSTONES,
    ),
    GuaranteeRule(
        name="deleted-keys-stay-deleted",
        words=(
            "No value comes back after a tombstone of its key was acked (while no acked record is "
            "lost, and no replica is out of the ISR for delete.retention.ms)."
        ),
        judge=kept(RESURRECTED_VALUE),
        scope=_WITH_TOMBSTONES,
    ),
    GuaranteeRule(
        name="acked-offset-kept",
        words="An acked record is at the offset of its ack (while no acked record is lost).",
        judge=kept("offset-mismatch"),
    ),
    GuaranteeRule(
        name="no-duplicates",
        words=(
            "No record is in the log twice (within one session of an idempotent producer; "
            "while no acked record is lost)."
        ),
        judge=of_producer("duplicated", recognises_retries),
    ),
    GuaranteeRule(
        name="no-reordering",
        words=(
            "A producer's records are in the log in the order sent (idempotent producer, "
            "or acked records with max.in.flight=1; while no acked record is lost)."
        ),
        judge=of_producer("reordered", keeps_order),
    ),
    GuaranteeRule(
        name="no-phantom",
        words="The log contains only records that were sent to it.",
        judge=always("phantom"),
    ),
    GuaranteeRule(
        name="own-topic",
        words="A record is in the log of no other topic than it was sent to.",
        judge=always("wrong-topic"),
    ),
    GuaranteeRule(
        name="failed-records-absent",
        words="A record that certainly failed is not in the log.",
        judge=always("failed-but-present"),
    ),
    GuaranteeRule(
        name="no-offset-gap",
        words="The log has a record at every offset from its start to its end.",
        judge=always("offset-gap"),
        scope=_WITHOUT_GAPS,
    ),
    GuaranteeRule(
        name="replicas-agree",
        words=(
            "Replicas in the ISR hold the same log up to the end of the final read, while "
            "no fault takes or changes data on a disk and only members of the ISR are "
            "elected."
        ),
        judge=agreeing,
    ),
    GuaranteeRule(
        name="acks-in-order",
        words=(
            "The acks of a producer name rising offsets in the order of its sends "
            "(idempotent producer, max.in.flight=1 or retries=0; while no acked record is "
            "lost)."
        ),
        judge=of_producer("nonmonotonic-send", acks_ascend),
    ),
    GuaranteeRule(
        name="committed-stays",
        words=(
            "No later leader's log ends before a record that all in-sync replicas have "
            "acked (acks=all; while no acked record is lost)."
        ),
        judge=told_by_all_in_sync("watermark-regressed"),
    ),
    GuaranteeRule(
        name="deposed-leaders-stop",
        words=(
            "A leader stops acknowledging writes once a newer leader epoch exists and the "
            "leader must have learned of it (acks=all; while no acked record is lost)."
        ),
        judge=told_by_all_in_sync("stale-leader-ack"),
    ),
    GuaranteeRule(
        name="min-isr-kept",
        words="No record is acked with acks=all while the ISR is smaller than min.insync.replicas.",
        judge=min_isr,
    ),
    GuaranteeRule(
        name="one-leader-an-epoch",
        words="Each leader epoch of a partition has one leader.",
        judge=one_leader,
    ),
    GuaranteeRule(
        name="epochs-rise",
        words=(
            "Leader epochs never go back: in ZooKeeper, at a broker, or from one offset of "
            "the log to a later one (the last while replicas must agree)."
        ),
        judge=epochs_rise,
    ),
    GuaranteeRule(
        name="reads-stay",
        words=(
            "A record that a consumer read stays in the log at its offset, with any acks "
            "setting, while only members of the ISR are elected and one of them keeps its "
            "data."
        ),
        judge=shown(VANISHED),
        scope=_READ,
    ),
    GuaranteeRule(
        name="reads-agree",
        words=(
            "All reads of an offset return the same record, and it is the record that was "
            "acked there (while acked records and the records that were read must be kept)."
        ),
        judge=shown(INCONSISTENT),
        scope=_READ,
    ),
    GuaranteeRule(
        name="no-poll-skip",
        words=(
            "A consumer that reads on skips no record (while the records that it read must stay)."
        ),
        judge=shown(SKIPPED),
        scope=_READ,
    ),
    GuaranteeRule(
        name="polls-in-order",
        words=(
            "A consumer that reads on reads each offset once, in order (while the records "
            "that it read must stay)."
        ),
        judge=shown(NONMONOTONIC),
        scope=_READ,
    ),
    GuaranteeRule(
        name="no-unseen",
        words=(
            "A tail reader reads every acked record of the part of the log that it reads "
            "past (while the records that it read must stay)."
        ),
        judge=shown(UNSEEN),
        scope=_READ_BY_TAIL,
    ),
    GuaranteeRule(
        name="deletions-read",
        words=(
            "A consumer that reads on from a value to a tombstone of its key within "
            "delete.retention.ms reads the tombstone (while the records that it read must stay)."
        ),
        judge=shown(UNSEEN_TOMBSTONE),
        scope=_READ_WITH_TOMBSTONES,
    ),
    GuaranteeRule(
        name="commits-kept",
        words=(
            "A group's committed offset is still known later, if the commit was answered, "
            "while only members of the ISR are elected to keep it and one of them keeps "
            "its data."
        ),
        judge=committed(COMMIT_LOST),
        scope=_READ_BY_GROUPS,
    ),
    GuaranteeRule(
        name="commits-in-order",
        words=(
            "A group never reads back an older offset than the last one whose commit was "
            "answered, while only members of the ISR are elected to keep it and one of "
            "them keeps its data."
        ),
        judge=committed(COMMIT_REGRESSED),
        scope=_READ_BY_GROUPS,
    ),
    GuaranteeRule(
        name="nothing-skipped-by-commit",
        words=(
            "A group that commits what it has read never commits past a record that it has "
            "not read (at-least-once; while the records that it read must stay)."
        ),
        judge=shown(SKIPPED_BY_COMMIT),
        scope=_READ_AT_LEAST_ONCE,
    ),
    *(
        GuaranteeRule(name=name, words=words, judge=judge, scope=_TRANSACTIONAL)
        for name, words, judge in _OF_TRANSACTIONS
    ),
    GuaranteeRule(
        name="recovers",
        words=(
            "Within the campaign's recovery time after the last heal, every partition has "
            "a leader and a full ISR."
        ),
        judge=living(lambda facts: facts.recovers),
    ),
    GuaranteeRule(
        name="groups-recover",
        words=(
            "Within the group's recovery time after the cluster has recovered, its members "
            "read the acked records of every partition."
        ),
        judge=living(lambda facts: facts.groups_recover),
        scope=_READ_BY_PLAIN_GROUPS,
    ),
    GuaranteeRule(
        name=STAYS_UP,
        words="A server process ends only because of a fault.",
        judge=living(lambda facts: facts.stays_up),
    ),
)

GUARANTEES = {one.name: one.words for one in BUILT_IN}
"""The sentence of each built-in guarantee by its name."""
