"""Faults on what brokers keep: their disks, and the files of their logs."""

import random
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from pydantic import Field

from ackproof.infra.api.capabilities import Disk, ProbeBlocks
from ackproof.infra.api.interface import Capability, InfraError, ProcessState, Server, Timings
from ackproof.nemesis import proofs
from ackproof.nemesis.effects import OnDisk, OnProcess, ProcessClaim, ProcessKill, kill
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
    Target,
    Unplannable,
    brokers_alone,
)
from ackproof.nemesis.process import observations as processes_seen
from ackproof.nemesis.proofs import (
    Seen,
    expiry_ms,
    intended,
    noticed_ms,
    observe,
    of_disk,
    sessions_at_stake,
    struck,
    takes_the_quorum,
    targeted,
    unless,
)

# --- effects --------------------------------------------------------------------------------------


Tail = Literal["lost", "torn", "zeroed", "half-zeroed"]
Failure = Literal["full", "io-error", "read-only"]

REFUSALS: dict[Failure, str] = {"full": "ENOSPC", "io-error": "EIO", "read-only": "EROFS"}
"""The reason for which a disk with each failure refuses a write."""

_TRIES_FOR_S = 30.0
"""The longest wait for the end of a server that was started on a full disk, in seconds. A server
that lives longer has come up, on another disk or with nothing to write yet."""


@dataclass(frozen=True, slots=True)
class RestartAtEnd(ProcessClaim):
    """The restart of a server at the end; a server that runs is killed first.

    A server that dies of its disk takes its time. Asked whether it runs, it may say yes and be gone
    a moment later. It would then stay down though the fault is over.
    """

    def undo(self, cluster: Cluster) -> None:
        kill(cluster.server(self.server).process)
        OnProcess.undo(self, cluster)

    def __str__(self) -> str:
        return f"start {self.server} again at the end"


@dataclass(frozen=True, slots=True)
class PowerLoss(OnDisk):
    """The loss of what a killed server had not synced to its disks.

    The disks are back at once, so that it can be seen what is left. ``token`` is for their
    witnesses, and is different each time.
    """

    token: str
    tail: Tail = "lost"

    def apply(self, cluster: Cluster) -> bool:
        for disk in cluster.server(self.server).disks:
            disk.lose_power(self.token, self.tail)
        return True

    def undo(self, cluster: Cluster) -> None:
        # As a rule there is nothing to do: unless the effect failed on the way, the disks are back.
        _mend(cluster.server(self.server))

    def __str__(self) -> str:
        return f"{self.server} loses power, the tails of its logs are {self.tail}"


@dataclass(frozen=True, slots=True)
class FailDisk(OnDisk):
    """The failure of one of a server's disks (``draw``, from 0 to 1, says which), or of all (None).

    A full disk is given its room back. Any other is replaced, with what was synced on it. The
    server is killed for that, as a machine is shut down for a disk to be replaced.
    """

    how: Failure
    draw: float | None = None

    def affected_disks(self, server: Server) -> Sequence[Disk]:
        """Return the disks of the server that fail."""
        disks = server.disks
        return disks if self.draw is None else [disks[int(self.draw * len(disks))]]

    def apply(self, cluster: Cluster) -> bool:
        for disk in self.affected_disks(cluster.server(self.server)):
            if self.how == "full":
                disk.fill()
            elif self.how == "io-error":
                disk.cut_off()
            else:
                disk.make_read_only()
        return True

    def undo(self, cluster: Cluster) -> None:
        server = cluster.server(self.server)
        if self.how != "full":
            _mend(server)
            return
        for disk in self.affected_disks(server):
            disk.empty()

    def __str__(self) -> str:
        which = "the disks" if self.draw is None else "a disk"
        return f"{self.how} of {which} of {self.server}"


