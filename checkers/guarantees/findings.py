"""Findings: the judgement of each kind of guarantee, from the counts of a cell.

Whether a guarantee applied is known for each record or each partition
(``checkers.context.status``). For example, an acks=1 cell whose leader never changed has the
guarantee for all records. If the leader changed, it has the guarantee for those that were acked
later. This module adds these up and states the reasons.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from ackproof.checkers.checks.catalogue import CATALOGUE, CONSUMPTION, DIVERGENT
from ackproof.checkers.checks.check_transactions import LOOKED, TRANSACTIONS
from ackproof.checkers.context.status import (
    BY_THE_DEPOSED,
    COMPARED,
    COORDINATED,
    FORGOTTEN,
    FORGOTTEN_UNANSWERED,
    FORGOTTEN_UNDETERMINED,
    FORGOTTEN_UNKEYED,
    FORGOTTEN_UNREAD,
    IN_BROKER_LOGS,
    READABLE,
    REORDERED_ACKED,
    REPLICAS,
    VERSIONED,
    WATCHED,
    GuaranteeStatus,
    count_name,
    examined,
    looked,
)
from ackproof.checkers.guarantees.facts import Facts, PluginCheck
from ackproof.checkers.guarantees.liveness import LivenessResult
from ackproof.checkers.interface import Promised
from ackproof.history.cell import Cell

LOST, EARLY = "lost", "deleted-too-early"


@dataclass(frozen=True, slots=True, kw_only=True)
class GuaranteeFinding:
    """The finding for a guarantee.

    Attributes:
        broken: The number of violations where the guarantee applied.
        doubtful: The number of anomalies for which it is unknown whether the guarantee applied.
        seen: The number of all anomalies.
        promised: Whether the guarantee applied to everything in the cell.
        why: The reason for that.
        examined: The number of things that were examined, each of which might have been a
            violation.
        missing_evidence: The evidence that is missing to conclude, a sentence each.
        unobserved: The evidence that is incomplete, so that it does not show whether the guarantee
            held, in a sentence; empty if it is complete.
        applies: Whether there is anything to examine.
        what: The name of the anomaly.
    """

    broken: int
    doubtful: int = 0
    seen: int
    promised: bool
    why: str
    examined: int
    missing_evidence: tuple[str, ...] = ()
    unobserved: str = ""
    applies: bool = True
    what: str


def kept(checker: str) -> Callable[[Facts], GuaranteeFinding]:
    """Judge a guarantee for acked records. Whether it applied depends on the time of each ack."""

    def judge(facts: Facts) -> GuaranteeFinding:
        unpromised = facts.count("acked", GuaranteeStatus.UNPROMISED)
        return GuaranteeFinding(
            broken=facts.count(checker, GuaranteeStatus.PROMISED),
            doubtful=facts.count(checker, GuaranteeStatus.UNKNOWN),
            seen=facts.count(checker),
            promised=facts.cell.acks != "0" and not unpromised,
            why=_terms(facts, unpromised),
            examined=facts.examined(checker),
            missing_evidence=tuple(_forgotten(facts)) if checker == LOST else (),
            what=checker,
        )

    return judge


def _forgotten(facts: Facts) -> Iterator[str]:
    """Yield what is unknown of records that the topic's cleanup policy has removed."""
    unread, unkeyed = facts.count(FORGOTTEN_UNREAD), facts.count(FORGOTTEN_UNKEYED)
    if unread:
        yield (
            f"cleanup.policy removed {unread:,} acked records that no consumer is known to have "
            "read"
        )
    if unkeyed:
        yield f"{unkeyed:,} absent records of a compacted log have no known key or offset"
    if unanswered := facts.count(FORGOTTEN_UNANSWERED):
        yield (
            f"{unanswered:,} absent records may have been deleted by tombstones that were not "
            "acked, and are gone"
        )


