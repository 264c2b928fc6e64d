"""The small files beside the logs, in Kafka's formats.

* ``recovery-point-offset-checkpoint``: below it a log is fsynced and needs no check after a crash.
* ``replication-offset-checkpoint``: the high watermarks.
* ``log-start-offset-checkpoint``: log starts that lie inside a segment (DeleteRecords).

Each has a version (0), a count, and "topic partition offset" lines. They are replaced atomically
and durably. A file that does not fit its format was damaged by another program. That is an error,
and never an empty checkpoint.

* ``.kafka_cleanshutdown``: exists only while the logs are unchanged since a clean shutdown.
* ``meta.properties``: the broker and cluster to which a log directory belongs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jproperties import Properties

from ackproof.broker.log.disk.files import Directory
from ackproof.broker.types import BrokerId, TopicPartition

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
META_PROPERTIES = "meta.properties"

_VERSION = "0"


class CorruptCheckpoint(Exception):
    """A checkpoint file that is not in its format. The text names the file and the error."""


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The owner of a log directory."""

    broker_id: BrokerId
    cluster_id: str


def read_checkpoint(directory: Directory, name: str) -> Sequence[str]:
    """Return the entries of a checkpoint file, none if there is no file. Raise
    CorruptCheckpoint."""
    try:
        content = directory.read(name)
    except FileNotFoundError:
        return []
    return _entries(content, directory.path / name)


def _entries(content: bytes, path: Path) -> Sequence[str]:
    try:
        lines = content.decode().splitlines()
    except UnicodeDecodeError as error:
        raise CorruptCheckpoint(f"{path}: {error}") from error
    version, count, *entries = lines if len(lines) > 1 else ("", "")
    if version != _VERSION:
        raise CorruptCheckpoint(f"{path}: version {version!r}, expected {_VERSION}")
    if count != str(len(entries)):
        raise CorruptCheckpoint(f"{path}: {len(entries)} entries, but it says {count!r}")
    return entries


def checkpoint_content(entries: Sequence[str]) -> bytes:
    """Return the content of a checkpoint file with these entries."""
    lines = (_VERSION, str(len(entries)), *entries)
    return "".join(f"{line}\n" for line in lines).encode()


def read_offsets(directory: Directory, name: str) -> dict[TopicPartition, int]:
    """Return the offsets of a checkpoint file, none if there is no file. Raise
    CorruptCheckpoint."""
    return _offsets(read_checkpoint(directory, name), directory.path / name)


def offsets_in(content: bytes, path: Path) -> dict[TopicPartition, int]:
    """Return the offsets in this content of the file at ``path``. Raise CorruptCheckpoint."""
    return _offsets(_entries(content, path), path)


def _offsets(entries: Sequence[str], path: Path) -> dict[TopicPartition, int]:
    offsets = {}
    for line in entries:
        try:
            topic, partition, offset = line.split(" ")
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError as error:
            raise CorruptCheckpoint(
                f"{path}: {line!r}, expected 'topic partition offset'"
            ) from error
    return offsets


def offsets_content(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Return the content of a checkpoint file with these offsets."""
    return checkpoint_content(
        [f"{tp.topic} {tp.partition} {offset}" for tp, offset in sorted(offsets.items())]
    )


def write_offsets(directory: Directory, name: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace a checkpoint file by these offsets, durably."""
    directory.replace(name, offsets_content(offsets))


def take_clean_shutdown(directory: Directory) -> bool:
    """Return whether the last shutdown was clean, and remove the marker, durably. If it stayed, it
    would also vouch for a log that the next crash tears, and recovery would not look for the tear.
    """
    try:
        directory.files.remove(directory.path / CLEAN_SHUTDOWN)
        orderly = True
    except FileNotFoundError:
        orderly = False
    # Sync also if there is no marker: the process that removed it may have died before this.
    directory.sync()
    return orderly


def mark_clean_shutdown(directory: Directory) -> None:
    """Write the marker of a clean shutdown. Call this when everything else is on disk."""
    directory.replace(CLEAN_SHUTDOWN, b"")


def read_meta_properties(directory: Directory) -> MetaProperties | None:
    """Return the owner of the directory, or None if it has no owner yet.

    Raises:
        CorruptCheckpoint: a property is missing, or not of version 0.
    """
    path = directory.path / META_PROPERTIES
    properties = Properties()
    try:
        properties.load(directory.read(META_PROPERTIES), "utf-8")
    except FileNotFoundError:
        return None
    values = properties.properties
    try:
        if values["version"] != _VERSION:
            raise CorruptCheckpoint(f"{path}: version={values['version']}, expected {_VERSION}")
        return MetaProperties(BrokerId(int(values["broker.id"])), values["cluster.id"])
    except (KeyError, ValueError) as error:
        raise CorruptCheckpoint(f"{path}: broker.id or cluster.id: {error}") from error


def write_meta_properties(directory: Directory, meta: MetaProperties) -> None:
    """Make the directory this broker's, durably."""
    lines = (
        f"version={_VERSION}",
        f"broker.id={meta.broker_id}",
        f"cluster.id={meta.cluster_id}",
    )
    directory.replace(META_PROPERTIES, "".join(f"{line}\n" for line in lines).encode())