@dataclass(frozen=True, slots=True)
class StartOnFullDisk(OnDisk):
    """Starts of a server while its disk is full, as a supervisor makes them.

    What fails then is the recovery of its log. Before Kafka 3.2.1 a broker that failed so noted a
    clean shutdown, and lost what it had not recovered (KAFKA-13773). A server that ends gives some
    room back, which is taken before each start.
    """

    full: FailDisk
    times: int

    def apply(self, cluster: Cluster) -> bool:
        server = cluster.server(self.server)
        for _ in range(self.times):
            kill(server.process)
            self.full.apply(cluster)
            started = server.start()
            with suppress(TimeoutError):
                started.wait(_TRIES_FOR_S)
        return True

    def __str__(self) -> str:
        times = "once" if self.times == 1 else f"{self.times} times"
        return f"start {self.server} {times} while its disk is full"


@dataclass(frozen=True, slots=True)
class DiskSlowdown(OnDisk):
    """A limit on the bytes a second that a server's disks read and write."""

    bytes_per_s: int

    def apply(self, cluster: Cluster) -> bool:
        for disk in cluster.server(self.server).disks:
            disk.slow(self.bytes_per_s)
        return True

    def undo(self, cluster: Cluster) -> None:
        for disk in cluster.server(self.server).disks:
            disk.unslow()

    def __str__(self) -> str:
        return f"slow the disks of {self.server} to {self.bytes_per_s} bytes/s"


@dataclass(frozen=True, slots=True)
class BitFlip(OnDisk):
    """A flipped bit of one file of a server's logs.

    ``file`` is the kind of file. ``draw``, from 0 to 1, says which file and which bit.
    """

    file: str
    draw: float

    def apply(self, cluster: Cluster) -> bool:
        """Flip the bit; raise InfraError where none of the log directories has such a file."""
        server = cluster.server(self.server)
        directories = cluster.system.log_directories(server)
        first = int(self.draw * len(directories))
        refusals = []
        for directory in (*directories[first:], *directories[:first]):
            try:
                server.node.flip_bit(directory, self.file, self.draw * len(directories) % 1)
            except InfraError as refusal:
                refusals.append(str(refusal))
            else:
                return True
        raise InfraError("; ".join(refusals))

    def __str__(self) -> str:
        return f"flip a bit of a {self.file} of {self.server}"


@dataclass(frozen=True, slots=True)
class IndexBitFlips(OnDisk):
    """A flipped bit of every index of a server.

    ``file`` is ``index`` or ``timeindex``. ``draw``, from 0 to 1, says which bits.
    """

    file: str
    draw: float

    def apply(self, cluster: Cluster) -> bool:
        """Flip the bits; raise InfraError where a log directory has no such file."""
        server = cluster.server(self.server)
        for directory in cluster.system.log_directories(server):
            server.node.flip_bits(directory, self.file, self.draw)
        return True

    def __str__(self) -> str:
        return f"flip a bit of every {self.file} of {self.server}"


@dataclass(frozen=True, slots=True)
class RemoveFiles(OnDisk):
    """The removal of the files of that name from a server's log directories.

    The server must be down, because one that runs would write them again.
    """

    name: str

    def apply(self, cluster: Cluster) -> bool:
        """Remove the files; raise InfraError where a log directory has none."""
        server = cluster.server(self.server)
        for directory in cluster.system.log_directories(server):
            server.node.remove_files(directory, self.name)
        return True

    def __str__(self) -> str:
        return f"remove {self.name} of {self.server}"


def _mend(server: Server) -> None:
    broken = [d for d in server.disks if d.refuses_writes() not in (None, REFUSALS["full"])]
    if broken:
        kill(server.process)
    for disk in broken:
        disk.restore()


# --- observations ---------------------------------------------------------------------------------
#
# Disks and the files on them are read and written once more at every look.


E = TypeVar("E", bound=OnDisk)

_LASTING_S = 0.5
"""The duration of the write that shows a slow disk, in seconds. Half of it is enough proof."""