def until_retention(facts: Facts) -> GuaranteeFinding:
    """Judge the guarantee that retention deletes nothing too early, whatever happens to brokers."""
    early, unclear = facts.count(EARLY), facts.count(FORGOTTEN_UNDETERMINED)
    words = f"{unclear:,} acked records may have been deleted too early"
    return GuaranteeFinding(
        broken=early,
        seen=early,
        promised=True,
        why=f"{facts.count(FORGOTTEN):,} acked records were removed by cleanup.policy",
        examined=facts.examined(EARLY),
        missing_evidence=(words,) if unclear else (),
        what=EARLY,
    )


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
) -> Callable[[Facts], GuaranteeFinding]:
    """Judge a guarantee that depends on the producer state in the log. It applies while no acked
    record of the partition may be lost, because that state is lost with the log."""

    def judge(facts: Facts) -> GuaranteeFinding:
        cell = facts.cell
        promised, why = condition(cell)
        # A request that the client gave up may still be appended after later ones. Without
        # idempotence, order is therefore guaranteed for acked records only.
        acked_alone = checker == "reordered" and not cell.enable_idempotence
        what = REORDERED_ACKED if acked_alone else checker
        voided = facts.count("partitions", GuaranteeStatus.UNPROMISED)
        return GuaranteeFinding(
            broken=facts.count(what, GuaranteeStatus.PROMISED) if promised else 0,
            doubtful=facts.count(what, GuaranteeStatus.UNKNOWN) if promised else 0,
            seen=facts.count(checker),
            promised=promised and not voided,
            why="; ".join([why, *(facts.why if promised and voided else ())]),
            examined=facts.examined(checker),
            what=checker,
        )

    return judge


def recognises_retries(cell: Cell) -> tuple[bool, str]:
    """Return whether the log recognises a producer's retry, and the reason."""
    if cell.enable_idempotence:
        return True, "enable.idempotence=true"
    return False, "enable.idempotence=false: a retry may be appended a second time"


def keeps_order(cell: Cell) -> tuple[bool, str]:
    """Return whether a producer's records are appended in the order of its sends, and the
    reason."""
    if cell.enable_idempotence:
        return True, "enable.idempotence=true"
    if cell.max_in_flight == 1:
        return True, "max.in.flight=1, for acked records only"
    why = "a retry may be appended after later sends"
    return False, f"enable.idempotence=false, max.in.flight={cell.max_in_flight}: {why}"


def acks_ascend(cell: Cell) -> tuple[bool, str]:
    """Return whether a producer's acks have ascending offsets, and the reason. They also have
    without retries: records sent over one connection are appended in that order, and nothing is
    acked over a broken one."""
    if cell.acks == "0":
        return False, "acks=0: the client receives no offset"
    if cell.retries == 0 and not cell.enable_idempotence:
        return True, "retries=0"
    return keeps_order(cell)


def always(checker: str) -> Callable[[Facts], GuaranteeFinding]:
    """Judge a guarantee that every configuration has."""

    def judge(facts: Facts) -> GuaranteeFinding:
        found = facts.count(checker)
        return GuaranteeFinding(
            broken=found,
            seen=found,
            promised=True,
            why="promised by every configuration",
            examined=facts.examined(checker),
            what=checker,
        )

    return judge


def told_by_all_in_sync(checker: str) -> Callable[[Facts], GuaranteeFinding]:
    """Judge a guarantee about acks of all in-sync replicas. It applies while acked records are
    kept. Other acks only concern one log and say nothing about the cluster."""
    of_records = kept(checker)

    def judge(facts: Facts) -> GuaranteeFinding:
        found = of_records(facts)
        if facts.cell.acks == "all":
            return replace(found, unobserved=_unobserved(facts, WATCHED))
        why = _not_all(facts.cell)
        return replace(found, promised=False, unobserved=why, applies=False, why=why)

    return judge


def _not_all(cell: Cell) -> str:
    return f"acks={cell.acks}: an ack does not say that the in-sync replicas have the record"


def min_isr(facts: Facts) -> GuaranteeFinding:
    """Judge the guarantee about the size of the ISR, whatever happens to the records."""
    found = facts.count("acked-below-min-isr")
    by_all = facts.cell.acks == "all"
    return GuaranteeFinding(
        broken=found,
        seen=found,
        promised=by_all,
        why="acks=all" if by_all else _not_all(facts.cell),
        examined=facts.examined("acked-below-min-isr"),
        unobserved=_unobserved(facts, VERSIONED) if by_all else _not_all(facts.cell),
        applies=by_all,
        what="acked-below-min-isr",
    )


