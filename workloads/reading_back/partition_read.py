"""The progress of the final read of one partition, with what is wrong in what it read.

Complete means: from the log start to the end, without an error. The end is where the broker said
that there is no more (``enable.partition.eof``). It must be at or behind the high watermark asked
for at the beginning, so that a high watermark that lagged then does not hide records.

An offset that was passed over is a hole. It is reported, and the read still counts as complete,
because there is nothing left to read there.
"""

from dataclasses import dataclass, field

NOTES_MAX = 8
"""How many errors, and how many holes, are named; the rest is counted."""


@dataclass(slots=True, kw_only=True)
class ReadBackPartition:
    """The state of one partition; offsets as Kafka counts them, ends exclusive.

    Attributes:
        position: The next offset expected.
        holes: Ranges of offsets passed over.
    """

    topic: str
    partition: int
    log_start_offset: int | None = None
    log_end_offset: int | None = None
    read_end_offset: int | None = None
    position: int = 0
    records: int = 0
    done: bool = False
    holes: list[tuple[int, int]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def begin(self, log_start_offset: int, log_end_offset: int) -> None:
        """Note the bounds."""
        self.log_start_offset = self.position = log_start_offset
        self.log_end_offset = log_end_offset

    def record(self, offset: int) -> None:
        """Note a record."""
        if offset < self.position:
            self.errors.append(f"offset {offset} came when {self.position} was due")
        self._pass_over(offset)
        self.position = offset + 1
        self.records += 1

    def end(self, offset: int) -> None:
        """Note that the broker has nothing at ``offset`` and behind it."""
        assert self.log_end_offset is not None
        if offset < self.log_end_offset:
            return
        self._pass_over(offset)
        self.read_end_offset = offset
        self.done = True

    def row(self, unfinished: str) -> tuple[object, ...]:
        """Return the row of ``reads``; ``unfinished`` says why, if it is not done."""
        errors = list(self.errors)
        if not self.done:
            errors.append(f"{unfinished} at offset {self._where()}")
        complete = self.done and not errors
        notes = [*_some(errors), *_some([f"hole [{a}, {b})" for a, b in self.holes])]
        return (
            self.topic,
            self.partition,
            self.log_start_offset,
            self.log_end_offset,
            self.read_end_offset,
            self.records,
            complete,
            "; ".join(notes) or None,
        )

    def _pass_over(self, offset: int) -> None:
        if offset > self.position:
            self.holes.append((self.position, offset))
            self.position = offset

    def _where(self) -> str:
        if self.log_end_offset is None:
            return "unknown (no bounds)"
        return f"{self.position} of {self.log_end_offset}"


def _some(notes: list[str]) -> list[str]:
    more = len(notes) - NOTES_MAX
    return notes if more <= 0 else [*notes[:NOTES_MAX], f"and {more} more"]
