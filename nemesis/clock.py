"""Faults on the clocks of servers: stepped, fast or slow, strobing."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field, model_validator

from ackproof.infra.api.capabilities import Clock, ReportedTime
from ackproof.infra.api.interface import Capability, InfraError, Timings
from ackproof.nemesis import proofs
from ackproof.nemesis.effects import EndsNothing, OnServer
from ackproof.nemesis.interface import (
    Aim,
    Cluster,
    Effect,
    Injection,
    Look,
    Members,
    Observation,
    Parameters,
    Plan,
    Resource,
    Rhythm,
    Target,
)
from ackproof.nemesis.proofs import (
    Seen,
    expiry_ms,
    held,
    intended,
    observe,
    of_process,
    sessions_at_stake,
    struck,
    unless,
)

# --- effects --------------------------------------------------------------------------------------

CLOCK = "clock"


@dataclass(frozen=True, slots=True)
class SetClock(EndsNothing, OnServer):
    """A server's clock, from now on off by ``offset_ms``, and ``rate`` times as fast. Undone by the
    true time, whatever happened to the server: it is its node's clock."""

    kind: ClassVar[str] = CLOCK

    offset_ms: int = 0
    rate: float = 1.0

    def apply(self, cluster: Cluster) -> bool:
        clock_of(cluster, self.server).run(self.offset_ms, self.rate)
        return True

    def undo(self, cluster: Cluster) -> None:
        clock_of(cluster, self.server).run(0)

    def __str__(self) -> str:
        pace = "" if self.rate == 1.0 else f", {self.rate:g} times as fast"
        return f"set the clock of {self.server} {self.offset_ms:+} ms off{pace}"


def clock_of(cluster: Cluster, server: str) -> Clock:
    """Return a server's clock. Raise InfraError if the server uses the true time."""
    clock = cluster.server(server).clock
    if clock is None:
        raise InfraError(f"{server} was not started with a clock that can be set")
    return clock


# --- observations ---------------------------------------------------------------------------------
#
# A server is sent a request about which it writes a line into its log: ZooKeeper a four-letter
# word, a broker a malformed request. The time in that line is the time of its own process. The
# node's true time just before and just after limits the error. A proof thus rests on the server's
# answer, requested from outside, and not on the change of its clock. It needs a running process. An
# answer that comes so late that the wrong time and the true one cannot be distinguished shows
# nothing.

TOLD_APART_MS = 100
"""The smallest clock error that a server's answer can show."""
_A_SECOND_MS = 1_000
_CHANGES_SEEN = 2
_OF_THE_GAIN = 0.2
"""The tolerance for the observed pace, because the server may write the time late."""


def stepped(injection: Injection) -> Look:
    """Return a look for clocks that are off by what this fault intended."""
    wanted = {effect.server: effect.offset_ms for effect in intended(injection, SetClock)}

    def seen(server: str) -> Seen:
        time = _reported_time(injection, server)
        if isinstance(time, str):
            return False, time
        return _is_off(time, wanted[server]), _in_words(time)

    return lambda: _of_struck(injection, "clock off", seen)


def at_another_pace(injection: Injection) -> Look:
    """Return a look for clocks that, since the first look, have gained on the true time, or lost,
    what this fault intended for that time."""
    rates = {effect.server: effect.rate for effect in intended(injection, SetClock)}
    first: dict[str, ReportedTime] = {}

    def seen(server: str) -> Seen:
        time = _reported_time(injection, server)
        if isinstance(time, str):
            return False, time
        before = first.setdefault(server, time)
        passed = time.at_ms - before.at_ms
        gained = time.offset_ms - before.offset_ms
        expected = (rates[server] - 1) * passed
        error = time.bound_ms + before.bound_ms + abs(expected) * _OF_THE_GAIN
        seen_so = f"{gained:+.0f} ms in {passed:.0f} ms"
        return abs(expected) > 2 * error and abs(gained - expected) <= error, seen_so

    return lambda: _of_struck(injection, "clock gained", seen)


