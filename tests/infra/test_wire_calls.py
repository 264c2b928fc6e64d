"""A request of Kafka's protocol to a broker that answers, or does something else."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from kio.schema.alter_partition_reassignments.v0.request import AlterPartitionReassignmentsRequest
from kio.schema.alter_partition_reassignments.v0.response import (
    AlterPartitionReassignmentsResponse,
)

from ackproof.infra.systems.wire import call
from tests.support.processes.deadlines import PATIENCE_S

Talk = Callable[[socket.socket], None]
REQUEST = AlterPartitionReassignmentsRequest(topics=())
NOTHING = struct.pack(">ib", 1, 0) + struct.pack(">ihbbb", 0, 0, 0, 1, 0)
"""Correlation id 1, no tags; not throttled, no error, no message, no topics, no tags."""


@contextmanager
def broker(talk: Talk) -> Iterator[tuple[str, int]]:
    """One that does this with its first connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                talk(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def read_request(connection: socket.socket) -> bytes:
    (length,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
    return connection.recv(length, socket.MSG_WAITALL)


def answering(*pieces: bytes) -> Talk:
    def talk(connection: socket.socket) -> None:
        read_request(connection)
        for piece in pieces:
            connection.sendall(piece)

    return talk


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def test_an_answer_in_pieces() -> None:
    answer = framed(NOTHING)
    with broker(answering(*(answer[n : n + 1] for n in range(len(answer))))) as address:
        found = call(address, REQUEST, AlterPartitionReassignmentsResponse, PATIENCE_S)
    assert found.error_code.value == 0
    assert found.responses == ()


@pytest.mark.parametrize(
    ("pieces", "told"),
    [
        ((framed(NOTHING)[:-3],), "closed the connection"),
        ((), "closed the connection"),
        ((framed(b"\xff" * 20),), "no AlterPartitionReassignmentsResponse"),
        ((framed(b"\0\0\0\2" + NOTHING[4:]),), "the answer to request 2"),
        ((struct.pack(">i", 1 << 30),), "answers with 1073741824 bytes"),
        ((struct.pack(">i", -1),), "answers with -1 bytes"),
    ],
)
def test_no_answer(pieces: tuple[bytes, ...], told: str) -> None:
    with broker(answering(*pieces)) as address, pytest.raises(OSError, match=told):
        call(address, REQUEST, AlterPartitionReassignmentsResponse, PATIENCE_S)


def test_a_broker_that_says_a_byte_now_and_then_is_given_up() -> None:
    over = threading.Event()

    def trickle(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(struct.pack(">i", 1000))
        while not over.wait(0.02):
            with suppress(OSError):
                connection.sendall(b"\0")

    with broker(trickle) as address:
        try:
            with pytest.raises(TimeoutError):
                call(address, REQUEST, AlterPartitionReassignmentsResponse, 0.3)
        finally:
            over.set()
