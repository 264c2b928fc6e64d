"""Small histories whose truth is known, and random damage to their rows, bits, files and words.

A world has four cells in one run, through one fault that changes the leader of all partitions:

- ``sound`` (acks=all) kept everything that it acknowledged;
- ``losing`` (acks=all) lost records that it had promised to keep;
- ``leaders`` (acks=1) lost records of which its deposed leader had told no follower;
- ``untold`` (acks=0) lost records.

Whatever happens to its files, a check may say what it says of the whole world, or that the evidence
does not suffice. It must say nothing else.
"""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ackproof.checkers.verdict import CampaignResult, Verdict
from ackproof.harness.report import verdict
from ackproof.harness.report.document import VerdictDocument
from ackproof.harness.report.verdict import in_document
from ackproof.history import names, storage
from ackproof.history.manifest import FILE
from tests.support.builders.checked_runs import replicas_of
from tests.support.builders.consumers import MadeConsumer, committed_ok, given, seen
from tests.support.builders.histories import (
    ACKS_0,
    ACKS_1,
    ALL,
    FINISHED,
    Made,
    MadeRun,
    a_fault,
    acked,
    at,
    cell,
    history_of,
    losing,
    state,
    write_campaign,
    write_digests,
)
from tests.support.builders.raw_logs import batches, write_replicas

EXPECTED: Mapping[str, Verdict] = {
    "sound": Verdict.PASS,
    "losing": Verdict.FAIL,
    "leaders": Verdict.NOT_GUARANTEED,
    "untold": Verdict.NOT_GUARANTEED,
}
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "sound": ALL,
    "losing": ALL,
    "leaders": ACKS_1,
    "untold": ACKS_0,
}
COLLECTED_S = 70


def write_world(directory: Path, random: Random) -> Path:
    """Write the results of a run whose records, times and consumers are drawn."""
    partitions: dict[tuple[str, int], Made] = {}
    cells, consumers, replicas = [], [], {}
    for name, settings in SETTINGS.items():
        count = random.randint(1, 2)
        cells.append(cell(settings, name=name, topic=name, partitions=count))
        for number in range(count):
            key = (name, number)
            made = _kept(random)
            if name != "sound":
                made = losing(made, *_early_offsets(made, random))
            partitions[key] = made
            if random.random() < 0.5:
                consumers.append(_reader(name, key, cells[-1].cell.topic_partitions, made))
            replicas[key] = len(made.log)
    groups = [_member(key, made) for key, made in partitions.items() if key == ("sound", 0)]
    keys = list(partitions)
    run = MadeRun(
        partitions=partitions,
        cells=[
            cell(
                SETTINGS[one.cell.name],
                name=one.cell.name,
                topic=one.cell.name,
                partitions=one.cell.partitions,
                groups={"g": "at-least-once"} if one.cell.name == "sound" else {},
            )
            for one in cells
        ],
        faults=a_fault(partitions=tuple(f"{topic}-{number}" for topic, number in keys)),
        cluster=[
            row
            for topic, number in [*keys, ("__consumer_offsets", 0)]
            for row in (
                state(-5, 1, 0, (1, 2, 3), topic=topic, partition=number, version=0),
                state(12, 2, 1, (2, 3), topic=topic, partition=number, version=1),
                state(21, 2, 1, (1, 2, 3), topic=topic, partition=number, version=2),
            )
        ],
        phases=_phases(),
        consumers=(*consumers, *groups),
        replicas=True,
        digests=True,
    )
    write_campaign(directory, run)
    for key, records in replicas.items():
        write_replicas(replicas_of(directory), *[batches(*[1] * records)] * 3, partition=key)
    write_digests(directory)
    return directory


def _phases() -> Sequence[Mapping[str, Any]]:
    times = {"deploy": -20, "ready": -10, "workload": 0, "faults": 1, "heal": 40, "recover": 41}
    times |= {"flush": 60, "final-read": 62, "collect": COLLECTED_S, "teardown": 80}
    return [{**row, "time": at(times[row["phase"]] + (row["event"] == "end"))} for row in FINISHED]


def _kept(random: Random) -> Made:
    """A partition that acknowledged records before, during and after the fault."""
    moments = [
        *(random.uniform(2, 9) for _ in range(random.randint(2, 5))),
        *(random.uniform(14, 19) for _ in range(random.randint(1, 3))),
        *(random.uniform(40, 55) for _ in range(random.randint(2, 5))),
    ]
    sends, log = acked(*sorted(moments))
    return Made(sends=sends, log=log, end=len(log))


def _early_offsets(made: Made, random: Random) -> Sequence[int]:
    """Offsets of records that were acknowledged before the fault."""
    early = [row.offset for row in made.sends if row.type == "ok" and row.time < at(9)]
    return random.sample(early, random.randint(1, len(early)))


def _reader(
    name: str, key: tuple[str, int], of: Sequence[tuple[str, int]], made: Made
) -> MadeConsumer:
    return MadeConsumer(
        client=f"reader-{name}-{key[1]}",
        polls=_polls(made),
        assigned=[given(0, at(0), 0)],
        partition=key,
        of=of,
        cell=name,
    )


