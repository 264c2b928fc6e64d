import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.broker.wire.framing import (
    CHUNK_BYTES,
    GROWTH_BYTES,
    LARGE_BYTES,
    FrameBuffer,
    FrameWriter,
    MalformedFrame,
)


def pieces(*values: bytes) -> list[bytes | bytearray | memoryview]:
    writer = FrameWriter()
    for value in values:
        writer.write(value)
    return writer.pieces()


def frame(*values: bytes) -> bytes:
    return b"".join(pieces(*values))


def fed(buffer: FrameBuffer, data: bytes) -> None:
    """Puts ``data`` into the buffer, in as many steps as the room needs."""
    while data:
        room = buffer.room()
        assert len(room) > 0
        part = data[: len(room)]
        room[: len(part)] = part
        buffer.filled(len(part))
        data = data[len(part) :]


def taken(buffer: FrameBuffer) -> list[bytes]:
    frames = []
    while (payload := buffer.next()) is not None:
        frames.append(payload)
    return frames


LENGTHS = st.sampled_from([0, 1, 50, 5000, CHUNK_BYTES - 4, CHUNK_BYTES - 3, CHUNK_BYTES, 200_000])


@given(sizes=st.lists(LENGTHS, max_size=6), cuts=st.lists(st.integers(1, 400_000), max_size=8))
def test_frames_come_out_as_they_went_in(sizes: list[int], cuts: list[int]) -> None:
    payloads = [bytes([number]) * size for number, size in enumerate(sizes)]
    data = b"".join(map(frame, payloads))
    buffer = FrameBuffer(200_000)
    frames = []
    for cut in (*cuts, len(data)):
        fed(buffer, data[:cut])
        data = data[cut:]
        frames += taken(buffer)
    assert frames == payloads  # compared at the end: what was handed out must not change


def test_frames_that_are_not_taken_yet_are_kept() -> None:
    buffer = FrameBuffer(10_000)
    payloads = [bytes([number]) * 10_000 for number in range(20)]
    fed(buffer, b"".join(map(frame, payloads)))
    assert taken(buffer) == payloads


def test_memory_grows_with_the_received_bytes() -> None:
    buffer = FrameBuffer(2**30)
    fed(buffer, (2**30).to_bytes(4, "big"))
    assert len(buffer.room()) <= CHUNK_BYTES + GROWTH_BYTES
    fed(buffer, bytes(3 * GROWTH_BYTES))
    assert len(buffer.room()) <= 5 * GROWTH_BYTES


@given(sizes=st.lists(st.sampled_from([0, 1, 7, LARGE_BYTES - 1, LARGE_BYTES, 9999]), max_size=6))
def test_written_frame_is_whole_and_in_few_pieces(sizes: list[int]) -> None:
    values = [bytes([number]) * size for number, size in enumerate(sizes)]
    payload = b"".join(values)
    assert frame(*values) == len(payload).to_bytes(4, "big") + payload
    assert len(pieces(*values)) <= 1 + 2 * sum(size >= LARGE_BYTES for size in sizes)


def test_large_values_are_not_copied() -> None:
    records = memoryview(bytearray(LARGE_BYTES))
    assert any(piece is records for piece in pieces(b"before", records, b"after"))


@pytest.mark.parametrize("size", [-1, -(2**31), 51, 2**31 - 1])
def test_sizes_out_of_bounds_are_refused_before_reading(size: int) -> None:
    buffer = FrameBuffer(50)
    fed(buffer, size.to_bytes(4, "big", signed=True))
    with pytest.raises(MalformedFrame, match=f"{size} bytes, expected 0 to 50"):
        buffer.next()


@pytest.mark.parametrize("cut", range(7))
def test_incomplete_bytes_are_no_frame(cut: int) -> None:
    buffer = FrameBuffer(50)
    fed(buffer, frame(b"abc")[:cut])
    assert buffer.next() is None
