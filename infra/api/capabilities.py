"""Capabilities of backends and systems: parts of the interface that some of them lack."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Protocol, runtime_checkable

# --- limits ---------------------------------------------------------------------------------------
#
# Limits on the resources of a node.


class LimitedResource(StrEnum):
    """A resource of a node that can be limited."""

    CPU = "cpu"
    MEMORY = "memory"


class NotCounted(Exception):
    """The error of counters under a limit that cannot be read. The message says why."""


class ResourceLimits(Protocol):
    """The limits on the resources of a node."""

    def limit(self, what: LimitedResource, amount: int) -> None:
        """Limit a resource for all the node's processes together, those that run and later ones.

        Idempotent. Raises InfraError if the backend cannot.

        Args:
            amount: For CPU, thousandths of one core. For memory, bytes beyond what the processes
                have now, including what they write into files. The kernel kills a process that
                needs more.
        """

    def lift(self, what: LimitedResource) -> None:
        """Undo :meth:`limit`. Idempotent."""

    def counted(self, what: LimitedResource) -> Mapping[str, int]:
        """Return what the kernel has counted since :meth:`limit`; empty without a limit.

        CPU has ``throttled`` (tenths of a second in which a process had to wait) and
        ``throttled_us`` (the time waited). Memory has ``hits`` (how often the limit was reached)
        and ``killed`` (processes). Raises NotCounted for a limit whose counters cannot be read.
        """


# --- storage --------------------------------------------------------------------------------------
#
# Disks of nodes, and damage to files.


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """Damage to a file.

    Attributes:
        file: The path relative to its log directory.
        what: ``gone``, or which bytes were changed.
        there: Whether that is so now, read again.
    """

    file: str
    what: str
    there: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeBlocks:
    """Two blocks of a disk, both written just before its power failed, one of them synced.

    Attributes:
        synced: The present content of the synced one: the token of the last power failure.
        unsynced: The present content of the other: that token only if nothing was lost.
    """

    synced: str
    unsynced: str


class Disk(Protocol):
    """A disk of a node's own, with a file system that can fail.

    Every method raises InfraError if it cannot do its work.
    """

    @property
    def data(self) -> PurePosixPath:
        """Return the directory on it that belongs to the server, empty at first."""

    def lose_power(self, token: str, tail: str) -> None:
        """Lose what was not synced, and return to service. No process may have open files there.

        ``token`` is written to the witnesses just before. ``tail`` is the state of the last segment
        of every log. ``lost`` loses it like everything else. ``torn`` cuts it in the middle of a
        batch. ``zeroed`` leaves zeros, and ``half-zeroed`` a batch in which the zeros begin.
        """

    def witnesses(self) -> ProbeBlocks: ...

    def cut_off(self) -> None:
        """Fail until :meth:`restore`: reads and writes get EIO, and what was not synced is lost."""

    def make_read_only(self) -> None:
        """Refuse writes with EROFS until :meth:`restore`, as ext4 does after an error."""

    def restore(self) -> None:
        """Serve again, with what was synced. No process may have open files there."""

    def fill(self) -> None:
        """Take all the room that is left until :meth:`empty`. Both are idempotent."""

    def empty(self) -> None: ...

    def slow(self, bytes_per_s: int) -> None:
        """Limit reads and writes until :meth:`unslow`, which is idempotent."""

    def unslow(self) -> None: ...

    def bytes_per_s(self) -> int | None:
        """Return the limit in force by the kernel; None without one."""

    def seconds_to_write(self, size: int) -> float:
        """Return the seconds that it takes to write and sync ``size`` bytes."""

    def refuses_writes(self) -> str | None:
        """Return the error with which a write fails (``ENOSPC``, ``EIO``, ...); None if it
        succeeds."""

    def remove(self) -> None:
        """Delete it. Idempotent."""


class Storage(Protocol):
    """The stored data of a node, and the faults that can be injected into it."""

    def disk(self, name: str, megabytes: int) -> Disk:
        """Make a disk, and mount it.

        Raises InfraError if the backend cannot (``Capability.LOSE_UNSYNCED_WRITES``).
        """

    def flip_bit(self, directory: PurePosixPath, kind: str, draw: float) -> None:
        """Flip one bit of a file of one partition in a log directory.

        ``kind`` is ``closed-segment``, ``active-segment``, ``index`` or ``timeindex``. ``draw`` is
        a number from 0 to 1, exclusive, which makes the choice. Raises InfraError if there is no
        such file.
        """

    def flip_bits(self, directory: PurePosixPath, kind: str, draw: float) -> None:
        """Flip one bit of every ``index`` or ``timeindex`` in a log directory.

        The entry mostly stays in its order. Raises InfraError if there is none.
        """

    def remove_files(self, directory: PurePosixPath, name: str) -> None:
        """Remove the files of that name in a log directory and its partitions.

        Raises InfraError if there is none.
        """

    def damage(self, directory: PurePosixPath) -> Sequence[Damage]:
        """Return all damage ever done to files of a log directory, with its present state."""


# --- the plan of a server's disks -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DiskPlan:
    """The disks under a server's data.

    Attributes:
        per_server: The number of disks of each server, with one log directory on each.
        megabytes: The size of each. Only written data takes room.
    """

    per_server: int
    megabytes: int


# --- clocks ---------------------------------------------------------------------------------------
#
# The time of nodes and of their servers.


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReading:
    """A reading of a node's clock.

    Attributes:
        offset_ns: The node's clock minus this machine's, nanoseconds.
        bound_ns: The largest error of ``offset_ns``, either way: half of the round trip of the
            request.
    """

    offset_ns: int
    bound_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedTime:
    """The time that a server itself reports.

    Attributes:
        offset_ms: The server's clock minus the true one of its node.
        bound_ms: The largest error of ``offset_ms``, either way.
        at_ms: The time of the report, on a clock of the node that no fault affects.
    """

    offset_ms: float
    bound_ms: float
    at_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockQuery:
    """A request that makes a server write the time into its log.

    Attributes:
        address, port: The address of the server.
        say: The bytes that are sent to it over a new connection.
        line: The text that then stands in a line of its log, behind the time. ``{address}`` and
            ``{port}`` are those of the client.
        log: That log. Its times are UTC.
    """

    address: str
    port: int
    say: bytes
    line: str
    log: PurePosixPath


class Clock(Protocol):
    """The clock of one server alone. A restarted server finds it as it is, as the clock of a
    machine.

    Both methods raise InfraError if they cannot do their work.
    """

    def run(self, offset_ms: int, rate: float = 1.0) -> None:
        """Set the clock ``offset_ms`` ahead of the true time, and let it run ``rate`` times as
        fast.

        A negative offset sets it behind. ``run(0)`` is the true time. Time since boot
        (CLOCK_MONOTONIC) and sleeping stay as they are.
        """

    def reported_time(self) -> ReportedTime:
        """Return the time that the server itself reports now, by a new request."""


class FakeClock(Protocol):
    """The clock of a node for the programs that are started under it.

    Every method raises InfraError if it cannot do its work.
    """

    @property
    def under(self) -> Sequence[str]:
        """Return what stands before the command line of a program that uses this clock."""

    def started(self, pid: int) -> None:
        """Note that a process was started under it, and remove what it leaves behind."""

    def run(self, offset_ms: int, rate: float) -> None:
        """Set the clock as :class:`Clock` does."""

    def reported_time(self, question: ClockQuery) -> ReportedTime:
        """Return the answer of a server."""


class Clocks(Protocol):
    """The time on a node."""

    def clock(self) -> ClockReading:
        """Read the node's clock against this machine's.

        It is the true one, whatever clock its servers use. Raises InfraError if the node does not
        answer.
        """

    def fake_clock(self) -> FakeClock:
        """Make a clock that shows the true time at first.

        Raises InfraError if the backend cannot (``Capability.FAKE_CLOCKS``).
        """


# --- upgrade --------------------------------------------------------------------------------------
#
# Servers that can change from one release to another while the system runs, or from ZooKeeper to
# KRaft.


class Stage(StrEnum):
    """The stages of one server on its way from one release to another, or to KRaft."""

    BEFORE = "before"
    """It has the older release, or is a broker on ZooKeeper."""
    AFTER = "after"
    """It has the newer release, and can go back."""
    FINAL = "final"
    """It has the newer release, and is configured to use what only that has. With KRaft this is as
    ``AFTER``, because the cluster is finalized as a whole."""
    MIGRATING = "migrating"
    """It is in the mode of the migration to KRaft, ``zookeeper.metadata.migration.enable``."""
    KRAFT = "kraft"
    """It is a broker, or a controller, that knows KRaft alone."""
    RETURNING = "returning"
    """It was a broker of KRaft, and is in the mode of the migration again, with ZooKeeper."""


class UpgradeRefused(Exception):
    """The cluster refused to finalize the upgrade. The message has its reason."""


class Upgrade(Protocol):
    """The two releases of a system, and the stage of each of its servers."""

    @property
    def versions(self) -> Mapping[Stage, str]:
        """Return the version of Apache Kafka in each stage, or in a migration its mode."""

    @property
    def unfinished(self) -> set[str]:
        """Return the servers that were stopped for an exchange and are not back yet. The code that
        stops a server adds it here, and removes it when it is back."""

    def first_stage(self, server: str) -> Stage:
        """Return the stage in which a server is configured when it is made."""

    def stage(self, server: str) -> Stage:
        """Return the stage of a server: the programs with which it runs or is started next."""

    def obstacle(self, server: str, stage: Stage) -> str | None:
        """Return why a server cannot be changed to a stage now; None if it can."""

    def install(self, server: str, stage: Stage) -> None:
        """Exchange the programs of a server. Raises RuntimeError unless it has stopped."""

    def reported(self, server: str) -> str | None:
        """Return the version that a server has written into its log since its programs were last
        exchanged, or None if it has written none."""

    def was(self, server: str) -> str | None:
        """Return the version that a server reported before its programs were last exchanged."""

    def finalize(self, timeout_s: float) -> None:
        """Let the whole cluster use what only the newer release has, from now on and for good.

        Only with KRaft. Raises UpgradeRefused, and TimeoutError if no broker answers in time.
        """

    def finality(self, broker: str) -> tuple[bool, str]:
        """Return whether a broker itself reports that the upgrade is final, and what it reports."""


class MigrationState(StrEnum):
    """The states of a migration from ZooKeeper to KRaft, by Kafka's names (``ZkMigrationState``).

    They are in the metadata log (``ZkMigrationStateRecord``).
    """

    NONE = "NONE"
    """The metadata never was in ZooKeeper."""
    PRE_MIGRATION = "PRE_MIGRATION"
    """The controllers wait for all brokers. The metadata are in ZooKeeper."""
    MIGRATION = "MIGRATION"
    """The controllers have the metadata, and also write them to ZooKeeper."""
    POST_MIGRATION = "POST_MIGRATION"
    """ZooKeeper is not used any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperTraces:
    """The znodes that KRaft's controllers write during a migration.

    Attributes:
        controller: The id of the controller by ``/controller``; None while there is none.
        migration: The content of ``/migration``; None if there is none.
        epoch: The epoch in ``/controller_epoch``. The next broker that becomes controller has the
            one after it.
        newest_epoch: The newest epoch in ``/controller`` and in the states of partitions. The
            controllers write KRaft's epoch there, which may be newer than ``epoch``. A broker that
            is controller elects no leader of a partition with a newer epoch than its own
            (KAFKA-20488).
    """

    controller: int | None
    migration: str | None
    epoch: int
    newest_epoch: int


