"""InitProducerId (api 22), versions 0 to 4.

Behaviour: a producer without transactional id gets a new producer id with epoch 0, whatever id it
had before, as in Kafka. It waits while ZooKeeper cannot be reached and no id is left. Where nobody
can tell which ids were given out, since the znode holds nonsense, UNKNOWN_SERVER_ERROR.
Not modelled: transactions; a transactional id is INVALID_REQUEST.

v2 flexible, v3 the id and epoch that a producer has, v4 PRODUCER_FENCED.
"""

import logging

from kio.schema.errors import ErrorCode

from ackproof.broker.server.requests.context import Context
from ackproof.broker.server.zk.znodes import MalformedNode
from ackproof.broker.types import ProducerId
from ackproof.broker.wire.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

logger = logging.getLogger(__name__)

NO_PRODUCER = ProducerId(-1)


async def handle(request: InitProducerIdRequest, context: Context) -> InitProducerIdResponse:
    """Answers when there is an id."""
    error, producer_id = await _new_id(request, context)
    return InitProducerIdResponse(
        error_code=error,
        producer_id=producer_id,
        producer_epoch=0 if error is ErrorCode.none else -1,
    )


async def _new_id(request: InitProducerIdRequest, context: Context) -> tuple[ErrorCode, ProducerId]:
    if request.transactional_id is not None:
        return ErrorCode.invalid_request, NO_PRODUCER
    try:
        return ErrorCode.none, await context.producer_ids.next()
    except MalformedNode as error:
        logger.error("no producer id: %s", error)
        return ErrorCode.unknown_server_error, NO_PRODUCER
