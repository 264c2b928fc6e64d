"""DeleteTopics (api 20), versions 1 to 5.

Behaviour: only the controller's broker serves it, others say NOT_CONTROLLER. The order to delete
is written to ZooKeeper; the answer waits, up to ``timeout``, until this broker has heard that the
topic is gone. Its name is free again when all of its replicas are deleted, see
:mod:`broker.controller.deletion`.
Not modelled: deletion by topic id (v6).

v5 error_message.
"""

import asyncio

from kio.schema.errors import ErrorCode

from ackproof.broker.server.admin.topics import Refused
from ackproof.broker.server.requests.context import Context
from ackproof.broker.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)


async def handle(request: DeleteTopicsRequest, context: Context) -> DeleteTopicsResponse:
    """Answers when the topics are gone, or with REQUEST_TIMED_OUT."""
    names = request.topic_names
    timeout_s = request.timeout_ms / 1000
    results = await asyncio.gather(*(_delete(name, timeout_s, context) for name in names))
    return DeleteTopicsResponse(
        responses=tuple(
            DeletableTopicResult(
                name=name,
                error_code=result.error,
                error_message=str(result) or None,
            )
            for name, result in zip(names, results, strict=True)
        ),
    )


async def _delete(name: str, timeout_s: float, context: Context) -> Refused:
    try:
        if not context.coordinator.active:
            raise Refused(ErrorCode.not_controller, "This is not the controller.")
        await context.topics.delete(name)
        await context.topics.wait_until_gone(name, timeout_s)
    except Refused as refused:
        return refused
    return Refused(ErrorCode.none, "")
