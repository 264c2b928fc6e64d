"""Whether the last night is worse than every night before it.

Verdicts and lost records are compared, and nothing else. Times differ from night to night: of ten
equal nights the last has the longest outage in one case of ten. `ackproof compare` tests times.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from ackproof.checkers.verdict import WORST_FIRST
from ackproof.harness.report.trends.night import Night, date_of

LAST_NIGHT = timedelta(hours=12)
"""Results that began within this time up to the newest are the last night: several seeds or systems
are run in one."""


def worse(oldest_first: Sequence[Night]) -> Iterator[str]:
    """Yield in what a result of the last night is worse than all results before that night, one
    sentence each. A result is compared with those of the same campaign and system; if there are
    none, because the system is new, with all of the campaign."""
    last, before = _split(oldest_first)
    for night in last:
        for reason in _reasons(night, _comparable(night, before)):
            yield f"{_name(night)}: {reason}"


def not_compared(oldest_first: Sequence[Night]) -> Iterator[str]:
    """Yield what of the last night was not compared, one sentence each."""
    last, before = _split(oldest_first)
    for night in last:
        known = _comparable(night, before)
        if not known:
            yield f"{_name(night)}: there is no night before to compare it with"
        elif night.total.lost_guaranteed is None and night.total.guaranteed:
            yield f"{_name(night)}: it is unknown what was lost"


def _split(oldest_first: Sequence[Night]) -> tuple[list[Night], list[Night]]:
    """Return the results of the last night, and those before."""
    newest = max((one.began_s or 0.0 for one in oldest_first), default=0.0)
    since = newest - LAST_NIGHT.total_seconds()
    at = len(oldest_first)
    while at and _since(oldest_first[at - 1], since):
        at -= 1
    return list(oldest_first[at:]), list(oldest_first[:at])


def _since(night: Night, time_s: float) -> bool:
    """Return whether a night began after a time; one without a time stands behind its neighbours,
    and goes with them."""
    return night.began_s is None or night.began_s > time_s


def _comparable(night: Night, before: Sequence[Night]) -> list[Night]:
    same = [one for one in before if one.campaign == night.campaign]
    return [one for one in same if one.system == night.system] or same


def _reasons(night: Night, before: Sequence[Night]) -> Iterator[str]:
    if not before:
        return
    worst = min((one.kind for one in before), key=WORST_FIRST.index)
    if WORST_FIRST.index(night.kind) < WORST_FIRST.index(worst):
        yield f"{night.words}; no night before was worse than {worst.value}"
    lost = night.total.lost_guaranteed
    most = max(one.total.lost_guaranteed or 0 for one in before)
    if lost is not None and lost > most:
        nights = f"{len(before)} night{'s' if len(before) > 1 else ''}"
        yield f"{lost:,} guaranteed records lost; at most {most:,} known of the {nights} before"


def _name(night: Night) -> str:
    system = f" on {night.system}" if night.system else ""
    return f"{night.campaign}{system}, {date_of(night.began_s)}"
