"""Client libraries side by side: the outcomes of their records, and the time to the next ack after
each fault. They come from the results of a campaign that has a cell for each library.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from ackproof.harness.comparing import sides
from ackproof.harness.comparing.sides import PooledCell, Side
from ackproof.history import reader
from ackproof.history.cell import LIBRDKAFKA

CLIENT = "client"
"""The setting by which a cell names its library."""

_COUNTS = ("sent", "acked", "failed", "indeterminate", "lost", "duplicated", "reordered")
_INJECTED = "injected"
_NS_PER_S = 1_000_000_000
_UNKNOWN = "?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A library in the cells of one combination of settings, over all runs.

    Attributes:
        settings: The settings in which the cells differ beside the library.
        counts: The counts by the names of ``verdict.json``; None if one is unknown for a run.
        next_ack_s: By fault, as ``kill#1``, the seconds from the injection until the ack of a
            record that was handed to the client after it. The slowest partition and run counts.
            None if there was no such ack.
    """

    name: str
    settings: Mapping[str, object]
    counts: Mapping[str, int | None]
    next_ack_s: Mapping[str, float | None]


def libraries(side: Side) -> Sequence[Library]:
    """Return the libraries of a campaign's results, in their order. Raises HistoryError if the
    sends or the faults of a run cannot be read."""
    pooled = list(side.cells.values())
    differ = _differing([_settings(one) for one in pooled])
    return [
        Library(
            name=str(_settings(one).get(CLIENT, LIBRDKAFKA)),
            settings={name: _settings(one).get(name) for name in differ},
            counts={name: one.total(attrgetter(name)) for name in _COUNTS},
            next_ack_s=_next_acks(side.directory, one),
        )
        for one in pooled
    ]


def table(found: Sequence[Library]) -> str:
    """Return a table in Markdown, with an end of line."""
    settings = list(dict.fromkeys(name for one in found for name in one.settings))
    faults = list(dict.fromkeys(label for one in found for label in one.next_ack_s))
    head = ["library", *(f"`{name}`" for name in settings), *_COUNTS]
    head += [f"next ack after {label}" for label in faults]
    rows = [
        [
            one.name,
            *(_word(one.settings.get(name)) for name in settings),
            *(_number(one.counts[name]) for name in _COUNTS),
            *(_seconds(one.next_ack_s.get(label)) for label in faults),
        ]
        for one in found
    ]
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _settings(one: PooledCell) -> Mapping[str, object]:
    return one.runs[0].model_extra or {}


def _differing(all_settings: Sequence[Mapping[str, object]]) -> Sequence[str]:
    names = dict.fromkeys(name for settings in all_settings for name in settings)
    return [
        name
        for name in names
        if name != CLIENT and len({str(settings.get(name)) for settings in all_settings}) > 1
    ]


def _next_acks(directory: Path, one: PooledCell) -> Mapping[str, float | None]:
    slowest: dict[str, float | None] = {}
    for run in one.runs:
        history = directory / "runs" / str(run.run) / "history"
        for label, waited in _of_run(history, run.topic).items():
            before = slowest.get(label, 0.0)
            slowest[label] = None if waited is None or before is None else max(before, waited)
    return slowest


def _of_run(history: Path, topic: str) -> Mapping[str, float | None]:
    """Return the longest time of any partition for each fault of a run."""
    moments = {
        f"{row['fault']}#{row['fault_id']}": row["time"]
        for row in reader.read(history, "faults").to_pylist()
        if row["event"] == _INJECTED
    }
    mine = [paths for stem, paths in reader.partitions(history).items() if stem[0] == topic]
    acked = [sides.acked(reader.read_files("sends", paths["sends"])) for paths in mine]
    return {
        label: _longest(_first(one, moment) for one in acked) for label, moment in moments.items()
    }


def _first(acked: pa.Table, moment: int) -> float | None:
    times = acked.filter(pc.greater(acked["time"], moment))["time_acked"]
    return (pc.min(times).as_py() - moment) / _NS_PER_S if len(times) else None


def _longest(waits: Iterable[float | None]) -> float | None:
    longest: float | None = None
    for waited in waits:
        if waited is None:
            return None
        longest = waited if longest is None else max(longest, waited)
    return longest


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)


def _number(count: int | None) -> str:
    return _UNKNOWN if count is None else f"{count:,}"


def _seconds(waited: float | None) -> str:
    if waited is None:
        return "never"
    return f"{waited:.1f} s" if waited >= 1 else f"{waited * 1000:.0f} ms"
