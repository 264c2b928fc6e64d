"""The final read of a partition is complete from start to end, or says what is missing."""

from ackproof.workloads.reading_back.processes import ReadBackPartition


def reading(start: int, end: int) -> ReadBackPartition:
    read = ReadBackPartition(topic="t", partition=0)
    read.begin(start, end)
    return read


def test_from_start_to_end() -> None:
    read = reading(2, 4)
    for offset in (2, 3):
        read.record(offset)
    read.end(4)
    assert read.done
    assert read.row("late") == ("t", 0, 2, 4, 4, 2, True, None)


def test_an_empty_partition_is_complete() -> None:
    read = reading(5, 5)
    read.end(5)
    assert read.row("late") == ("t", 0, 5, 5, 5, 0, True, None)


def test_holes_are_reported_and_leave_nothing_to_read() -> None:
    read = reading(0, 10)
    for offset in (2, 3, 7):
        read.record(offset)
    read.end(10)
    row = ("t", 0, 0, 10, 10, 3, True, "hole [0, 2); hole [4, 7); hole [8, 10)")
    assert read.row("late") == row


def test_an_end_before_the_high_watermark_is_not_the_end() -> None:
    read = reading(0, 3)
    read.record(0)
    read.end(1)
    assert not read.done
    assert read.row("60 s had passed")[6:] == (False, "60 s had passed at offset 1 of 3")


def test_a_high_watermark_that_lagged_does_not_hide_records() -> None:
    read = reading(0, 1)
    for offset in (0, 1, 2):
        read.record(offset)
    assert not read.done
    read.end(3)
    assert read.row("late") == ("t", 0, 0, 1, 3, 3, True, None)


def test_read_with_an_error_at_the_end_is_incomplete() -> None:
    read = reading(0, 1)
    read.errors.append("_BAD_MSG: failed CRC32C check")
    read.record(0)
    read.end(1)
    assert read.row("late")[6:] == (False, "_BAD_MSG: failed CRC32C check")


def test_offsets_that_go_back_are_an_error() -> None:
    read = reading(0, 2)
    for offset in (0, 1, 0):
        read.record(offset)
    read.end(2)
    assert read.row("late")[6] is False


def test_without_bounds_nothing_is_claimed() -> None:
    read = ReadBackPartition(topic="t", partition=0)
    row = ("t", 0, None, None, None, 0, False, "stopped at offset unknown (no bounds)")
    assert read.row("stopped") == row


def test_many_notes_are_counted_not_listed() -> None:
    read = reading(0, 100)
    for offset in range(1, 100, 2):
        read.record(offset)
    read.end(100)
    assert read.row("late")[7].endswith("and 42 more")
