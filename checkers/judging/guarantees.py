"""Facts to verdicts: the only place where an anomaly becomes a failure.

What a configuration promises, under what conditions and by whose word, is one table:
docs/guarantees.md. Here each promise is a line of ``_PROMISES``; what became of it is found out by
``checkers.judging.findings``.

A promise that is broken fails its cell however thin the evidence; it takes all the evidence to
pass; and a loss of which nobody knows whether it was promised is neither.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ackproof.checkers.catalogue import CATALOGUE, plugin_checkers
from ackproof.checkers.interface import guarantee_of
from ackproof.checkers.judging.facts import Facts
from ackproof.checkers.judging.findings import (
    Finding,
    acks_ascend,
    agreeing,
    always,
    committed,
    epochs_rise,
    keeps_order,
    kept,
    living,
    min_isr,
    of_plugin,
    of_producer,
    one_leader,
    recognises_retries,
    shown,
    told_by_all_in_sync,
    transacted,
)
from ackproof.checkers.judging.plugin_checks import PluginCheck
from ackproof.checkers.reads.anomalies import (
    COMMIT_LOST,
    COMMIT_REGRESSED,
    INCONSISTENT,
    NONMONOTONIC,
    SKIPPED,
    SKIPPED_BY_COMMIT,
    UNSEEN,
    VANISHED,
)
from ackproof.checkers.transactions.anomalies import (
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
from ackproof.checkers.verdict import Guarantee, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class _Promise:
    """``concerns``: whether it is about a cell at all; ``plugin``: the plug-in whose checker looks
    after it, None of a built-in one."""

    name: str
    words: str
    judge: Callable[[Facts], Finding]
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

_PROMISES = (
    _Promise(
        name=NO_LOSS,
        words="No acked record is lost: with acks=all while only members of the ISR are elected "
        "and one of them keeps its data, with acks=1 while the leader neither changes nor loses "
        "its disk.",
        judge=kept("lost"),
    ),
    _Promise(
        name="acked-offset-kept",
        words="An acked record stands at the offset of its ack (where no acked record is lost).",
        judge=kept("offset-mismatch"),
    ),
    _Promise(
        name="no-duplicates",
        words="No record stands in the log twice (of an idempotent producer's session; no acked "
        "record lost).",
        judge=of_producer("duplicated", recognises_retries),
    ),
    _Promise(
        name="no-reordering",
        words="A producer's records stand in the order sent (idempotent producer; or acked records "
        "with max.in.flight=1; no acked record lost).",
        judge=of_producer("reordered", keeps_order),
    ),
    _Promise(
        name="no-phantom",
        words="Nothing stands in the log that was not sent.",
        judge=always("phantom"),
    ),
    _Promise(
        name="failed-records-absent",
        words="A record that failed for certain is not in the log.",
        judge=always("failed-but-present"),
    ),
    _Promise(
        name="no-offset-gap",
        words="The log has a record at every offset from its start to its end.",
        judge=always("offset-gap"),
        concerns=lambda facts: not facts.transactional,
    ),
    _Promise(
        name="replicas-agree",
        words="Replicas in the ISR hold the same log up to the end of the final read, while no "
        "data is taken from or changed on a disk and only members of the ISR are elected.",
        judge=agreeing,
    ),
    _Promise(
        name="acks-in-order",
        words="A producer's acks name rising offsets, in the order of its sends (idempotent "
        "producer, max.in.flight=1 or retries=0; no acked record lost).",
        judge=of_producer("nonmonotonic-send", acks_ascend),
    ),
    _Promise(
        name="committed-stays",
        words="What all in sync have acked, no later leader's log ends before (acks=all, where no "
        "acked record is lost).",
        judge=told_by_all_in_sync("watermark-regressed"),
    ),
    _Promise(
        name="deposed-leaders-stop",
        words="A leader acks nothing when it must have heard that another one leads, and nothing "
        "beside that one (acks=all, where no acked record is lost).",
        judge=told_by_all_in_sync("stale-leader-ack"),
    ),
    _Promise(
        name="min-isr-kept",
        words="Nothing is acked with acks=all while fewer than min.insync.replicas are in sync.",
        judge=min_isr,
    ),
    _Promise(
        name="one-leader-an-epoch",
        words="In a leader epoch of a partition one broker leads.",
        judge=one_leader,
    ),
    _Promise(
        name="epochs-rise",
        words="Leader epochs never go back: in ZooKeeper, at a broker, and from one offset of the "
        "log to a later one (that, as replicas agree).",
        judge=epochs_rise,
    ),
    _Promise(
        name="reads-stay",
        words="What a consumer was shown stands in the log at that offset, whatever acks ask for, "
        "while only members of the ISR are elected and one of them keeps its data.",
        judge=shown(VANISHED),
        concerns=lambda facts: facts.readers.any,
    ),
    _Promise(
        name="reads-agree",
        words="An offset holds the same record for all who are shown it, which is the one that was "
        "acked at it (while acked records, and what was shown, are promised to be kept).",
        judge=shown(INCONSISTENT),
        concerns=lambda facts: facts.readers.any,
    ),
    _Promise(
        name="no-poll-skip",
        words="A consumer that goes on reading passes over no record (while what it was shown is "
        "promised to stay).",
        judge=shown(SKIPPED),
        concerns=lambda facts: facts.readers.any,
    ),
    _Promise(
        name="polls-in-order",
        words="A consumer that goes on reading is shown each offset once, in order (while what it "
        "was shown is promised to stay).",
        judge=shown(NONMONOTONIC),
        concerns=lambda facts: facts.readers.any,
    ),
    _Promise(
        name="no-unseen",
        words="A tail reader is shown every acked record of the log that it reads past (while what "
        "it was shown is promised to stay).",
        judge=shown(UNSEEN),
        concerns=lambda facts: facts.readers.tail,
    ),
    _Promise(
        name="commits-kept",
        words="A group's offset that was answered as committed is known later, while only members "
        "of the ISR are elected to keep it and one of them keeps its data.",
        judge=committed(COMMIT_LOST),
        concerns=lambda facts: facts.readers.groups,
    ),
    _Promise(
        name="commits-in-order",
        words="No older offset of a group is read back than the last that was answered as "
        "committed (likewise).",
        judge=committed(COMMIT_REGRESSED),
        concerns=lambda facts: facts.readers.groups,
    ),
    _Promise(
        name="nothing-skipped-by-commit",
        words="A group that commits what it was shown commits past no record that it was not shown "
        "(at-least-once; while what it was shown is promised to stay).",
        judge=shown(SKIPPED_BY_COMMIT),
        concerns=lambda facts: facts.readers.at_least_once,
    ),
    *(
        _Promise(name=name, words=words, judge=judge, concerns=lambda facts: facts.transactional)
        for name, words, judge in _OF_TRANSACTIONS
    ),
    _Promise(
        name="recovers",
        words="Within the campaign's time for it after the last heal, every partition is led and "
        "its ISR full.",
        judge=living(lambda facts: facts.recovers),
    ),
    _Promise(
        name="groups-recover",
        words="Within a group's time for it after the cluster has recovered, its members are shown "
        "what is acked of every partition.",
        judge=living(lambda facts: facts.groups_recover),
        concerns=lambda facts: facts.readers.groups and not facts.transactional,
    ),
    _Promise(
        name=STAYS_UP,
        words="No server ends but by a fault.",
        judge=living(lambda facts: facts.stays_up),
    ),
)

PROMISES = {one.name: one.words for one in _PROMISES}
"""Each built-in guarantee in words, by its name."""


def _of_plugin(check: PluginCheck) -> _Promise:
    return _Promise(
        name=guarantee_of(check.checker),
        words=check.guarantee,
        judge=of_plugin(check),
        plugin=check.plugin,
    )


def guarantees() -> Mapping[str, str]:
    """Return every guarantee in words, by its name: the built-in ones, then those of plug-ins."""
    plugged = {guarantee_of(name): one.guarantee for name, one in plugin_checkers().items()}
    return {**PROMISES, **plugged}


def judged(facts: Facts) -> tuple[tuple[Guarantee, ...], tuple[str, ...]]:
    """What was promised of a cell and what became of it, promised or not; and what its offences
    leave open, a sentence each."""
    concerned = [promise for promise in _PROMISES if promise.concerns(facts)]
    concerned += map(_of_plugin, facts.plugin_checks)
    findings = [(promise, promise.judge(facts)) for promise in concerned]
    guarantees = tuple(_guarantee(promise, found, facts) for promise, found in findings)
    return guarantees, tuple(
        open_ for promise, found in findings for open_ in _open(promise, found)
    )


def verdict(
    facts: Facts, guarantees: Iterable[Guarantee], doubtful: Iterable[str]
) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict of a cell and the reasons for it, the decisive ones first."""
    found = list(guarantees)
    # That a server crashed may be why of everything else.
    in_order = sorted(found, key=lambda one: one.name != STAYS_UP)
    broken = [f"{g.name}: {g.reason}" for g in in_order if g.broken]
    crashed = [f"the checker {name} failed" for name in sorted(facts.crashed)]
    lacking = [*facts.gaps, *doubtful, *crashed]
    no_loss = next(one for one in found if one.name == NO_LOSS)
    conclusion, reasons = _conclusion(broken, lacking, no_loss)
    if facts.baseline and conclusion is Verdict.PASS:
        reasons = [*reasons, "a baseline: nothing was broken"]
    return conclusion, tuple(f"{facts.cell.name}: {reason}" for reason in reasons)


