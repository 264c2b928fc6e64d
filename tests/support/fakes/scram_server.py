"""The other side of SCRAM (RFC 5802), written apart from ours."""

import base64
import hashlib
import hmac

from ackproof.infra.systems.security import HASHES

ROUNDS = 4096


class Server:
    """One conversation. It derives all from the password. ``user``: who was named."""

    def __init__(self, mechanism: str, password: str) -> None:
        self._hash = HASHES[mechanism]
        self._salt = b"a salt of its own"
        self._salted = hashlib.pbkdf2_hmac(self._hash, password.encode(), self._salt, ROUNDS)
        self._said = b""
        self.user = ""

    def challenge(self, first: bytes) -> bytes:
        assert first.startswith(b"n,,n=")
        bare = first.removeprefix(b"n,,").decode()
        name, _, nonce = bare.removeprefix("n=").partition(",r=")
        self.user = name.replace("=2C", ",").replace("=3D", "=")
        salt = base64.b64encode(self._salt).decode()
        told = f"r={nonce}and-mine,s={salt},i={ROUNDS}"
        self._said = f"{bare},{told}".encode()
        return told.encode()

    def verdict(self, final: bytes) -> bytes:
        without_proof, _, proof = final.decode().rpartition(",p=")
        said = self._said + b"," + without_proof.encode()
        stored = hashlib.new(self._hash, self._mac(self._salted, b"Client Key")).digest()
        claimed = bytes(
            a ^ b for a, b in zip(base64.b64decode(proof), self._mac(stored, said), strict=True)
        )
        if hashlib.new(self._hash, claimed).digest() != stored:
            return b"e=invalid-proof"
        signature = self._mac(self._mac(self._salted, b"Server Key"), said)
        return b"v=" + base64.b64encode(signature)

    def _mac(self, key: bytes, text: bytes) -> bytes:
        return hmac.digest(key, text, self._hash)
