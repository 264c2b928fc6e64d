"""The lines of the protocol: what is said is heard, and nothing else is taken for it."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.workloads.foreign.protocol import (
    Abort,
    Acked,
    AskEnd,
    Assigned,
    Begin,
    Close,
    Commit,
    CommitOffsets,
    Committed,
    Done,
    End,
    EndOfPoll,
    Failed,
    Fatal,
    Flush,
    Flushed,
    Init,
    Lost,
    MalformedLine,
    Offset,
    Open,
    Poll,
    Proceed,
    Property,
    Protocol,
    Ready,
    Record,
    Refused,
    Remedy,
    Revoked,
    Seek,
    Send,
    SendKeyed,
    SendOffsets,
    SendTombstone,
    Subscribe,
    Tombstone,
    Topic,
    Undone,
    decode_command,
    decode_saying,
    encode_command,
    encode_saying,
)

NUMBERS = st.integers(0, 2**63 - 1)
WORDS = st.from_regex(r"[A-Za-z0-9_.$-]{1,100}", fullmatch=True)
TEXTS = st.text(st.characters(exclude_characters="\n", codec="utf-8"))
COMMANDS = st.one_of(
    st.builds(Protocol, NUMBERS),
    st.builds(Topic, WORDS),
    st.builds(Property, WORDS, TEXTS),
    st.just(Open()),
    st.builds(Send, NUMBERS, NUMBERS, st.binary(max_size=500)),
    *(
        st.builds(kind, NUMBERS, st.none() | NUMBERS, *2 * [st.binary(max_size=500)])
        for kind in (SendKeyed, SendTombstone)
    ),
    st.sampled_from([Flush(), Init(), Begin(), Commit(), Abort()]),
    st.sampled_from([Subscribe(), Poll(), Proceed(), Close()]),
    st.builds(CommitOffsets, st.dictionaries(NUMBERS, NUMBERS, min_size=1)),
    st.builds(SendOffsets, st.dictionaries(NUMBERS, NUMBERS, min_size=1)),
    st.builds(Committed, st.lists(NUMBERS, min_size=1).map(tuple)),
    st.builds(Seek, NUMBERS, NUMBERS),
    st.builds(AskEnd, NUMBERS),
)
SAYINGS = st.one_of(
    st.builds(Ready, NUMBERS),
    st.builds(Acked, NUMBERS, st.none() | NUMBERS, st.none() | NUMBERS),
    st.builds(Refused, NUMBERS, WORDS),
    st.builds(Failed, NUMBERS, WORDS),
    st.sampled_from([Flushed(), Done()]),
    st.builds(Undone, st.sampled_from(Remedy), WORDS),
    st.builds(Fatal, TEXTS.filter(bool)),
    st.just(EndOfPoll()),
    *(st.builds(kind, st.lists(NUMBERS).map(tuple)) for kind in (Assigned, Revoked, Lost)),
    st.builds(Record, NUMBERS, NUMBERS, st.none() | NUMBERS, st.none() | st.binary(max_size=500)),
    st.builds(Tombstone, NUMBERS, NUMBERS, st.none() | NUMBERS, st.binary(max_size=500)),
    st.builds(Offset, NUMBERS, st.none() | NUMBERS),
    st.builds(End, NUMBERS, NUMBERS, NUMBERS),
)


@given(COMMANDS)
def test_encoded_command_is_decoded_unchanged(command) -> None:
    line = encode_command(command)
    assert line.index(b"\n") == len(line) - 1
    assert decode_command(line[:-1]) == command


@given(SAYINGS)
def test_encoded_message_of_a_program_is_decoded_unchanged(saying) -> None:
    line = encode_saying(saying)
    assert line.index(b"\n") == len(line) - 1
    assert decode_saying(line[:-1]) == saying


@given(st.binary(max_size=60) | SAYINGS.map(encode_saying).map(lambda line: line[:-2]))
def test_any_line_is_a_saying_or_malformed(line: bytes) -> None:
    """Test that an accepted line equals its encoded message, to the byte."""
    line = line.replace(b"\n", b" ")
    with suppress(MalformedLine):
        assert encode_saying(decode_saying(line)) == line + b"\n"


@given(st.binary(max_size=60))
def test_any_line_is_a_command_or_malformed(line: bytes) -> None:
    with suppress(MalformedLine):
        assert decode_command(line.replace(b"\n", b" "))


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"acked",
        b"acked 1",
        b"acked 1 2 3 4",
        b"acked 1 2 -",
        b"acked -1 2",
        b"acked 1 -2",
        b"acked 01 2",
        b"acked 1 2\r",
        b"acked  1 2",
        b"Acked 1 2",
        b"acked 1 9223372036854775808",
        b"acked \xd9\xa1 2",
        b"failed 1",
        b"failed 1 two words",
        b"refused 1 " + b"x" * 101,
        b"ready now",
        b"ready 1",
        b"done 1",
        b"done ",
        b"undone",
        b"undone fatal",
        b"undone KafkaException",
        b"undone hopeless KafkaException",
        b"undone fatal two words",
        b"fatal",
        b"fatal \xff",
        b"assigned ",
        b"assigned 1,2",
        b"record 0 0 1",
        b"record 0 -1 1 QQ==",
        b"record 0 0 1 Q",
        b"tombstone 0 0 1 -",
        b"offset 0",
        b"end 0 1",
        b"polled 1",
    ],
)
def test_malformed_message_of_a_program_is_refused(line: bytes) -> None:
    with pytest.raises(MalformedLine):
        decode_saying(line)


def test_a_long_line_is_shown_by_its_beginning() -> None:
    with pytest.raises(MalformedLine) as refused:
        decode_saying(b"spam" * 100)
    assert str(refused.value) == f"'{'spam' * 20}' ..."


@pytest.mark.parametrize(
    "command", [Topic("two words"), Topic(""), Property("a", "b\nsend 0 0 "), Property("a b", "c")]
)
def test_command_that_fits_no_line_is_refused(command) -> None:
    with pytest.raises(ValueError, match=r"line|word"):
        encode_command(command)
