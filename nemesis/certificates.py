"""Faults on the certificates of brokers: exchanged for new ones, or for some that clients must
refuse.

A broker loads its certificate while it runs (KIP-226). New connections get the new one, and open
connections go on with the old one.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field

from ackproof.infra.api.capabilities import BrokerCertificates, CertificateProblem, HandshakeResult
from ackproof.infra.api.interface import Capability, InfraError, ProcessState, Timings
from ackproof.nemesis import proofs
from ackproof.nemesis.effects import EffectNotBegun, EndsNothing, OnServer, Passing
from ackproof.nemesis.interface import (
    Aim,
    Cluster,
    Injection,
    Look,
    Members,
    Parameters,
    Plan,
    Resource,
    Target,
    brokers_alone,
)
from ackproof.nemesis.proofs import Seen, expiry_ms, held, observe, of_process, struck

# --- effects --------------------------------------------------------------------------------------

CERTIFICATE = "certificate"


def certificates_of(cluster: Cluster) -> BrokerCertificates:
    """Return the certificates of the cluster's brokers. Raise EffectNotBegun without any."""
    if (found := cluster.system.certificates) is None:
        raise EffectNotBegun("the cluster has no TLS")
    return found


@dataclass(frozen=True, slots=True)
class OnCertificate(EndsNothing, OnServer):
    """An effect on the certificates of one broker, by which nothing ends."""

    kind: ClassVar[str] = CERTIFICATE

    def apply(self, cluster: Cluster) -> bool:
        """Exchange the certificates. Raise EffectNotBegun while the broker does not run, and
        InfraError if it does not load them."""
        state = cluster.server(self.server).process.state()
        if state is not ProcessState.RUNNING:
            raise EffectNotBegun(f"{self.server} is {state.value} by another fault")
        self.exchange(certificates_of(cluster))
        return True

    def exchange(self, certificates: BrokerCertificates) -> None:
        """Exchange the certificates."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class CertificateRenewal(OnCertificate, Passing):
    """New certificates of the same authority. Nothing is undone."""

    def exchange(self, certificates: BrokerCertificates) -> None:
        certificates.renew(self.server)

    def undo(self, cluster: Cluster) -> None: ...

    def __str__(self) -> str:
        return f"renew the certificates of {self.server}"


@dataclass(frozen=True, slots=True)
class SpoiledCertificate(OnCertificate):
    """A certificate that clients must refuse, undone by new good ones."""

    problem: CertificateProblem

    def exchange(self, certificates: BrokerCertificates) -> None:
        certificates.spoil(self.server, self.problem)

    def undo(self, cluster: Cluster) -> None:
        try:
            certificates_of(cluster).renew(self.server)
        except InfraError:
            # A broker that does not run reads the new files when it starts.
            if cluster.server(self.server).process.state() is ProcessState.RUNNING:
                raise

    def __str__(self) -> str:
        return f"give {self.server} a certificate that is {_WORDS[self.problem]}"


_WORDS = {
    CertificateProblem.EXPIRED: "expired",
    CertificateProblem.FOREIGN: "of another authority",
}


# --- observations ---------------------------------------------------------------------------------


def _shown(injection: Injection, claim: str, seen: Callable[[HandshakeResult], Seen]) -> Look:
    """Return a look at new handshakes with the brokers that this fault has given a certificate.

    A broker must show the certificates that it was last given, and ``seen`` judges the handshake.
    """
    certificates = certificates_of(injection.cluster)
    done, planned = struck(injection, OnCertificate)

    def judged(broker: str) -> Seen:
        try:
            found = certificates.shown(broker)
        except InfraError as silence:
            return False, str(silence)
        installed = certificates.installed(broker)
        if old := [one for one, serial in installed.items() if found.serials.get(one) != serial]:
            return False, f"another certificate than the installed one at {', '.join(old)}"
        return seen(found)

    return lambda: observe(
        claim,
        [name for name in planned if name in done],
        judged,
        lambda broker: (
            of_process(injection, broker) or held(injection, Resource(CERTIFICATE, (broker,)))
        ),
        owed=True,
    )


def _accepted(found: HandshakeResult) -> Seen:
    serials = ", ".join(f"{name} {serial:x}" for name, serial in sorted(found.serials.items()))
    return found.refusal is None, found.refusal or f"serial numbers {serials}"


def _refused(found: HandshakeResult) -> Seen:
    return found.refusal is not None, found.refusal or "a client accepts it"


# --- faults ---------------------------------------------------------------------------------------


class Spoiled(Parameters):
    """The parameters of bad certificates."""

    problem: Literal["expired", "foreign"] = Field(
        default="expired",
        description="`expired`, or `foreign`: issued by an authority that clients do not trust",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFault:
    """A fault that exchanges brokers' certificates.

    It is proven by new handshakes with each broker: by the serial numbers that it shows, and by
    whether a client of the run accepts its certificate.

    Attributes:
        spoils: Whether clients must refuse the certificates. Otherwise they are good ones.
    """

    name: str
    summary: str
    spoils: bool
    parameters: type[Parameters]
    aim: ClassVar[Aim] = Aim.BROKERS
    needs: ClassVar[frozenset[Capability]] = frozenset()
    destroys: ClassVar[None] = None

    def plan(
        self,
        members: Members,
        target: Target,
        parameters: Parameters,
        rng: random.Random,  # noqa: ARG002
    ) -> Plan:
        brokers_alone(self.name, members, target.servers)
        if isinstance(parameters, Spoiled):
            problem = CertificateProblem(parameters.problem)
            return Plan(effects=tuple(SpoiledCertificate(one, problem) for one in target.servers))
        return Plan(effects=tuple(map(CertificateRenewal, target.servers)))

    def bitten(self, injection: Injection) -> Sequence[Look]:
        if self.spoils:
            look = _shown(injection, "handshake refused", _refused)
        else:
            look = _shown(injection, "new certificate shown", _accepted)
        return [look, proofs.running(injection, injection.target.servers)]

    def healed(self, injection: Injection) -> Sequence[Look]:
        return [
            _shown(injection, "certificate accepted", _accepted),
            proofs.running(injection, injection.target.servers),
        ]

    def hold_ms_min(self, timings: Timings) -> int:
        return expiry_ms(timings) if self.spoils else 0


ROTATE_CERTIFICATES = CertificateFault(
    name="rotate-certificates",
    summary="give brokers new certificates; the authority is the same, they are loaded without a "
    "restart, and the former ones do not come back",
    spoils=False,
    parameters=Parameters,
)
BAD_CERTIFICATE = CertificateFault(
    name="bad-certificate",
    summary="let brokers show a certificate that clients refuse; open connections go on, and new "
    "ones fail until the end",
    spoils=True,
    parameters=Spoiled,
)
CERTIFICATES: Sequence[CertificateFault] = (ROTATE_CERTIFICATES, BAD_CERTIFICATE)
