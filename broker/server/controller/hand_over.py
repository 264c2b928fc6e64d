"""Handing leaderships over before stopping (``controlled.shutdown.enable``).

The broker asks the controller to let other replicas lead its partitions, and stops when none is
left or when it has asked often enough. Without success it stops all the same: then the others
find out by its session.
"""

import asyncio
import logging

from kio.schema.errors import ErrorCode

from ackproof.broker.config import BrokerConfig
from ackproof.broker.server.controller.control_fence import ControlFence
from ackproof.broker.server.metadata_cache import MetadataCache
from ackproof.broker.server.network.broker_connection import BrokerConnection, Disconnected
from ackproof.broker.types import NO_LEADER
from ackproof.broker.wire.messages.controlled_shutdown import ControlledShutdownRequest

logger = logging.getLogger(__name__)


async def hand_over(config: BrokerConfig, fence: ControlFence, metadata: MetadataCache) -> bool:
    """Asks up to 1 + ``controlled.shutdown.max.retries`` times; True when nothing is led.

    Each time in the name of the present registration, as Kafka's ``KafkaServer`` does: a session
    may end meanwhile, and this broker register anew.

    Who has not heard of any controller yet, since it is still registering, leads nothing: roles are
    told after who is live.
    """
    if metadata.controller == NO_LEADER:
        return True
    for attempt in range(1 + config.controlled_shutdown_max_retries):
        if attempt:
            await asyncio.sleep(config.controlled_shutdown_retry_backoff_ms / 1000)
        try:
            if await _ask(config, fence.broker_epoch, metadata):
                return True
        except Disconnected as error:
            logger.warning("Controlled shutdown: %s", error)
    logger.warning("Controlled shutdown did not succeed, stopping all the same")
    return False


async def _ask(config: BrokerConfig, broker_epoch: int, metadata: MetadataCache) -> bool:
    controller = metadata.brokers.get(metadata.controller)
    if controller is None:
        raise Disconnected("no controller is known")
    connection = BrokerConnection(
        controller.listener.host, controller.listener.port, f"broker-{config.id}-shutdown"
    )
    try:
        response = await connection.call(
            ControlledShutdownRequest(broker_id=config.id, broker_epoch=broker_epoch),
            config.controller_socket_timeout_ms / 1000,
        )
    finally:
        await connection.close()
    remaining = [f"{p.topic_name}-{p.partition_index}" for p in response.remaining_partitions]
    logger.info("Controlled shutdown: %s, still led: %s", response.error_code.name, remaining)
    return response.error_code is ErrorCode.none and not remaining
