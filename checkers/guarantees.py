"""Facts to verdicts: the only place where an anomaly becomes a failure.

What a configuration promises, under what conditions and by whose word, is one table:
docs/guarantees.md. Here each promise is a line of ``_PROMISES``. Whether its condition held is
judged by what was observed (``checkers.terms``), record by record: an acks=1 cell whose leader
never changed is promised everything, one whose leader changed is promised what was acked later.

A promise that is broken fails its cell however thin the evidence; it takes all the evidence to
pass; and a loss of which nobody knows whether it was promised is neither.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from checkers.findings import (
    Facts,
    Finding,
    acks_ascend,
    agreeing,
    always,
    epochs_rise,
    keeps_order,
    kept,
    living,
    min_isr,
    of_producer,
    one_leader,
    recognises_retries,
    told_by_all_in_sync,
)
from checkers.verdict import Guarantee, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class _Promise:
    name: str
    words: str
    judge: Callable[[Facts], Finding]


NO_LOSS = "no-acked-record-lost"

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
        words="No record stands in the log twice (idempotent producer, no acked record lost).",
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
        name="recovers",
        words="Within the campaign's time for it after the last heal, every partition is led and "
        "its ISR full.",
        judge=living(lambda facts: facts.recovers),
    ),
    _Promise(
        name="servers-stay-up",
        words="No server ends but by a fault.",
        judge=living(lambda facts: facts.stays_up),
    ),
)


def judged(facts: Facts) -> tuple[tuple[Guarantee, ...], tuple[str, ...]]:
    """What was promised of a cell and what became of it, promised or not; and what its offences
    leave open, a sentence each."""
    findings = [(promise, promise.judge(facts)) for promise in _PROMISES]
    guarantees = tuple(_guarantee(promise, found, facts) for promise, found in findings)
    return guarantees, tuple(
        open_ for promise, found in findings for open_ in _open(promise, found)
    )


def verdict(
    facts: Facts, guarantees: Iterable[Guarantee], doubtful: Iterable[str]
) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict of a cell and the reasons for it, the decisive ones first."""
    by_name = {guarantee.name: guarantee for guarantee in guarantees}
    broken = [f"{g.name}: {g.reason}" for g in by_name.values() if g.broken]
    crashed = [f"the checker {name} failed" for name in sorted(facts.crashed)]
    lacking = [*facts.gaps, *doubtful, *crashed]
    kept = by_name[NO_LOSS]
    conclusion, reasons = _conclusion(broken, lacking, kept)
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
    broken: list[str], lacking: list[str], kept: Guarantee
) -> tuple[Verdict, list[str]]:
    if broken:
        return Verdict.FAIL, broken + lacking
    if lacking:
        return Verdict.INCONCLUSIVE, lacking
    reasons = [f"{kept.name}: {kept.reason}"]
    return (Verdict.PASS if kept.promised else Verdict.NOT_GUARANTEED), reasons


def _guarantee(promise: _Promise, found: Finding, facts: Facts) -> Guarantee:
    held = _held(found, facts)
    offences = found.broken or found.seen
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
        reason=f"{found.why}: {seen[held]}",
    )


def _held(found: Finding, facts: Facts) -> bool | None:
    if found.broken:
        return False
    if found.doubtful:
        return None
    if found.seen:
        return False
    if facts.gaps or found.untold or not found.looked or found.what in facts.crashed:
        return None
    return True


def _open(promise: _Promise, found: Finding) -> Iterable[str]:
    if found.doubtful:
        count = f"{found.doubtful:,} {found.what}"
        yield f"{promise.name}: {count}, and nobody knows whether that was promised: {found.why}"
    for words in found.untold:
        yield f"{promise.name}: {words}"
