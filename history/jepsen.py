"""A run's history in the words of Jepsen's Kafka workload, so that its checker can read it.

One op a line, as EDN; what ops look like is said in the docstring of ``jepsen.tests.kafka``.

- A key is a partition, ``"orders-0"``. A value is a record, ``"cell/producer/sequence"``; nil for
  a payload that is none of ours, which is no value that anybody wrote.
- A process does one thing at a time, and is not heard of again after an ``info``. So a producer is
  as many processes as it had sends under way at once, and further ones after each ``info``. A send
  of which no outcome is recorded is an ``info``, too: what is only called Jepsen takes for a value
  that nobody wrote.
- When a poll was called is not recorded. Here it was called when its client had last done
  something: of all moments the one that claims least about what came before what.
- A tail reader assigns itself its partitions. A member of a group subscribes once; what it was
  given and lost later stands in the ``:rebalance-log`` of the poll that came next. That a reader
  went on elsewhere (``out-of-range``) Jepsen has no word for.
- The final read is a consumer that comes last, and assigns itself all partitions.

``:client`` is ours: who it was. Commits, faults, and what the cluster did are left out. All is
held in memory.
"""

import heapq
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from ackproof.history import reader
from ackproof.history.schema import SendType

Row: TypeAlias = Mapping[str, Any]
Pair: TypeAlias = tuple[int | None, str | None]
"""An offset, None where it is not known, and a value."""
Name: TypeAlias = tuple[str, str | None]
"""Of a record: key and value."""

TABLES = ("sends", "polls", "assignments", "log")
"""The tables of a history that are read."""

POLLED_AT_ONCE = 500
"""Records that a poll of the final read returns: the default of ``max.poll.records``."""

FINAL_READ = "final-read"
"""The client that the final read is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One event of an operation.

    Attributes:
        type: As in :class:`SendType`.
        f: What was asked for: send, poll, assign, subscribe.
        process: Who did it, as Jepsen counts.
        client: Who it was.
        time: Nanoseconds of the Unix epoch.
        sent: Of a send: the key and a pair.
        polled: Of a poll that was completed: pairs by key.
        keys: Of an assign and a subscribe.
        error: Kafka's name of it.
        rebalanced: What became of the client's partitions since the poll before: event and key.
    """

    type: str
    f: str
    process: int
    client: str
    time: int
    sent: tuple[str, Pair] | None = None
    polled: Mapping[str, Sequence[Pair]] | None = None
    keys: Sequence[str] = ()
    error: str | None = None
    rebalanced: Sequence[tuple[str, str]] = ()


def ops(
    *,
    sends: pa.Table,
    polls: pa.Table,
    assignments: pa.Table,
    log: pa.Table,
    polled_at_once: int = POLLED_AT_ONCE,
) -> Iterator[Op]:
    """What was done, in the order of time: tables as :func:`history.reader.read` gives them.

    Yields:
        An ``invoke`` for each op, and at most one completion.
    """
    processes = count()
    by_producer = _grouped(sends, "cell", "producer")
    shown, had = _grouped(polls, "client"), _grouped(assignments, "client")
    streams: list[Iterable[Op]] = [
        _sent(f"{cell}/{producer}", rows, processes)
        for (cell, producer), rows in by_producer.items()
    ]
    for (client,) in sorted(shown.keys() | had.keys()):
        doing = _Doing(client=client, process=next(processes))
        streams.append(_consumed(doing, shown.get((client,), []), had.get((client,), [])))
    last = 0
    for op in heapq.merge(*streams, key=lambda op: op.time):
        last = op.time
        yield op
    doing = _Doing(client=FINAL_READ, process=next(processes), time=last)
    yield from _final_read(doing, log, polled_at_once)


def edn(op: Op) -> str:
    """One line of a history, without its end."""
    entries = {
        "type": f":{op.type}",
        "process": str(op.process),
        "time": str(op.time),
        "f": f":{op.f}",
        "value": _value(op),
        "client": _text(op.client),
    }
    if op.error is not None:
        entries["error"] = _text(op.error)
    if op.rebalanced:
        told = (f"{{:event :{event}, :keys [{_text(key)}]}}" for event, key in op.rebalanced)
        entries["rebalance-log"] = f"[{' '.join(told)}]"
    return f"{{{', '.join(f':{name} {value}' for name, value in entries.items())}}}"


def key_of(topic: str, partition: int) -> str:
    """What a partition is called."""
    return f"{topic}-{partition}"


def value_of(cell: str | None, producer: int | None, sequence: int | None) -> str | None:
    """What a record is called; None for a payload of none of ours."""
    return None if producer is None else f"{cell}/{producer}/{sequence}"


@dataclass(kw_only=True)
class _Doing:
    """A process that does one thing after the other."""

    client: str
    process: int
    time: int = 0

    def called(self, f: str, **what: Any) -> Op:
        return self._op(SendType.INVOKE, f, **what)

    def done(self, f: str, time: int, **what: Any) -> Op:
        # A clock may be set back; what is done cannot be undone.
        self.time = max(self.time, time)
        return self._op(SendType.OK, f, **what)

    def _op(self, type_: str, f: str, **what: Any) -> Op:
        who: dict[str, Any] = {"process": self.process, "client": self.client, "time": self.time}
        return Op(type=type_, f=f, **who, **what)


