"""InitProducerId (api 22), versions 0 to 4.

Behaviour: a producer without transactional id gets a new producer id with epoch 0, whatever id it
had before, as in Kafka. It waits while ZooKeeper cannot be reached and no id is left.
Not modelled: transactions; a transactional id is INVALID_REQUEST.

v2 flexible, v3 the id and epoch that a producer has, v4 PRODUCER_FENCED.
"""

from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v4.request import InitProducerIdRequest

from broker.server.requests.answer import NO_THROTTLE, Answer
from broker.server.requests.context import Context

UNKNOWN = -1


async def handle(request: InitProducerIdRequest, context: Context) -> Any:
    """Answers when there is an id."""
    answer = Answer.to(request)
    refused = request.transactional_id is not None
    return answer(
        "InitProducerIdResponse",
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.invalid_request if refused else ErrorCode.none,
        producer_id=UNKNOWN if refused else await context.producer_ids.next(),
        producer_epoch=UNKNOWN if refused else 0,
    )
