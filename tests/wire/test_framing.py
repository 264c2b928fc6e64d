import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.wire.framing import LARGE_BYTES, FrameWriter, MalformedFrame, read_frame


def pieces(*values: bytes) -> list[bytes | bytearray | memoryview]:
    writer = FrameWriter()
    for value in values:
        writer.write(value)
    return writer.pieces()


def frame(*values: bytes) -> bytes:
    return b"".join(pieces(*values))


async def read_all(data: bytes, max_bytes: int) -> list[bytes]:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    frames = []
    while (payload := await read_frame(reader, max_bytes)) is not None:
        frames.append(payload)
    return frames


@settings(deadline=None)
@given(payloads=st.lists(st.binary(max_size=50), max_size=5))
def test_frames_come_out_as_they_went_in(payloads: list[bytes]) -> None:
    assert asyncio.run(read_all(b"".join(map(frame, payloads)), 50)) == payloads


@given(sizes=st.lists(st.sampled_from([0, 1, 7, LARGE_BYTES - 1, LARGE_BYTES, 9999]), max_size=6))
def test_what_is_written_is_one_frame_in_few_pieces(sizes: list[int]) -> None:
    values = [bytes([number]) * size for number, size in enumerate(sizes)]
    payload = b"".join(values)
    assert frame(*values) == len(payload).to_bytes(4, "big") + payload
    assert len(pieces(*values)) <= 1 + 2 * sum(size >= LARGE_BYTES for size in sizes)


def test_large_values_are_not_copied() -> None:
    records = memoryview(bytearray(LARGE_BYTES))
    assert any(piece is records for piece in pieces(b"before", records, b"after"))


@pytest.mark.parametrize("size", [-1, -(2**31), 51, 2**31 - 1])
def test_sizes_out_of_bounds_are_refused_before_reading(size: int) -> None:
    with pytest.raises(MalformedFrame, match=f"{size} bytes, expected 0 to 50"):
        asyncio.run(read_all(size.to_bytes(4, "big", signed=True), 50))


@pytest.mark.parametrize("cut", range(1, 7))
def test_an_end_inside_a_frame_is_an_error(cut: int) -> None:
    with pytest.raises(asyncio.IncompleteReadError):
        asyncio.run(read_all(frame(b"abc")[:cut], 50))