def epochs_rise(facts: Facts) -> GuaranteeFinding:
    """Judge whether leader epochs never went back. For anomalies in the final log the guarantee
    applies while replicas are guaranteed to agree."""
    return GuaranteeFinding(
        broken=facts.count("epoch-regressed", GuaranteeStatus.PROMISED),
        doubtful=facts.count("epoch-regressed", GuaranteeStatus.UNKNOWN),
        seen=facts.count("epoch-regressed"),
        promised=not facts.count(REPLICAS, GuaranteeStatus.UNPROMISED),
        why="; ".join(facts.apart) or "promised by every configuration",
        examined=facts.examined("epoch-regressed"),
        unobserved=_unobserved(facts, WATCHED),
        what="epoch-regressed",
    )


def one_leader(facts: Facts) -> GuaranteeFinding:
    """Judge whether each epoch had one leader. To say so takes both the observation of ZooKeeper
    and the brokers' logs."""
    found = always("two-leaders")(facts)
    return replace(
        found, unobserved=_unobserved(facts, WATCHED) or _unobserved(facts, IN_BROKER_LOGS)
    )


_EVIDENCE = {
    WATCHED: "every leader and ISR in the cluster's metadata, observed until the end of the run,",
    VERSIONED: "every change of the ISR in the cluster's metadata, observed without a gap,",
    IN_BROKER_LOGS: "the brokers' own logs about leaders, collected at the end of the run,",
    COMPARED: "the logs of all replicas, collected at the end of the run, in which each record can "
    "be read,",
}
"""The evidence of each count of partitions, in words."""


def complete_evidence(cell: Cell) -> Mapping[str, int]:
    """Return the counts of a cell whose evidence is complete and shows no anomaly."""
    of_partitions = (*_EVIDENCE, LOOKED, *map(looked, CONSUMPTION))
    return {
        **dict.fromkeys(of_partitions, cell.partitions),
        **dict.fromkeys(map(examined, CATALOGUE.built_in), 1),
        count_name(TRANSACTIONS, GuaranteeStatus.PROMISED): 1,
    }


_OF_CONSUMERS = "complete records of all consumers and groups, and the whole final log,"


def _unobserved(facts: Facts, counted: str) -> str:
    """Return which evidence is incomplete, or an empty text if all partitions of the cell have this
    count."""
    partitions = facts.cell.partitions
    lack = partitions - facts.count(counted)
    if not lack:
        return ""
    needed = _EVIDENCE.get(counted, _OF_CONSUMERS)
    return f"it needs {needed} which {lack} of {partitions} partitions lack"


def agreeing(facts: Facts) -> GuaranteeFinding:
    """Judge whether replicas agree. If not all of them could be compared, that is reported as
    unknown and does not change the cell's verdict, because the final read alone shows what was
    kept."""
    several = facts.cell.replication_factor > 1
    why = (
        "promised by every configuration" if several else "replication.factor=1: no second replica"
    )
    return GuaranteeFinding(
        broken=facts.count(DIVERGENT, GuaranteeStatus.PROMISED),
        doubtful=facts.count(DIVERGENT, GuaranteeStatus.UNKNOWN),
        seen=facts.count(DIVERGENT),
        promised=several and not facts.count(REPLICAS, GuaranteeStatus.UNPROMISED),
        why="; ".join(facts.apart) or why,
        examined=facts.examined(DIVERGENT),
        applies=several,
        unobserved=_unobserved(facts, COMPARED),
        what=DIVERGENT,
    )


def of_readers(
    checker: str, counted: str, why_not: Callable[[Facts], tuple[str, ...]]
) -> Callable[[Facts], GuaranteeFinding]:
    """Judge a guarantee for consumers. If the records of any consumer are incomplete, it is
    reported as unknown, which does not change the cell's verdict. ``counted`` is the name of the
    count of partitions or groups by guarantee status."""

    def judge(facts: Facts) -> GuaranteeFinding:
        return GuaranteeFinding(
            broken=facts.count(checker, GuaranteeStatus.PROMISED),
            doubtful=facts.count(checker, GuaranteeStatus.UNKNOWN),
            seen=facts.count(checker),
            promised=not facts.count(counted, GuaranteeStatus.UNPROMISED),
            why="; ".join(why_not(facts))
            or _unexcused(facts.count(checker, GuaranteeStatus.UNKNOWN)),
            examined=facts.examined(checker),
            unobserved=_unobserved(facts, looked(checker)),
            what=checker,
        )

    return judge


def _unexcused(doubtful: int) -> str:
    """Return why a guarantee applies if no reason against it is known."""
    if doubtful:
        return "the manifest does not plan the group or the consumer that received this answer"
    return "promised by every configuration"