@runtime_checkable
class Migration(Upgrade, Protocol):
    """The change of a system from ZooKeeper to KRaft (KIP-866), and the stage of each of its
    servers.

    The methods return what the cluster itself says, and raise
    ``infra.api.interface.ViewUnavailable`` if it does not answer.
    """

    @property
    def may_have_begun(self) -> bool:
        """Return whether KRaft's controllers may decide by now: all brokers were, or are being,
        started in the mode of the migration."""

    def state(self) -> MigrationState:
        """Return the state by the metadata log."""

    def controller_in_zookeeper(self) -> int | None:
        """Return the id of the controller by the znode ``/controller``; None while there is
        none."""

    def in_kraft_mode(self) -> frozenset[int]:
        """Return the ids of the brokers that have last registered as brokers of KRaft."""

    # The way back: the controllers are removed, and a broker is controller again.

    def removal_obstacle(self) -> str | None:
        """Return why the controllers cannot be removed now; None if they can."""

    def behind(self) -> Sequence[str]:
        """Return the partitions whose leader or ISR in ZooKeeper differs from the metadata log,
        each with both; none before the controllers have taken over."""

    def remove_controllers(self) -> None:
        """Let ZooKeeper have the metadata from now on, and the controllers be among the system's
        ``removed``. Call it before they are stopped."""

    def traces(self) -> ZooKeeperTraces:
        """Return what KRaft's controllers have left in ZooKeeper."""

    def clear_traces(self, *, raises_epoch: bool) -> None:
        """Delete ``/controller``, if a controller of KRaft wrote it, and ``/migration``.
        Idempotent.

        ``raises_epoch`` is whether ``/controller_epoch`` is first raised to the newest epoch in
        ZooKeeper, if it is older.
        """


