"""``String.hashCode`` of Java, by which Kafka places what has a name."""

import struct


def java_hash(text: str) -> int:
    """Over UTF-16 code units, in signed 32 bits."""
    data = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for unit in struct.unpack(f">{len(data) // 2}H", data):
        code = (31 * code + unit) & 0xFFFF_FFFF
    return code - 2**32 if code >= 2**31 else code
