"""The metadata of a cluster with KRaft, read from its controllers: present state and changes."""

import threading
from collections.abc import Callable, Mapping
from typing import TypeVar

from ackproof.infra.api.interface import ClusterView
from ackproof.infra.api.metadata import ClusterChange, Observer
from ackproof.infra.systems.kafka.kraft.image import Image
from ackproof.infra.systems.kafka.kraft.log import (
    Address,
    MetadataLog,
    Quorum,
    ReadingOrigin,
    log_observer,
)
from ackproof.infra.systems.kafka.kraft.records import RecordSchemas
from ackproof.infra.systems.kafka.releases import Release, described, newest_records
from ackproof.infra.systems.wire import Connect, in_the_clear

_WITHIN_S = 2.0

T = TypeVar("T")


def schemas_of(release: Release) -> RecordSchemas:
    """Return the encoding of the records of a release's metadata log.

    A newer release reads what older ones have written, so that in an upgrade the newer one's
    encoding is right for both.

    A release that could not be asked (:func:`infra.systems.kafka.releases.keep_description`) is
    assumed to encode them as the newest known release does. A record that this one does not know
    is then refused by name.
    """
    own = (described(release) or {}).get("records")
    return RecordSchemas(f"Apache Kafka {release.version}", own or newest_records())


class ClusterMetadata:
    """The metadata of one cluster. Thread-safe.

    Args:
        controllers: The ``node.id`` and address of each controller, by its name.
        release: The newest release that writes the log.
        connect: Opens a connection to a controller.
        keeps: Returns whether a topic with this name is seen; None for all topics.
        cluster_id: The id of the cluster, which controllers of another one refuse; None for any.

    Attributes:
        ensemble: The controllers as a quorum.
    """

    def __init__(
        self,
        controllers: Mapping[str, tuple[int, Address]],
        release: Release,
        connect: Connect = in_the_clear,
        keeps: Callable[[str], bool] | None = None,
        cluster_id: str | None = None,
    ) -> None:
        self._addresses = dict(controllers.values())
        self._schemas = schemas_of(release)
        self._connect = connect
        self._keeps = keeps
        self._cluster_id = cluster_id
        self._log = self.opened()
        self._reading = threading.Lock()
        self.ensemble = Quorum(controllers, connect)

    def read(self, use: Callable[[Image, ReadingOrigin], T], within_s: float = _WITHIN_S) -> T:
        """Return what ``use`` returns for the present state. Raises ViewUnavailable, and
        ViewUnsupported for a record that can never be read."""
        with self._reading:
            return use(*self._log.read(within_s))

    def view(self) -> ClusterView:
        """Return the present view. Raises as :meth:`read`."""
        return self.read(lambda image, moment: image.view(moment.controller, moment.epoch))

    def observer(
        self,
        on_change: Callable[[ClusterChange], None],
        clock: Callable[[], int],
        *,
        from_now: bool = False,
    ) -> Observer:
        """Return an observer with a connection of its own (:func:`log_observer`)."""
        return log_observer(self.opened(), on_change, clock, from_now=from_now)

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self._log.close()

    def opened(self) -> MetadataLog:
        """Return a reader of the log with a connection of its own."""
        return MetadataLog(
            self._addresses, self._schemas, self._connect, self._keeps, self._cluster_id
        )
