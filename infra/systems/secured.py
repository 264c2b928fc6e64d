"""Connections of our own to a broker, as librdkafka's properties say: in the clear, over TLS, and
logged in by SASL (KIP-43, KIP-152)."""

import secrets
import socket
import time
from collections.abc import Mapping
from contextlib import ExitStack

from kio.schema.sasl_authenticate.v1.request import SaslAuthenticateRequest
from kio.schema.sasl_authenticate.v1.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse

from ackproof.infra.systems.scram import Scram, ScramError
from ackproof.infra.systems.security import PLAIN, Security, security
from ackproof.infra.systems.wire import Connect, ask

_NONCE_BYTES = 24


def connector(given: Mapping[str, str]) -> Connect:
    """What opens connections, given librdkafka's properties that connecting takes. It raises
    OSError where it is not let in; this raises as :func:`infra.systems.security.security`."""
    wanted = security(given)

    def connect(address: tuple[str, int], deadline: float) -> socket.socket:
        with ExitStack() as opened:
            left_s = max(deadline - time.monotonic(), 0.001)
            connection = opened.enter_context(socket.create_connection(address, timeout=left_s))
            if wanted.tls is not None:
                # It closes what it wraps where the handshake fails.
                wrapped = wanted.tls.wrap_socket(connection, server_hostname=address[0])
                connection = opened.enter_context(wrapped)
            _log_in(connection, wanted, deadline)
            opened.pop_all()
        return connection

    return connect


def _log_in(connection: socket.socket, wanted: Security, deadline: float) -> None:
    if wanted.mechanism is None:
        return
    shaken = ask(
        connection,
        SaslHandshakeRequest(mechanism=wanted.mechanism),
        SaslHandshakeResponse,
        deadline,
    )
    if shaken.error_code.value:
        offered = ", ".join(shaken.mechanisms)
        raise PermissionError(f"the broker does not take {wanted.mechanism}, but {offered}")

    def say(words: bytes) -> bytes:
        request = SaslAuthenticateRequest(auth_bytes=words)
        answer = ask(connection, request, SaslAuthenticateResponse, deadline)
        if answer.error_code.value:
            raise PermissionError(answer.error_message or answer.error_code.name)
        return answer.auth_bytes

    if wanted.mechanism == PLAIN:
        say(f"\0{wanted.user}\0{wanted.password}".encode())
        return
    nonce = secrets.token_urlsafe(_NONCE_BYTES)
    scram = Scram(wanted.mechanism, wanted.user, wanted.password, nonce)
    try:
        scram.check(say(scram.final(say(scram.first()))))
    except ScramError as error:
        raise PermissionError(str(error)) from None
