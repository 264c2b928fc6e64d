"""The links of a report page: between faults, causes, losses and cells, and its table of
contents.

The id of each part is made here or in :func:`harness.report.timeline.fault_anchor`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from ackproof.checkers.root_cause.causes import attributed_faults
from ackproof.checkers.verdict import Cause
from ackproof.harness.report.causes import CauseGroup, cause_anchor
from ackproof.harness.report.cell_names import CellKey
from ackproof.harness.report.leading_causes import LeadingCause
from ackproof.harness.report.losses import AnomalyWindow
from ackproof.harness.report.rows import CellRow
from ackproof.harness.report.timeline import FaultSpan, fault_anchor
from ackproof.harness.report.violations import Violation

_LABEL = re.compile(r"[\w.:-]+#\d+")
_HEADING = re.compile(r'<section id="([\w-]+)"[^>]*>\s*<h2>(.*?)</h2>', re.DOTALL)

LINKS_MAX = 3
"""The most links of one kind from one place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """The ids of a page's parts.

    Attributes:
        cells: Each cell, with its id.
        faults: The id of each fault, by run and label.
        groups: The groups of root causes, in the order of their numbers.
        windows: The windows of lost records, in the order of their numbers.
        violations: The broken guarantees without a root cause, in the order of their numbers.
    """

    cells: Mapping[CellKey, tuple[CellRow, str]]
    faults: Mapping[tuple[int, str], str]
    groups: Sequence[CauseGroup]
    windows: Sequence[AnomalyWindow]
    violations: Sequence[Violation] = ()

    @classmethod
    def of(
        cls,
        cells: Sequence[CellRow],
        faults: Mapping[int, Sequence[FaultSpan]],
        groups: Sequence[CauseGroup],
        windows: Sequence[AnomalyWindow],
        violations: Sequence[Violation] = (),
    ) -> "Links":
        """Return the links of a page with these parts."""
        return cls(
            cells={
                (cell.run, cell.cell): (cell, f"cell-{number}")
                for number, cell in enumerate(cells, 1)
            },
            faults={
                (run, fault.label): fault_anchor(run, fault.fault_id)
                for run, spans in faults.items()
                for fault in spans
            },
            groups=groups,
            windows=windows,
            violations=violations,
        )

    def cell(self, run: int, name: str) -> Markup:
        """Return the name of a cell for readers as a link, with its stable name on hover."""
        if (run, name) not in self.cells:
            return escape(name)
        cell, anchor = self.cells[run, name]
        return Markup('<a href="#{}" title="{}">{}</a>').format(anchor, cell.name, cell.title)

    def linked(self, text: str, run: int | None) -> Markup:
        """Return a text in which the names of faults are links."""
        if run is None:
            return escape(text)
        parts: list[Markup] = []
        last = 0
        for found in _LABEL.finditer(text):
            anchor = self.faults.get((run, found[0]))
            if anchor is not None:
                link = Markup('<a href="#{}">{}</a>').format(anchor, found[0])
                parts += [escape(text[last : found.start()]), link]
                last = found.end()
        return Markup("").join([*parts, escape(text[last:])])

    def number_of(self, group: CauseGroup) -> int:
        """Return the number of a group of root causes, from 1."""
        return self.groups.index(group) + 1

    def of_leading(self, cause: LeadingCause) -> list[tuple[str, str]]:
        """Return the parts that detail a cause of the verdict: their ids and their names."""
        numbers = [
            number
            for number, group in enumerate(self.groups, 1)
            if any(one in cause.causes for one in group.causes)
        ]
        found = [(cause_anchor(number), f"root cause {number}") for number in numbers]
        found += [
            (f"violation-{number}", f"the cases of {cause.anomaly}")
            for number, one in enumerate(self.violations, 1)
            if one.cause is cause
        ]
        lost = [window for one in cause.causes for window in self._lost_to(one)]
        return [*found[:LINKS_MAX], *self._named(lost)]

    def of_group(self, group: CauseGroup) -> list[tuple[str, str]]:
        """Return the lost records of a group of root causes: their ids and names."""
        return self._named([window for one in group.causes for window in self._lost_to(one)])

    def of_window(self, window: AnomalyWindow) -> list[tuple[str, str]]:
        """Return the root causes of lost records: their ids and names."""
        numbers = [
            number
            for number, group in enumerate(self.groups, 1)
            if any(_explains(cause, window) for cause in group.causes)
        ]
        return [(cause_anchor(number), f"root cause {number}") for number in numbers[:LINKS_MAX]]

    def loss_anchor(self, window: AnomalyWindow) -> str:
        """Return the id of a window of lost records."""
        return f"loss-{next(n for n, one in enumerate(self.windows, 1) if one is window)}"

    def _lost_to(self, cause: Cause) -> list[AnomalyWindow]:
        return [window for window in self.windows if _explains(cause, window)]

    def _named(self, windows: Sequence[AnomalyWindow]) -> list[tuple[str, str]]:
        anchors = {self.loss_anchor(one): f"{one.topic}-{one.partition}" for one in windows}
        left = len(anchors) - LINKS_MAX
        named = [
            (anchor, f"lost in {place}") for anchor, place in list(anchors.items())[:LINKS_MAX]
        ]
        return [*named, ("lost", f"{left} more")] if left > 0 else named


def _explains(cause: Cause, window: AnomalyWindow) -> bool:
    """Return whether a cause explains records of a window: they are of the same partition, faults
    and time."""
    if (cause.run, cause.cell, cause.topic, cause.partition, cause.anomaly) != (
        *(window.run, window.cell, window.topic, window.partition),
        "lost",
    ):
        return False
    faults = attributed_faults(cause)
    if faults is not None and faults != window.fault:
        return False
    first, last = window.times
    since, until = cause.first_time, cause.last_time
    if first is None or last is None or since is None or until is None:
        return True
    return since <= last and until >= first


def contents(body: str) -> list[tuple[str, Markup]]:
    """Return the sections of a page: their ids and their headings."""
    # The headings were escaped when the page was rendered.
    return [(found[1], Markup(found[2])) for found in _HEADING.finditer(body)]
