"""What is known around the anomalies of one partition: plain data, for a work item.

Times are nanoseconds of the Unix epoch on the harness's clock, offsets the partition's; -1 stands
for what nobody knows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ackproof.checkers.cluster.observed import Absence
from ackproof.checkers.timeline.truncations import Truncation


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
        unheard: Whether that one was, and certainly never heard that it leads: in this epoch nobody
            was served, and nothing was appended.
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
    unheard: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LetIn:
    """A broker was seen to come into the ISR in a leader epoch that had begun before; ``time``:
    when it was first seen there."""

    broker: int
    epoch: int
    time: int


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
        let_in: Who came into the ISR when, by time.
        brokers, directories: Whose copies of the log were collected, in sync or not, and where.
        sender: Who sent to it.
        readers_bound: How far the clocks of those who read it may be off.
        contended: The epochs in which more than one broker led, by its own word.
        speak: The brokers whose own logs tell of it.
    """

    reigns: Sequence[Reign] = ()
    faults: Sequence[FaultSeen] = ()
    absences: Sequence[Absence] = ()
    truncations: Sequence[Truncation] = ()
    isr_times: Sequence[int] = ()
    isrs: Sequence[Sequence[int]] = ()
    let_in: Sequence[LetIn] = ()
    brokers: Sequence[int] = ()
    directories: Sequence[str] = ()
    sender: Sender = Sender()
    readers_bound: int = -1
    contended: Sequence[int] = ()
    speak: Sequence[int] = ()


NOTHING_KNOWN = Scene()
