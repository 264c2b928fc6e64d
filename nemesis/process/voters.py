"""The fault that takes controllers out of the metadata quorum, and puts them back (KIP-853).

A voter is one directory of one controller. A controller that comes back with an empty disk is
another voter, with a directory id of its own.
"""

import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from ackproof.infra.api.capabilities import AdminTimeout, Voters
from ackproof.infra.api.interface import Capability, InfraError, Timings, ViewUnavailable
from ackproof.nemesis import proofs
from ackproof.nemesis.effects import EffectNotBegun, EndsNothing, OnServer, ProcessKill
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
    Unplannable,
)
from ackproof.nemesis.process import observations as processes_seen
from ackproof.nemesis.proofs import Seen, expiry_ms, held, intended, observe, of_process, targeted

# --- effects --------------------------------------------------------------------------------------

VOTER = "voter"
_CHANGED_WITHIN_S = 60.0
"""The time in which voters must be changed: a controller may have to be elected, and a new voter to
fetch the whole metadata log."""


def voters_of(cluster: Cluster) -> Voters:
    """Return the voters of the cluster. Raise EffectNotBegun if they cannot be changed."""
    if (voters := cluster.system.voters) is None:
        raise EffectNotBegun(f"the metadata quorum of {cluster.system.name} is fixed")
    return voters


@dataclass(frozen=True, slots=True)
class VoterRemoval(EndsNothing, OnServer):
    """The removal of a controller from the voters, undone by adding it with the directory that it
    has by then."""

    kind: ClassVar[str] = VOTER

    @property
    def resource(self) -> Resource:
        # It keeps no server from running or registering, and so belongs to none.
        return Resource(VOTER, (f"vote of {self.server}",))

    def apply(self, cluster: Cluster) -> bool:
        """Remove the voter. Return False if it was none."""
        voters, number = voters_of(cluster), cluster.server(self.server).id
        if number not in voters.now():
            return False
        with suppress(AdminTimeout):
            voters.remove(number, _CHANGED_WITHIN_S)
        return True

    def undo(self, cluster: Cluster) -> None:
        voters_of(cluster).add(cluster.server(self.server).id, _CHANGED_WITHIN_S)

    def __str__(self) -> str:
        return f"remove {self.server} from the voters"


@dataclass(frozen=True, slots=True)
class EmptiedController(EndsNothing, OnServer):
    """The removal of everything that a controller keeps while it is down and does not vote, like
    the disk of a new machine. It stays lost."""

    kind: ClassVar[str] = "metadata"

    def apply(self, cluster: Cluster) -> bool:
        voters_of(cluster).empty(cluster.server(self.server).id)
        return True

    def undo(self, cluster: Cluster) -> None: ...

    def __str__(self) -> str:
        return f"empty the disk of {self.server}"


# --- observations ---------------------------------------------------------------------------------


def votes(injection: Injection, *, back: bool = False) -> Look:
    """Return a look at whether the controllers that the fault removed are no voters, or (``back``)
    vote with their present directory, as the active controller describes the quorum."""

    def seen(server: str) -> Seen:
        cluster = injection.cluster
        number = cluster.server(server).id
        try:
            found = voters_of(cluster).now().get(number)
            own = voters_of(cluster).directory(number) if back else None
        except (ViewUnavailable, InfraError) as silence:
            return False, str(silence)
        return found == own, "no voter" if found is None else f"votes with directory {found}"

    def why_not(server: str) -> str | None:
        removal = VoterRemoval(server)
        if removal not in injection.done():
            return "was no voter"
        return held(injection, removal.resource) or of_process(injection, server)

    removed = [effect.server for effect in intended(injection, VoterRemoval)]
    return lambda: observe("votes again" if back else "votes no more", removed, seen, why_not)


# --- the fault ------------------------------------------------------------------------------------


class VoterRemoved(Parameters):
    """The parameters of controllers that leave the quorum."""

    replace: bool = Field(
        default=False,
        description="also kill the controllers and empty their disks: they come back as new "
        "voters, with other directory ids",
    )


@dataclass(frozen=True, slots=True)
class RemovedVoters:
    """The removal of controllers from the metadata quorum, one after the other. They join it again
    at the end."""

    name: ClassVar[str] = "remove-voter"
    summary: ClassVar[str] = (
        "remove controllers from the metadata quorum; at the end they vote again, or others do "
        "that come with empty disks"
    )
    aim: ClassVar[Aim] = Aim.SERVERS
    parameters: ClassVar[type[Parameters]] = VoterRemoved
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.SIGNALS})
    destroys: ClassVar[None] = None

    def plan(
        self,
        members: Members,
        target: Target,
        parameters: Parameters,
        rng: random.Random,  # noqa: ARG002
    ) -> Plan:
        assert isinstance(parameters, VoterRemoved)
        keepers = members.zookeepers
        chosen = [name for name in keepers if name in target.servers]
        if others := sorted(set(target.servers) - set(keepers)):
            raise Unplannable(f"{self.name} is for controllers, not for {', '.join(others)}")
        if len(chosen) == len(keepers):
            raise Unplannable(
                f"{self.name} would leave no voter of {', '.join(keepers)}: aim at fewer"
            )
        removals = [VoterRemoval(name) for name in chosen]
        if not parameters.replace:
            return Plan(effects=tuple(removals))
        kills = [ProcessKill(name) for name in chosen]
        return Plan(effects=(*removals, *kills, *map(EmptiedController, chosen)))

    def bitten(self, injection: Injection) -> Sequence[Look]:
        killed = bool(intended(injection, ProcessKill))
        return [votes(injection), *([processes_seen.killed(injection)] if killed else [])]

    def healed(self, injection: Injection) -> Sequence[Look]:
        keepers = targeted(injection, injection.cluster.members.zookeepers)
        return [
            proofs.running(injection, keepers),
            proofs.serving(injection, keepers),
            votes(injection, back=True),
        ]

    def hold_ms_min(self, timings: Timings) -> int:
        return expiry_ms(timings)


REMOVE_VOTER = RemovedVoters()
