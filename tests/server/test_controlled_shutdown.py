"""Controlled shutdown: a stopping broker asks the controller in its present incarnation."""

import asyncio
from dataclasses import replace

from kio.schema.errors import ErrorCode

from ackproof.broker.server.controller.control_fence import ControlFence
from ackproof.broker.server.controller.controller_coordinator import hand_over
from ackproof.broker.wire.messages.controlled_shutdown import ControlledShutdownResponse
from ackproof.broker.wire.messages.update_metadata import UpdateMetadataEndpoint
from tests.support.fakes.scripted_leader import ScriptedLeader


def answered(error):
    return ControlledShutdownResponse(error_code=error, remaining_partitions=())


def test_broker_that_reregisters_hands_over_with_its_new_epoch(config, metadata, updated):
    """His session ended. The controller knows no more of the registration he began to stop with."""
    object.__setattr__(config, "controlled_shutdown_retry_backoff_ms", 0)
    fence = ControlFence()
    fence.broker_epoch = 7

    async def story():
        controller = ScriptedLeader()
        await controller.start()
        at = UpdateMetadataEndpoint(
            host="127.0.0.1", port=controller.port, listener="PLAINTEXT", security_protocol=0
        )
        said = updated({})
        metadata.update(
            replace(said, live_brokers=(replace(said.live_brokers[0], endpoints=(at,)),))
        )
        handing_over = asyncio.create_task(hand_over(config, fence, metadata))
        request, answer = await controller.next("ControlledShutdownRequest")
        assert request.broker_epoch == 7
        fence.broker_epoch = 9
        answer.set_result(answered(ErrorCode.stale_broker_epoch))
        request, answer = await controller.next("ControlledShutdownRequest")
        assert request.broker_epoch == 9
        answer.set_result(answered(ErrorCode.none))
        assert await handing_over
        await controller.close()

    asyncio.run(asyncio.wait_for(story(), 20))
