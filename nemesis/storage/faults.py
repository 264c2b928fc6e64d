"""Faults on what brokers keep: their disks, and the files of their logs."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, TypeVar

from pydantic import Field

from ackproof.infra.api.interface import Capability, Timings
from ackproof.nemesis import proofs
from ackproof.nemesis.effects import ProcessClaim, ProcessKill
from ackproof.nemesis.interface import (
    Aim,
    Effect,
    Injection,
    Look,
    Members,
    Parameters,
    Plan,
    Target,
    brokers_alone,
)
from ackproof.nemesis.process import observations as processes_seen
from ackproof.nemesis.proofs import (
    expiry_ms,
    intended,
    noticed_ms,
    sessions_at_stake,
    takes_the_quorum,
    targeted,
)
from ackproof.nemesis.storage import observations as disks_seen
from ackproof.nemesis.storage.effects import (
    BitFlip,
    DiskSlowdown,
    FailDisk,
    Failure,
    IndexBitFlips,
    PowerLoss,
    RemoveFiles,
    RestartAtEnd,
    Tail,
)

P = TypeVar("P", bound=Parameters)

_Pair = tuple[Effect, Effect]
_OWN_DISKS = frozenset({Capability.SIGNALS, Capability.LOSE_UNSYNCED_WRITES})


class PowerFailureParameters(Parameters):
    """The parameters of a power failure."""

    tail: Tail = Field(
        default="lost",
        description="the unsynced end of each log's last segment: lost, torn within a batch, "
        "zeroed, or half-zeroed (zeros begin within a batch)",
    )


class DiskFailureParameters(Parameters):
    """The parameters of disks that fail."""

    disks: Literal["one", "all"] = Field(
        default="one", description="one of the broker's disks, drawn by the seed, or all"
    )


class SlowDiskParameters(Parameters):
    """The parameters of slow disks."""

    bytes_per_s: int = Field(default=64 * 1024, ge=8192, description="throughput of each disk")


class BitFlipParameters(Parameters):
    """The parameters of a bit that flips."""

    file: Literal["closed-segment", "active-segment"] = Field(
        default="closed-segment", description="the kind of file of a partition"
    )
    broker: Literal["runs", "down"] = Field(
        default="runs", description="let the broker run, or kill it first"
    )


class IndexCorrupted(Parameters):
    """The parameters of a bit that flips in an index."""

    file: Literal["index", "timeindex"] = Field(
        default="index", description="the index by offset or by timestamp"
    )
    of: Literal["one", "each"] = Field(
        default="one",
        description="any bit of one index, or a low bit of each index, which mostly keeps the "
        "order of its entries",
    )
    broker: Literal["runs", "down"] = Field(
        default="down",
        description="let the broker run, or kill it first. It rebuilds indexes above its "
        "recovery point (log.flush.offset.checkpoint.interval.ms)",
    )


class LostCheckpointParameters(Parameters):
    """The parameters of a checkpoint that is gone."""

    file: Literal["recovery-point-offset-checkpoint", "replication-offset-checkpoint"] = Field(
        default="recovery-point-offset-checkpoint", description="the checkpoint file"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageFault(Generic[P]):
    """Effects on what every target keeps.

    Reading or writing it proves the fault, once more at every look. Where brokers are killed for
    it, the kernel's word on their processes is part of the proof. So is the end of their sessions,
    where the fault is held for that long.

    It is healed when the disks take writes, the processes run and the brokers are registered. What
    was destroyed stays so.

    Attributes:
        makes: Makes the effects on a server, the one on its process first. All servers' processes
            come before the first disk. If two lose power at once, the second must not sync what it
            hears from the first.
        bite: Make the looks at what the fault does itself.
        full_effect_ms: Returns how long it takes until the cluster has noticed, in milliseconds.
    """

    name: str
    summary: str
    parameters: type[P]
    makes: Callable[[str, P, random.Random], _Pair]
    bite: Sequence[Callable[[Injection], Look]]
    needs: frozenset[Capability] = _OWN_DISKS
    destroys: Literal["unsynced", "all", "bits"] | None = None
    full_effect_ms: Callable[[Timings], int] = expiry_ms

    aim: ClassVar[Aim] = Aim.BROKERS

    def plan(
        self, members: Members, target: Target, parameters: Parameters, rng: random.Random
    ) -> Plan:
        assert isinstance(parameters, self.parameters)
        brokers_alone(self.name, members, target.servers)
        made = [self.makes(server, parameters, rng) for server in target.servers]
        return Plan(effects=(*(first for first, _ in made), *(second for _, second in made)))

    def bitten(self, injection: Injection) -> Sequence[Look]:
        looks = [look(injection) for look in self.bite]
        killed = [e.server for e in intended(injection, ProcessKill)]
        if killed:
            looks.append(processes_seen.killed(injection))
        if killed and injection.hold_ms >= expiry_ms(injection.cluster.system):
            silent = takes_the_quorum(injection)
            looks.append(
                proofs.zookeeper_silent(injection) if silent else proofs.expired(injection, killed)
            )
        return looks

    def healed(self, injection: Injection) -> Sequence[Look]:
        servers = injection.target.servers
        restarted = [
            e.server for e in injection.done() if isinstance(e, ProcessKill | RestartAtEnd)
        ]
        return [
            disks_seen.serving(injection, servers),
            proofs.running(injection, servers),
            proofs.serving(injection, targeted(injection, injection.cluster.members.zookeepers)),
            proofs.registered(injection, sessions_at_stake(injection), renewed=restarted),
        ]

    def hold_ms_min(self, timings: Timings) -> int:
        return self.full_effect_ms(timings)


def _failing(how: Failure) -> Callable[[str, DiskFailureParameters, random.Random], _Pair]:
    def makes(server: str, own: DiskFailureParameters, rng: random.Random) -> _Pair:
        draw = rng.random()
        return RestartAtEnd(server), FailDisk(server, how, draw if own.disks == "one" else None)

    return makes


def _flipping(server: str, own: BitFlipParameters | IndexCorrupted, rng: random.Random) -> _Pair:
    process = ProcessKill(server) if own.broker == "down" else ProcessClaim(server)
    each = isinstance(own, IndexCorrupted) and own.of == "each"
    return process, (IndexBitFlips if each else BitFlip)(server, own.file, rng.random())


POWER_FAILURE = StorageFault(
    name="power-failure",
    summary="kill -9 brokers and lose unsynced data; restart them at the end",
    parameters=PowerFailureParameters,
    makes=lambda server, own, rng: (
        ProcessKill(server),
        PowerLoss(server, f"{rng.getrandbits(64):016x}", own.tail),
    ),
    bite=[disks_seen.lost, disks_seen.torn],
    destroys="unsynced",
)
DISK_FULL = StorageFault(
    name="disk-full",
    summary="fill the brokers' disks; free them and restart the brokers at the end",
    parameters=DiskFailureParameters,
    makes=_failing("full"),
    bite=[disks_seen.refused],
    full_effect_ms=noticed_ms,
)
DISK_FAILURE = StorageFault(
    name="disk-failure",
    summary="fail reads and writes with an I/O error; the disk returns with its synced data",
    parameters=DiskFailureParameters,
    makes=_failing("io-error"),
    bite=[disks_seen.refused],
    destroys="unsynced",
    full_effect_ms=noticed_ms,
)
READ_ONLY = StorageFault(
    name="read-only",
    summary="make the file system read-only until the end; ext4 does so after an error",
    parameters=DiskFailureParameters,
    makes=_failing("read-only"),
    bite=[disks_seen.refused],
    destroys="unsynced",
    full_effect_ms=noticed_ms,
)
SLOW_DISK = StorageFault(
    name="slow-disk",
    summary="limit the throughput of the brokers' disks",
    parameters=SlowDiskParameters,
    makes=lambda server, own, _rng: (ProcessClaim(server), DiskSlowdown(server, own.bytes_per_s)),
    bite=[disks_seen.slowed],
    needs=frozenset({*_OWN_DISKS, Capability.SLOW_DISKS}),
    full_effect_ms=noticed_ms,
)
BIT_FLIP = StorageFault(
    name="bit-flip",
    summary="flip one bit of a segment for good; the broker runs or is down meanwhile",
    parameters=BitFlipParameters,
    makes=_flipping,
    bite=[disks_seen.damaged],
    needs=frozenset({Capability.SIGNALS}),
    destroys="bits",
)
# This is a fault of its own, because it takes nothing: what an index says stands in the segment,
# too. If it were one with the fault above, a broker that loses records for a bad index would be
# excused.
CORRUPT_INDEX = StorageFault(
    name="corrupt-index",
    summary="flip one bit of an index for good; or of each, while the broker is down or runs",
    parameters=IndexCorrupted,
    makes=_flipping,
    bite=[disks_seen.damaged],
    needs=frozenset({Capability.SIGNALS}),
)
LOSE_CHECKPOINT = StorageFault(
    name="lose-checkpoint",
    summary="kill -9 brokers and remove a checkpoint file; restart them at the end",
    parameters=LostCheckpointParameters,
    makes=lambda server, own, _rng: (ProcessKill(server), RemoveFiles(server, own.file)),
    bite=[disks_seen.damaged],
    needs=frozenset({Capability.SIGNALS}),
)
LOSE_EPOCHS = StorageFault(
    name="lose-epochs",
    summary="kill -9 brokers and remove every leader-epoch-checkpoint; restart them at the end",
    parameters=Parameters,
    makes=lambda server, _own, _rng: (
        ProcessKill(server),
        RemoveFiles(server, "leader-epoch-checkpoint"),
    ),
    bite=[disks_seen.damaged],
    needs=frozenset({Capability.SIGNALS}),
    destroys="all",
)
STORAGE: Sequence[StorageFault[Any]] = (
    POWER_FAILURE,
    DISK_FULL,
    DISK_FAILURE,
    READ_ONLY,
    SLOW_DISK,
    BIT_FLIP,
    CORRUPT_INDEX,
    LOSE_CHECKPOINT,
    LOSE_EPOCHS,
)
