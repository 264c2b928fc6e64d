"""Whose log directories these are: ``meta.properties``, checked before anything in them is touched.

Another broker's logs under our id: followers of partitions that both hold would cut ours by
epochs that speak of other records, and what we lack would count as replicated, because an ISR has
our id in it. Another cluster's: topics of the same names are other topics, which topic ids tell
only where the log has one.
"""

from collections.abc import Sequence
from pathlib import Path

from ackproof.broker.log.disk.checkpoints import (
    META_PROPERTIES,
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)
from ackproof.broker.log.disk.files import Directory


class ForeignLogDirectory(Exception):
    """A log directory of somebody else; nothing was changed."""


class InconsistentBrokerId(ForeignLogDirectory):
    """Of another broker."""


class InconsistentClusterId(ForeignLogDirectory):
    """Of another cluster."""


def claim(directories: Sequence[Directory], owner: MetaProperties) -> None:
    """Makes these directories ``owner``'s. One without ``meta.properties`` is anybody's, even with
    logs in it, as in Kafka.

    Raises:
        InconsistentBrokerId, InconsistentClusterId: one of them is another's.
        CorruptCheckpoint: a file does not say whose directory it is.
        OSError: the disk says no.
    """
    found = {directory: read_meta_properties(directory) for directory in directories}
    for directory, meta in found.items():
        if meta is not None:
            _check(directory.path / META_PROPERTIES, meta, owner)
    for directory, meta in found.items():
        if meta is None:
            write_meta_properties(directory, owner)


def _check(path: Path, meta: MetaProperties, owner: MetaProperties) -> None:
    if meta.cluster_id != owner.cluster_id:
        raise InconsistentClusterId(
            f"{path}: cluster.id={meta.cluster_id}, but this cluster is {owner.cluster_id}; "
            f"zookeeper.connect should name that cluster's ZooKeeper, or log.dirs other directories"
        )
    if meta.broker_id != owner.broker_id:
        raise InconsistentBrokerId(
            f"{path}: broker.id={meta.broker_id}, but this is broker {owner.broker_id}; broker.id "
            f"should be {meta.broker_id} for these logs, or log.dirs name other directories"
        )
