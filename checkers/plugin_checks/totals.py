"""The counts of what a plug-in's checker found in a partition or in a cell."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from ackproof.checkers.promises.standing import Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginTotals:
    """The counts of one checker.

    Attributes:
        found: The number of anomalies, by whether the guarantee was promised of each.
        examined: How many things were looked at.
        lacking: What is missing to say that the guarantee held, a sentence each.
    """

    found: Counter[Standing] = field(default_factory=Counter)
    examined: int = 0
    lacking: tuple[str, ...] = ()


def added(totals: Iterable[PluginTotals]) -> PluginTotals:
    """Return the sum of what one checker found in several partitions."""
    found: Counter[Standing] = Counter()
    examined = 0
    lacking: list[str] = []
    for one in totals:
        found.update(one.found)
        examined += one.examined
        lacking += one.lacking
    return PluginTotals(found=found, examined=examined, lacking=tuple(dict.fromkeys(lacking)))
