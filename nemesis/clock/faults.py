"""Faults on the clocks of servers: stepped, fast or slow, strobing.

It is the time of day that is wrong (CLOCK_REALTIME), as on a machine whose clock was set, or that
keeps time badly: for brokers and ZooKeeper servers alike. Time since boot, by which they measure
sessions and waits, stays true. Jepsen's clock nemesis calls these bump, scramble and strobe.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field, model_validator

from ackproof.infra.api.interface import Capability, Timings
from ackproof.nemesis.clock import observations as clocks_seen
from ackproof.nemesis.clock.effects import SetClock
from ackproof.nemesis.clock.observations import TOLD_APART_MS
from ackproof.nemesis.interface import (
    Aim,
    Effect,
    Injection,
    Look,
    Members,
    Parameters,
    Plan,
    Target,
)
from ackproof.nemesis.proofs import observations as seen
from ackproof.nemesis.proofs.looking import sessions_at_stake
from ackproof.nemesis.proofs.proving import expiry_ms
from ackproof.nemesis.rhythm import Rhythm

_FARTHEST_MS = 12 * 3_600_000
_LEAST_PACE = 0.1


class Stepped(Parameters):
    """Of a clock that is set. Half a day at most: beyond a day, brokers rightly forget idempotent
    producers (``producer.id.expiration.ms``), and beyond a week they delete what they have kept
    long enough (``log.retention.hours``)."""

    offset_ms: int = Field(
        default=60_000,
        ge=-_FARTHEST_MS,
        le=_FARTHEST_MS,
        description="how far ahead of the true time it is set, milliseconds; negative: behind it",
    )
    scramble: bool = Field(
        default=False,
        description="set the clock of each server differently: ahead or behind, by at least half "
        "of offset_ms and no more than it, as the seed draws",
    )

    @model_validator(mode="after")
    def _check(self) -> "Stepped":
        _check_apart(self.offset_ms, 2 if self.scramble else 1)
        return self


class Paced(Parameters):
    """Of a clock that is fast or slow."""

    rate: float = Field(
        default=2.0,
        ge=0.1,
        le=10,
        description="how many times as fast it goes as the true time; below 1 it is slow",
    )

    @model_validator(mode="after")
    def _check(self) -> "Paced":
        if abs(self.rate - 1) < _LEAST_PACE:
            raise ValueError(f"a rate within {_LEAST_PACE:g} of 1 cannot be told from the true one")
        return self


class Strobing(Parameters):
    """Of a clock that jumps to and fro."""

    delta_ms: int = Field(
        default=500,
        ge=-_FARTHEST_MS,
        le=_FARTHEST_MS,
        description="how far it jumps, milliseconds, and back again; negative: back first",
    )
    period_ms: int = Field(
        default=200, ge=50, le=10_000, description="for how long it is wrong, and then right"
    )

    @model_validator(mode="after")
    def _check(self) -> "Strobing":
        _check_apart(self.delta_ms)
        return self


def _check_apart(offset_ms: int, times: int = 1) -> None:
    if abs(offset_ms) < times * TOLD_APART_MS:
        raise ValueError(f"less than {times * TOLD_APART_MS} ms cannot be told from the true time")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockFault:
    """Every target's clock shows another time.

    Proven by what the servers say themselves (``nemesis.clock.observations``). Healed when they say
    the true time, the processes run and the brokers are registered. No session need end of it, and
    no server may: those that did are told, or ended by themselves.

    Attributes:
        effect: On the clock of a server.
        bite: What it does itself, seen.
        rhythm: In which the effects come and go.
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
            clocks_seen.right(injection),
            seen.running(injection, injection.target.servers),
            seen.registered(injection, brokers),
            seen.sessions_lost(injection, brokers),
        ]

    def hold_ms_min(self, timings: Timings) -> int:
        """Whoever measures a session by the time of day loses it within that."""
        return expiry_ms(timings)


def _step(server: str, parameters: Parameters, rng: random.Random) -> Effect:
    assert isinstance(parameters, Stepped)
    offset_ms = parameters.offset_ms
    if parameters.scramble:
        most = abs(offset_ms)
        offset_ms = rng.choice((-1, 1)) * rng.randint(-(-most // 2), most)
    return SetClock(server, offset_ms)


def _pace(server: str, parameters: Parameters, rng: random.Random) -> Effect:  # noqa: ARG001
    assert isinstance(parameters, Paced)
    return SetClock(server, rate=parameters.rate)


def _jump(server: str, parameters: Parameters, rng: random.Random) -> Effect:  # noqa: ARG001
    assert isinstance(parameters, Strobing)
    return SetClock(server, parameters.delta_ms)


def _to_and_fro(parameters: Parameters) -> Rhythm:
    assert isinstance(parameters, Strobing)
    always = (parameters.period_ms, parameters.period_ms)
    return Rhythm(seed=0, on_ms=always, off_ms=always)  # of such beats there is nothing to draw


STEP_CLOCK = ClockFault(
    name="step-clock",
    summary="set the clocks of the target's servers ahead or back; right again at the end",
    parameters=Stepped,
    effect=_step,
    bite=clocks_seen.stepped,
)
FAST_CLOCK = ClockFault(
    name="fast-clock",
    summary="the clocks of the target's servers go too fast, or too slowly; right at the end",
    parameters=Paced,
    effect=_pace,
    bite=clocks_seen.at_another_pace,
)
STROBE_CLOCK = ClockFault(
    name="strobe-clock",
    summary="the clocks of the target's servers jump to and fro; right at the end",
    parameters=Strobing,
    effect=_jump,
    bite=clocks_seen.strobing,
    rhythm=_to_and_fro,
)
CLOCKS: Sequence[ClockFault] = (STEP_CLOCK, FAST_CLOCK, STROBE_CLOCK)
