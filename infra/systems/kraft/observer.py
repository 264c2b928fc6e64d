"""Follows the metadata log and reports what changes.

Nothing goes unseen, but some of it late: while the active controller does not answer, and before
another one is elected.
"""

import time
from collections.abc import Callable

from ackproof.infra.changes import ClusterChange
from ackproof.infra.systems.kraft.image import Image
from ackproof.infra.systems.kraft.log import MetadataLog, Moment
from ackproof.infra.systems.polling import PollingObserver, Report

_EVERY_S = 0.1
_ANSWER_S = 2.0


def log_observer(
    log: MetadataLog,
    on_change: Callable[[ClusterChange], None],
    clock: Callable[[], int] = time.time_ns,
) -> PollingObserver:
    """An observer of ``log``, which is nobody else's and is closed with it."""

    def ask(report: Report) -> None:
        def on_batch(image: Image, moment: Moment) -> None:
            report(image.view(moment.controller, moment.epoch))

        log.read(_ANSWER_S, on_batch)

    return PollingObserver(ask, _EVERY_S, on_change, clock, log.close)
