"""Facts to verdicts: the only place where an anomaly becomes a failure.

What a configuration promises, under what conditions and by whose word, is one table:
docs/guarantees.md. Here each promise is a line of ``_PROMISES``. Whether its condition held is
judged by what was observed (``checkers.terms``), record by record: an acks=1 cell whose leader
never changed is promised everything, one whose leader changed is promised what was acked later.

A promise that is broken fails its cell however thin the evidence; it takes all the evidence to
pass; and a loss of which nobody knows whether it was promised is neither.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from checkers.catalogue import DIVERGENT
from checkers.liveness import Living
from checkers.standing import COMPARED, REORDERED_ACKED, REPLICAS, Standing, name
from checkers.verdict import Guarantee, Verdict
from history.cell import Cell


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that a cell is judged by.

    Attributes:
        counts: The sums of its partitions, as in ``checkers.reconcile.RESULTS``.
        why: Why acks in it are not promised to be kept, or perhaps not; a sentence each.
        apart: Why replicas of it are not promised to agree, or perhaps not; a sentence each.
        crashed: Checkers that threw while they looked at this cell.
        gaps: What the evidence lacks, one sentence each.
        recovers, stays_up: What became of the liveness guarantees.
        baseline: Whether nothing was to be broken.
    """

    cell: Cell
    counts: Mapping[str, int]
    why: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    crashed: frozenset[str] = frozenset()
    gaps: tuple[str, ...] = ()
    recovers: Living = field(default_factory=Living)
    stays_up: Living = field(default_factory=Living)
    baseline: bool = False

    def count(self, what: str, standing: Standing | None = None) -> int:
        """One of the counts; absent is 0."""
        return self.counts.get(what if standing is None else name(what, standing), 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finding:
    """What became of a promise: how often it was broken where it was promised, how often where
    nobody knows, and how often at all; whether all of the cell was promised, and why (not).
    ``untold``: what is missing to conclude; ``looked``: whether nothing is missing to say that it
    held."""

    broken: int
    doubtful: int = 0
    seen: int
    promised: bool
    why: str
    untold: tuple[str, ...] = ()
    looked: bool = True
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Promise:
    name: str
    words: str
    judge: Callable[[Facts], _Finding]


def _kept(checker: str) -> Callable[[Facts], _Finding]:
    """Of acked records: promised or not by when each was acked."""

    def judge(facts: Facts) -> _Finding:
        unpromised = facts.count("acked", Standing.UNPROMISED)
        return _Finding(
            broken=facts.count(checker, Standing.PROMISED),
            doubtful=facts.count(checker, Standing.UNKNOWN),
            seen=facts.count(checker),
            promised=facts.cell.acks != "0" and not unpromised,
            why=_terms(facts, unpromised),
            what=checker,
        )

    return judge


def _terms(facts: Facts, unpromised: int) -> str:
    cell = facts.cell
    if cell.acks == "0":
        return "acks=0: the client does not wait for an answer"
    terms = f"acks={cell.acks}"
    if cell.acks == "all":
        unclean = str(cell.unclean_leader_election).lower()
        terms += f", unclean.leader.election.enable={unclean}"
    if unpromised:
        terms += f"; {unpromised:,} of {facts.count('acked'):,} acked records are not promised"
    return "; ".join([terms, *facts.why])


def _of_producer(
    checker: str, condition: Callable[[Cell], tuple[bool, str]]
) -> Callable[[Facts], _Finding]:
    """Of what the log remembers of producers: promised while no acked record of the partition may
    be lost, since it is lost with the log."""

    def judge(facts: Facts) -> _Finding:
        cell = facts.cell
        promised, why = condition(cell)
        # A request that the client gave up may still be appended behind later ones, so without
        # idempotence order is promised of acked records alone.
        acked_alone = checker == "reordered" and not cell.enable_idempotence
        what = REORDERED_ACKED if acked_alone else checker
        voided = facts.count("partitions", Standing.UNPROMISED)
        return _Finding(
            broken=facts.count(what, Standing.PROMISED) if promised else 0,
            doubtful=facts.count(what, Standing.UNKNOWN) if promised else 0,
            seen=facts.count(checker),
            promised=promised and not voided,
            why="; ".join([why, *(facts.why if promised and voided else ())]),
            what=checker,
        )

    return judge


def _recognises_retries(cell: Cell) -> tuple[bool, str]:
    if cell.enable_idempotence:
        return True, "enable.idempotence=true"
    return False, "enable.idempotence=false: a retry may be appended a second time"


def _keeps_order(cell: Cell) -> tuple[bool, str]:
    if cell.enable_idempotence:
        return True, "enable.idempotence=true"
    if cell.max_in_flight == 1:
        return True, "max.in.flight=1, of acked records"
    why = "a retry may be appended behind later sends"
    return False, f"enable.idempotence=false, max.in.flight={cell.max_in_flight}: {why}"


def _always(checker: str) -> Callable[[Facts], _Finding]:
    def judge(facts: Facts) -> _Finding:
        found = facts.count(checker)
        why = "promised by every configuration"
        return _Finding(broken=found, seen=found, promised=True, why=why, what=checker)

    return judge


def _agreeing(facts: Facts) -> _Finding:
    """Of replicas. Where not all could be compared it is unknown whether they agree, which is told,
    and costs the cell no verdict: what was kept is seen by the final read alone."""
    why = "promised by every configuration"
    return _Finding(
        broken=facts.count(DIVERGENT, Standing.PROMISED),
        doubtful=facts.count(DIVERGENT, Standing.UNKNOWN),
        seen=facts.count(DIVERGENT),
        promised=not facts.count(REPLICAS, Standing.UNPROMISED),
        why="; ".join(facts.apart) or why,
        looked=facts.count(COMPARED) == facts.cell.partitions,
        what=DIVERGENT,
    )


def _living(of: Callable[[Facts], Living]) -> Callable[[Facts], _Finding]:
    def judge(facts: Facts) -> _Finding:
        living = of(facts)
        why = "; ".join((*living.suspended, *living.broken)) or "promised by every configuration"
        return _Finding(
            broken=len(living.broken),
            seen=len(living.broken),
            promised=not living.suspended,
            why=why,
            untold=living.untold,
            what="broken",
        )

    return judge


NO_LOSS = "no-acked-record-lost"

_PROMISES = (
    _Promise(
        name=NO_LOSS,
        words="No acked record is lost: with acks=all while only members of the ISR are elected "
        "and one of them keeps its data, with acks=1 while the leader neither changes nor loses "
        "its disk.",
        judge=_kept("lost"),
    ),
    _Promise(
        name="acked-offset-kept",
        words="An acked record stands at the offset of its ack (where no acked record is lost).",
        judge=_kept("offset-mismatch"),
    ),
    _Promise(
        name="no-duplicates",
        words="No record stands in the log twice (idempotent producer, no acked record lost).",
        judge=_of_producer("duplicated", _recognises_retries),
    ),
    _Promise(
        name="no-reordering",
        words="A producer's records stand in the order sent (idempotent producer; or acked records "
        "with max.in.flight=1; no acked record lost).",
        judge=_of_producer("reordered", _keeps_order),
    ),
    _Promise(
        name="no-phantom",
        words="Nothing stands in the log that was not sent.",
        judge=_always("phantom"),
    ),
    _Promise(
        name="failed-records-absent",
        words="A record that failed for certain is not in the log.",
        judge=_always("failed-but-present"),
    ),
    _Promise(
        name="no-offset-gap",
        words="The log has a record at every offset from its start to its end.",
        judge=_always("offset-gap"),
    ),
    _Promise(
        name="replicas-agree",
        words="Replicas in the ISR hold the same log up to the end of the final read, while no "
        "data is taken from or changed on a disk and only members of the ISR are elected.",
        judge=_agreeing,
    ),
    _Promise(
        name="recovers",
        words="Within the campaign's time for it after the last heal, every partition is led and "
        "its ISR full.",
        judge=_living(lambda facts: facts.recovers),
    ),
    _Promise(
        name="servers-stay-up",
        words="No server ends but by a fault.",
        judge=_living(lambda facts: facts.stays_up),
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


def _guarantee(promise: _Promise, found: _Finding, facts: Facts) -> Guarantee:
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


def _held(found: _Finding, facts: Facts) -> bool | None:
    if found.broken:
        return False
    if found.doubtful:
        return None
    if found.seen:
        return False
    if facts.gaps or found.untold or not found.looked or found.what in facts.crashed:
        return None
    return True


def _open(promise: _Promise, found: _Finding) -> Iterable[str]:
    if found.doubtful:
        count = f"{found.doubtful:,} {found.what}"
        yield f"{promise.name}: {count}, and nobody knows whether that was promised: {found.why}"
    for words in found.untold:
        yield f"{promise.name}: {words}"