def strobing(injection: Injection) -> Look:
    """Return a look for clocks that were off by what this fault intended, then right, then off
    again."""
    wanted = {effect.server: effect.offset_ms for effect in intended(injection, SetClock)}
    last: dict[str, bool] = {}
    changes: Counter[str] = Counter()

    def seen(server: str) -> Seen:
        time = _reported_time(injection, server)
        if isinstance(time, str):
            return False, time
        off = _is_off(time, wanted[server])
        if off or _is_right(time, wanted[server]):
            # The first counted observation is off: a right clock at first is the state before.
            changes[server] += last.get(server, off) is not off
            if off or server in last:
                last[server] = off
        return changes[server] >= _CHANGES_SEEN, changes[server]

    return lambda: _of_struck(injection, "changes of the clock seen", seen)


def right(injection: Injection) -> Look:
    """Return a look for clocks that show the true time."""
    least = {effect.server: _least_ms(effect) for effect in intended(injection, SetClock)}

    def seen(server: str) -> Seen:
        time = _reported_time(injection, server)
        if isinstance(time, str):
            return False, time
        return _is_right(time, least[server]), _in_words(time)

    return lambda: observe(
        "clock right", list(least), seen, lambda server: _of_clock(injection, server)
    )


def _is_off(time: ReportedTime, wanted_ms: float) -> bool:
    exact = 2 * time.bound_ms < abs(wanted_ms)
    return exact and abs(time.offset_ms - wanted_ms) <= time.bound_ms


def _is_right(time: ReportedTime, wrong_ms: float) -> bool:
    """Return whether the clock is right, and would not look right if it were off by
    ``wrong_ms``."""
    exact = 2 * time.bound_ms < abs(wrong_ms)
    return exact and abs(time.offset_ms) <= time.bound_ms


def _least_ms(effect: SetClock) -> float:
    """Return the smallest error of a clock that is not right; a fast or slow one soon has it."""
    if effect.rate == 1.0:
        return effect.offset_ms
    return max(TOLD_APART_MS, abs(effect.rate - 1) * _A_SECOND_MS)


def _reported_time(injection: Injection, server: str) -> ReportedTime | str:
    """Return the server's answer, or the reason why there is none."""
    try:
        return clock_of(injection.cluster, server).reported_time()
    except InfraError as silence:
        return str(silence)


def _in_words(time: ReportedTime) -> str:
    return f"{time.offset_ms:+.1f} ms, give or take {time.bound_ms:.1f}"


def _of_struck(injection: Injection, claim: str, seen: Callable[[str], Seen]) -> Observation:
    done, planned = struck(injection, SetClock)

    def why_not(server: str) -> str | None:
        return unless(done, "was left alone")(server) or _of_clock(injection, server)

    return observe(claim, planned, seen, why_not)


def _of_clock(injection: Injection, server: str) -> str | None:
    """Return the other faults on its clock, or on the process that must answer."""
    return held(injection, Resource(CLOCK, (server,))) or of_process(injection, server)


# --- faults ---------------------------------------------------------------------------------------
#
# The wrong clock is the time of day (CLOCK_REALTIME), as on a machine whose clock was set, or is
# inaccurate: for brokers and ZooKeeper servers alike. Time since boot, by which they measure
# sessions and waits, stays true. Jepsen's clock nemesis calls these bump, scramble and strobe.

_FARTHEST_MS = 12 * 3_600_000
_LEAST_PACE = 0.1


class ClockStepParameters(Parameters):
    """The parameters of a clock that is set. Half a day at most: beyond a day, brokers rightly
    forget idempotent producers (``producer.id.expiration.ms``), and beyond a week they delete what
    they have kept long enough (``log.retention.hours``)."""

    offset_ms: int = Field(
        default=60_000,
        ge=-_FARTHEST_MS,
        le=_FARTHEST_MS,
        description="milliseconds ahead of the true time; negative: behind",
    )
    scramble: bool = Field(
        default=False,
        description="set each clock differently, ahead or behind by half to all of offset_ms, "
        "drawn by the seed",
    )

    @model_validator(mode="after")
    def _check(self) -> "ClockStepParameters":
        _check_apart(self.offset_ms, 2 if self.scramble else 1)
        return self


class Paced(Parameters):
    """The parameters of a clock that is fast or slow."""

    rate: float = Field(
        default=2.0,
        ge=0.1,
        le=10,
        description="speed relative to the true time",
    )

    @model_validator(mode="after")
    def _check(self) -> "Paced":
        if abs(self.rate - 1) < _LEAST_PACE:
            raise ValueError(
                f"a rate within {_LEAST_PACE:g} of 1 cannot be distinguished from the true one"
            )
        return self


