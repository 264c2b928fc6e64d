"""What was promised of a partition's records, and since when it is not any more."""

from simulation.partition.shadow import Extent


class Promises:
    """Of one partition."""

    def __init__(self) -> None:
        self.committed: dict[int, Extent] = {}
        """By base offset, all that any leader had below its high watermark and that is promised."""
        self.committed_end = 0
        self.given_up = 0
        """Below this retention or DeleteRecords may have taken records."""
        self.unpromised: list[tuple[float, int]] = []
        """When, and from which offset on, a promise ended."""
        self.only_leader: dict[int, Extent] = {}
        """Acked with acks=1 by the leader that leads still."""
        self.read_end = 0
        """Up to where any consumer has read it."""
        self.acked_by_deposed: set[int] = set()
        """CRCs of what a leader acked after an election outside its ISR, before it heard of it."""

    def take_back(self, offset: int, now: float) -> None:
        """What was committed at ``offset`` and above is promised no longer."""
        self.unpromised.append((now, offset))
        self.only_leader.clear()
        self.committed = {o: e for o, e in self.committed.items() if e.next <= offset}
        self.committed_end = min(self.committed_end, offset)

    def holds(self, base: int, crc: int) -> bool:
        """Whether that batch is among what is promised."""
        extent = self.committed.get(base)
        return base >= self.given_up and extent is not None and extent.crc == crc

    def is_promised(self, offset: int, sent_at: float) -> bool:
        """Whether what was acked at ``offset``, and sent at that time, must be there still."""
        return offset >= self.given_up and not any(
            when >= sent_at and start <= offset for when, start in self.unpromised
        )
