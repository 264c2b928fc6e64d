"""The root causes of anomalies, which the checkers found. Causes with the same explanation are
grouped, those that break a guarantee come first, and long lists are folded.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ackproof.checkers.root_cause.causes import MORE
from ackproof.checkers.verdict import CampaignResult, Cause

SHOWN_MAX = 5
"""The number of groups of causes that are shown at once. Further ones are folded."""

DAMNING_MAX = 20
"""The number of groups shown at once if they break a guarantee."""

LISTED_MAX = 500
"""The most groups on the page, including folded ones, and the most causes of one group.
``verdict.json`` has all."""


WHAT = {
    "lost": "lost",
    "duplicated": "duplicated",
    "vanished-read": "read, now absent",
    "inconsistent-read": "read, now different",
    "divergent-replicas": "different among replicas",
}
"""The anomalies of the records that a cause explains, in words."""

COUNTED = {"lost": "lost", "duplicated": "duplicated", "vanished": "read, now absent"}
"""What is counted by fault and cell, by its names in ``losses`` of ``verdict.json``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseGroup:
    """Causes of a run with the same anomaly, kind and faults, in several partitions or cells.

    Attributes:
        causes: The causes, the one with the most detail first. There is at least one.
    """

    causes: Sequence[Cause]

    @property
    def first(self) -> Cause:
        """Return the cause that is shown at once."""
        return self.causes[0]

    @property
    def others(self) -> Sequence[Cause]:
        """Return the causes that are listed after it."""
        return self.causes[1:LISTED_MAX]

    @property
    def records(self) -> int:
        """Return the number of their records."""
        return sum(cause.records for cause in self.causes)

    @property
    def promised(self) -> int:
        """Return the number of these records that break a guarantee."""
        return sum(cause.promised for cause in self.causes)

    @property
    def cells(self) -> dict[str, int]:
        """Return the number of their records in each cell."""
        counts: dict[str, int] = {}
        for cause in self.causes:
            counts[cause.cell] = counts.get(cause.cell, 0) + cause.records
        return counts

    @property
    def as_document(self) -> dict[str, Any]:
        """Return the group as in ``cause_groups`` of ``verdict.json``."""
        first = self.first
        partitions = sorted({(cause.topic, cause.partition) for cause in self.causes})
        return {
            "run": first.run,
            "anomaly": first.anomaly,
            "kind": first.kind,
            "faults": list(first.faults),
            "sentence": first.sentence,
            "records": self.records,
            "promised": self.promised,
            "cells": self.cells,
            "partitions": [f"{topic}-{number}" for topic, number in partitions],
        }

    @property
    def is_in_one_partition(self) -> bool:
        """Return whether all its causes are in the same partition."""
        return len({(cause.topic, cause.partition) for cause in self.causes}) == 1

    @property
    def place_in_words(self) -> str:
        """Return the number of its partitions and cells: ``5 partitions of 2 cells``."""
        partitions = {(cause.topic, cause.partition) for cause in self.causes}
        cells = "cell" if len(self.cells) == 1 else "cells"
        return f"{len(partitions)} partitions of {len(self.cells)} {cells}"

    @property
    def place(self) -> str:
        """Return the place of the records: ``acks-1, t-0``, or ``5 partitions of 2 cells``."""
        partitions = {(cause.topic, cause.partition) for cause in self.causes}
        if len(partitions) == 1:
            return f"{self.first.cell}, {self.first.topic}-{self.first.partition}"
        of = f"{len(self.cells)} cells" if len(self.cells) > 1 else self.first.cell
        return f"{len(partitions)} partitions of {of}"


def cause_anchor(number: int) -> str:
    """Return the id of a cause on a page, whose causes are numbered from 1."""
    return f"cause-{number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Causes:
    """The groups of causes on a page: those ``shown`` at once, those ``folded``, and the number of
    those ``left`` out."""

    shown: Sequence[CauseGroup] = ()
    folded: Sequence[CauseGroup] = ()
    left: int = 0

    @property
    def listed(self) -> Sequence[CauseGroup]:
        """Return the groups that are on the page, in the order of their numbers."""
        return [*self.shown, *self.folded]

    @property
    def firsts(self) -> Sequence[Cause]:
        """Return the first cause of each group that is on the page."""
        return [group.first for group in self.listed]


def causes(result: CampaignResult, leading: Iterable[Cause] = ()) -> Causes:
    """Return the causes of a result: those of ``leading`` first and in that order, then the others
    in the order of the result. The page numbers them, so that the numbers ascend from the top of
    the page on."""
    ranks: dict[Cause, int] = {}
    for rank, cause in enumerate(leading):
        ranks.setdefault(cause, rank)
    found = sorted(grouped(result.causes), key=lambda of: ranks.get(of.first, len(ranks)))
    damning = sum(1 for group in found if group.promised)
    at_once = max(SHOWN_MAX, min(damning, DAMNING_MAX))
    listed = found[:LISTED_MAX]
    return Causes(shown=listed[:at_once], folded=listed[at_once:], left=len(found) - len(listed))


def grouped(causes: Iterable[Cause]) -> list[CauseGroup]:
    """Return the causes in groups of the same run, anomaly, kind and faults, in the order of the
    first of each. A line that stands for causes that are not listed stays by itself."""
    groups: dict[tuple[object, ...], list[Cause]] = {}
    for cause in causes:
        key: tuple[object, ...] = cause.run, cause.anomaly, cause.kind, cause.faults
        if cause.kind == MORE:
            key = (*key, cause.topic, cause.partition)
        groups.setdefault(key, []).append(cause)
    return [CauseGroup(causes=tuple(of)) for of in groups.values()]
