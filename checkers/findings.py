"""What became of a promise, one way of finding it out a kind of promise.

Whether its condition held is judged by what was observed (``checkers.terms``), record by record: an
acks=1 cell whose leader never changed is promised everything, one whose leader changed is promised
what was acked later.
"""

from collections.abc import Callable
from dataclasses import dataclass

from checkers.catalogue import DIVERGENT
from checkers.facts import Facts
from checkers.liveness import Living
from checkers.standing import (
    COMPARED,
    COORDINATED,
    READABLE,
    REORDERED_ACKED,
    REPLICAS,
    Standing,
    looked,
)
from history.cell import Cell


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
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


def kept(checker: str) -> Callable[[Facts], Finding]:
    """Of acked records: promised or not by when each was acked."""

    def judge(facts: Facts) -> Finding:
        unpromised = facts.count("acked", Standing.UNPROMISED)
        return Finding(
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


def of_producer(
    checker: str, condition: Callable[[Cell], tuple[bool, str]]
) -> Callable[[Facts], Finding]:
    """Of what the log remembers of producers: promised while no acked record of the partition may
    be lost, since it is lost with the log."""

    def judge(facts: Facts) -> Finding:
        cell = facts.cell
        promised, why = condition(cell)
        # A request that the client gave up may still be appended behind later ones, so without
        # idempotence order is promised of acked records alone.
        acked_alone = checker == "reordered" and not cell.enable_idempotence
        what = REORDERED_ACKED if acked_alone else checker
        voided = facts.count("partitions", Standing.UNPROMISED)
        return Finding(
            broken=facts.count(what, Standing.PROMISED) if promised else 0,
            doubtful=facts.count(what, Standing.UNKNOWN) if promised else 0,
            seen=facts.count(checker),
            promised=promised and not voided,
            why="; ".join([why, *(facts.why if promised and voided else ())]),
            what=checker,
        )

    return judge


def recognises_retries(cell: Cell) -> tuple[bool, str]:
    if cell.enable_idempotence:
        return True, "enable.idempotence=true"
    return False, "enable.idempotence=false: a retry may be appended a second time"


def keeps_order(cell: Cell) -> tuple[bool, str]:
    if cell.enable_idempotence:
        return True, "enable.idempotence=true"
    if cell.max_in_flight == 1:
        return True, "max.in.flight=1, of acked records"
    why = "a retry may be appended behind later sends"
    return False, f"enable.idempotence=false, max.in.flight={cell.max_in_flight}: {why}"


def always(checker: str) -> Callable[[Facts], Finding]:
    def judge(facts: Facts) -> Finding:
        found = facts.count(checker)
        why = "promised by every configuration"
        return Finding(broken=found, seen=found, promised=True, why=why, what=checker)

    return judge


def agreeing(facts: Facts) -> Finding:
    """Of replicas. Where not all could be compared it is unknown whether they agree, which is told,
    and costs the cell no verdict: what was kept is seen by the final read alone."""
    why = "promised by every configuration"
    return Finding(
        broken=facts.count(DIVERGENT, Standing.PROMISED),
        doubtful=facts.count(DIVERGENT, Standing.UNKNOWN),
        seen=facts.count(DIVERGENT),
        promised=not facts.count(REPLICAS, Standing.UNPROMISED),
        why="; ".join(facts.apart) or why,
        looked=facts.count(COMPARED) == facts.cell.partitions,
        what=DIVERGENT,
    )


def of_readers(
    checker: str, counted: str, why_not: Callable[[Facts], tuple[str, ...]]
) -> Callable[[Facts], Finding]:
    """Of consumers. Where it is not known what all of them were shown or told, it is unknown
    whether it held, which is told, and costs the cell no verdict. ``counted``: what partitions, or
    groups, are counted as by whether it is promised."""

    def judge(facts: Facts) -> Finding:
        return Finding(
            broken=facts.count(checker, Standing.PROMISED),
            doubtful=facts.count(checker, Standing.UNKNOWN),
            seen=facts.count(checker),
            promised=not facts.count(counted, Standing.UNPROMISED),
            why="; ".join(why_not(facts)) or "promised by every configuration",
            looked=facts.count(looked(checker)) == facts.cell.partitions,
            what=checker,
        )

    return judge


def shown(checker: str) -> Callable[[Facts], Finding]:
    return of_readers(checker, READABLE, lambda facts: facts.withdrawn)


def committed(checker: str) -> Callable[[Facts], Finding]:
    return of_readers(checker, COORDINATED, lambda facts: facts.uncommitted)


def living(of: Callable[[Facts], Living]) -> Callable[[Facts], Finding]:
    def judge(facts: Facts) -> Finding:
        found = of(facts)
        why = "; ".join((*found.suspended, *found.broken)) or "promised by every configuration"
        return Finding(
            broken=len(found.broken),
            seen=len(found.broken),
            promised=not found.suspended,
            why=why,
            untold=found.untold,
            what="broken",
        )

    return judge
