"""Facts to verdicts: the only place where an anomaly becomes a failure.

What a configuration promises, as Apache Kafka's documentation of ``acks``,
``min.insync.replicas``, ``unclean.leader.election.enable``, ``enable.idempotence`` and
``max.in.flight.requests.per.connection`` has it, under the faults that were on:

- *Acked records are kept*, at their offsets, with acks=all, when only replicas of the ISR become
  leader and fewer than min.insync.replicas replicas lose their disks. acks=all waits for the whole
  ISR of that moment; min.insync.replicas is the floor below which nothing is acked, hence the
  number of copies that every acked record has at least.
- *No duplicates, no reordering* with an idempotent producer, as long as acked records are kept:
  the sequence numbers that tell a retry from a new record are remembered by the log itself.
- *Order without idempotence* needs max.in.flight=1, and is promised of acked records alone: a
  request that the client gave up may still be appended behind later ones. With acks=1 not even
  that: the acked copy may be truncated and a given-up attempt be appended later.
- Whatever the configuration: nothing in the log that was not sent, nothing that failed for
  certain, no hole.

A promise that is broken fails its cell however thin the evidence; it takes all the evidence to
pass. Compaction, transactions and retention are not handled.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from checkers.verdict import Guarantee, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What a cell's promises follow from. Names as in ``history.schema.CELLS``."""

    acks: str
    replication_factor: int
    min_insync_replicas: int
    unclean_leader_election: bool
    enable_idempotence: bool
    max_in_flight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that a cell is judged by.

    Attributes:
        disks_lost: How many servers lost data from their disks.
        anomalies: Count by checker; absent is 0.
        reordered_acked: Of the reordered records, the acked ones.
        crashed: Checkers that threw while they looked at this cell.
        gaps: What the evidence lacks, one sentence each.
    """

    configuration: Configuration
    disks_lost: int
    anomalies: Mapping[str, int]
    reordered_acked: int
    crashed: frozenset[str]
    gaps: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Promise:
    name: str
    words: str
    checker: str
    terms: Callable[[Facts], tuple[bool, str]]
    offences: Callable[[Facts, str], int] = lambda facts, checker: facts.anomalies.get(checker, 0)


def _acked_are_kept(facts: Facts) -> tuple[bool, str]:
    cell = facts.configuration
    floor = cell.min_insync_replicas
    if cell.acks == "0":
        return False, "acks=0: the client does not wait for an answer"
    if cell.acks == "1":
        return False, "acks=1: kept only while the leader never changes"
    if cell.unclean_leader_election:
        return False, "unclean.leader.election.enable=true: a replica outside the ISR may lead"
    disks = f"min.insync.replicas={floor}, and {facts.disks_lost} replicas lost their disks"
    return facts.disks_lost < floor, f"acks=all, unclean leader election off, {disks}"


def _retries_are_recognised(facts: Facts) -> tuple[bool, str]:
    if not facts.configuration.enable_idempotence:
        return False, "enable.idempotence=false: a retry may be appended a second time"
    kept, why = _acked_are_kept(facts)
    return kept, f"enable.idempotence=true, {why}"


def _order_is_kept(facts: Facts) -> tuple[bool, str]:
    cell = facts.configuration
    if cell.enable_idempotence:
        return _retries_are_recognised(facts)
    if cell.max_in_flight > 1:
        why = "a retry may be appended behind later sends"
        return False, f"enable.idempotence=false, max.in.flight={cell.max_in_flight}: {why}"
    kept, why = _acked_are_kept(facts)
    return kept, f"max.in.flight=1, of acked records; {why}"


def _always(_: Facts) -> tuple[bool, str]:
    return True, "promised by every configuration"


def _reordered(facts: Facts, checker: str) -> int:
    if facts.configuration.enable_idempotence:
        return facts.anomalies.get(checker, 0)
    return facts.reordered_acked


NO_LOSS = "no-acked-record-lost"

_PROMISES = (
    _Promise(
        name=NO_LOSS,
        words="No acked record is lost while fewer than min.insync.replicas replicas lose their "
        "disks (acks=all, unclean leader election off).",
        checker="lost",
        terms=_acked_are_kept,
    ),
    _Promise(
        name="acked-offset-kept",
        words="An acked record stands at the offset of its ack (where no acked record is lost).",
        checker="offset-mismatch",
        terms=_acked_are_kept,
    ),
    _Promise(
        name="no-duplicates",
        words="No record stands in the log twice (idempotent producer, no acked record lost).",
        checker="duplicated",
        terms=_retries_are_recognised,
    ),
    _Promise(
        name="no-reordering",
        words="A producer's records stand in the order sent (idempotent producer; or acked records "
        "with max.in.flight=1).",
        checker="reordered",
        terms=_order_is_kept,
        offences=_reordered,
    ),
    _Promise(
        name="no-phantom",
        words="Nothing stands in the log that was not sent.",
        checker="phantom",
        terms=_always,
    ),
    _Promise(
        name="failed-records-absent",
        words="A record that failed for certain is not in the log.",
        checker="failed-but-present",
        terms=_always,
    ),
    _Promise(
        name="no-offset-gap",
        words="The log has a record at every offset from its start to its end.",
        checker="offset-gap",
        terms=_always,
    ),
)


def guarantees(facts: Facts) -> tuple[Guarantee, ...]:
    """What was promised of a cell and what became of it, promised or not."""
    return tuple(_judged(promise, facts) for promise in _PROMISES)


def verdict(facts: Facts, judged: Iterable[Guarantee]) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict of a cell and the reasons for it, the decisive ones first."""
    judged = tuple(judged)
    broken = tuple(f"{g.name}: {g.reason}" for g in judged if g.promised and g.held is False)
    crashed = tuple(f"the checker {name} failed" for name in sorted(facts.crashed))
    lacking = facts.gaps + crashed
    if broken:
        return Verdict.FAIL, broken + lacking
    if lacking:
        return Verdict.INCONCLUSIVE, lacking
    unpromised = tuple(g.reason for g in judged if g.name == NO_LOSS and not g.promised)
    return (Verdict.NOT_GUARANTEED, unpromised) if unpromised else (Verdict.PASS, ())


def campaign_verdict(cells: Iterable[Verdict], gaps: Iterable[str]) -> Verdict:
    """The verdict of a campaign: the worst of its cells.

    A campaign whose every cell is not-guaranteed is so itself: nothing promised was broken, and
    to call it ``pass`` would claim that a promise about loss was kept.

    Args:
        cells: Verdicts of the cells.
        gaps: What the campaign as a whole lacks (a run that is missing, say).
    """
    seen = set(cells)
    if Verdict.FAIL in seen:
        return Verdict.FAIL
    if not seen or Verdict.INCONCLUSIVE in seen or any(gaps):
        return Verdict.INCONCLUSIVE
    return Verdict.PASS if Verdict.PASS in seen else Verdict.NOT_GUARANTEED


def _judged(promise: _Promise, facts: Facts) -> Guarantee:
    promised, why = promise.terms(facts)
    offences = promise.offences(facts, promise.checker)
    untold = bool(facts.gaps) or promise.checker in facts.crashed
    held = False if offences else None if untold else True
    seen = {
        False: f"{offences} {promise.checker}",
        None: "the evidence does not tell",
        True: "held",
    }
    return Guarantee(
        name=promise.name,
        promise=promise.words,
        promised=promised,
        held=held,
        reason=f"{why}: {seen[held]}",
    )
