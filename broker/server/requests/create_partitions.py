"""CreatePartitions (api 37), versions 0 to 3.

Behaviour: only the controller's broker serves it, others say NOT_CONTROLLER. The new partitions
are written to ZooKeeper; the answer waits, up to ``timeout``, until this broker sees a leader of
every partition. A topic that is being reassigned is left alone.
Not modelled: quotas.
"""

import asyncio

from kio.schema.errors import ErrorCode

from ackproof.broker.server.admin.topics import Refused
from ackproof.broker.server.requests.context import Context
from ackproof.broker.types import BrokerId
from ackproof.broker.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


async def handle(request: CreatePartitionsRequest, context: Context) -> CreatePartitionsResponse:
    """Answers when the partitions are led, or with REQUEST_TIMED_OUT."""
    names = [topic.name for topic in request.topics]
    results = await asyncio.gather(
        *(_extend(topic, names, request, context) for topic in request.topics)
    )
    return CreatePartitionsResponse(
        results=tuple(
            CreatePartitionsTopicResult(
                name=name,
                error_code=result.error,
                error_message=str(result) or None,
            )
            for name, result in zip(names, results, strict=True)
        ),
    )


async def _extend(
    topic: CreatePartitionsTopic,
    names: list[str],
    request: CreatePartitionsRequest,
    context: Context,
) -> Refused:
    name, count = topic.name, topic.count
    try:
        if not context.coordinator.active:
            raise Refused(ErrorCode.not_controller, "This is not the controller.")
        if names.count(name) > 1:
            raise Refused(ErrorCode.invalid_request, f"{name} is named more than once.")
        await context.topics.add_partitions(
            name, count, _assignment(topic), validate_only=request.validate_only
        )
        if not request.validate_only:
            await context.topics.wait_until_led(name, count, request.timeout_ms / 1000)
    except Refused as refused:
        return refused
    return Refused(ErrorCode.none, "")


def _assignment(topic: CreatePartitionsTopic) -> list[tuple[BrokerId, ...]] | None:
    if topic.assignments is None:
        return None
    return [entry.broker_ids for entry in topic.assignments]
