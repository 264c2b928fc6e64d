"""InitProducerId (api 22), versions 0 to 4.

Behaviour: a producer without transactional id gets a new producer id with epoch 0, whatever id it
had before, as in Kafka. It waits while ZooKeeper cannot be reached and no id is left. Where nobody
can tell which ids were given out, since the znode holds nonsense, UNKNOWN_SERVER_ERROR.
Not modelled: transactions; a transactional id is INVALID_REQUEST.

v2 flexible, v3 the id and epoch that a producer has, v4 PRODUCER_FENCED.
"""

import logging
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v4.request import InitProducerIdRequest

from broker.server.requests.answer import NO_THROTTLE, Answer
from broker.server.requests.context import Context
from broker.server.zk.znodes import MalformedNode

logger = logging.getLogger(__name__)

UNKNOWN = -1


async def handle(request: InitProducerIdRequest, context: Context) -> Any:
    """Answers when there is an id."""
    answer = Answer.to(request)
    error, producer_id = await _new_id(request, context)
    return answer(
        "InitProducerIdResponse",
        throttle_time=NO_THROTTLE,
        error_code=error,
        producer_id=producer_id,
        producer_epoch=0 if error is ErrorCode.none else UNKNOWN,
    )


async def _new_id(request: InitProducerIdRequest, context: Context) -> tuple[ErrorCode, int]:
    if request.transactional_id is not None:
        return ErrorCode.invalid_request, UNKNOWN
    try:
        return ErrorCode.none, await context.producer_ids.next()
    except MalformedNode as error:
        logger.error("no producer id: %s", error)
        return ErrorCode.unknown_server_error, UNKNOWN