def _member(key: tuple[str, int], made: Made) -> MadeConsumer:
    return MadeConsumer(
        client="member-g-0",
        group="g",
        polls=_polls(made),
        assigned=[given(0, at(0), 0)],
        commits=committed_ok(1, at(56), len(made.log), len(made.log)),
        partition=key,
        of=[key],
        cell=key[0],
    )


def _polls(made: Made) -> list[Any]:
    """One poll a record, of the records that the final log has."""
    times = {row.offset: row.time for row in made.sends if row.type == "ok"}
    return [
        seen(number, e.offset, e.producer, e.sequence, times[e.offset] + 1_000)
        for number, e in enumerate(made.log, 1)
    ]


# --- damage --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of damage. ``does`` damages something below a results directory and says what."""

    name: str
    does: Callable[[Path, Random], str]


def _file(directory: Path, random: Random) -> Path:
    """A file of the history, of the copied logs, or the manifest."""
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    return random.choice([path for path in files if path.name != "campaign.yaml"])


def _table(directory: Path, random: Random) -> Path:
    return random.choice(sorted(history_of(directory).glob("*.parquet")))


def _remove(directory: Path, random: Random) -> str:
    path = _file(directory, random)
    path.unlink()
    return f"{path.name} removed"


def _truncate(directory: Path, random: Random) -> str:
    path = _file(directory, random)
    data = path.read_bytes()
    path.write_bytes(data[: random.randrange(len(data) + 1)])
    return f"{path.name} truncated"


def _append(directory: Path, random: Random) -> str:
    path = _file(directory, random)
    path.write_bytes(path.read_bytes() + random.randbytes(random.randint(1, 40)))
    return f"{path.name} appended to"


def _flip(directory: Path, random: Random) -> str:
    path = _file(directory, random)
    data = bytearray(path.read_bytes())
    for _ in range(random.randint(1, 3)):
        if data:
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    path.write_bytes(bytes(data))
    return f"bits of {path.name} flipped"


def _zero(directory: Path, random: Random) -> str:
    path = _file(directory, random)
    data = bytearray(path.read_bytes())
    begin = random.randrange(len(data) + 1)
    end = min(len(data), begin + random.randint(1, 64))
    data[begin:end] = bytes(end - begin)
    path.write_bytes(bytes(data))
    return f"bytes of {path.name} zeroed"


def _swap(directory: Path, random: Random) -> str:
    first, second = _table(directory, random), _table(directory, random)
    one, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    second.write_bytes(one)
    return f"{first.name} and {second.name} swapped"


def _stray(directory: Path, random: Random) -> str:
    path = _table(directory, random)
    stem = path.name.removesuffix(".parquet")
    stray = path.with_name(f"{stem}.{random.choice(['bak', 'part-000009', 'copy'])}.parquet")
    shutil.copy(path, stray)
    return f"{stray.name} is a copy of {path.name}"


def _foreign(directory: Path, random: Random) -> str:
    path = random.choice([directory, history_of(directory), replicas_of(directory)])
    name = random.choice(["²", "x.parquet", "sends.parquet", "notes.txt", "faults.x.parquet"])
    (path / name).write_bytes(random.randbytes(random.randint(0, 50)))
    return f"{name} is there besides"


def _rewrite(path: Path, table: pa.Table) -> None:
    pq.write_table(table, path)


def _rows(directory: Path, random: Random) -> str:
    path = _table(directory, random)
    table = pq.read_table(path)
    many = len(table)
    what = random.choice(["dropped", "doubled", "shuffled"])
    if what == "dropped":
        keep = [number for number in range(many) if random.random() < 0.6]
    elif what == "doubled":
        keep = [*range(many), *(number for number in range(many) if random.random() < 0.4)]
    else:
        keep = random.sample(range(many), many)
    _rewrite(path, table.take(pa.array(keep, pa.int64())))
    return f"rows of {path.name} {what}"


def _column(directory: Path, random: Random) -> str:
    path = _table(directory, random)
    table = pq.read_table(path)
    name = random.choice(table.column_names)
    place = table.column_names.index(name)
    what = random.choice(["dropped", "renamed", "nulled", "as text"])
    if what == "dropped":
        table = table.drop_columns([name])
    elif what == "renamed":
        names = ["x" if one == name else one for one in table.column_names]
        table = table.rename_columns(names)
    elif what == "nulled":
        table = table.set_column(place, name, pa.nulls(len(table), table[name].type))
    else:
        text = pa.array([None if v is None else str(v) for v in table[name].to_pylist()])
        table = table.set_column(place, name, text)
    _rewrite(path, table)
    return f"column {name} of {path.name} {what}"


NUMBERS = (-1, 0, 1, -5, 2**31 - 1, 2**62, -(2**63))