def observe_power_loss(injection: Injection) -> Look:
    """Return a look at two blocks that were written just before the power failed.

    The block that was synced must be there, and the other must not.
    """

    def seen(server: Server, effect: PowerLoss) -> Seen:
        words = [_blocks_shown(disk.witnesses(), effect.token) for disk in server.disks]
        return bool(words) and set(words) == {"synced there, unsynced gone"}, words

    return _of_disks(injection, "unsynced data is gone", _planned(injection, PowerLoss), seen)


def observe_refusals(injection: Injection) -> Look:
    """Return a look at whether every disk that fails refuses a real write, for the intended
    reason."""

    def seen(server: Server, effect: FailDisk) -> Seen:
        found = [disk.refuses_writes() for disk in effect.affected_disks(server)]
        return set(found) == {REFUSALS[effect.how]}, found

    return _of_disks(injection, "writes refused", _planned(injection, FailDisk), seen)


def observe_starts(injection: Injection) -> Look:
    """Return a look at whether the servers were started while their disks were full. The process is
    then one to which no SIGKILL was sent."""

    def seen(server: Server, _effect: StartOnFullDisk) -> Seen:
        process = server.process
        status = process.exit_code()
        ended = process.state() is ProcessState.EXITED
        found = "runs" if not ended else "ended" if status is None else f"ended, status {status}"
        return signal.SIGKILL not in process.signals, found

    return _of_disks(injection, "started again", _planned(injection, StartOnFullDisk), seen)


def observe_slowdown(injection: Injection) -> Look:
    """Return a look at whether a real write to every disk takes as long as it must."""

    def seen(server: Server, effect: DiskSlowdown) -> Seen:
        size = max(1, int(effect.bytes_per_s * _LASTING_S))
        took = [disk.seconds_to_write(size) for disk in server.disks]
        slow = all(seconds >= _LASTING_S / 2 for seconds in took)
        return bool(took) and slow, [f"{size} bytes in {seconds:.2f} s" for seconds in took]

    return _of_disks(injection, "writes are slow", _planned(injection, DiskSlowdown), seen)


def observe_damage(injection: Injection) -> Look:
    """Return a look at whether the damage is in the files of logs, which are read again."""
    return _damage(injection, "damaged", _planned(injection, OnDisk))


def observe_torn_tail(injection: Injection) -> Look:
    """Return a look at whether what a power failure has left at the ends of logs is there, read
    again.

    It leaves out the servers where the fault leaves nothing.
    """
    planned = _planned(injection, PowerLoss)
    torn = {server: effect for server, effect in planned.items() if effect.tail != "lost"}
    return _damage(injection, "torn", torn)


def observe_service(injection: Injection, servers: Iterable[str]) -> Look:
    """Return a look at whether all their disks take writes, and nothing slows them down."""

    def seen(server: str) -> Seen:
        disks = injection.cluster.server(server).disks
        found = [disk.refuses_writes() or _limit(disk) or "takes writes" for disk in disks]
        return set(found) <= {"takes writes"}, found

    return lambda: observe(
        "disks", servers, _if_readable(seen), lambda server: of_disk(injection, server)
    )


def _blocks_shown(found: ProbeBlocks, token: str) -> str:
    words = {True: "there", False: "gone"}
    return f"synced {words[found.synced == token]}, unsynced {words[found.unsynced == token]}"


def _limit(disk: Disk) -> str | None:
    limit = disk.bytes_per_s()
    return None if limit is None else f"{limit} bytes/s"


def _damage(injection: Injection, claim: str, effects: Mapping[str, OnDisk]) -> Look:
    def seen(server: Server, _effect: OnDisk) -> Seen:
        directories = injection.cluster.system.log_directories(server)
        found = [one for directory in directories for one in server.node.damage(directory)]
        words = [f"{one.file}: {one.what}" for one in found if one.there]
        return bool(words), words or [f"{one.file}: {one.what}, not observed" for one in found]

    return _of_disks(injection, claim, effects, seen)


