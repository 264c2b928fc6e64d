"""How long acks took, and how many there were, read from a run's recorded sends."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ackproof.history import reader
from ackproof.history.errors import HistoryError
from ackproof.history.schema import SendType

BINS = np.geomspace(0.05, 3.6e6, 600)
"""Milliseconds, 3 % apart."""

LASTED_MAX_S = 7 * 24 * 3_600
"""Sends that are further apart are of no one run: a time among them is damaged, and the rate of the
run would mean nothing."""

_NS_PER_S = 1_000_000_000
_NS_PER_MS = 1_000_000
_COLUMNS = ("cell", "producer", "sequence", "type", "time")

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sends:
    """The acknowledged sends of a cell in a run.

    Attributes:
        waited_ms: From handing a record to the client to its ack, of each.
        waits: How many waited how long (:data:`BINS`).
        lasted_s: From the first that was handed over to the last.
    """

    waited_ms: Array
    waits: Array
    lasted_s: float


def read(history: Path) -> Mapping[str, Sends]:
    """By cell, of all of its partitions. Raises HistoryError."""
    parts: dict[str, list[pa.Table]] = {}
    for paths in reader.by_stem(history, "sends").values():
        table = reader.read_files("sends", paths, _COLUMNS)
        for cell in table["cell"].unique().to_pylist():
            took = acked(table.filter(pc.equal(table["cell"], cell)))
            parts.setdefault(cell, []).append(took)
    joined = {cell: pa.concat_tables(tables) for cell, tables in parts.items()}
    return {cell: _sends(table) for cell, table in joined.items() if len(table)}


def acked(sends: pa.Table) -> pa.Table:
    """``time`` and ``time_acked`` of every record that was acknowledged."""
    of = {
        kind: sends.filter(pc.equal(sends["type"], kind.value)).select(
            ["producer", "sequence", "time"]
        )
        for kind in (SendType.INVOKE, SendType.OK)
    }
    names = ["producer", "sequence"]
    both = of[SendType.INVOKE].join(
        of[SendType.OK], names, join_type="inner", right_suffix="_acked"
    )
    return both.select(["time", "time_acked"])


def _sends(took: pa.Table) -> Sends:
    began = took["time"].to_numpy()
    waited_ms = (took["time_acked"].to_numpy() - began) / _NS_PER_MS
    lasted_s = float(began.max() - began.min()) / _NS_PER_S
    if lasted_s > LASTED_MAX_S:
        raise HistoryError(f"sends of one run that are {lasted_s / 86_400:.0f} days apart")
    counted = np.bincount(np.digitize(waited_ms, BINS), minlength=len(BINS) + 1)
    return Sends(
        waited_ms=waited_ms,
        waits=counted.astype(np.float64),
        lasted_s=lasted_s,
    )