# --- voters -----------------------------------------------------------------------------------
#
# Controllers that leave and join the metadata quorum while the system runs.


class Voters(Protocol):
    """The voters of a metadata quorum that can be changed (KIP-853).

    A voter is one directory of one controller: a controller with an empty disk is another voter.
    ``remove`` and ``add`` raise OrderRefused and AdminTimeout.
    """

    def now(self) -> Mapping[int, str]:
        """Return the directory id of each voter by ``node.id``, as the active controller describes
        the quorum. Raises ``infra.api.interface.ViewUnavailable``."""

    def directory(self, controller: int) -> str:
        """Return the id of a controller's present directory, as it is on its node. Raises
        ``infra.api.interface.InfraError`` if there is none."""

    def remove(self, controller: int, within_s: float) -> None:
        """Remove a controller from the voters, unless it is none."""

    def add(self, controller: int, within_s: float) -> None:
        """Add a controller that runs to the voters with its present directory, unless it is one."""

    def empty(self, controller: int) -> None:
        """Empty the disk of a controller that is no voter and has ended. Raises RuntimeError unless
        both are so. When it starts again, it has another directory id."""


# --- administration -------------------------------------------------------------------------------
#
# The orders that an administrator can give to a running cluster.
#
# A refused order is repeated until its time is up. A controller that is being elected, or a broker
# that is starting, refuses an order that it carries out a moment later. It must therefore be
# harmless to give an order twice.


