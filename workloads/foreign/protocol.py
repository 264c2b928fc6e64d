"""The lines between us and a program under test: docs/client-protocol.md, as functions.

A program is told to ``open`` a producer, or to ``subscribe`` as a member of a consumer group. One
that is given properties of a consumer before ``open`` is a transformer, which is both.

A line is words with a space between, in ASCII except its last part, which may be any UTF-8. So no
parser of JSON is needed. Both halves are here, because programs in Python use the other one.
"""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

VERSION = 1
KEYED_VERSION = 2
"""The version with keys and tombstones. A program is told it if it needs these, else the first."""
LINE_BYTES_MAX = 4 << 20
"""The length of a record of the largest size that brokers take, as base64, with some room."""

_NUMBER = re.compile(rb"0|[1-9][0-9]{0,18}")
_NUMBER_MAX = 2**63 - 1
_ERROR = re.compile(rb"[A-Za-z0-9_.$-]{1,100}")
_UNKNOWN = b"-"
_SHOWN_BYTES = 80


class MalformedLine(Exception):
    """The error of a line that is none of the protocol; its text shows the line."""


# --- what a program is told --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Protocol:
    """The first line: the version of the protocol."""

    version: int


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of the records, sent or read. Only a producer is given several."""

    name: str


@dataclass(frozen=True, slots=True)
class Property:
    """A property of the producer or consumer, by Kafka's name."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class ConsumerProperty:
    """A property of a transformer's consumer, by Kafka's name."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Open:
    """The end of the properties: make the producer, and say when it is ready.

    A transformer makes its consumer, too, and subscribes.
    """


@dataclass(frozen=True, slots=True)
class Send:
    """A record to send.

    ``number`` counts up, and identifies the record in the report of its outcome. ``topic`` is empty
    where only one was named.
    """

    number: int
    partition: int
    value: bytes
    topic: str = ""


@dataclass(frozen=True, slots=True)
class SendKeyed:
    """A record to send, as :class:`Send`, with a key.

    ``partition`` is None for a record whose partition the library must choose by the key.
    """

    number: int
    partition: int | None
    key: bytes
    value: bytes
    topic: str = ""


@dataclass(frozen=True, slots=True)
class SendTombstone:
    """A record without a value to send, as :class:`SendKeyed`.

    ``identity`` is the value of its only header, :data:`history.payload.TOMBSTONE_HEADER`.
    """

    number: int
    partition: int | None
    key: bytes
    identity: bytes
    topic: str = ""


@dataclass(frozen=True, slots=True)
class Flush:
    """The end of the records: report the outcome of those under way, then say that this was all."""


@dataclass(frozen=True, slots=True)
class Init:
    """The order to take over the ``transactional.id``.

    It is for a transactional producer, as are the next three.
    """


@dataclass(frozen=True, slots=True)
class Begin:
    """The order to begin a transaction."""


@dataclass(frozen=True, slots=True)
class Commit:
    """The order to end the transaction with a commit."""


@dataclass(frozen=True, slots=True)
class Abort:
    """The order to end the transaction with an abort."""


@dataclass(frozen=True, slots=True)
class SendOffsets:
    """The order to send these offsets, by partition, to the open transaction of a transformer."""

    offsets: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Subscribe:
    """The end of the properties: make the consumer, subscribe, and say when it is ready.

    The next commands are for a member of a group.
    """


@dataclass(frozen=True, slots=True)
class Poll:
    """The order to poll once, and to say what it returned."""


@dataclass(frozen=True, slots=True)
class Proceed:
    """The order to return from the callback in which the program has reported a rebalance."""


@dataclass(frozen=True, slots=True)
class Close:
    """The order to leave the group and close the consumer."""


@dataclass(frozen=True, slots=True)
class CommitOffsets:
    """The order to commit these offsets, by partition."""

    offsets: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Committed:
    """The question what the coordinator holds as committed of these partitions."""

    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Seek:
    """The order to read on at an offset of a partition."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class AskEnd:
    """The question for the position of a partition, and for the offset at which its log ends."""

    partition: int


OfMember = Subscribe | Poll | Proceed | Close | CommitOffsets | Committed | Seek | AskEnd
Sending = Send | SendKeyed | SendTombstone
OfProducer = Open | Sending | Flush | Init | Begin | Commit | Abort
Command = Protocol | Topic | Property | ConsumerProperty | OfProducer | OfMember | SendOffsets


# --- what a program says -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ready:
    """The word that the program takes records, by this version of the protocol."""

    version: int = VERSION


