"""Looks at the cluster several times a second and reports what has changed.

Of what changes and changes back between two looks nothing is seen, and nothing shows that: leader
epochs and versions are not told.
"""

import time
from collections.abc import Callable
from dataclasses import replace

from ackproof.infra.changes import ClusterChange
from ackproof.infra.interface import ClusterView
from ackproof.infra.systems.polling import PollingObserver

_EVERY_S = 0.2


def looking_observer(
    look: Callable[[], ClusterView],
    on_change: Callable[[ClusterChange], None],
    clock: Callable[[], int] = time.time_ns,
) -> PollingObserver:
    """An observer of what ``look`` finds; it raises ViewUnavailable."""
    return PollingObserver(
        lambda report: report(look()),
        _EVERY_S,
        lambda change: on_change(_told(change)),
        clock,
    )


def _told(change: ClusterChange) -> ClusterChange:
    """Without what a client is not told: a null in the history is no epoch."""
    return replace(change, leader_epoch=None, controller_epoch=None, version=None)