class Election(StrEnum):
    """The replica that an election makes the leader."""

    PREFERRED = "preferred"
    """The first replica of the assignment, if it is in sync."""
    UNCLEAN = "unclean"
    """Any replica that is online, if no replica of the ISR is."""


class OrderRefused(Exception):
    """The cluster refused the order until its time was up. It has not been carried out."""


class NoSuchTopic(OrderRefused):
    """The topic, or the partition of it, does not exist."""


class AdminTimeout(Exception):
    """No broker answered in time. The order may have been carried out, or may yet be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirectory:
    """One of a broker's log directories, as the broker describes it (DescribeLogDirs).

    Attributes:
        path: The absolute path on the broker's node.
        logs: The topics and numbers of the partitions whose replica lies there.
        futures: Those of the partitions whose replica is being moved there. Kafka calls the copy
            the future replica (KIP-113).
    """

    path: str
    logs: frozenset[tuple[str, int]]
    futures: frozenset[tuple[str, int]] = frozenset()


class Admin(Protocol):
    """An administrator of the cluster, which gives each order for at most ``within_s`` seconds.

    It is thread-safe. Brokers are ``broker.id``s. All methods raise OrderRefused and NoAnswer.
    """

    @property
    def answer_ms(self) -> int:
        """Return how many milliseconds an order may take if nothing delays it."""

    def reassign(
        self, topic: str, partition: int, replicas: Sequence[int], within_s: float
    ) -> None:
        """Begin to move a partition to these replicas, the preferred one first.

        A move in progress is redirected. ZooKeeper shows when it has ended. Raises NoSuchTopic.
        """

    def elect(self, election: Election, topic: str, partition: int, within_s: float) -> bool:
        """Have a leader elected. Return whether an election was needed."""

    def create_topic(
        self, topic: str, assignment: Sequence[Sequence[int]], within_s: float
    ) -> None:
        """Create a topic with the replicas of each partition, unless it exists."""

    def grow_topic(self, topic: str, partitions: int, within_s: float) -> None:
        """Give a topic so many partitions, unless it has them."""

    def delete_topic(self, topic: str, within_s: float) -> None:
        """Delete a topic if it exists."""

    def set_topic_config(self, topic: str, name: str, value: str | None, within_s: float) -> None:
        """Set one of the topic's own settings; with None the broker's setting applies from now
        on."""

    def topic_config(self, topic: str) -> Mapping[str, str]:
        """Return the topic's own settings, as ZooKeeper has them now.

        Raises ``infra.api.interface.ViewUnavailable``.
        """

    def append(self, topic: str, partition: int, records: int, within_s: float) -> None:
        """Write so many records that no workload counts."""

    def delete_records(self, topic: str, partition: int, before: int, within_s: float) -> None:
        """Delete the records below an offset."""

    def log_start(self, topic: str, partition: int, within_s: float) -> int:
        """Return the first offset that the partition's leader has."""

    def log_directories(self, broker: int, within_s: float) -> Sequence[LogDirectory]:
        """Return the log directories of a broker that work, by the broker's own answer."""

    def move_log(
        self, broker: int, topic: str, partition: int, directory: str, within_s: float
    ) -> None:
        """Begin to move the broker's replica of a partition to another of its log directories.

        :meth:`log_directories` shows when the move has ended.
        """

    def limit_log_moves(self, broker: int, bytes_per_s: int | None, within_s: float) -> None:
        """Limit the bytes a second that a broker moves between its log directories; None lifts the
        limit."""

    def set_group_config(self, group: str, name: str, value: str, within_s: float) -> None:
        """Set one of a group's own settings, and return when all brokers know it. The group need
        not exist."""