def _planned(injection: Injection, kind: type[E]) -> Mapping[str, E]:
    """Return this fault's effects of that kind, by server: one on each."""
    return {e.server: e for e in intended(injection, kind)}


def _of_disks(
    injection: Injection, claim: str, effects: Mapping[str, E], seen: Callable[[Server, E], Seen]
) -> Look:
    """Return a look at the servers that have these effects."""

    def of_one(server: str) -> Seen:
        return seen(injection.cluster.server(server), effects[server])

    def look() -> Observation:
        done, _ = struck(injection, OnDisk)

        def why_not(server: str) -> str | None:
            return unless(done, "was already so")(server) or of_disk(injection, server)

        return observe(claim, effects, _if_readable(of_one), why_not)

    return look


def _if_readable(seen: Callable[[str], Seen]) -> Callable[[str], Seen]:
    """Return the same function for disks, where an unknown state shows nothing."""

    def proven(server: str) -> Seen:
        try:
            return seen(server)
        except InfraError as error:
            return False, str(error)

    return proven


# --- faults ---------------------------------------------------------------------------------------


P = TypeVar("P", bound=Parameters)

_Effects = tuple[Effect, ...]
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
        default="one", description="one of the server's disks, drawn by the seed, or all"
    )


class FullDiskParameters(DiskFailureParameters):
    """The parameters of full disks."""

    starts: int = Field(
        default=0,
        ge=0,
        le=5,
        description="how often the server is killed and started while its disk is full, as a "
        "supervisor does",
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
        aim: The servers that can be targets: brokers, or also KRaft's controllers with disks.
    """

    name: str
    summary: str
    parameters: type[P]
    makes: Callable[[str, P, random.Random], _Effects]
    bite: Sequence[Callable[[Injection], Look]]
    needs: frozenset[Capability] = _OWN_DISKS
    destroys: Literal["unsynced", "all", "bits"] | None = None
    full_effect_ms: Callable[[Timings], int] = expiry_ms

    aim: Aim = Aim.BROKERS

    def plan(
        self, members: Members, target: Target, parameters: Parameters, rng: random.Random
    ) -> Plan:
        assert isinstance(parameters, self.parameters)
        if self.aim is Aim.BROKERS:
            brokers_alone(self.name, members, target.servers)
        else:
            _require_disks(self.name, members, target.servers)
        made = [self.makes(server, parameters, rng) for server in target.servers]
        processes, disks = [one[0] for one in made], [e for one in made for e in one[1:]]
        return Plan(effects=(*processes, *disks))

    def bitten(self, injection: Injection) -> Sequence[Look]:
        looks = [look(injection) for look in self.bite]
        killed = [e.server for e in intended(injection, ProcessKill)]
        if killed:
            looks.append(processes_seen.killed(injection))
        if killed and injection.hold_ms >= expiry_ms(injection.cluster.system):
            silent = takes_the_quorum(injection)
            brokers = targeted(injection, injection.cluster.members.brokers)
            looks.append(
                proofs.zookeeper_silent(injection) if silent else proofs.expired(injection, brokers)
            )
        return looks

    def healed(self, injection: Injection) -> Sequence[Look]:
        servers = injection.target.servers
        restarted = {
            e.server for e in injection.done() if isinstance(e, ProcessKill | RestartAtEnd)
        }
        brokers = targeted(injection, injection.cluster.members.brokers)
        return [
            observe_service(injection, servers),
            proofs.running(injection, servers),
            proofs.serving(injection, targeted(injection, injection.cluster.members.zookeepers)),
            proofs.registered(
                injection,
                sessions_at_stake(injection),
                renewed=[b for b in brokers if b in restarted],
            ),
        ]

    def hold_ms_min(self, timings: Timings) -> int:
        return self.full_effect_ms(timings)


def _require_disks(fault: str, members: Members, targeted: Iterable[str]) -> None:
    """Raise Unplannable if one of the ``targeted`` servers has no disk of its own."""
    if others := sorted(set(targeted) - {*members.brokers, *members.keepers_with_disks}):
        raise Unplannable(
            f"{fault} is for brokers, and for KRaft controllers that are no brokers, not for "
            f"{', '.join(others)}"
        )


def _failing(how: Failure) -> Callable[[str, DiskFailureParameters, random.Random], _Effects]:
    def makes(server: str, own: DiskFailureParameters, rng: random.Random) -> _Effects:
        draw = rng.random()
        failed = FailDisk(server, how, draw if own.disks == "one" else None)
        if isinstance(own, FullDiskParameters) and own.starts:
            return RestartAtEnd(server), failed, StartOnFullDisk(server, failed, own.starts)
        return RestartAtEnd(server), failed

    return makes


def _flipping(server: str, own: BitFlipParameters | IndexCorrupted, rng: random.Random) -> _Effects:
    process = ProcessKill(server) if own.broker == "down" else ProcessClaim(server)
    each = isinstance(own, IndexCorrupted) and own.of == "each"
    return process, (IndexBitFlips if each else BitFlip)(server, own.file, rng.random())


POWER_FAILURE = StorageFault(
    name="power-failure",
    summary="kill -9 servers and lose unsynced data; restart them at the end",
    parameters=PowerFailureParameters,
    makes=lambda server, own, rng: (
        ProcessKill(server),
        PowerLoss(server, f"{rng.getrandbits(64):016x}", own.tail),
    ),
    bite=[observe_power_loss, observe_torn_tail],
    destroys="unsynced",
    aim=Aim.SERVERS,
)
DISK_FULL = StorageFault(
    name="disk-full",
    summary="fill the servers' disks; free them and restart the servers at the end",
    parameters=FullDiskParameters,
    makes=_failing("full"),
    bite=[observe_refusals, observe_starts],
    needs=frozenset({Capability.SIGNALS, Capability.FILL_DISKS}),
    full_effect_ms=noticed_ms,
    aim=Aim.SERVERS,
)
DISK_FAILURE = StorageFault(
    name="disk-failure",
    summary="fail reads and writes with an I/O error; the disk returns with its synced data",
    parameters=DiskFailureParameters,
    makes=_failing("io-error"),
    bite=[observe_refusals],
    destroys="unsynced",
    full_effect_ms=noticed_ms,
    aim=Aim.SERVERS,
)
READ_ONLY = StorageFault(
    name="read-only",
    summary="make the file system read-only until the end; ext4 does so after an error",
    parameters=DiskFailureParameters,
    makes=_failing("read-only"),
    bite=[observe_refusals],
    destroys="unsynced",
    full_effect_ms=noticed_ms,
    aim=Aim.SERVERS,
)
SLOW_DISK = StorageFault(
    name="slow-disk",
    summary="limit the throughput of the servers' disks",
    parameters=SlowDiskParameters,
    makes=lambda server, own, _rng: (ProcessClaim(server), DiskSlowdown(server, own.bytes_per_s)),
    bite=[observe_slowdown],
    needs=frozenset({*_OWN_DISKS, Capability.SLOW_DISKS}),
    full_effect_ms=noticed_ms,
    aim=Aim.SERVERS,
)
BIT_FLIP = StorageFault(
    name="bit-flip",
    summary="flip one bit of a segment for good; the broker runs or is down meanwhile",
    parameters=BitFlipParameters,
    makes=_flipping,
    bite=[observe_damage],
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
    bite=[observe_damage],
    needs=frozenset({Capability.SIGNALS}),
)
LOSE_CHECKPOINT = StorageFault(
    name="lose-checkpoint",
    summary="kill -9 brokers and remove a checkpoint file; restart them at the end",
    parameters=LostCheckpointParameters,
    makes=lambda server, own, _rng: (ProcessKill(server), RemoveFiles(server, own.file)),
    bite=[observe_damage],
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
    bite=[observe_damage],
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
