"""Causes of an unreachable cluster: distinguished over real sockets."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ackproof.infra.systems.external.reachability import why_silent, why_unreadable
from tests.support.fakes.tls_listener import ListeningTls
from tests.support.processes.process import free_port

Answer = Callable[[bytes], bytes]

API_VERSIONS, METADATA = 18, 3
APIS = struct.pack(">ihhhhhh", 2, METADATA, 0, 1, API_VERSIONS, 0, 0)


@contextmanager
def listening(answer: Answer) -> Iterator[str]:
    """A server that answers each piece that it receives."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(connection: socket.socket) -> None:
        with connection:
            while True:
                try:
                    asked = connection.recv(4096)
                    if not asked or not (told := answer(asked)):
                        return
                    connection.sendall(told)
                except OSError:
                    return

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def broker(host: str, port: int) -> Answer:
    """A broker that advertises ``host`` and ``port``, in versions 0 and 1 of the protocol."""

    def answer(asked: bytes) -> bytes:
        key, version, correlation = struct.unpack(">hhi", asked[4:12])
        if key == API_VERSIONS:
            body = struct.pack(">h", 35 if version else 0) + APIS
        else:
            name = host.encode()
            one = struct.pack(">ih", 1, len(name)) + name + struct.pack(">ih", port, -1)
            body = struct.pack(">i", 1) + one + struct.pack(">ii", 1, 0)
        return struct.pack(">ii", len(body) + 4, correlation) + body

    return answer


def why(bootstrap: str, **client: str) -> str:
    given = {name.replace("_", "."): value for name, value in client.items()}
    return why_silent({**given, "bootstrap.servers": bootstrap}, "timed out")


def test_nothing_listens() -> None:
    told = why(f"127.0.0.1:{free_port()}")
    assert "no server listens there (connection refused)" in told
    assert "check bootstrap.servers" in told


def test_bootstrap_name_is_unknown() -> None:
    assert "cannot resolve the name" in why("kafka1.invalid:9092")


@pytest.mark.parametrize(
    ("host", "words"), [("kafka1.invalid", "cannot resolve"), ("127.0.0.1", "no server listens")]
)
def test_advertised_address_is_out_of_reach(host: str, words: str) -> None:
    port = free_port()
    with listening(broker(host, port)) as bootstrap:
        told = why(bootstrap)
    assert f"broker 1 advertises {host}:{port}" in told
    assert words in told
    assert "advertised.listeners" in told


def test_all_is_in_reach_and_the_question_is_not_answered() -> None:
    itself: list[Answer] = []

    def answer(asked: bytes) -> bytes:
        return itself[0](asked)

    with listening(answer) as bootstrap:
        host, port = bootstrap.split(":")
        itself.append(broker(host, int(port)))
        assert why(bootstrap) == "it answers, but not this request: timed out"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n", "an HTTP server"),
        (lambda asked: b"imok" if asked == b"ruok" else b"", "it is ZooKeeper"),
        (lambda _: b"\x15\x03\x03\x00\x02\x02\x46", "it speaks TLS"),
        (lambda _: b"", "does not answer like a broker"),
        (lambda _: b"SSH-2.0-OpenSSH_9.2\r\n", "does not answer like a broker"),
    ],
)
def test_other_listener_is_no_broker(answer: Answer, words: str) -> None:
    with listening(answer) as bootstrap:
        assert words in why(bootstrap)


def test_listener_with_tls_is_asked_in_the_clear(tmp_path: Path) -> None:
    server = ListeningTls(tmp_path, "PLAIN", "u", "p")
    threading.Thread(target=server.serve, daemon=True).start()
    try:
        told = why(f"127.0.0.1:{server.address[1]}")
    finally:
        server.close()
    assert "it speaks TLS: give security.protocol SSL or SASL_SSL" in told


def test_listener_in_the_clear_is_asked_with_tls() -> None:
    with listening(broker("127.0.0.1", 1)) as bootstrap:
        told = why(bootstrap, security_protocol="ssl")
    assert "without TLS" in told


def test_unreadable_metadata_log_is_explained(tmp_path: Path) -> None:
    refused = "1: a fetch of the metadata log was answered with cluster_authorization_failed"
    assert "needs the ACL ClusterAction" in why_unreadable([], {}, refused)
    server = ListeningTls(tmp_path, "PLAIN", "u", "p")
    threading.Thread(target=server.serve, daemon=True).start()
    try:
        absent = ("127.0.0.1", free_port())
        told = why_unreadable([server.address, absent], {}, "silence")
    finally:
        server.close()
    assert "it speaks TLS" in told
    assert f"127.0.0.1:{absent[1]}: no server listens there" in told