@dataclass(frozen=True, slots=True)
class Acked:
    """The report that what the cell's acks asks for has come.

    ``offset`` is None where it was not reported. ``partition`` is the one that the library chose,
    and None where it was told one.
    """

    number: int
    offset: int | None
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The report that the library did not take the record: its call for sending failed."""

    number: int
    error: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The report of an error of a record that the library had taken."""

    number: int
    error: str


@dataclass(frozen=True, slots=True)
class Flushed:
    """The word that the program has reported the outcome of every record."""


@dataclass(frozen=True, slots=True)
class Done:
    """The word that an order about a transaction has been answered."""


class Remedy(StrEnum):
    """The possible action after a call that failed, in Kafka's words (KIP-1050)."""

    RETRIABLE = "retriable"
    """The same call, again: its time was up, and what it has begun goes on."""
    ABORTABLE = "abortable"
    """An abort of the transaction, and nothing else."""
    FATAL = "fatal"
    """No action: the session is over."""


@dataclass(frozen=True, slots=True)
class Undone:
    """The report that an order about a transaction has failed."""

    remedy: Remedy
    error: str


@dataclass(frozen=True, slots=True)
class Fatal:
    """The word that the program cannot go on, or cannot begin."""

    reason: str


@dataclass(frozen=True, slots=True)
class Assigned:
    """The report of partitions that the group has assigned, in addition to what the member has.

    The program is in a callback until it is told to proceed, as with the next two.
    """

    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Revoked:
    """The report of partitions that are about to be taken away."""

    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Lost:
    """The report of partitions that others may have already."""

    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """A record that a poll has returned; ``epoch`` is None where no leader epoch is known."""

    partition: int
    offset: int
    epoch: int | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A record without a value that a poll has returned, with what its header says of it."""

    partition: int
    offset: int
    epoch: int | None
    identity: bytes


@dataclass(frozen=True, slots=True)
class EndOfPoll:
    """The word that a poll has returned, and its records are reported."""


@dataclass(frozen=True, slots=True)
class Offset:
    """The committed offset of a partition; None stands for nothing."""

    partition: int
    offset: int | None


@dataclass(frozen=True, slots=True)
class End:
    """The offset of the next record of a partition, and that at which its log ends."""

    partition: int
    position: int
    end: int


Polled = Record | Tombstone
SayingOfMember = Assigned | Revoked | Lost | Polled | EndOfPoll | Offset | End
SayingOfProducer = Acked | Refused | Failed | Flushed
Saying = Ready | SayingOfProducer | SayingOfMember | Done | Undone | Fatal


_BARE: Mapping[bytes, Command] = {
    b"open": Open(),
    b"flush": Flush(),
    b"init": Init(),
    b"begin": Begin(),
    b"commit": Commit(),
    b"abort": Abort(),
    b"subscribe": Subscribe(),
    b"poll": Poll(),
    b"proceed": Proceed(),
    b"close": Close(),
}
"""Commands that are one word, by that word."""
_WORDS = {command: word for word, command in _BARE.items()}
_PROPERTIES: Mapping[bytes, type[Property | ConsumerProperty]] = {
    b"property": Property,
    b"consumer": ConsumerProperty,
}
_OFFSETS: Mapping[bytes, type[CommitOffsets | SendOffsets]] = {
    b"commit": CommitOffsets,
    b"offsets": SendOffsets,
}
_KEYED: Mapping[bytes, type[SendKeyed | SendTombstone]] = {
    b"keyed": SendKeyed,
    b"tombstone": SendTombstone,
}
_VERBS = {kind: verb for verb, kind in (*_PROPERTIES.items(), *_OFFSETS.items(), *_KEYED.items())}
_BARE_SAYINGS: Mapping[bytes, Saying] = {
    b"ready": Ready(),
    b"flushed": Flushed(),
    b"done": Done(),
    b"polled": EndOfPoll(),
}
_REBALANCES: Mapping[bytes, type[Assigned | Revoked | Lost]] = {
    b"assigned": Assigned,
    b"revoked": Revoked,
    b"lost": Lost,
}
_SAYING_WORDS = {saying: word for word, saying in _BARE_SAYINGS.items()}
_REMEDIES = {remedy.value.encode(): remedy for remedy in Remedy}


def encode_command(command: Command) -> bytes:
    """Return the line, with its end; raise ValueError for what no line can hold."""
    match command:
        case Protocol(version):
            return b"protocol %d\n" % version
        case Topic(name):
            return b"topic %s\n" % _word(name)
        case Property(name, value) | ConsumerProperty(name, value):
            return b"%s %s %s\n" % (_VERBS[type(command)], _word(name), _rest(value))
        case Send(number, partition, value, topic):
            return send_line(number, partition, value, topic)
        case SendKeyed(number, partition, key, said, topic) | SendTombstone(
            number, partition, key, said, topic
        ):
            encoded = b" ".join(map(base64.b64encode, (key, said)))
            to = _known(partition)
            return b"%s %d %s %s%s\n" % (_VERBS[type(command)], number, to, encoded, _of(topic))
        case CommitOffsets(offsets) | SendOffsets(offsets):
            pairs = sorted(offsets.items())
            verb = _VERBS[type(command)]
            return verb + b"".join(b" %d %d" % pair for pair in pairs) + b"\n"
        case Committed(partitions):
            return _about(b"committed", partitions)
        case Seek(partition, offset):
            return b"seek %d %d\n" % (partition, offset)
        case AskEnd(partition):
            return b"end %d\n" % partition
        case bare:
            return _WORDS[bare] + b"\n"


def send_line(number: int, partition: int, value: bytes, topic: str = "") -> bytes:
    """Return the line of a :class:`Send`, without making one first, because there are many of
    these."""
    return b"send %d %d %s%s\n" % (number, partition, base64.b64encode(value), _of(topic))


def _of(topic: str) -> bytes:
    return b" " + topic.encode() if topic else b""


def decode_command(line: bytes) -> Command:
    """Return the command in ``line``, which has no end; raise Malformed if there is none."""
    verb, _, rest = line.partition(b" ")
    words = rest.split(b" ") if rest else []
    match verb, words:
        case b"protocol", [version]:
            return Protocol(_number(version, line))
        case b"topic", [name]:
            return Topic(_text(name, line))
        case b"property" | b"consumer", [name, *_] if name and b" " in rest:
            value = _text(rest.partition(b" ")[2], line)
            return _PROPERTIES[verb](_text(name, line), value)
        case b"send" | b"keyed" | b"tombstone", _:
            return _decode_sending(verb, words, line)
        case b"commit" | b"offsets", [_, *_] if len(words) % 2 == 0:
            numbers = _numbers(words, line)
            return _OFFSETS[verb](dict(zip(numbers[::2], numbers[1::2], strict=True)))
        case b"committed", [_, *_]:
            return Committed(_numbers(words, line))
        case b"seek", [partition, offset]:
            return Seek(_number(partition, line), _number(offset, line))
        case b"end", [partition]:
            return AskEnd(_number(partition, line))
        case bare, [] if bare in _BARE and line == bare:
            return _BARE[bare]
    raise _malformed(line)


def _decode_sending(verb: bytes, words: Sequence[bytes], line: bytes) -> Sending:
    match verb, words:
        case b"send", [number, partition, value, *topic] if len(topic) <= 1:
            to = _text(topic[0], line) if topic else ""
            return Send(_number(number, line), _number(partition, line), _value(value, line), to)
        case b"keyed" | b"tombstone", [number, partition, key, last, *topic] if len(topic) <= 1:
            at = _number(number, line), _number_or_none(partition, line)
            to = _text(topic[0], line) if topic else ""
            return _KEYED[verb](*at, _value(key, line), _value(last, line), to)
    raise _malformed(line)


def is_answer(saying: Saying, command: Command) -> bool:
    """Return whether a program may answer ``command`` with this."""
    right = EndOfPoll if isinstance(command, Poll) else Done
    return isinstance(saying, right | Undone)


def encode_saying(saying: Saying) -> bytes:
    """Return the line, with its end; raise ValueError for what no line can hold."""
    match saying:
        case Ready(version) if version != VERSION:
            return b"ready %d\n" % version
        case Ready() | Flushed() | Done() | EndOfPoll():
            return _SAYING_WORDS[saying] + b"\n"
        case Acked(number, offset, partition):
            chosen = b"" if partition is None else b" %d" % partition
            return b"acked %d %s%s\n" % (number, _known(offset), chosen)
        case Refused(number, error):
            return b"refused %d %s\n" % (number, _word(error))
        case Failed(number, error):
            return b"failed %d %s\n" % (number, _word(error))
        case Undone(remedy, error):
            return b"undone %s %s\n" % (_word(remedy), _word(error))
        case Fatal(reason):
            return b"fatal %s\n" % _rest(reason)
        case of_member:
            return _encode_of_member(of_member)


def _encode_of_member(saying: Polled | Offset | End | Assigned | Revoked | Lost) -> bytes:
    match saying:
        case Tombstone(partition, offset, epoch, identity):
            encoded = base64.b64encode(identity)
            return b"tombstone %d %d %s %s\n" % (partition, offset, _known(epoch), encoded)
        case Record(partition, offset, epoch, value):
            encoded = _UNKNOWN if value is None else base64.b64encode(value)
            return b"record %d %d %s %s\n" % (partition, offset, _known(epoch), encoded)
        case Offset(partition, committed):
            return b"offset %d %s\n" % (partition, _known(committed))
        case End(partition, position, end):
            return b"end %d %d %d\n" % (partition, position, end)
        case Assigned(partitions) | Revoked(partitions) | Lost(partitions):
            return _about(type(saying).__name__.lower().encode(), partitions)


def decode_saying(line: bytes) -> Saying:
    """Return what a program says in ``line``, which has no end; raise Malformed if it is
    nothing."""
    verb, _, rest = line.partition(b" ")
    words = rest.split(b" ") if rest else []
    match verb, words:
        case b"ready", [version] if (spoken := _number(version, line)) != VERSION:
            return Ready(spoken)
        case b"acked", [number, offset, *chosen] if len(chosen) <= 1:
            at = _number_or_none(offset, line)
            return Acked(_number(number, line), at, *_numbers(chosen, line))
        case b"refused", [number, error] if _ERROR.fullmatch(error):
            return Refused(_number(number, line), error.decode())
        case b"failed", [number, error] if _ERROR.fullmatch(error):
            return Failed(_number(number, line), error.decode())
        case b"undone", [remedy, error] if remedy in _REMEDIES and _ERROR.fullmatch(error):
            return Undone(_REMEDIES[remedy], error.decode())
        case bare, [] if bare in _BARE_SAYINGS and line == bare:
            return _BARE_SAYINGS[bare]
        case b"fatal", [_, *_]:
            return Fatal(_text(rest, line))
    return _decode_of_member(verb, words, line)


def _decode_of_member(verb: bytes, words: Sequence[bytes], line: bytes) -> Saying:
    match verb, words:
        case b"record", [partition, offset, epoch, value]:
            known = _number_or_none(epoch, line)
            at = _number(partition, line), _number(offset, line)
            return Record(*at, known, None if value == _UNKNOWN else _value(value, line))
        case b"tombstone", [partition, offset, epoch, identity]:
            at = _number(partition, line), _number(offset, line)
            return Tombstone(*at, _number_or_none(epoch, line), _value(identity, line))
        case b"offset", [partition, offset]:
            return Offset(_number(partition, line), _number_or_none(offset, line))
        case b"end", [_, _, _]:
            return End(*_numbers(words, line))
        case rebalance, _ if rebalance in _REBALANCES and (words or line == rebalance):
            return _REBALANCES[rebalance](_numbers(words, line))
    raise _malformed(line)


def _number(word: bytes, line: bytes) -> int:
    if _NUMBER.fullmatch(word) and (number := int(word)) <= _NUMBER_MAX:
        return number
    raise _malformed(line)


def _numbers(words: Sequence[bytes], line: bytes) -> tuple[int, ...]:
    return tuple(_number(word, line) for word in words)


def _number_or_none(word: bytes, line: bytes) -> int | None:
    return None if word == _UNKNOWN else _number(word, line)


def _known(number: int | None) -> bytes:
    return _UNKNOWN if number is None else b"%d" % number


def _about(verb: bytes, partitions: Sequence[int]) -> bytes:
    return verb + b"".join(b" %d" % one for one in partitions) + b"\n"


def _text(words: bytes, line: bytes) -> str:
    try:
        return words.decode()
    except UnicodeDecodeError:
        raise _malformed(line) from None


def _value(word: bytes, line: bytes) -> bytes:
    try:
        return base64.b64decode(word, validate=True)
    except binascii.Error:
        raise _malformed(line) from None


def _word(text: str) -> bytes:
    if not text or not text.isprintable() or " " in text:
        raise ValueError(f"no word: {text!r}")
    return text.encode()


def _rest(text: str) -> bytes:
    if "\n" in text:
        raise ValueError("a line holds no line feed")
    return text.encode()


def _malformed(line: bytes) -> MalformedLine:
    shown = ascii(line[:_SHOWN_BYTES].decode(errors="backslashreplace"))
    return MalformedLine(shown + (" ..." if len(line) > _SHOWN_BYTES else ""))
