"""What is known around the anomalies of one partition: plain data, which Arrow carries to a task.

Times are nanoseconds of the Unix epoch on the harness's clock, offsets the partition's; -1 stands
for what nobody knows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa

from checkers.observed import Absence
from checkers.timeline.cuts import Cut

_BROKERS = pa.list_(pa.int32())
_REIGN = pa.struct(
    [
        pa.field("epoch", pa.int32()),
        pa.field("leader", pa.int32()),
        pa.field("seen", pa.int64()),
        pa.field("elected_after", pa.int64()),
        pa.field("deposed", pa.int64()),
        pa.field("failing", pa.int64()),
        pa.field("log_end", pa.int64()),
        pa.field("high_watermark", pa.int64()),
        pa.field("isr_before", _BROKERS),
        pa.field("clean", pa.bool_()),
    ]
)
_FAULT = pa.struct(
    [
        pa.field("label", pa.string()),
        pa.field("servers", pa.list_(pa.string())),
        pa.field("start", pa.int64()),
        pa.field("end", pa.int64()),
        pa.field("took", pa.int64()),
    ]
)
_ABSENCE = pa.struct(
    [
        pa.field("broker", pa.int32()),
        pa.field("since", pa.int64()),
        pa.field("until", pa.int64()),
    ]
)
_CUT = pa.struct(
    [
        pa.field("broker", pa.int32()),
        pa.field("leader", pa.int32()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("log_end", pa.int64()),
        pa.field("offset", pa.int64()),
        pa.field("due_to", pa.string()),
    ]
)
_SENDER = pa.struct(
    [
        pa.field("client", pa.string()),
        pa.field("idempotent", pa.bool_()),
        pa.field("retries", pa.int32()),
        pa.field("resends_after", pa.int64()),
    ]
)
SCENE = pa.struct(
    [
        pa.field("reigns", pa.list_(_REIGN)),
        pa.field("faults", pa.list_(_FAULT)),
        pa.field("absences", pa.list_(_ABSENCE)),
        pa.field("cuts", pa.list_(_CUT)),
        pa.field("isr_times", pa.list_(pa.int64())),
        pa.field("isrs", pa.list_(_BROKERS)),
        pa.field("brokers", _BROKERS),
        pa.field("directories", pa.list_(pa.string())),
        pa.field("sender", _SENDER),
        pa.field("readers_bound", pa.int64()),
        pa.field("contended", pa.list_(pa.int32())),
        pa.field("speak", _BROKERS),
    ]
)
"""A :class:`Scene`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reign:
    """A leader epoch and who led in it.

    Attributes:
        seen: When it was first seen in ZooKeeper; -1 where only a broker's log tells of it.
        elected_after: Before when certainly nobody was elected in it.
        deposed: From when on its leader must have heard that another one leads.
        failing: From when on the fault was at work that was on when it ended; -1 where none was.
        log_end: Where its leader's log ended when it began to lead, by its own word.
        high_watermark: That leader's at this moment, likewise.
        isr_before: Who was last seen in sync before it.
        clean: Whether its leader was among these; None where nobody knows.
    """

    epoch: int
    leader: int
    seen: int
    elected_after: int
    deposed: int
    failing: int = -1
    log_end: int = -1
    high_watermark: int = -1
    isr_before: Sequence[int] = ()
    clean: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSeen:
    """A fault that befell the partition. ``servers``: None where nobody knows whom; ``took``: by
    when at the latest it had taken data from their disks, -1 where it takes none."""

    label: str
    servers: Sequence[str] | None
    start: int
    end: int
    took: int = -1

    def befell(self, broker: int) -> bool:
        """Whether it befell a broker, for all that is known."""
        return self.servers is None or f"broker-{broker}" in self.servers


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """The producers of the partition.

    Attributes:
        client: Their library, as in the cell; empty where nobody knows.
        idempotent: Whether the cell asks for ``enable.idempotence``.
        retries: How often a record is sent again; -1 for as often as there is time.
        resends_after: How soon at the earliest, in nanoseconds after it was sent; 0: at once, for
            all that is known.
    """

    client: str = ""
    idempotent: bool = False
    retries: int = -1
    resends_after: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Of one partition.

    Attributes:
        reigns: By epoch; those of nobody are left out.
        isr_times, isrs: From when on who was seen in sync.
        brokers, directories: Whose copies of the log were collected, in sync or not, and where.
        sender: Who sent to it.
        readers_bound: How far the clocks of those who read it may be off.
        contended: The epochs in which more than one broker led, by its own word.
        speak: The brokers whose own logs tell of it.
    """

    reigns: Sequence[Reign] = ()
    faults: Sequence[FaultSeen] = ()
    absences: Sequence[Absence] = ()
    cuts: Sequence[Cut] = ()
    isr_times: Sequence[int] = ()
    isrs: Sequence[Sequence[int]] = ()
    brokers: Sequence[int] = ()
    directories: Sequence[str] = ()
    sender: Sender = Sender()
    readers_bound: int = -1
    contended: Sequence[int] = ()
    speak: Sequence[int] = ()

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Of a row of :data:`SCENE`."""
        parts = {
            "reigns": [Reign(**one) for one in row["reigns"]],
            "faults": [FaultSeen(**one) for one in row["faults"]],
            "absences": [Absence(**one) for one in row["absences"]],
            "cuts": [Cut(**one) for one in row["cuts"]],
            "sender": Sender(**row["sender"]),
        }
        return cls(**{**row, **parts})


NOTHING_KNOWN = Scene()
