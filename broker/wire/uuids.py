"""Ids of topics and clusters as text: 22 characters of URL-safe base64 (``Uuid`` in Kafka)."""

import base64
import uuid


def encode_uuid(value: uuid.UUID) -> str:
    """Return the id as Kafka writes it, without padding."""
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def decode_uuid(text: str) -> uuid.UUID:
    """Invert :func:`encode_uuid`. Raise ValueError for text that is no id."""
    return uuid.UUID(bytes=base64.b64decode(text + "==", altchars=b"-_", validate=True))
