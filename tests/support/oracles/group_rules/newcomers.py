"""**NewcomersAreWaitedFor**: a group that never had a generation waits when its first member has
come (``group.initial.rebalance.delay.ms``), and for as long again if more have come by then, but in
all for no longer than a rebalance may take (KIP-134, ``InitialDelayedJoin``).

Ten consumers of an application start within a second. Without that the first of them is given all
partitions, and each of the others calls for a rebalance.
"""

from typing import Final, NamedTuple

from tests.support.oracles.group_rules.step import PREPARING, Step
from tests.support.oracles.group_rules.view import View

INVARIANT: Final = "NewcomersAreWaitedFor"


class _Waits(NamedTuple):
    """The end of the wait, the remaining extension in ms, and whether a newcomer has arrived that
    may extend it."""

    until: float | None
    more: int | None
    newcomers: bool


def check(step: Step) -> None:
    """Raises Violation."""
    before, after = step.before, step.after
    if before.state is not PREPARING:
        called = after.state is PREPARING
        step.require(not (called and after.newcomers), INVARIANT, "called by another member")
        return
    goes_on = _goes_on(step)
    if after.state is PREPARING and after.generation == before.generation:
        due = _waits(before)._replace(newcomers=_have_come(step))
        possible = {due} if goes_on is None else {due, goes_on}
        if step.is_over and before.extendable is None:  # all are static, and silent
            possible.add(due._replace(until=step.now + after.timeout_ms))
        is_so = _waits(after) in possible
        step.require(is_so, INVARIANT, f"{_waits(after)}, of {sorted(possible, key=str)}")
    if step.begins:
        step.require(goes_on is None, INVARIANT, f"it begins, and waits: {goes_on}")


def _goes_on(step: Step) -> _Waits | None:
    """Return the next wait if time is over and a newcomer has arrived; None: the wait ends."""
    more = step.before.extendable
    if not (step.is_over and more and _have_come(step)):
        return None
    delay = min(step.config.initial_rebalance_delay_ms, more)
    return _Waits(step.now + delay, more - delay, newcomers=False)


def _have_come(step: Step) -> bool:
    """In the time that is not over yet, or by this very word."""
    before = step.before
    joins = step.joining is not None and step.joining not in before.members and not step.renamed
    return before.newcomers or (joins and before.generation == 0)


def _waits(view: View) -> _Waits:
    return _Waits(view.ends, view.extendable, view.newcomers)
