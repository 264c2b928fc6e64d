"""Observations of disks and of the files on them, read and written once more at every look."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from ackproof.infra.api.interface import InfraError, Server
from ackproof.infra.api.storage import Disk, ProbeBlocks
from ackproof.nemesis.effects import OnDisk
from ackproof.nemesis.interface import Injection, Look, Observation
from ackproof.nemesis.proofs import Seen, intended, observe, of_disk, struck, unless
from ackproof.nemesis.storage.effects import REFUSALS, DiskSlowdown, FailDisk, PowerLoss

E = TypeVar("E", bound=OnDisk)

_LASTING_S = 0.5
"""How long the write takes that shows a slow disk, in seconds; half of it is enough."""


def lost(injection: Injection) -> Look:
    """Return a look at two blocks that were written just before the power failed.

    The block that was synced must be there, and the other must not.
    """

    def seen(server: Server, effect: PowerLoss) -> Seen:
        words = [_blocks_shown(disk.witnesses(), effect.token) for disk in server.disks]
        return bool(words) and set(words) == {"synced there, unsynced gone"}, words

    return _of_disks(injection, "unsynced data is gone", _planned(injection, PowerLoss), seen)


def refused(injection: Injection) -> Look:
    """Return a look at whether every disk that fails refuses a real write, for the intended
    reason."""

    def seen(server: Server, effect: FailDisk) -> Seen:
        found = [disk.refuses_writes() for disk in effect.affected_disks(server)]
        return set(found) == {REFUSALS[effect.how]}, found

    return _of_disks(injection, "writes refused", _planned(injection, FailDisk), seen)


def slowed(injection: Injection) -> Look:
    """Return a look at whether a real write to every disk takes as long as it must."""

    def seen(server: Server, effect: DiskSlowdown) -> Seen:
        size = max(1, int(effect.bytes_per_s * _LASTING_S))
        took = [disk.seconds_to_write(size) for disk in server.disks]
        slow = all(seconds >= _LASTING_S / 2 for seconds in took)
        return bool(took) and slow, [f"{size} bytes in {seconds:.2f} s" for seconds in took]

    return _of_disks(injection, "writes are slow", _planned(injection, DiskSlowdown), seen)


def damaged(injection: Injection) -> Look:
    """Return a look at whether the damage is in the files of logs, which are read again."""
    return _damage(injection, "damaged", _planned(injection, OnDisk))


def torn(injection: Injection) -> Look:
    """Return a look at whether what a power failure has left at the ends of logs is there, read
    again.

    It leaves out the servers where the fault leaves nothing.
    """
    planned = _planned(injection, PowerLoss)
    torn = {server: effect for server, effect in planned.items() if effect.tail != "lost"}
    return _damage(injection, "torn", torn)


def serving(injection: Injection, servers: Iterable[str]) -> Look:
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