class ClockStrobeParameters(Parameters):
    """The parameters of a clock that jumps to and fro."""

    delta_ms: int = Field(
        default=500,
        ge=-_FARTHEST_MS,
        le=_FARTHEST_MS,
        description="milliseconds of each jump; negative: back first",
    )
    period_ms: int = Field(
        default=200, ge=50, le=10_000, description="milliseconds wrong, and then right"
    )

    @model_validator(mode="after")
    def _check(self) -> "ClockStrobeParameters":
        _check_apart(self.delta_ms)
        return self


def _check_apart(offset_ms: int, times: int = 1) -> None:
    if abs(offset_ms) < times * TOLD_APART_MS:
        raise ValueError(
            f"less than {times * TOLD_APART_MS} ms cannot be distinguished from the true time"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockFault:
    """A wrong clock of every target.

    Proven by the servers' own answers (``nemesis.clock``). Healed when they answer with the true
    time, the processes run and the brokers are registered. No session has to end of it, and no
    server may end: ended sessions are reported, and an ended server has ended by itself.

    Attributes:
        effect: The effect on the clock of a server.
        bite: The look for its own effect.
        rhythm: The rhythm in which the effects come and go.
    """

    name: str
    summary: str
    parameters: type[Parameters]
    effect: Callable[[str, Parameters, random.Random], Effect]
    bite: Callable[[Injection], Look]
    rhythm: Callable[[Parameters], Rhythm | None] = lambda _: None

    aim: ClassVar[Aim] = Aim.SERVERS
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.FAKE_CLOCKS})
    destroys: ClassVar[None] = None

    def plan(
        self,
        members: Members,  # noqa: ARG002
        target: Target,
        parameters: Parameters,
        rng: random.Random,
    ) -> Plan:
        effects = tuple(self.effect(server, parameters, rng) for server in target.servers)
        return Plan(effects=effects, rhythm=self.rhythm(parameters))

    def bitten(self, injection: Injection) -> Sequence[Look]:
        return [self.bite(injection)]

    def healed(self, injection: Injection) -> Sequence[Look]:
        brokers = sessions_at_stake(injection)
        return [
            right(injection),
            proofs.running(injection, injection.target.servers),
            proofs.registered(injection, brokers),
            proofs.sessions_lost(injection, brokers),
        ]

    def hold_ms_min(self, timings: Timings) -> int:
        """Return the time in which a server that measures a session by the time of day loses it."""
        return expiry_ms(timings)


def _step(server: str, parameters: Parameters, rng: random.Random) -> Effect:
    assert isinstance(parameters, ClockStepParameters)
    offset_ms = parameters.offset_ms
    if parameters.scramble:
        most = abs(offset_ms)
        offset_ms = rng.choice((-1, 1)) * rng.randint(-(-most // 2), most)
    return SetClock(server, offset_ms)


def _pace(server: str, parameters: Parameters, rng: random.Random) -> Effect:  # noqa: ARG001
    assert isinstance(parameters, Paced)
    return SetClock(server, rate=parameters.rate)


def _jump(server: str, parameters: Parameters, rng: random.Random) -> Effect:  # noqa: ARG001
    assert isinstance(parameters, ClockStrobeParameters)
    return SetClock(server, parameters.delta_ms)


def _to_and_fro(parameters: Parameters) -> Rhythm:
    assert isinstance(parameters, ClockStrobeParameters)
    always = (parameters.period_ms, parameters.period_ms)
    return Rhythm(seed=0, on_ms=always, off_ms=always)  # there is nothing to draw of such beats


STEP_CLOCK = ClockFault(
    name="step-clock",
    summary="set the servers' clocks ahead or back; they are right again at the end",
    parameters=ClockStepParameters,
    effect=_step,
    bite=stepped,
)
FAST_CLOCK = ClockFault(
    name="fast-clock",
    summary="run servers' clocks too fast or too slowly; they are right again at the end",
    parameters=Paced,
    effect=_pace,
    bite=at_another_pace,
)
STROBE_CLOCK = ClockFault(
    name="strobe-clock",
    summary="make the servers' clocks jump to and fro; they are right again at the end",
    parameters=ClockStrobeParameters,
    effect=_jump,
    bite=strobing,
    rhythm=_to_and_fro,
)
CLOCKS: Sequence[ClockFault] = (STEP_CLOCK, FAST_CLOCK, STROBE_CLOCK)
