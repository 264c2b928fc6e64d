"""What servers say themselves that their clocks show.

A server is sent something that it writes a line about into its log: ZooKeeper a four-letter word,
a broker a request that cannot be. The time in that line is what its own process took for the time
when it was asked; the node's true time just before and just after bounds how far off that is. So a
proof rests on the server's word, asked for from outside, and not on what was done to its clock. It
takes a process that runs. An answer that comes so late that the wrong time and the true one cannot
be told apart shows nothing, either way.
"""

from collections import Counter
from collections.abc import Callable

from ackproof.infra.api.clocks import Told
from ackproof.infra.api.interface import InfraError
from ackproof.nemesis.clock.effects import CLOCK, SetClock, clock_of
from ackproof.nemesis.interface import Injection, Look, Observation, Resource
from ackproof.nemesis.proofs.looking import (
    Seen,
    held,
    intended,
    observe,
    of_process,
    struck,
    unless,
)

TOLD_APART_MS = 100
"""The least that a clock must be off for its server's answer to show it."""
_A_SECOND_MS = 1_000
_CHANGES_SEEN = 2
_OF_THE_GAIN = 0.2
"""How far off the pace may be that was seen: who writes the time down may be late."""


def stepped(injection: Injection) -> Look:
    """The servers' clocks are off by what this fault meant."""
    wanted = {effect.server: effect.offset_ms for effect in intended(injection, SetClock)}

    def seen(server: str) -> Seen:
        told = _told(injection, server)
        if isinstance(told, str):
            return False, told
        return _is_off(told, wanted[server]), _in_words(told)

    return lambda: _of_struck(injection, "clock off", seen)


def at_another_pace(injection: Injection) -> Look:
    """Since the first look, the servers' clocks have gained on the true time, or lost, what this
    fault meant in that time."""
    rates = {effect.server: effect.rate for effect in intended(injection, SetClock)}
    first: dict[str, Told] = {}

    def seen(server: str) -> Seen:
        told = _told(injection, server)
        if isinstance(told, str):
            return False, told
        before = first.setdefault(server, told)
        passed = told.at_ms - before.at_ms
        gained = told.offset_ms - before.offset_ms
        expected = (rates[server] - 1) * passed
        error = told.bound_ms + before.bound_ms + abs(expected) * _OF_THE_GAIN
        seen_so = f"{gained:+.0f} ms in {passed:.0f} ms"
        return abs(expected) > 2 * error and abs(gained - expected) <= error, seen_so

    return lambda: _of_struck(injection, "clock gained", seen)


def strobing(injection: Injection) -> Look:
    """The servers' clocks were seen off by what this fault meant, then right, then off again."""
    wanted = {effect.server: effect.offset_ms for effect in intended(injection, SetClock)}
    last: dict[str, bool] = {}
    changes: Counter[str] = Counter()

    def seen(server: str) -> Seen:
        told = _told(injection, server)
        if isinstance(told, str):
            return False, told
        off = _is_off(told, wanted[server])
        if off or _is_right(told, wanted[server]):
            # The first that counts is off: right at first is what it was before.
            changes[server] += last.get(server, off) is not off
            if off or server in last:
                last[server] = off
        return changes[server] >= _CHANGES_SEEN, changes[server]

    return lambda: _of_struck(injection, "changes of the clock seen", seen)


def right(injection: Injection) -> Look:
    """The servers' clocks show the true time."""
    least = {effect.server: _least_ms(effect) for effect in intended(injection, SetClock)}

    def seen(server: str) -> Seen:
        told = _told(injection, server)
        if isinstance(told, str):
            return False, told
        return _is_right(told, least[server]), _in_words(told)

    return lambda: observe(
        "clock right", list(least), seen, lambda server: _of_clock(injection, server)
    )


def _is_off(told: Told, wanted_ms: float) -> bool:
    exact = 2 * told.bound_ms < abs(wanted_ms)
    return exact and abs(told.offset_ms - wanted_ms) <= told.bound_ms


def _is_right(told: Told, wrong_ms: float) -> bool:
    """And would not look right if it were off by ``wrong_ms``."""
    exact = 2 * told.bound_ms < abs(wrong_ms)
    return exact and abs(told.offset_ms) <= told.bound_ms


def _least_ms(effect: SetClock) -> float:
    """What a clock that is not right is off by at least; a fast or slow one soon is."""
    if effect.rate == 1.0:
        return effect.offset_ms
    return max(TOLD_APART_MS, abs(effect.rate - 1) * _A_SECOND_MS)


def _told(injection: Injection, server: str) -> Told | str:
    """Its answer, or why there is none."""
    try:
        return clock_of(injection.cluster, server).told()
    except InfraError as silence:
        return str(silence)


def _in_words(told: Told) -> str:
    return f"{told.offset_ms:+.1f} ms, give or take {told.bound_ms:.1f}"


def _of_struck(injection: Injection, claim: str, seen: Callable[[str], Seen]) -> Observation:
    done, planned = struck(injection, SetClock)

    def why_not(server: str) -> str | None:
        return unless(done, "was left alone")(server) or _of_clock(injection, server)

    return observe(claim, planned, seen, why_not)


def _of_clock(injection: Injection, server: str) -> str | None:
    """What others do to its clock, or to the process that would have to answer."""
    return held(injection, Resource(CLOCK, (server,))) or of_process(injection, server)
