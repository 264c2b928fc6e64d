"""Faults of the user's own: commands inject one, prove it, and heal it.

So Chaos Mesh, ``tc`` or a cloud's API can be used. What a command does is not known here. Without a
declaration it may disturb its target while it is on, as any fault may, and it excuses no loss.

The campaign declares what else it does (``effects``). A report that excuses a loss by that
declaration says so.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from ackproof.infra.api.interface import Capability, ProcessState, Timings
from ackproof.infra.machine.own_commands import OwnCommand
from ackproof.nemesis import proofs
from ackproof.nemesis.effects import LINK, PROCESS, EffectNotBegun
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
    Target,
)
from ackproof.nemesis.process import observations
from ackproof.nemesis.proofs import Seen, held, noticed_ms, observe, sessions_at_stake, targeted

COMMAND = "command"

Declared = Literal["stops", "cuts-off", "loses-unsynced", "loses-all"]


def _words(written: object) -> object:
    if isinstance(written, str):
        raise ValueError(
            "must be a list of words, such as [kubectl, apply, -f, outage.yaml]; no shell reads it"
        )
    return written


_Word = Annotated[str, Field(min_length=1)]
_Argv = Annotated[tuple[_Word, ...], Field(strict=False), BeforeValidator(_words)]
_Required = Annotated[_Argv, Field(min_length=1)]


class CommandParameters(Parameters):
    """The parameters of a fault by commands."""

    name: str = Field(
        default="",
        max_length=60,
        pattern=r"^([a-z0-9][a-z0-9._-]*)?$",
        description="its name in the report, such as az-outage",
    )
    inject: _Required = Field(description="command that injects the fault, as a list of words")
    verify: _Required = Field(
        description="command that exits with 0 once the fault has taken effect; repeated until "
        "it does"
    )
    heal: _Required = Field(
        description="command that undoes the fault; may be run twice, and after a crash"
    )
    healed: _Argv = Field(
        default=(),
        description="command that exits with 0 once the effect has ended; repeated until it "
        "does. Without it, `heal` must exit with 0",
    )
    within_ms: int = Field(
        default=60_000,
        ge=1,
        le=3_600_000,
        description="time limit of each command, in milliseconds",
    )
    effects: Annotated[tuple[Declared, ...], Field(strict=False)] = Field(
        default=(),
        description="its effects: `stops` ends processes, `cuts-off` closes links, "
        "`loses-unsynced` and `loses-all` take data from disks. Without a `loses-` no loss is "
        "excused",
    )
    directory: str = Field(
        default="",
        description="working directory; without it, that of the campaign file",
    )

    def named(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield every command that is given, with its key."""
        for key in ("inject", "verify", "heal", "healed"):
            if argv := getattr(self, key):
                yield key, argv


@dataclass(frozen=True, slots=True)
class NodeClaim:
    """A claim on one node, for what a command may do to it.

    The claim itself does nothing. It lets another fault's proof on the same node leave out what the
    command accounts for.
    """

    node: str
    kind: str

    @property
    def resource(self) -> Resource:
        return Resource(self.kind, (self.node,))

    @property
    def ends(self) -> str | None:
        return self.node if self.kind == PROCESS else None

    def apply(self, cluster: Cluster) -> bool:  # noqa: ARG002
        return True

    def undo(self, cluster: Cluster) -> None:
        """Start a server that was deployed and that the command has ended, because nothing else
        would."""
        if self.kind != PROCESS or (server := cluster.server(self.node)).distant is not None:
            return
        if server.process.state() is ProcessState.EXITED:
            server.start()

    def __str__(self) -> str:
        return f"account for the {self.kind} of {self.node}"


@dataclass(frozen=True, slots=True)
class CommandInjection:
    """The command that injects the fault; the command that heals it undoes it.

    Two faults with the same command and target share it, as two cuts of a link do. The first
    injects it, and the last heals it.
    """

    nodes: tuple[str, ...]
    commands: CommandParameters
    target: str = field(compare=False)
    fault_id: int = field(compare=False)

    @property
    def resource(self) -> Resource:
        return Resource(COMMAND, self.nodes, self.commands.inject)

    @property
    def ends(self) -> str | None:
        return None

    def apply(self, cluster: Cluster) -> bool:
        inject = self.command(cluster, self.commands.inject)
        heal = self.command(cluster, self.commands.heal)
        try:
            cluster.commands.inject(self.fault_id, inject, heal)
        except OSError as error:
            raise EffectNotBegun(f"{inject} cannot be started: {error.strerror or error}") from None
        return True

    def undo(self, cluster: Cluster) -> None:
        cluster.commands.heal(self.fault_id, self.command(cluster, self.commands.heal))

    def command(self, cluster: Cluster, argv: tuple[str, ...]) -> OwnCommand:
        """Return one of its commands, with the target in its environment."""
        return OwnCommand(
            argv=argv,
            directory=self.commands.directory,
            variables=self._variables(cluster),
            within_ms=self.commands.within_ms,
        )

    def _variables(self, cluster: Cluster) -> Mapping[str, str]:
        brokers = [one for one in cluster.system.brokers if one.name in self.nodes]
        return {
            "ACKPROOF_TARGET": self.target,
            "ACKPROOF_NODES": " ".join(self.nodes),
            "ACKPROOF_BROKER_IDS": " ".join(str(broker.id) for broker in brokers),
            "ACKPROOF_BROKERS": " ".join(
                f"{broker.id}={broker.node.address}:{broker.port}" for broker in brokers
            ),
            "ACKPROOF_FAULT": str(self.fault_id),
            "ACKPROOF_RUN": str(cluster.commands.run),
        }

    def __str__(self) -> str:
        return f"run {' '.join(self.commands.inject)}"