def campaign_verdict(cells: Iterable[Verdict], gaps: Iterable[str]) -> Verdict:
    """The verdict of a campaign: the worst of what its cells count as.

    A campaign whose every cell is not-guaranteed is so itself: nothing promised was broken, and
    to call it ``pass`` would claim that a promise about loss was kept.

    Args:
        cells: :attr:`checkers.verdict.CellResult.counts_as` of the cells.
        gaps: What the campaign as a whole lacks.
    """
    seen = set(cells)
    if Verdict.FAIL in seen:
        return Verdict.FAIL
    if not seen or Verdict.INCONCLUSIVE in seen or any(gaps):
        return Verdict.INCONCLUSIVE
    return Verdict.PASS if Verdict.PASS in seen else Verdict.NOT_GUARANTEED


def _conclusion(
    broken: list[str], lacking: list[str], no_loss: Guarantee
) -> tuple[Verdict, list[str]]:
    if broken:
        return Verdict.FAIL, broken + lacking
    if lacking:
        return Verdict.INCONCLUSIVE, lacking
    reasons = [f"{no_loss.name}: {no_loss.reason}"]
    return (Verdict.PASS if no_loss.promised else Verdict.NOT_GUARANTEED), reasons


def _guarantee(promise: _Promise, found: Finding, facts: Facts) -> Guarantee:
    held = _held(found, facts)
    offences = found.broken or found.seen
    # Of what is promised as a whole, such as that acked records stand in order: others need not.
    excused = f"; {found.seen:,} {found.what} where that is not promised" if found.seen else ""
    seen = {
        False: f"{offences:,} {found.what}",
        None: "the evidence does not tell",
        True: "held",
    }
    if promise.name == NO_LOSS:
        acked = f"of {facts.count('acked'):,} acked records lost"
        seen |= {False: f"{offences:,} {acked}", True: f"none {acked}"}
    return Guarantee(
        name=promise.name,
        promise=promise.words,
        promised=found.promised or found.broken > 0,
        held=held,
        broken=found.broken,
        checked=held is not None or _checked(found, facts),
        anomaly=found.what if promise.plugin or found.what in CATALOGUE else None,
        plugin=promise.plugin,
        reason=f"{found.why}: {seen[held]}{'' if held is False else excused}",
    )


def _checked(found: Finding, facts: Facts) -> bool:
    """Return whether nothing was left out that could have shown that a promise was broken."""
    if not facts.whole or found.untold or found.what in facts.crashed:
        return False
    return bool(found.looked and found.examined) or not found.applies


def _held(found: Finding, facts: Facts) -> bool | None:
    if found.broken:
        return False
    if found.doubtful:
        return None
    if found.seen and not found.promised:
        return False
    complete = found.examined and found.looked and not found.untold
    if not complete or facts.gaps or found.what in facts.crashed:
        return None
    return True


def _open(promise: _Promise, found: Finding) -> Iterable[str]:
    if found.doubtful:
        count = f"{found.doubtful:,} {found.what}"
        yield f"{promise.name}: {count}, and nobody knows whether that was promised: {found.why}"
    for words in found.untold:
        yield f"{promise.name}: {words}"
