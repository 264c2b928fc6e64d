"""The table of built-in guarantees, each with its judge.

docs/guarantees.md lists what each configuration promises, under which conditions, and with which
source. The judges are in :mod:`checkers.guarantees.findings`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ackproof.checkers.checks.read_anomalies import (
    COMMIT_LOST,
    COMMIT_REGRESSED,
    INCONSISTENT,
    NONMONOTONIC,
    SKIPPED,
    SKIPPED_BY_COMMIT,
    UNSEEN,
    VANISHED,
)
from ackproof.checkers.checks.transaction_history import (
    ABORTED_READ,
    G1C,
    LOST_COMMIT,
    OFFSETS_ALONE,
    PRECOMMITTED_READ,
    RECORDS_ALONE,
    RESURRECTED,
    TORN,
    TWICE,
    ZOMBIE,
)
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
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuaranteeRule:
    """A guarantee. ``concerns`` returns whether it applies to a cell at all. ``plugin`` is the
    plug-in that provides its checker, or None for a built-in one."""

    name: str
    words: str
    judge: Callable[[Facts], GuaranteeFinding]
    concerns: Callable[[Facts], bool] = lambda _: True
    plugin: str | None = None


NO_LOSS = "no-acked-record-lost"
STAYS_UP = "servers-stay-up"

_OF_TRANSACTIONS = (
    (
        "committed-transactions-kept",
        "Of a transaction whose commit was answered every record is committed.",
        transacted(LOST_COMMIT),
    ),
    (
        "transactions-whole",
        "Of a transaction all records are committed, over all partitions, or none.",
        transacted(TORN),
    ),
    (
        "aborted-stays-aborted",
        "No record is committed of a transaction that was not.",
        transacted(RESURRECTED),
    ),
    (
        "zombies-fenced",
        "What a producer sends when the next one's init_transactions has been answered, by the "
        "same transactional.id, is not committed.",
        transacted(ZOMBIE),
    ),
    (
        "no-aborted-read",
        "A consumer is shown no record of a transaction that was not committed (read_committed).",
        transacted(ABORTED_READ, isolated=True),
    ),
    (
        "no-precommitted-read",
        "A consumer is shown no record before the commit of its transaction was asked for "
        "(read_committed).",
        transacted(PRECOMMITTED_READ, isolated=True),
    ),
    (
        "no-circular-reads",
        "No transactions read each other in a circle (G1c; read_committed).",
        transacted(G1C, isolated=True),
    ),
    (
        "offsets-with-records",
        "A group commits, in transactions, past no record of which no committed one was made.",
        transacted(OFFSETS_ALONE),
    ),
    (
        "records-with-offsets",
        "Of what a committed transaction was made its group has committed.",
        transacted(RECORDS_ALONE),
    ),
    (
        "transformed-once",
        "Of a record one committed transaction of a group is made at the most (read_committed).",
        transacted(TWICE, isolated=True),
    ),
)

BUILT_IN: Sequence[GuaranteeRule] = (
    GuaranteeRule(
        name=NO_LOSS,
        words="No acked record is lost: with acks=all while only members of the ISR are elected "
        "and one of them keeps its data, with acks=1 while the leader neither changes nor loses "
        "its disk.",
        judge=kept("lost"),
    ),
    GuaranteeRule(
        name="acked-offset-kept",
        words="An acked record stands at the offset of its ack (where no acked record is lost).",
        judge=kept("offset-mismatch"),
    ),
    GuaranteeRule(
        name="no-duplicates",
        words="No record stands in the log twice (of an idempotent producer's session; no acked "
        "record lost).",
        judge=of_producer("duplicated", recognises_retries),
    ),
    GuaranteeRule(
        name="no-reordering",
        words="A producer's records stand in the order sent (idempotent producer; or acked records "
        "with max.in.flight=1; no acked record lost).",
        judge=of_producer("reordered", keeps_order),
    ),
    GuaranteeRule(
        name="no-phantom",
        words="Nothing stands in the log that was not sent.",
        judge=always("phantom"),
    ),
    GuaranteeRule(
        name="failed-records-absent",
        words="A record that failed for certain is not in the log.",
        judge=always("failed-but-present"),
    ),
    GuaranteeRule(
        name="no-offset-gap",
        words="The log has a record at every offset from its start to its end.",
        judge=always("offset-gap"),
        concerns=lambda facts: not facts.transactional,
    ),
    GuaranteeRule(
        name="replicas-agree",
        words="Replicas in the ISR hold the same log up to the end of the final read, while no "
        "data is taken from or changed on a disk and only members of the ISR are elected.",
        judge=agreeing,
    ),
    GuaranteeRule(
        name="acks-in-order",
        words="A producer's acks name rising offsets, in the order of its sends (idempotent "
        "producer, max.in.flight=1 or retries=0; no acked record lost).",
        judge=of_producer("nonmonotonic-send", acks_ascend),
    ),
    GuaranteeRule(
        name="committed-stays",
        words="What all in sync have acked, no later leader's log ends before (acks=all, where no "
        "acked record is lost).",
        judge=told_by_all_in_sync("watermark-regressed"),
    ),
    GuaranteeRule(
        name="deposed-leaders-stop",
        words="A leader acks nothing when it must have heard that another one leads, and nothing "
        "beside that one (acks=all, where no acked record is lost).",
        judge=told_by_all_in_sync("stale-leader-ack"),
    ),
    GuaranteeRule(
        name="min-isr-kept",
        words="Nothing is acked with acks=all while fewer than min.insync.replicas are in sync.",
        judge=min_isr,
    ),
    GuaranteeRule(
        name="one-leader-an-epoch",
        words="In a leader epoch of a partition one broker leads.",
        judge=one_leader,
    ),
    GuaranteeRule(
        name="epochs-rise",
        words="Leader epochs never go back: in ZooKeeper, at a broker, and from one offset of the "
        "log to a later one (that, as replicas agree).",
        judge=epochs_rise,
    ),
    GuaranteeRule(
        name="reads-stay",
        words="What a consumer was shown stands in the log at that offset, whatever acks ask for, "
        "while only members of the ISR are elected and one of them keeps its data.",
        judge=shown(VANISHED),
        concerns=lambda facts: facts.readers.any,
    ),
    GuaranteeRule(
        name="reads-agree",
        words="An offset holds the same record for all who are shown it, which is the one that was "
        "acked at it (while acked records, and what was shown, are promised to be kept).",
        judge=shown(INCONSISTENT),
        concerns=lambda facts: facts.readers.any,
    ),
    GuaranteeRule(
        name="no-poll-skip",
        words="A consumer that goes on reading passes over no record (while what it was shown is "
        "promised to stay).",
        judge=shown(SKIPPED),
        concerns=lambda facts: facts.readers.any,
    ),
    GuaranteeRule(
        name="polls-in-order",
        words="A consumer that goes on reading is shown each offset once, in order (while what it "
        "was shown is promised to stay).",
        judge=shown(NONMONOTONIC),
        concerns=lambda facts: facts.readers.any,
    ),
    GuaranteeRule(
        name="no-unseen",
        words="A tail reader is shown every acked record of the log that it reads past (while what "
        "it was shown is promised to stay).",
        judge=shown(UNSEEN),
        concerns=lambda facts: facts.readers.tail,
    ),
    GuaranteeRule(
        name="commits-kept",
        words="A group's offset that was answered as committed is known later, while only members "
        "of the ISR are elected to keep it and one of them keeps its data.",
        judge=committed(COMMIT_LOST),
        concerns=lambda facts: facts.readers.groups,
    ),
    GuaranteeRule(
        name="commits-in-order",
        words="No older offset of a group is read back than the last that was answered as "
        "committed (likewise).",
        judge=committed(COMMIT_REGRESSED),
        concerns=lambda facts: facts.readers.groups,
    ),
    GuaranteeRule(
        name="nothing-skipped-by-commit",
        words="A group that commits what it was shown commits past no record that it was not shown "
        "(at-least-once; while what it was shown is promised to stay).",
        judge=shown(SKIPPED_BY_COMMIT),
        concerns=lambda facts: facts.readers.at_least_once,
    ),
    *(
        GuaranteeRule(
            name=name, words=words, judge=judge, concerns=lambda facts: facts.transactional
        )
        for name, words, judge in _OF_TRANSACTIONS
    ),
    GuaranteeRule(
        name="recovers",
        words="Within the campaign's time for it after the last heal, every partition is led and "
        "its ISR full.",
        judge=living(lambda facts: facts.recovers),
    ),
    GuaranteeRule(
        name="groups-recover",
        words="Within a group's time for it after the cluster has recovered, its members are shown "
        "what is acked of every partition.",
        judge=living(lambda facts: facts.groups_recover),
        concerns=lambda facts: facts.readers.groups and not facts.transactional,
    ),
    GuaranteeRule(
        name=STAYS_UP,
        words="No server ends but by a fault.",
        judge=living(lambda facts: facts.stays_up),
    ),
)

GUARANTEES = {one.name: one.words for one in BUILT_IN}
"""The sentence of each built-in guarantee by its name."""
