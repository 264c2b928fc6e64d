"""The seal of results: a statement of what they are, which others can check without this project.

It is an in-toto statement (Statement v1) in an envelope (DSSE). Its subjects are all files of the
results with their SHA-256: history, raw logs, faults with their proofs, campaign and versions. It
repeats what ``verdict.json`` concludes. ``verify/recheck.py`` checks it.
"""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

from ackproof.history.storage import digest, write_text

FILE = "seal.json"
_PAYLOAD = "application/vnd.in-toto+json"
_STATEMENT = "https://in-toto.io/Statement/v1"
_PREDICATE = "urn:ackproof:verdict:1"
_STATED = ("campaign", "seed", "began", "system", "verdict", "exit_status", "versions")
_NO_RESULTS = ("scratch", FILE)


class BadKey(ValueError):
    """The file holds no private key that can sign."""


def read_key(path: Path) -> Ed25519PrivateKey:
    """Return the private key in a file: Ed25519, PEM, without a password.

    Raises BadKey, and OSError.
    """
    wanted = "must hold a private key (Ed25519, PEM, without a password)"
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise BadKey(f"{path} {wanted}: openssl genpkey -algorithm ed25519 -out {path}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise BadKey(f"{path} {wanted}, but holds one of another kind")
    return key


def seal(results: Path, key: Ed25519PrivateKey | None) -> Path:
    """Write the seal of checked results, signed if there is a key, and return its file.

    Raises OSError, and ValueError if ``verdict.json`` is damaged.
    """
    payload = _canonical(_statement(results))
    envelope = {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": _PAYLOAD,
        "signatures": [] if key is None else [_signature(payload, key)],
    }
    file = results / FILE
    write_text(file, _canonical(envelope).decode() + "\n")
    return file


def _statement(results: Path) -> dict[str, Any]:
    verdict = json.loads((results / "verdict.json").read_bytes())
    return {
        "_type": _STATEMENT,
        "subject": [
            {"name": str(path.relative_to(results)), "digest": {"sha256": digest(path)}}
            for path in sorted(results.rglob("*"), key=lambda one: str(one.relative_to(results)))
            if path.is_file() and _belongs(path.relative_to(results))
        ],
        "predicateType": _PREDICATE,
        "predicate": {name: verdict[name] for name in _STATED if name in verdict},
    }


def _belongs(path: Path) -> bool:
    """Return whether a file is one of the results. Files in progress have a name with a dot at the
    front."""
    return path.parts[0] not in _NO_RESULTS and not any(one.startswith(".") for one in path.parts)


def _signature(payload: bytes, key: Ed25519PrivateKey) -> dict[str, str]:
    """Return the signature of DSSE's encoding of the payload. The key's id is the SHA-256 of the
    public key."""
    kind = _PAYLOAD.encode()
    signed = b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)
    public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return {
        "keyid": hashlib.sha256(public).hexdigest(),
        "sig": base64.b64encode(key.sign(signed)).decode(),
    }


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