def _grouped(table: pa.Table, *columns: str) -> dict[tuple[Any, ...], list[Row]]:
    """Rows in their order, by what they have in these columns."""
    found = defaultdict(list)
    for row in table.to_pylist():
        found[tuple(row[name] for name in columns)].append(row)
    return found


def _sent(client: str, rows: Sequence[Row], numbers: Iterator[int]) -> Iterator[Op]:
    """The sends of one producer, whose processes are numbered as they are needed."""
    free: list[int] = []
    busy: dict[Name, int] = {}
    last = 0
    for time, row in _in_time_order(rows):
        name, last = _named(row), time
        if row["type"] == SendType.INVOKE:
            process = busy[name] = heapq.heappop(free) if free else next(numbers)
        else:
            process = busy.pop(name)
            if row["type"] != SendType.INFO:
                heapq.heappush(free, process)
        who: dict[str, Any] = {"process": process, "client": client, "time": time}
        key, value = name
        sent = key, (row["offset"], value)
        yield Op(type=row["type"], f="send", sent=sent, error=row["error"], **who)
    for (key, value), process in busy.items():
        who = {"process": process, "client": client, "time": last}
        yield Op(type=SendType.INFO, f="send", sent=(key, (None, value)), **who)


def _in_time_order(rows: Sequence[Row]) -> list[tuple[int, Row]]:
    """With the time of each; no outcome was before its ``invoke``, though a clock was set back."""
    invoked = {_named(row): row["time"] for row in rows if row["type"] == SendType.INVOKE}
    timed = [(max(row["time"], invoked[_named(row)]), row) for row in rows]
    return sorted(timed, key=lambda one: (one[0], one[1]["type"] != SendType.INVOKE))


def _named(row: Row) -> Name:
    return _key(row), value_of(row["cell"], row["producer"], row["sequence"])


def _consumed(doing: _Doing, shown: Sequence[Row], had: Sequence[Row]) -> Iterator[Op]:
    """What one consumer did. Its first op is what it wants to read, where that is known."""
    named = [row for row in had if row["topic"] is not None]
    keys = list(dict.fromkeys(_key(row) for row in (*named, *shown)))
    member = any(row["group"] is not None for row in had)
    if had:
        doing.time = had[0]["time"]
        f = "subscribe" if member else "assign"
        yield doing.called(f, keys=keys)
        yield doing.done(f, doing.time, keys=keys)
    elif shown:
        doing.time = shown[0]["time"]
    changes = [row for row in named if member]
    polls: dict[int, list[Row]] = defaultdict(list)
    for row in shown:
        polls[row["poll"]].append(row)
    for number, rows in sorted(polls.items()):
        yield doing.called("poll")
        recent = [row for row in changes if row["poll"] < number]
        changes = changes[len(recent) :]
        polled = doing.done("poll", max(row["time"] for row in rows), polled=_by_key(rows))
        yield replace(polled, rebalanced=[(row["event"], _key(row)) for row in recent])


def _final_read(doing: _Doing, log: pa.Table, polled_at_once: int) -> Iterator[Op]:
    by_key = {key_of(*partition): rows for partition, rows in _grouped(log, *_PARTITION).items()}
    keys = sorted(by_key)
    yield doing.called("assign", keys=keys)
    yield doing.done("assign", doing.time, keys=keys)
    for key in keys:
        for first in range(0, len(by_key[key]), polled_at_once):
            rows = by_key[key][first : first + polled_at_once]
            yield doing.called("poll")
            yield doing.done("poll", doing.time, polled=_by_key(rows))


_PARTITION = ("topic", "partition")


def _key(row: Row) -> str:
    return key_of(row["topic"], row["partition"])


def _by_key(rows: Iterable[Row]) -> dict[str, list[Pair]]:
    """What a poll returned, partition by partition, each in its order."""
    found: dict[str, list[Pair]] = defaultdict(list)
    for row in rows:
        value = value_of(row["cell"], row["producer"], row["sequence"])
        found[_key(row)].append((row["offset"], value))
    return dict(found)


def _value(op: Op) -> str:
    if op.sent:
        key, pair = op.sent
        # A pair where a completion may tell an offset, and the bare value everywhere else.
        sent = _pair(pair) if op.type == SendType.OK else _text(pair[1])
        return f"[[:send {_text(key)} {sent}]]"
    if op.polled is not None:
        found = (f"{_text(key)} [{' '.join(map(_pair, some))}]" for key, some in op.polled.items())
        return f"[[:poll {{{', '.join(found)}}}]]"
    return "[[:poll]]" if op.f == "poll" else f"[{' '.join(map(_text, op.keys))}]"


def _pair(pair: Pair) -> str:
    offset, value = pair
    return f"[{'nil' if offset is None else offset} {_text(value)}]"


def _text(text: Any) -> str:
    """As EDN has it; JSON's strings are EDN's."""
    return "nil" if text is None else json.dumps(str(text))


def lines(directory: Path) -> Iterator[str]:
    """Yield the ops of the history in ``directory``, a line each, without its end. Raises
    DamagedFiles."""
    tables = {name: reader.read(directory, name) for name in TABLES}
    yield from map(edn, ops(**tables))
