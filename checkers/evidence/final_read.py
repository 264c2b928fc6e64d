"""What the final read of a partition reports of itself."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalRead:
    """The final read of a partition: did it get from ``start`` to ``end`` (exclusive)?"""

    complete: bool
    start: int | None = None
    end: int | None = None
