"""SCRAM as a client speaks it (RFC 5802), without channel binding: pure."""

import base64
import hashlib
import hmac

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""By mechanism."""
_FEWEST_ROUNDS = 4096
"""Kafka's minimum, and RFC 5802's: fewer would let whoever poses as a broker guess the password."""
_MOST_ROUNDS = 1_000_000
"""More would keep us busy for as long as the other side likes."""


class ScramError(Exception):
    """The other side says what cannot be, or does not know the password."""


class Scram:
    """One conversation: :meth:`first`, :meth:`final`, then :meth:`check`.

    Args:
        nonce: That was never used before; printable, without commas.
    """

    def __init__(self, mechanism: str, user: str, password: str, nonce: str) -> None:
        self._hash = HASHES[mechanism]
        # Kafka takes both as UTF-8, without SASLprep.
        self._password = password.encode()
        self._nonce = nonce
        self._bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        self._signature = b""

    def first(self) -> bytes:
        """What it begins with."""
        return f"n,,{self._bare}".encode()

    def final(self, told: bytes) -> bytes:
        """The proof, given what the server has answered to that. Raises ScramError."""
        fields = _fields(told)
        nonce, salt, rounds = (_field(fields, name) for name in "rsi")
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise ScramError("the server answers somebody else's question")
        if not rounds.isdecimal() or not _FEWEST_ROUNDS <= int(rounds) <= _MOST_ROUNDS:
            raise ScramError(f"the server asks for {rounds} rounds")
        without_proof = f"c={base64.b64encode(b'n,,').decode()},r={nonce}"
        said = f"{self._bare},{told.decode()},{without_proof}".encode()
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, _bytes(salt), int(rounds))
        client_key = self._mac(salted, b"Client Key")
        signed = self._mac(hashlib.new(self._hash, client_key).digest(), said)
        proof = bytes(a ^ b for a, b in zip(client_key, signed, strict=True))
        self._signature = self._mac(self._mac(salted, b"Server Key"), said)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def check(self, told: bytes) -> None:
        """That the server knows the password, too. Raises ScramError."""
        fields = _fields(told)
        if "e" in fields:
            raise ScramError(f"the server says {fields['e']}")
        if not hmac.compare_digest(_bytes(_field(fields, "v")), self._signature):
            raise ScramError("the server does not know the password")

    def _mac(self, key: bytes, text: bytes) -> bytes:
        return hmac.digest(key, text, self._hash)


def _fields(told: bytes) -> dict[str, str]:
    try:
        pieces = told.decode().split(",")
    except UnicodeDecodeError:
        raise ScramError("the server does not answer in UTF-8") from None
    return {name: value for name, _, value in (piece.partition("=") for piece in pieces)}


def _field(fields: dict[str, str], name: str) -> str:
    if name not in fields:
        raise ScramError(f"the server's answer has no {name}")
    return fields[name]


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise ScramError("the server's answer is no base64") from None
