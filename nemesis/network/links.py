"""Faults on links that are not cut for good: flapping, lossy, reset, narrow, slow.

All but ``reset`` of new connections leave the cluster able to talk, now and then or badly. They
need not have any consequence, so what they do themselves is what is proven.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import ClassVar

from pydantic import Field, model_validator

from ackproof.infra.agent.impairments import CUT, Impairment
from ackproof.infra.api.interface import Capability, Timings
from ackproof.nemesis import proofs
from ackproof.nemesis.interface import (
    Aim,
    Injection,
    Link,
    Look,
    Members,
    Parameters,
    Plan,
    Rhythm,
    Target,
)
from ackproof.nemesis.network import observations as seen_of_links
from ackproof.nemesis.network.cuts import (
    ServiceParameters,
    at_stake,
    expired_and_shrunk_ms,
    service_of,
)
from ackproof.nemesis.network.effects import OnLink, ResetLink
from ackproof.nemesis.network.observations import links_of
from ackproof.nemesis.network.services import Service, carrying

_BEATS_SEEN = 2
_FLAPPING_HOLDS = 3


class Flapping(ServiceParameters):
    """The parameters of links that come and go.

    Each length is drawn between the shortest and the longest.
    """

    on_ms_min: int = Field(default=1_000, ge=500, description="shortest time cut, milliseconds")
    on_ms_max: int = Field(default=2_000, ge=500, description="longest such time")
    off_ms_min: int = Field(default=1_000, ge=500, description="shortest time open")
    off_ms_max: int = Field(default=2_000, ge=500, description="longest such time")

    @model_validator(mode="after")
    def _check(self) -> "Flapping":
        if self.on_ms_min > self.on_ms_max or self.off_ms_min > self.off_ms_max:
            raise ValueError("the shortest time is longer than the longest")
        return self


class PacketLossParameters(ServiceParameters):
    """The parameters of links that lose packets."""

    percent: int = Field(
        default=30,
        ge=1,
        le=80,
        description="share of lost packets, drawn by the kernel and not by the seed",
    )


class ConnectionResetParameters(ServiceParameters):
    """The parameters of links whose connections are reset."""

    refuse: bool = Field(
        default=True,
        description="refuse new connections until the end; otherwise only reset open ones",
    )


class NarrowLinkParameters(Parameters):
    """The parameters of narrow links."""

    kbit_per_s: int = Field(
        default=1_000, ge=100, le=10_000, description="bandwidth in kilobits a second"
    )


class SlowLinkParameters(Parameters):
    """The parameters of slow links."""

    delay_ms: int = Field(
        default=200,
        ge=20,
        le=2_000,
        description="least delay of a packet, milliseconds. Without netem in the kernel a queue "
        "limits the link to 8 Mbit/s, less for long delays",
    )


@dataclass(frozen=True, slots=True)
class LinkFault:
    """A fault that has one effect on every link of the target.

    Attributes:
        effect: Makes the effect on one link.
        bite: Makes the looks that show the effect.
        mended: Makes the look that shows that the effect is gone.
        rhythm: Makes the rhythm in which the effect comes and goes, from parameters and a seed. It
            is None where the effect stays.
    """

    name: str
    summary: str
    parameters: type[Parameters]
    needs: frozenset[Capability]
    effect: Callable[[Link, Service | None, Parameters], OnLink]
    bite: Callable[[Injection], Sequence[Look]]
    mended: Callable[[Injection], Look]
    full_effect_ms: Callable[[Timings], int] = expired_and_shrunk_ms
    rhythm: Callable[[Parameters, random.Random], Rhythm] | None = None

    aim: ClassVar[Aim] = Aim.LINKS
    destroys: ClassVar[None] = None

    def plan(
        self, members: Members, target: Target, parameters: Parameters, rng: random.Random
    ) -> Plan:
        service = service_of(parameters)
        links = carrying(frozenset(target.links), members, service)
        return Plan(
            effects=tuple(self.effect(link, service, parameters) for link in sorted(links)),
            rhythm=None if self.rhythm is None else self.rhythm(parameters, rng),
        )

    def bitten(self, injection: Injection) -> Sequence[Look]:
        return self.bite(injection)

    def healed(self, injection: Injection) -> Sequence[Look]:
        links = links_of(injection)
        return [
            self.mended(injection),
            proofs.registered(injection, at_stake(links, injection.cluster.members)),
        ]

    def hold_ms_min(self, timings: Timings) -> int:
        return self.full_effect_ms(timings)


def _flap(parameters: Parameters, rng: random.Random) -> Rhythm:
    assert isinstance(parameters, Flapping)
    return Rhythm(
        seed=rng.getrandbits(53),
        on_ms=(parameters.on_ms_min, parameters.on_ms_max),
        off_ms=(parameters.off_ms_min, parameters.off_ms_max),
    )


def _flapping(injection: Injection) -> Sequence[Look]:
    rhythm = injection.plan.rhythm
    assert rhythm is not None
    within = min(*rhythm.on_ms, *rhythm.off_ms) / 2000
    return [
        seen_of_links.spells(injection, beats_within(rhythm, injection.hold_ms), within),
        seen_of_links.packets_hit(injection, "packets dropped"),
    ]


def beats_within(rhythm: Rhythm, hold_ms: int) -> int:
    """Return how many beats must be seen.

    These are the beats that end within the hold: at least one, and no more than are needed to prove
    a rhythm.
    """
    lengths = [on_ms + off_ms for on_ms, off_ms in islice(rhythm.beats(), _BEATS_SEEN)]
    return max(1, sum(end_ms <= hold_ms for end_ms in accumulate(lengths)))


def _reset(injection: Injection) -> Sequence[Look]:
    links, service = links_of(injection), seen_of_links.service_treated(injection)
    only_open = any(
        effect.impairment.kind == "reset-open" for effect in proofs.intended(injection, OnLink)
    )
    return [
        seen_of_links.resets(injection),
        seen_of_links.packets_hit(injection, "packets reset"),
        seen_of_links.opened(injection, links, "new connections", service)
        if only_open
        else seen_of_links.closed(injection, links, service),
    ]


def _lose(link: Link, service: Service | None, parameters: Parameters) -> OnLink:
    assert isinstance(parameters, PacketLossParameters)
    return OnLink(link, Impairment("loss", parameters.percent), service)


def _reset_link(link: Link, service: Service | None, parameters: Parameters) -> OnLink:
    assert isinstance(parameters, ConnectionResetParameters)
    return ResetLink(link, Impairment("reset" if parameters.refuse else "reset-open"), service)


def _narrow_link(link: Link, _service: Service | None, parameters: Parameters) -> OnLink:
    assert isinstance(parameters, NarrowLinkParameters)
    return OnLink(link, Impairment("narrow", parameters.kbit_per_s))


def _slow_link(link: Link, _service: Service | None, parameters: Parameters) -> OnLink:
    assert isinstance(parameters, SlowLinkParameters)
    return OnLink(link, Impairment("slow", parameters.delay_ms))


FLAP = LinkFault(
    name="flap",
    summary="cut and heal links repeatedly; the seed draws the rhythm",
    parameters=Flapping,
    needs=frozenset({Capability.CUT_LINKS}),
    effect=lambda link, service, _parameters: OnLink(link, CUT, service),
    bite=_flapping,
    mended=seen_of_links.open_again,
    full_effect_ms=lambda timings: _FLAPPING_HOLDS * expired_and_shrunk_ms(timings),
    rhythm=_flap,
)
LOSSY = LinkFault(
    name="lossy",
    summary="lose a share of the packets of links",
    parameters=PacketLossParameters,
    needs=frozenset({Capability.LOSSY_LINKS}),
    effect=_lose,
    bite=lambda injection: [seen_of_links.losses(injection)],
    mended=seen_of_links.lossless,
)
RESET = LinkFault(
    name="reset",
    summary="reset connections over links by TCP RST; refuse new ones",
    parameters=ConnectionResetParameters,
    needs=frozenset({Capability.RESET_LINKS}),
    effect=_reset_link,
    bite=_reset,
    mended=seen_of_links.open_again,
)
NARROW = LinkFault(
    name="narrow",
    summary="limit the bandwidth of links",
    parameters=NarrowLinkParameters,
    needs=frozenset({Capability.NARROW_LINKS}),
    effect=_narrow_link,
    bite=lambda injection: [seen_of_links.rates(injection)],
    mended=seen_of_links.wide,
)
SLOW = LinkFault(
    name="slow",
    summary="delay the packets of links",
    parameters=SlowLinkParameters,
    needs=frozenset({Capability.SLOW_LINKS}),
    effect=_slow_link,
    bite=lambda injection: [seen_of_links.delays(injection)],
    mended=seen_of_links.quick,
)