@dataclass(frozen=True, slots=True)
class CommandFault:
    """A fault by commands.

    The command ``verify`` proves it. It is healed once ``heal`` has ended with 0, the command
    ``healed`` ends with 0, and the brokers that it was aimed at serve again.
    """

    name: ClassVar[str] = COMMAND
    summary: ClassVar[str] = "run your own commands and prove their effect; such as kubectl or tc"
    aim: ClassVar[Aim] = Aim.NODES
    parameters: ClassVar[type[Parameters]] = CommandParameters
    needs: ClassVar[frozenset[Capability]] = frozenset()
    destroys: ClassVar[None] = None

    def plan(
        self,
        members: Members,  # noqa: ARG002
        target: Target,
        parameters: Parameters,
        rng: random.Random,  # noqa: ARG002
    ) -> Plan:
        assert isinstance(parameters, CommandParameters)
        inject = CommandInjection(target.nodes, parameters, target.expression, target.fault_id)
        # The effects are undone in the opposite order, so that what the command keeps down is not
        # started before.
        return Plan(effects=(*_claims(target, parameters), inject), destroys=_destroys(parameters))

    def bitten(self, injection: Injection) -> Sequence[Look]:
        inject = _inject(injection)
        done = inject in injection.done()

        def why_not(_subject: str) -> str | None:
            return None if done else "it was already active"

        return [_asking(injection, "verify", inject.commands.verify, why_not)]

    def healed(self, injection: Injection) -> Sequence[Look]:
        inject = _inject(injection)
        number, cluster = inject.fault_id, injection.cluster

        def why_not(_subject: str) -> str | None:
            return held(injection, inject.resource)

        def undone() -> Observation:
            done = inject not in injection.done() or cluster.commands.is_healed(number)
            return observe("healed", ["heal"], lambda _: (done, done), why_not)

        looks: list[Look] = [undone]
        if inject.commands.healed:
            looks.append(_asking(injection, "healed", inject.commands.healed, why_not))
        if observations.is_seen_from_outside(injection):
            return [*looks, *observations.looks_at_external_recovery(injection)]
        brokers = targeted(injection, cluster.members.brokers)
        return [
            *looks,
            proofs.running(injection, injection.target.servers),
            proofs.registered(injection, sessions_at_stake(injection)),
            proofs.sessions_lost(injection, brokers),
        ]

    def hold_ms_min(self, timings: Timings) -> int:
        return noticed_ms(timings)


def _claims(target: Target, commands: CommandParameters) -> Iterator[Effect]:
    for node in target.nodes:
        yield NodeClaim(node, COMMAND)
        if "cuts-off" in commands.effects:
            yield NodeClaim(node, LINK)
        if "stops" in commands.effects and node in target.servers:
            yield NodeClaim(node, PROCESS)


def _destroys(commands: CommandParameters) -> Literal["unsynced", "all"] | None:
    if "loses-all" in commands.effects:
        return "all"
    return "unsynced" if "loses-unsynced" in commands.effects else None


def _inject(injection: Injection) -> CommandInjection:
    return next(one for one in injection.plan.effects if isinstance(one, CommandInjection))


def _asking(
    injection: Injection,
    claim: str,
    argv: tuple[str, ...],
    why_not: Callable[[str], str | None],
) -> Look:
    """Return a look that asks a command, which shows the claim by ending with 0."""
    inject, cluster = _inject(injection), injection.cluster
    command = inject.command(cluster, argv)

    def asked(_subject: str) -> Seen:
        ended = cluster.commands.ask(command)
        return ended.status == 0, str(ended)

    return lambda: observe(f"{claim} ended with 0", [claim], asked, why_not)


OWN_COMMANDS = CommandFault()
