"""A fault of one's own: brokers end with a signal of a program that has failed, SIGABRT or SIGSEGV.

So ends a broker whose JVM has met a fatal error, and one whose own code calls ``abort``. Unlike
SIGKILL, these signals can leave a core dump behind, which takes time and disk.
"""

import random
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from ackproof.infra.api.interface import Capability, Timings
from ackproof.nemesis import proofs
from ackproof.nemesis.effects import OnProcess
from ackproof.nemesis.interface import (
    Aim,
    Cluster,
    Injection,
    Look,
    Members,
    Observation,
    Parameters,
    Plan,
    Target,
)
from ackproof.nemesis.proofs import Seen, expiry_ms, observe, struck, unless

_SIGNALS = {"abort": signal.SIGABRT, "segmentation-fault": signal.SIGSEGV}
_ENDED_WITHIN_S = 10.0


class Aborted(Parameters):
    """The fault's own settings in a campaign. Each has a default and a description."""

    signal: Literal["abort", "segmentation-fault"] = Field(
        default="abort", description="how the process ends: SIGABRT, or SIGSEGV"
    )


@dataclass(frozen=True, slots=True)
class Abort(OnProcess):
    """The effect on one broker's process. Its base class starts the broker again at the end."""

    number: int

    def apply(self, cluster: Cluster) -> bool:
        """Send the signal and wait for the end. False: there was no process to end."""
        process = cluster.server(self.server).process
        try:
            process.signal(self.number)
        except ProcessLookupError:
            return False
        with suppress(TimeoutError):
            process.wait(_ENDED_WITHIN_S)
        return True

    def __str__(self) -> str:
        return f"abort {self.server}"


class AbortFault:
    """Implements ``ackproof.nemesis.interface.Fault``."""

    name = "abort"
    summary = "end brokers with SIGABRT or SIGSEGV, start them again at the end"
    aim = Aim.BROKERS
    parameters = Aborted
    needs = frozenset({Capability.SIGNALS})
    destroys = None

    def plan(
        self,
        members: Members,  # noqa: ARG002
        target: Target,
        parameters: Aborted,
        rng: random.Random,  # noqa: ARG002 - nothing is left to chance
    ) -> Plan:
        """Return the effects, one for each broker of the target."""
        number = _SIGNALS[parameters.signal]
        return Plan(effects=tuple(Abort(server, number) for server in target.servers))

    def bitten(self, injection: Injection) -> Sequence[Look]:
        """Require that the signal ended the processes, and that a long hold ends the sessions."""
        looks: list[Look] = [lambda: _ended(injection)]
        if injection.hold_ms >= self.hold_ms_min(injection.cluster.system):
            looks.append(proofs.expired(injection, injection.target.servers))
        return looks

    def healed(self, injection: Injection) -> Sequence[Look]:
        """Require that the brokers run and are registered, with new sessions if they ended."""
        brokers, ended = injection.target.servers, {effect.ends for effect in injection.done()}
        return [
            proofs.running(injection, brokers),
            proofs.registered(
                injection, brokers, renewed=[name for name in brokers if name in ended]
            ),
        ]

    def hold_ms_min(self, timings: Timings) -> int:
        """Return how long a session takes to expire: after that the fault has its full effect."""
        return expiry_ms(timings)


def _ended(injection: Injection) -> Observation:
    expected = {one.server: -one.number for one in injection.plan.effects if isinstance(one, Abort)}

    def ended(broker: str) -> Seen:
        code = injection.cluster.server(broker).process.exit_code()
        return code == expected[broker], "runs on" if code is None else code

    done, planned = struck(injection, Abort)
    return observe("ended by the signal, status", planned, ended, unless(done, "was already down"))


ABORT = AbortFault()