def _values(directory: Path, random: Random) -> str:
    path = _table(directory, random)
    table = pq.read_table(path)
    if not len(table):
        return f"{path.name} is empty"
    name = random.choice(table.column_names)
    field = table.schema.field(name)
    values = table[name].to_pylist()
    number = random.randrange(len(values))
    values[number] = _other(values[number], field.type, random)
    try:
        array = pa.array(values, field.type)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return f"{name} of {path.name} holds no such value"
    place = table.column_names.index(name)
    _rewrite(path, table.set_column(place, field, array))
    return f"{name} of a row of {path.name} is {values[number]!r}"


def _other(value: Any, kind: pa.DataType, random: Random) -> Any:
    if pa.types.is_integer(kind):
        near = (value or 0) + random.choice([-1, 1, 10**9, -(10**9), 10**18])
        return random.choice([*NUMBERS, near])
    if pa.types.is_boolean(kind):
        return not value
    if pa.types.is_list(kind):
        return random.choice([[], ["nonsense"], [*(value or []), *(value or [])]])
    return random.choice(["", "nonsense", "oK", f"{value}²", "1e400", "[" * 2_000])


def _manifest(directory: Path, random: Random) -> str:
    """A part of the manifest is gone, or doubled."""
    path = directory / FILE
    document = json.loads(path.read_text(encoding="utf-8"))
    run = document["runs"][0]
    name = random.choice(sorted(run))
    if isinstance(run[name], list) and run[name]:
        run[name].append(random.choice(run[name]))
    else:
        run[name] = None
    path.write_text(json.dumps(document), encoding="utf-8")
    return f"{name} of the manifest changed"


WORDS = ("type", "event", "kind", "phase", "destroys", "table")
IMPOSSIBLE_TIMES = (-1, -(2**63), 0, 2**62, 2**63 - 1)


def _nonsense(directory: Path, random: Random) -> str:
    """A value that no writer can have meant, in a file that is as its writer closed it."""
    path = _table(directory, random)
    while path.name.startswith(("closings.", "collected.")):
        path = _table(directory, random)
    table = pq.read_table(path)
    columns = [
        name for name in table.column_names if name in (*WORDS, "time", "topic", "partition")
    ]
    if not len(table) or not columns:
        return f"{path.name} has no such column"
    name = random.choice(columns)
    values = table[name].to_pylist()
    number = random.randrange(len(values))
    if name == "time":
        values[number] = random.choice(IMPOSSIBLE_TIMES)
    elif name == "partition":
        values[number] = random.choice([-1, 7, 2**31 - 1])
    else:
        values[number] = random.choice(["nonsense", "", "oK", f"{values[number]}x"])
    place, field = table.column_names.index(name), table.schema.field(name)
    _rewrite(path, table.set_column(place, field, pa.array(values, field.type)))
    _close_again(path)
    return f"{name} of a row of {path.name} was recorded as {values[number]!r}"


def _close_again(path: Path) -> None:
    """Record the digest that a file has now, as its writer would have done."""
    stem, _ = names.parse(path.name)
    closings = path.with_name(f"closings.{stem.table}-{stem.writer}.parquet")
    table = pq.read_table(closings)
    rows = table.to_pylist()
    for row in rows:
        partition = None if row["topic"] is None else (row["topic"], row["partition"])
        if partition == stem.partition:
            row["digest"] = storage.digest(path)
    _rewrite(closings, pa.Table.from_pylist(rows, schema=table.schema))


KINDS: Sequence[Kind] = (
    Kind("remove", _remove),
    Kind("truncate", _truncate),
    Kind("append", _append),
    Kind("flip", _flip),
    Kind("zero", _zero),
    Kind("swap", _swap),
    Kind("stray", _stray),
    Kind("foreign", _foreign),
    Kind("rows", _rows),
    Kind("column", _column),
    Kind("values", _values),
    Kind("manifest", _manifest),
    Kind("nonsense", _nonsense),
)


def tamper(directory: Path, random: Random, kinds: Sequence[Kind] = KINDS) -> Sequence[str]:
    """Damage one to three things below a results directory. Return what."""
    drawn = [random.choice(kinds) for _ in range(random.choice([1, 1, 1, 2, 3]))]
    return [
        kind.does(directory, random) if number == 0 else _once_more(kind, directory, random)
        for number, kind in enumerate(drawn)
    ]


def _once_more(kind: Kind, directory: Path, random: Random) -> str:
    """Damage what may be damaged already: an unreadable file stays as it is."""
    try:
        return kind.does(directory, random)
    except (pa.ArrowInvalid, FileNotFoundError) as unreadable:
        return f"{kind.name}: {unreadable}"


def contradictions(result: CampaignResult) -> Sequence[str]:
    """Return the contradictions of a check of a damaged world: neither the truth nor inconclusive,
    or contradictory in itself."""
    wrong = [
        f"{found.cell} is {found.verdict}, the truth is {EXPECTED[found.cell]}"
        for found in result.cells
        if found.verdict not in (EXPECTED[found.cell], Verdict.INCONCLUSIVE)
    ]
    if result.verdict is Verdict.PASS:
        wrong.append("the campaign passes")
    document = VerdictDocument.model_validate_json(json.dumps(verdict.to_document({}, result)))
    return [*wrong, *in_document(document)]
