"""Thresholds under ``expect`` that a campaign cannot measure, or that nothing in it puts to the
test: a warning for each."""

from collections.abc import Iterator

from ackproof.checkers.thresholds import MEASURES, never_measured
from ackproof.config.documents import Problem
from ackproof.harness.campaign.model.campaign import Campaign
from ackproof.harness.campaign.model.cells import expand
from ackproof.harness.campaign.model.expectations import threshold_sources
from ackproof.history.cell import Cell

_OUTAGES = "unavailable."
"""How the names of the measures of outages begin."""
_ADD_READERS = "give these cells tail readers (workload.readers)"
_LEAVE_OUT = "leave these cells out by `where`, or give them other acks"


def warnings(campaign: Campaign) -> Iterator[Problem]:
    """Yield a warning for each threshold that would stay undecided, with the cells that it concerns
    where these are not all; and for each on outages where no fault can cause one."""
    cells = expand(campaign.cells)
    concerned: dict[tuple[str, tuple[str, str]], dict[str, None]] = {}
    for cell in cells:
        for _, swept in campaign.cluster.points():
            settings = {**swept, **cell.settings}
            for measure, index in threshold_sources(campaign.expect, settings).items():
                if reason := _reason(measure, cell, campaign):
                    key = (f"expect[{index}].{measure}", reason)
                    concerned.setdefault(key, {})[cell.name] = None
    for (field, (what, why)), names in concerned.items():
        where = "" if len(names) == len(cells) else f" in {', '.join(names)}"
        yield Problem(field=field, reason=f"{what}{where}, {why}")


def _reason(measure: str, cell: Cell, campaign: Campaign) -> tuple[str, str] | None:
    """Return what is wrong with a threshold on a measure of a cell, and why with a remedy; None
    where nothing is."""
    readers = campaign.workload.load_of(cell).readers
    reason = never_measured(MEASURES[measure], cell.acks, tail_readers=readers > 0)
    if reason:
        remedy = _ADD_READERS if MEASURES[measure].shown else _LEAVE_OUT
        return "cannot be measured", f"because {reason}: {remedy}"
    if measure.startswith(_OUTAGES) and not campaign.faults:
        return "is not put to the test", "because the campaign has no fault: add one under faults"
    return None
