"""UnregisterBroker (api 64), version 0: ``kafka-cluster unregister --id N``.

Behaviour: served without a controller alone, where a broker has a queue in ZooKeeper that outlives
it (*Design V2*, the remove-brokers command); by any broker. Refused with INVALID_REQUEST while the
broker runs or has replicas, which Kafka's KRaft controllers let pass.
"""

import logging

from ackproof.broker.server.requests.context import Context
from ackproof.broker.types import BrokerId
from ackproof.broker.wire.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)

logger = logging.getLogger(__name__)


async def handle(request: UnregisterBrokerRequest, context: Context) -> UnregisterBrokerResponse:
    """Answers when the broker is forgotten."""
    outcome = await context.coordinator.remove_broker(BrokerId(request.broker_id))
    if outcome.text is not None:  # of which the clients of Kafka 3 show the code alone
        logger.warning("UnregisterBroker refused: %s", outcome.text)
    return UnregisterBrokerResponse(error_code=outcome.error, error_message=outcome.text)