def shown(checker: str) -> Callable[[Facts], GuaranteeFinding]:
    """Judge a guarantee for reads of consumers."""
    return of_readers(checker, READABLE, lambda facts: facts.withdrawn)


def committed(checker: str) -> Callable[[Facts], GuaranteeFinding]:
    """Judge a guarantee for committed offsets of groups."""

    def why_not(facts: Facts) -> tuple[str, ...]:
        deposed = facts.count(BY_THE_DEPOSED)
        told = (
            f"{deposed:,} answers may come from a former coordinator that had not yet "
            "learned of its successor"
        )
        return (*facts.uncommitted, *([told] if deposed else ()))

    return of_readers(checker, COORDINATED, why_not)


def transacted(checker: str, *, isolated: bool = False) -> Callable[[Facts], GuaranteeFinding]:
    """Judge a guarantee for transactions. Whether it applied depends on the time of each commit or
    read. With ``isolated`` it only applies to read_committed consumers."""

    def judge(facts: Facts) -> GuaranteeFinding:
        asked = facts.cell.reads_committed or not isolated
        level = f"isolation.level={facts.cell.isolation}"
        return GuaranteeFinding(
            broken=facts.count(checker, GuaranteeStatus.PROMISED) if asked else 0,
            doubtful=facts.count(checker, GuaranteeStatus.UNKNOWN) if asked else 0,
            seen=facts.count(checker),
            promised=asked and not facts.count(TRANSACTIONS, GuaranteeStatus.UNPROMISED),
            why="; ".join([level, *facts.undecided] if isolated else facts.undecided)
            or "promised by every configuration",
            examined=sum(facts.count(TRANSACTIONS, one) for one in GuaranteeStatus),
            unobserved=""
            if facts.count(LOOKED)
            else "it needs the whole final log and the complete records of all transactions",
            what=checker,
        )

    return judge


def living(of: Callable[[Facts], LivenessResult]) -> Callable[[Facts], GuaranteeFinding]:
    """Return the judge of a guarantee that ``checkers.guarantees.liveness`` has evaluated."""

    def judge(facts: Facts) -> GuaranteeFinding:
        found = of(facts)
        why = "; ".join((*found.suspended, *found.broken)) or "promised by every configuration"
        return GuaranteeFinding(
            broken=len(found.broken),
            seen=len(found.broken),
            promised=not found.suspended,
            why=why,
            examined=found.examined,
            missing_evidence=found.missing_evidence,
            unobserved="" if found.looked else _unseen_life(found),
            what="broken",
        )

    return judge


def _unseen_life(found: LivenessResult) -> str:
    """Return why a liveness guarantee could not be examined."""
    if found.suspended:
        return "; ".join(found.suspended)
    return "not every group read a record of each partition after the cluster had recovered"


def of_plugin(check: PluginCheck) -> Callable[[Facts], GuaranteeFinding]:
    """Judge the guarantee of a plug-in's checker. If the checker lacks evidence or examined
    nothing, its guarantee is not checked."""

    def judge(facts: Facts) -> GuaranteeFinding:
        totals, is_promised = check.totals, check.not_promised is None
        promised, whys = _promised_by(check.promised, facts)
        nothing = () if totals.examined or totals.lacking else ("nothing was examined",)
        missing_evidence = (*totals.lacking, *nothing)
        why = "; ".join(missing_evidence or whys) or "promised by every configuration"
        return GuaranteeFinding(
            broken=totals.found[GuaranteeStatus.PROMISED] if is_promised else 0,
            doubtful=totals.found[GuaranteeStatus.UNKNOWN] if is_promised else 0,
            seen=totals.found.total(),
            promised=is_promised and promised,
            why=check.not_promised or why,
            examined=totals.examined,
            missing_evidence=missing_evidence,
            what=check.checker,
        )

    return judge


def _promised_by(promised: Promised, facts: Facts) -> tuple[bool, tuple[str, ...]]:
    """Return whether the guarantee applied to everything in a cell, and the reasons."""
    if promised is Promised.WHILE_ACKS_ARE_KEPT:
        unpromised = facts.count("acked", GuaranteeStatus.UNPROMISED)
        return facts.cell.acks != "0" and not unpromised, (_terms(facts, unpromised),)
    if promised in (Promised.WHILE_READS_STAY, Promised.WHILE_SHARES_STAY):
        return not facts.count(READABLE, GuaranteeStatus.UNPROMISED), facts.withdrawn
    return True, ()
