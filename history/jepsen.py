"""A run's history in the format of Jepsen's Kafka workload, so that its checker can read it.

There is one op in each line, as EDN. The docstring of ``jepsen.tests.kafka`` describes ops.

- A key is a partition, ``"orders-0"``. A value is a record, ``"cell/producer/sequence"``, or nil
  for a payload that no client wrote.
- A process does one thing at a time, and has no further ops after an ``info``. A producer is
  therefore as many processes as it had sends in flight at once, plus one more after each ``info``.
  A send without a recorded outcome is an ``info``, too, because Jepsen takes a value with only an
  invocation for one that was never written.
- The time of a poll's invocation is not recorded. The time of the client's last action stands in
  for it, because that claims least about the order of events.
- A tail reader assigns itself its partitions. A member of a group subscribes once; partitions that
  it gains and loses later are in the ``:rebalance-log`` of the next poll. Jepsen has no op for a
  reader that continues at another offset (``out-of-range``).
- The final read is a consumer that comes last and assigns itself all partitions.
- The last second of a crashed producer is not recorded. A record that was read, and that lies
  behind its producer's last recorded send, counts as sent with an unknown outcome.

``:client`` is an addition with the name of the client. Commits, faults and the state of the cluster
are left out. Everything is held in memory.
"""

import heapq
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from ackproof.history import reader
from ackproof.history.errors import DamagedFiles
from ackproof.history.manifest import PlannedRun
from ackproof.history.names import FileStem, SendType

Row: TypeAlias = Mapping[str, Any]
Pair: TypeAlias = tuple[int | None, str | None]
"""An offset, or None if unknown, and a value."""
Name: TypeAlias = tuple[str, str | None]
"""The key and the value of a record."""

TABLES = ("sends", "polls", "assignments", "log")
"""The tables of a history that are read."""

POLLED_AT_ONCE = 500
"""The number of records that a poll of the final read returns, the default of
``max.poll.records``."""

