"""Records that lie about their size end in CorruptBatch, soon and in little memory."""

import gzip
import struct

import pyarrow as pa
import pytest

from ackproof.broker.wire.batch import Compression, CorruptBatch, parse_batch, records
from tests.support.builders.batches import encoded, with_payload

SOUND = encoded([b"a"])
LIMIT = 1000
ZEROS = bytes(LIMIT + 1)
BLOCK = pa.compress(ZEROS, codec="snappy", asbytes=True)
BOMBS = {
    "gzip": (Compression.GZIP, gzip.compress(ZEROS)),
    "zstd": (Compression.ZSTD, pa.compress(ZEROS, codec="zstd", asbytes=True)),
    "snappy": (Compression.SNAPPY, BLOCK),
    "snappy that claims 4 GiB": (Compression.SNAPPY, b"\xff\xff\xff\xff\x0f" + BLOCK[2:]),
    "snappy in a frame": (
        Compression.SNAPPY,
        b"\x82SNAPPY\0" + bytes(8) + struct.pack(">i", len(BLOCK)) + BLOCK,
    ),
}


@pytest.mark.parametrize(("codec", "payload"), BOMBS.values(), ids=BOMBS.keys())
def test_decompression_is_bounded(codec: Compression, payload: bytes) -> None:
    batch = parse_batch(with_payload(SOUND, payload, codec))
    with pytest.raises(CorruptBatch, match=r"1000 bytes when decompressed|claims to hold"):
        next(records(batch, LIMIT))


def test_a_record_of_negative_length_is_no_way_back() -> None:
    forever = bytearray(with_payload(SOUND, b"\1" + bytes(20), 0))
    struct.pack_into(">i", forever, 57, 2**31 - 1)
    batch = parse_batch(bytes(forever), verify_crc=False)
    with pytest.raises(CorruptBatch, match="a record of -1 bytes"):
        list(records(batch))
