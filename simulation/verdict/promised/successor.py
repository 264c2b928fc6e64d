"""**SuccessorSaysAll**: what a new controller says first is all that there is.

A topic was deleted, and the controller died before a broker had heard of that. The next one knows
of no such topic, and will never name it: the broker must forget what it was told by the former one
(``MetadataCache.update``). That takes a controller, a broker that it does not reach and a deletion
at one moment, so it is said on purpose, by somebody in a controller's name.
"""

from typing import Final

from kio.schema.errors import ErrorCode

from ackproof.broker.types import BrokerId, ControllerEpoch
from ackproof.broker.wire.messages.metadata import MetadataRequest
from ackproof.broker.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
)
from simulation.clients.client import Client
from simulation.model.observer import Observer
from simulation.verdict.refused.words import answered
from simulation.violation import Violation

PLAINTEXT: Final = 0


async def check(client: Client, observer: Observer) -> None:
    """Raises Violation. The broker that hears it obeys no other controller afterwards."""
    if observer.controller is None:
        return
    broker = client.brokers[0]
    own = observer.settings.properties[broker]
    host, port = own.advertised
    endpoint = UpdateMetadataEndpoint(
        port=port, host=host, listener="PLAINTEXT", security_protocol=PLAINTEXT
    )
    alive = UpdateMetadataBroker(id=BrokerId(broker), endpoints=(endpoint,), rack=own.broker_rack)
    said = UpdateMetadataRequest(
        controller_id=BrokerId(observer.controller),
        controller_epoch=ControllerEpoch(observer.controller_epoch + 1),
        broker_epoch=observer.registered[broker],
        topic_states=(),
        live_brokers=(alive,),
    )
    answer = await answered(client, broker, said)
    if answer.error_code is not ErrorCode.none:
        what = f"broker {broker} answers {answer.error_code.name} to a new controller"
        raise Violation("SuccessorSaysAll", what)
    asked = MetadataRequest(version=9, topics=None, allow_auto_topic_creation=False)
    told = await answered(client, broker, asked)
    if told.topics:
        names = sorted(str(topic.name) for topic in told.topics)
        what = f"a new controller names no topic, and broker {broker} tells of {names}"
        raise Violation("SuccessorSaysAll", what)
