"""A broker as the controller sees it: registered, and answering what it is told over TCP."""

import asyncio

from kio.schema.errors import ErrorCode

from ackproof.broker.controller.cluster import BrokerInfo, Endpoint
from ackproof.broker.server.requests.dispatch import APIS
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.codec import first_fields, read_request, write_response
from ackproof.broker.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from ackproof.broker.wire.messages.stop_replica import StopReplicaResponse
from ackproof.broker.wire.messages.update_metadata import (
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from tests.support.clients.frames import read_frame
from tests.support.processes.process import free_port


class ListeningBroker:
    """Answers every request with success and keeps it in ``requests``; ``roles`` and ``stopped``
    say their results."""

    def __init__(self, broker_id, zk):
        self.id = broker_id
        self.zk = zk
        self.requests = []
        self.roles = {}
        self.stopped = {}
        self.port = free_port()
        self._writers = set()
        self.answering = asyncio.Event()
        """Cleared: requests are taken in, and answered later."""
        self.answering.set()
        self._registered = asyncio.Event()
        self.zk.on_session_expired(self._registered.clear)

    async def start(self):
        await self.listen()
        await self.zk.start()
        await self.register()

    async def listen(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    def hang_up(self):
        """Close all connections and accept no more; the broker stays registered."""
        self._server.close()
        for writer in tuple(self._writers):
            writer.close()

    async def register(self):
        endpoint = Endpoint(host="127.0.0.1", port=self.port)
        info = BrokerInfo(broker_id=self.id, endpoints=(endpoint,))
        self.epoch = await self.zk.register_broker(info)
        self._registered.set()

    async def registered(self):
        await self._registered.wait()

    def told_of(self, tp):
        """Whether it has heard all about a new partition: its role first, then the metadata."""
        named = [r for r in self.requests if isinstance(r, UpdateMetadataRequest)]
        topics = {state.topic_name for request in named for state in request.topic_states}
        return tp in self.roles and tp.topic in topics

    async def close(self):
        self.hang_up()
        await self._server.wait_closed()
        await self.zk.close()

    async def _serve(self, reader, writer):
        self._writers.add(writer)
        try:
            while (payload := await read_frame(reader)) is not None:
                first = first_fields(payload)
                _, request = read_request(APIS[first.api_key].request, first, payload)
                self.requests.append(request)
                await self.answering.wait()
                answer = self._answer(request)
                writer.write(write_response(first.correlation_id, answer, first.version))
        except (OSError, EOFError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    def _answer(self, request):
        none = ErrorCode.none
        if isinstance(request, UpdateMetadataRequest):
            return UpdateMetadataResponse(error_code=none)
        if isinstance(request, LeaderAndIsrRequest):
            for topic in request.topic_states:
                for role in topic.partition_states:
                    self.roles[TopicPartition(topic.topic_name, role.partition_index)] = role
            return LeaderAndIsrResponse(error_code=none, topics=())
        for topic in request.topic_states:
            for stop in topic.partition_states:
                tp = TopicPartition(topic.topic_name, stop.partition_index)
                self.roles.pop(tp, None)
                self.stopped[tp] = stop
        return StopReplicaResponse(error_code=none, partition_errors=())