# --- the remote tier --------------------------------------------------------------------------
#
# The storage to which brokers copy closed segments (KIP-405).


class TierProblem(StrEnum):
    """A fault of a broker's use of the remote tier."""

    ABSENT = "absent"
    """Every operation fails."""
    READ_ONLY = "read-only"
    """Uploads and deletions fail, and reads succeed."""
    SLOW = "slow"
    """Every operation takes longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierUse:
    """The operations of a broker on the remote tier.

    Attributes:
        problem: The fault that is on; None without one.
        disturbed: The number of operations that the last fault refused or delayed.
        passed: The number that passed after the last of these.
    """

    problem: TierProblem | None
    disturbed: int
    passed: int


class RemoteTier(Protocol):
    """The remote tier of a system's brokers. Methods take a broker's id, and raise InfraError if
    the tier cannot be reached."""

    def disturb(self, broker: int, problem: TierProblem, delay_ms: int) -> None:
        """Begin a fault of a broker's use of the tier. ``delay_ms`` is how much longer each
        operation takes if it is slow."""

    def restore(self, broker: int) -> None:
        """End the fault. Idempotent."""

    def use(self, broker: int) -> TierUse:
        """Return the operations of a broker so far."""


# --- certificates -----------------------------------------------------------------------------
#
# Certificates of brokers that can be exchanged while they run.


class CertificateProblem(StrEnum):
    """The reason why clients must not accept a certificate."""

    EXPIRED = "expired"
    """Its time is over."""
    FOREIGN = "foreign"
    """Another authority has issued it, which clients do not trust."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandshakeResult:
    """The result of new TLS handshakes with a broker.

    Attributes:
        serials: The serial number of the certificate at each of the broker's listeners, by the
            listener's name; of those that answered.
        refusal: Why a client of the run refuses the certificate at the listener for clients; None
            if it accepts it.
    """

    serials: dict[str, int]
    refusal: str | None


class BrokerCertificates(Protocol):
    """The certificates of a system's brokers.

    Each method takes a broker's name, and raises InfraError if the broker does not answer.
    """

    def renew(self, broker: str) -> None:
        """Give the broker new certificates of the run's authority for all its listeners, and let
        it load them without a restart."""

    def spoil(self, broker: str, problem: CertificateProblem) -> None:
        """Give the broker a bad certificate for its listener for clients, and let it load it
        without a restart."""

    def installed(self, broker: str) -> dict[str, int]:
        """Return the serial number of the certificate that the broker was last given for each
        listener, by the listener's name."""

    def shown(self, broker: str) -> HandshakeResult:
        """Return the results of new handshakes with the broker."""
