"""The mechanism of each kind of root cause, in a few words.

:attr:`checkers.verdict.Cause.sentence` tells the same with every epoch, offset and time. These
words stand for the causes of several partitions and cells at once.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from ackproof.checkers.root_cause.causes import MORE
from ackproof.checkers.root_cause.kinds import CauseKind
from ackproof.checkers.verdict import Cause

BROKERS_NAMED_MAX = 3


def mechanism(causes: Sequence[Cause]) -> str:
    """Return what happened to the records of causes of the same kind. There is at least one."""
    kind = causes[0].kind
    return _PHRASES[kind](causes) if kind in _PHRASES else kind


def brokers(numbers: Iterable[int]) -> str:
    """Return brokers in words: ``broker-1 and broker-2``, or their number if they are many."""
    named = [f"broker-{number}" for number in dict.fromkeys(numbers)]
    if len(named) > BROKERS_NAMED_MAX:
        return f"{len(named)} brokers"
    *others, last = named or ["an unknown broker"]
    return f"{', '.join(others)} and {last}" if others else last


def _leaders(causes: Sequence[Cause]) -> list[int]:
    return list(dict.fromkeys(leader for cause in causes for leader in cause.leaders))


def _next(causes: Sequence[Cause]) -> list[int]:
    found = dict.fromkeys(cause.next_leader for cause in causes)
    return [leader for leader in found if leader is not None]


def _were(numbers: Sequence[int]) -> str:
    return "were" if len(numbers) > 1 else "was"


def _deposed(causes: Sequence[Cause]) -> str:
    found = _next(causes)
    after = f"after {brokers(found) if len(found) == 1 else 'another leader'} had been elected"
    return f"{brokers(_leaders(causes))} still acknowledged records {after}"


def _unclean(causes: Sequence[Cause]) -> str:
    found = _next(causes)
    isrs = {cause.isr_before for cause in causes}
    isr = f" {list(*isrs)}" if len(isrs) == 1 and isrs != {()} else ""
    return f"{brokers(found)} {_were(found)} elected outside the ISR{isr}"


def _disk(causes: Sequence[Cause]) -> str:
    return f"{brokers(_next(causes) or _leaders(causes))} lost data from the disk"


def _truncated(causes: Sequence[Cause]) -> str:
    found = _next(causes)
    return f"{brokers(found)} truncated acknowledged records and {_were(found)} then elected"


def _expanded(causes: Sequence[Cause]) -> str:
    found = _next(causes)
    return f"{brokers(found)} joined the ISR without all records and {_were(found)} then elected"


def _not_replicated(causes: Sequence[Cause]) -> str:
    found = _next(causes)
    only = f"that only {brokers(_leaders(causes))} had"
    return f"{brokers(found)} {_were(found)} elected without records {only}"


def _unexplained(causes: Sequence[Cause]) -> str:
    found = _next(causes)
    unexplained = "and no recorded event explains it"
    if not found:
        return "No recorded event explains it"
    return f"{brokers(found)} led without records of {brokers(_leaders(causes))}, {unexplained}"


def _two_leaders(causes: Sequence[Cause]) -> str:
    return f"{brokers(_leaders(causes))} led in the same leader epoch"


_PHRASES: Mapping[str, Callable[[Sequence[Cause]], str]] = {
    CauseKind.DEPOSED_LEADER: _deposed,
    CauseKind.UNCLEAN_ELECTION: _unclean,
    CauseKind.LOST_FROM_DISK: _disk,
    CauseKind.TRUNCATED_BEFORE_LEADING: _truncated,
    CauseKind.ISR_EXPANDED_TOO_EARLY: _expanded,
    CauseKind.NOT_REPLICATED: _not_replicated,
    CauseKind.UNANSWERED: lambda _: "No broker answered for the records (acks=0)",
    CauseKind.DEDUPLICATED: lambda causes: (
        f"{brokers(_leaders(causes))} took new records for retries of earlier ones"
    ),
    CauseKind.BELOW_LOG_START: lambda _: "The beginning of the log was deleted",
    CauseKind.RETRIED: lambda _: "A producer without idempotence sent records again",
    CauseKind.RETRIED_AT_NEXT_LEADER: lambda _: (
        "A producer without idempotence sent records again to the next leader"
    ),
    CauseKind.NEW_SESSION: lambda _: "An idempotent producer sent records again in another session",
    CauseKind.RENUMBERED: lambda _: (
        "An idempotent producer sent records again with other sequence numbers"
    ),
    CauseKind.FORGOTTEN: lambda causes: (
        f"{brokers(_leaders(causes))} did not recognise records that were sent again"
    ),
    CauseKind.NOT_TRUNCATED: lambda _: "A replica kept records of an earlier leader epoch",
    CauseKind.REFILLED: lambda causes: (
        f"{brokers(_leaders(causes))} lost data and filled the same offsets again"
    ),
    CauseKind.TWO_LEADERS: _two_leaders,
    CauseKind.DAMAGED: lambda _: "A fault changed data on the disk of a replica",
    CauseKind.NOT_FETCHED: lambda _: "A replica truncated its log and did not fetch it again",
    CauseKind.UNEXPLAINED: _unexplained,
    CauseKind.UNKNOWN: lambda _: "The recorded evidence does not show the cause",
    MORE: lambda _: "Further causes, which are listed in root-causes.parquet",
}