FINAL_READ = "final-read"
"""The name of the client that stands for the final read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One event of an operation.

    Attributes:
        type: The type, as in :class:`SendType`.
        f: The operation: send, poll, assign or subscribe.
        process: The number of the process, as Jepsen counts.
        client: The name of the client.
        time: The time in nanoseconds of the Unix epoch.
        sent: The key and the pair of a send.
        polled: The pairs of a completed poll by key.
        keys: The keys of an assign or a subscribe.
        error: Kafka's name of the error.
        rebalanced: The changes of the client's partitions since the poll before, as event and key.
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
    crashed: Collection[str] = (),
) -> Iterator[Op]:
    """Yield the ops in the order of time. The tables are those of :func:`history.reader.read`.

    ``crashed`` names the cells of which a fault crashed a producer. The sends of its last second
    are not recorded. A record of such a send counts as sent, if it was read.

    Yields: An ``invoke`` for each op, and at most one completion.
    """
    processes = count()
    by_producer = _grouped(sends, "cell", "producer")
    for row in _unrecorded(by_producer, (polls, log), crashed):
        by_producer[row["cell"], row["producer"]].append(row)
    shown, had = _grouped(polls, "client"), _grouped(assignments, "client")
    streams: list[Iterable[Op]] = [
        _sent(f"{cell}/{producer}", rows, processes)
        for (cell, producer), rows in by_producer.items()
    ]
    for (client,) in sorted(shown.keys() | had.keys()):
        doing = _SequentialProcess(client=client, process=next(processes))
        streams.append(_consumed(doing, shown.get((client,), []), had.get((client,), [])))
    last = 0
    for op in heapq.merge(*streams, key=lambda op: op.time):
        last = op.time
        yield op
    doing = _SequentialProcess(client=FINAL_READ, process=next(processes), time=last)
    yield from _final_read(doing, log, polled_at_once)


def edn(op: Op) -> str:
    """Return one line of a history, without its line end."""
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
        rebalances = (f"{{:event :{event}, :keys [{_text(key)}]}}" for event, key in op.rebalanced)
        entries["rebalance-log"] = f"[{' '.join(rebalances)}]"
    return f"{{{', '.join(f':{name} {value}' for name, value in entries.items())}}}"


def key_of(topic: str, partition: int) -> str:
    """Return the key of a partition."""
    return f"{topic}-{partition}"


def value_of(cell: str | None, producer: int | None, sequence: int | None) -> str | None:
    """Return the value of a record, or None for a payload that no client wrote."""
    return None if producer is None else f"{cell}/{producer}/{sequence}"


@dataclass(kw_only=True)
class _SequentialProcess:
    """A process that does one thing after the other."""

    client: str
    process: int
    time: int = 0

    def called(self, f: str, **what: Any) -> Op:
        return self._op(SendType.INVOKE, f, **what)

    def done(self, f: str, time: int, **what: Any) -> Op:
        # A clock may be set back, but an event cannot precede an earlier one of its process.
        self.time = max(self.time, time)
        return self._op(SendType.OK, f, **what)

    def _op(self, type_: str, f: str, **what: Any) -> Op:
        who: dict[str, Any] = {"process": self.process, "client": self.client, "time": self.time}
        return Op(type=type_, f=f, **who, **what)


def _grouped(table: pa.Table, *columns: str) -> dict[tuple[Any, ...], list[Row]]:
    """Return the rows by their values in these columns, in their order."""
    found = defaultdict(list)
    for row in table.to_pylist():
        found[tuple(row[name] for name in columns)].append(row)
    return found


def _unrecorded(
    by_producer: Mapping[tuple[Any, ...], Sequence[Row]],
    reads: Iterable[pa.Table],
    crashed: Collection[str],
) -> list[Row]:
    """Return an ``invoke`` for each record that was read in a cell with a crashed producer and lies
    behind the last recorded send of its producer to the partition."""
    last: dict[tuple[Any, ...], Row] = {}
    for (cell, _), rows in by_producer.items():
        for row in rows if cell in crashed else ():
            place = _place(row)
            if place not in last or row["sequence"] > last[place]["sequence"]:
                last[place] = row
    found: dict[Name, Row] = {}
    for table in reads if last else ():
        for read in table.to_pylist():
            before = last.get(_place(read))
            if before is not None and read["sequence"] > before["sequence"]:
                sent = {"type": SendType.INVOKE, "sequence": read["sequence"]}
                found[_named(read)] = {**before, **sent, "offset": None, "error": None}
    return list(found.values())


def _place(row: Row) -> tuple[Any, ...]:
    return row["cell"], row["producer"], row["topic"], row["partition"]


def _sent(client: str, rows: Sequence[Row], numbers: Iterator[int]) -> Iterator[Op]:
    """Yield the sends of one producer. Its processes are numbered as they are needed."""
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
    """Return the rows with their times, in the order of time. No outcome precedes its ``invoke``,
    even if a clock was set back."""
    invoked = {_named(row): row["time"] for row in rows if row["type"] == SendType.INVOKE}
    timed = [(max(row["time"], invoked[_named(row)]), row) for row in rows]
    return sorted(timed, key=lambda one: (one[0], one[1]["type"] != SendType.INVOKE))


def _named(row: Row) -> Name:
    return _key(row), value_of(row["cell"], row["producer"], row["sequence"])


def _consumed(doing: _SequentialProcess, shown: Sequence[Row], had: Sequence[Row]) -> Iterator[Op]:
    """Yield the ops of one consumer. The first one states what it wants to read, if that is
    known."""
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


def _final_read(doing: _SequentialProcess, log: pa.Table, polled_at_once: int) -> Iterator[Op]:
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
    """Return the records of a poll by partition, each partition in its order."""
    found: dict[str, list[Pair]] = defaultdict(list)
    for row in rows:
        value = value_of(row["cell"], row["producer"], row["sequence"])
        found[_key(row)].append((row["offset"], value))
    return dict(found)


def _value(op: Op) -> str:
    if op.sent:
        key, pair = op.sent
        # A completion may have an offset, so it has a pair. All other events have the bare value.
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
    """Return a text as EDN. JSON's strings are also EDN's."""
    return "nil" if text is None else json.dumps(str(text))


def recorded(
    directory: Path, run: PlannedRun, topics: Collection[str] | None = None
) -> Iterator[Op]:
    """Yield the ops of a run, whose history is in ``directory``, in the order of time.

    ``topics``: those whose records are of interest; None: all. Raises DamagedFiles if a file of the
    history is missing or damaged: a checker would find nothing wrong with what it does not see.
    """
    crashed = {
        row["client"]
        for row in reader.read(directory, "clients").to_pylist()
        if row["fault_id"] is not None
    }
    if absent := dict.fromkeys(_absent(directory, run, crashed)):
        raise DamagedFiles({directory / name: "is missing" for name in absent})
    tables = {name: reader.read(directory, name) for name in TABLES}
    if topics is not None:
        those = pc.is_in(pc.field("topic"), pa.array(sorted(topics), pa.string()))
        tables = {name: table.filter(those) for name, table in tables.items()}
    cells = {one.cell for one in run.writers if one.table == "sends" and one.client in crashed}
    yield from ops(**tables, crashed={cell for cell in cells if cell is not None})


def _absent(directory: Path, run: PlannedRun, crashed: Collection[str]) -> Iterator[str]:
    """Yield the missing files of writers that wrote rows, or never reported their number. A client
    that a fault crashed did not report it."""
    empty = {
        (row["table"], row["writer"], row["topic"], row["partition"])
        for row in reader.read(directory, "closings").to_pylist()
        if row["rows"] == 0
    }
    for writer in run.writers:
        if writer.instead_of is not None or writer.client in crashed:
            continue
        stems = reader.by_stem(directory, writer.table)
        for partition in writer.partitions or (None,):
            stem = FileStem(table=writer.table, writer=writer.writer, partition=partition)
            known_empty = (writer.table, writer.writer, *(partition or (None, None))) in empty
            if stem not in stems and not known_empty:
                yield f"{stem}.parquet"
