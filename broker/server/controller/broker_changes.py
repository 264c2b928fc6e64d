"""What a controller logs of brokers that start or fail, in the words of Kafka 0.8 (*Failover*,
"Broker failure" and "Broker startup")."""

import logging
from collections.abc import Iterable, Mapping

from ackproof.broker.controller.cluster import LiveBroker
from ackproof.broker.types import BrokerId

logger = logging.getLogger(__name__)


def log_broker_changes(
    controller: BrokerId,
    known: Mapping[BrokerId, LiveBroker],
    live: Mapping[BrokerId, LiveBroker],
) -> None:
    """Log which brokers have come and gone since ``known``, if any has.

    A broker that has registered anew in between counts as gone and as come, as for the controller
    itself. Kafka 0.8 did not see it.
    """
    same = {broker for broker in known.keys() & live if known[broker].epoch == live[broker].epoch}
    added, deleted = live.keys() - same, known.keys() - same
    if not added and not deleted:
        return
    logger.info(
        "[BrokerChangeListener on Controller %d]: Newly added brokers: %s, deleted brokers: %s, "
        "all live brokers: %s",
        controller,
        _ids(added),
        _ids(deleted),
        _ids(live),
    )
    if deleted:
        logger.info("[Controller %d]: Broker failure callback for %s", controller, _ids(deleted))
    if added:
        logger.info("[Controller %d]: New broker startup callback for %s", controller, _ids(added))


def _ids(brokers: Iterable[BrokerId]) -> str:
    return ",".join(map(str, sorted(brokers)))
