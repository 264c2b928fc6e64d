"""The lines between us and a program under test: docs/client-protocol.md, as functions.

A line is words with a space between, in ASCII except its last part, which may be any UTF-8. So no
parser of JSON is needed. Both halves are here, because programs in Python use the other one.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

VERSION = 1
LINE_BYTES_MAX = 4 << 20
"""The length of a record of the largest size that brokers take, as base64, with some room."""

_NUMBER = re.compile(rb"0|[1-9][0-9]{0,18}")
_NUMBER_MAX = 2**63 - 1
_ERROR = re.compile(rb"[A-Za-z0-9_.$-]{1,100}")
_NO_OFFSET = b"-"
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
    """The topic of all records."""

    name: str


@dataclass(frozen=True, slots=True)
class Property:
    """A property of the producer, by Kafka's name."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Open:
    """The end of the properties: make the producer, and say when it is ready."""


@dataclass(frozen=True, slots=True)
class Send:
    """A record to send.

    ``number`` counts up, and identifies the record in the report of its outcome.
    """

    number: int
    partition: int
    value: bytes


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


Command = Protocol | Topic | Property | Open | Send | Flush | Init | Begin | Commit | Abort


# --- what a program says -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ready:
    """The word that the program takes records."""


@dataclass(frozen=True, slots=True)
class Acked:
    """The report that what the cell's acks asks for has come.

    ``offset`` is None where it was not reported.
    """

    number: int
    offset: int | None


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


Saying = Ready | Acked | Refused | Failed | Flushed | Done | Undone | Fatal


_BARE: Mapping[bytes, Command] = {
    b"open": Open(),
    b"flush": Flush(),
    b"init": Init(),
    b"begin": Begin(),
    b"commit": Commit(),
    b"abort": Abort(),
}
"""Commands that are one word, by that word."""
_WORDS = {command: word for word, command in _BARE.items()}
_BARE_SAYINGS: Mapping[bytes, Saying] = {
    b"ready": Ready(),
    b"flushed": Flushed(),
    b"done": Done(),
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
        case Property(name, value):
            return b"property %s %s\n" % (_word(name), _rest(value))
        case Send(number, partition, value):
            return send_line(number, partition, value)
        case Open() | Flush() | Init() | Begin() | Commit() | Abort():
            return _WORDS[command] + b"\n"


def send_line(number: int, partition: int, value: bytes) -> bytes:
    """Return the line of a :class:`Send`, without making one first, because there are many of
    these."""
    return b"send %d %d %s\n" % (number, partition, base64.b64encode(value))


def decode_command(line: bytes) -> Command:
    """Return the command in ``line``, which has no end; raise Malformed if there is none."""
    verb, _, rest = line.partition(b" ")
    words = rest.split(b" ") if rest else []
    match verb, words:
        case b"protocol", [version]:
            return Protocol(_number(version, line))
        case b"topic", [name]:
            return Topic(_text(name, line))
        case b"property", [name, *_] if name and b" " in rest:
            return Property(_text(name, line), _text(rest.partition(b" ")[2], line))
        case b"send", [number, partition, value]:
            return Send(_number(number, line), _number(partition, line), _value(value, line))
        case bare, [] if bare in _BARE and line == bare:
            return _BARE[bare]
    raise _malformed(line)


def encode_saying(saying: Saying) -> bytes:
    """Return the line, with its end; raise ValueError for what no line can hold."""
    match saying:
        case Ready() | Flushed() | Done():
            return _SAYING_WORDS[saying] + b"\n"
        case Acked(number, offset):
            return b"acked %d %s\n" % (number, _NO_OFFSET if offset is None else b"%d" % offset)
        case Refused(number, error):
            return b"refused %d %s\n" % (number, _word(error))
        case Failed(number, error):
            return b"failed %d %s\n" % (number, _word(error))
        case Undone(remedy, error):
            return b"undone %s %s\n" % (_word(remedy), _word(error))
        case Fatal(reason):
            return b"fatal %s\n" % _rest(reason)


def decode_saying(line: bytes) -> Saying:
    """Return what a program says in ``line``, which has no end; raise Malformed if it is
    nothing."""
    verb, _, rest = line.partition(b" ")
    words = rest.split(b" ") if rest else []
    match verb, words:
        case b"acked", [number, offset]:
            at = None if offset == _NO_OFFSET else _number(offset, line)
            return Acked(_number(number, line), at)
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
    raise _malformed(line)


def _number(word: bytes, line: bytes) -> int:
    if _NUMBER.fullmatch(word) and (number := int(word)) <= _NUMBER_MAX:
        return number
    raise _malformed(line)


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
