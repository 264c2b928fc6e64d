"""A broker that wants to see a certificate, and accepts a client that logs in by SASL."""

import contextlib
import io
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v1.request import SaslAuthenticateRequest
from kio.schema.sasl_authenticate.v1.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32
from kio.static.protocol import RequestPayload, ResponsePayload

from ackproof.infra.systems.security import HASHES
from tests.support.builders.certificates import Authority
from tests.support.fakes.scram_server import Server

P = TypeVar("P", bound=RequestPayload)

ANSWER = b"let in"
"""Its answer, in a frame, to an accepted client."""
_LENGTH = struct.Struct(">i")


class ListeningTls:
    """``authority``: whose certificates it wants, and has. ``reasons``: its reasons for
    rejections."""

    def __init__(self, directory: Path, mechanism: str, user: str, password: str) -> None:
        self.authority = Authority(directory)
        self.reasons: list[str] = []
        self._mechanism, self._user, self._password = mechanism, user, password
        certificate, key = self.authority.issue("broker")
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(certificate, key)
        self._tls.load_verify_locations(self.authority.certificate)
        self._tls.verify_mode = ssl.CERT_REQUIRED
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = ("localhost", int(self._listener.getsockname()[1]))

    def serve(self) -> None:
        """One connection after the other, until :meth:`close`."""
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            try:
                with self._tls.wrap_socket(connection, server_side=True) as secured:
                    self._let_in(secured)
            except (OSError, EOFError) as error:
                self.reasons.append(str(error))

    def close(self) -> None:
        # What waits in accept() is told so by the shutdown alone.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _let_in(self, connection: socket.socket) -> None:
        wanted = _asked(connection, SaslHandshakeRequest)
        fits = wanted.mechanism == self._mechanism
        code = ErrorCode.none if fits else ErrorCode.unsupported_sasl_mechanism
        _answer(connection, SaslHandshakeResponse(error_code=code, mechanisms=(self._mechanism,)))
        if not fits:
            raise PermissionError(f"it wants {wanted.mechanism}")
        if self._mechanism in HASHES:
            self._by_scram(connection)
        else:
            login = f"\0{self._user}\0{self._password}".encode()
            self._verdict(connection, b"", right=_words(connection) == login)
        _read(connection)
        connection.sendall(_LENGTH.pack(len(ANSWER)) + ANSWER)

    def _by_scram(self, connection: socket.socket) -> None:
        server = Server(self._mechanism, self._password)
        _say(connection, server.challenge(_words(connection)))
        told = server.verdict(_words(connection))
        right = server.user == self._user and told.startswith(b"v=")
        self._verdict(connection, told, right=right)

    def _verdict(self, connection: socket.socket, words: bytes, *, right: bool) -> None:
        if right:
            _say(connection, words)
            return
        refusal = SaslAuthenticateResponse(
            error_code=ErrorCode.sasl_authentication_failed,
            error_message="invalid credentials",
            auth_bytes=b"",
        )
        _answer(connection, refusal)
        raise PermissionError("invalid credentials")


def _words(connection: socket.socket) -> bytes:
    return _asked(connection, SaslAuthenticateRequest).auth_bytes


def _say(connection: socket.socket, words: bytes) -> None:
    code = ErrorCode.none
    _answer(
        connection, SaslAuthenticateResponse(error_code=code, error_message=None, auth_bytes=words)
    )


def _asked(connection: socket.socket, kind: type[P]) -> P:
    payload = _read(connection)
    _, start = entity_reader(kind.__header_schema__)(payload, 0)
    return entity_reader(kind)(payload, start)[0]


def _answer(connection: socket.socket, response: ResponsePayload) -> None:
    buffer = io.BytesIO()
    header = response.__header_schema__
    entity_writer(header)(buffer, header(correlation_id=i32(1)))
    entity_writer(type(response))(buffer, response)
    connection.sendall(_LENGTH.pack(buffer.tell()) + buffer.getvalue())


def _read(connection: socket.socket) -> bytes:
    (length,) = _LENGTH.unpack(_exactly(connection, _LENGTH.size))
    return _exactly(connection, length)


def _exactly(connection: socket.socket, size: int) -> bytes:
    read = b""
    while len(read) < size:
        piece = connection.recv(size - len(read))
        if not piece:
            raise EOFError("the client went away")
        read += piece
    return read


@contextlib.contextmanager
def listening_tls(
    directory: Path, mechanism: str, user: str, password: str
) -> Iterator[ListeningTls]:
    """One that serves."""
    broker = ListeningTls(directory, mechanism, user, password)
    thread = threading.Thread(target=broker.serve)
    thread.start()
    try:
        yield broker
    finally:
        broker.close()
        thread.join()
