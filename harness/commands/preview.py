"""The output of ``validate`` and ``run`` before a campaign runs: its cells, likely mistakes, and
the timeline of every run.
"""

from collections.abc import Collection, Iterator, Sequence

import click
from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from ackproof.checkers.thresholds import MEASURES
from ackproof.harness.campaign import lint
from ackproof.harness.campaign.model.campaign import Campaign
from ackproof.harness.campaign.model.cells import expand
from ackproof.harness.campaign.model.workload import described
from ackproof.harness.campaign.plan import scheduler
from ackproof.harness.campaign.plan.faults import ScheduledFault, as_written
from ackproof.harness.campaign.plan.runs import RunPlan, manifest_of, runs_of
from ackproof.harness.campaign.validation import CampaignFile
from ackproof.harness.console import plain
from ackproof.history.cell import as_text
from ackproof.history.manifest import PlannedCell
from ackproof.infra.systems.product import is_external
from ackproof.nemesis.interface import OWN_TOPICS

# --- cells and warnings ---------------------------------------------------------------------------

_HEADINGS = ("cell", "topic", "partitions", "replicas")


def cells_table(campaign: Campaign) -> Table:
    """Return the cells of a campaign and their topics. On an external cluster, names of topics
    contain the seed, which may not be drawn yet."""
    cells = campaign.cells
    if is_external(campaign.cluster.system) and not cells.prefix:
        cells = cells.model_copy(update={"prefix": f"{OWN_TOPICS}SEED-"})
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in _HEADINGS:
        number = heading in ("partitions", "replicas")
        table.add_column(heading, justify="right" if number else "left", overflow="fold")
    for cell in expand(cells):
        counts = (str(cell.partitions), str(cell.replication_factor))
        table.add_row(plain(cell.name), plain(cell.topic), *counts)
    return table


def print_warnings(file: CampaignFile, campaign: Campaign) -> None:
    """Print likely mistakes on standard error, each with its place in the file."""
    for one in file.document.refused(lint.warnings(campaign)):
        place = f":{one.position}" if one.position else ""
        click.echo(f"{file.document.path}{place}: warning: {one}", err=True)


# --- timelines ------------------------------------------------------------------------------------


def timelines(campaign: Campaign) -> Group:
    """Return the cells of ``campaign``, whose seed is drawn, and the timeline of every run."""
    runs = runs_of(campaign)
    timelines_of_runs = (part for run in runs for part in _run(campaign, run, len(runs)))
    return Group(cells_table(campaign), *timelines_of_runs, *_guarantees(campaign, runs))


_CELLS_NAMED_MAX = 3
"""The most cells that a line on guarantees names."""


def _guarantees(campaign: Campaign, runs: Sequence[RunPlan]) -> Iterator[Text | Table]:
    """Yield the plug-in checkers that will judge the runs, beside the built-in ones; and which
    guarantees the runs will check, and which not, with the reasons."""
    # It imports Arrow, for which commands that refuse a campaign must not wait.
    from ackproof.checkers.guarantees.decisions import Prospect, forecast

    planned = [(run, cell) for run in manifest_of(campaign, runs).runs for cell in run.cells]
    named = {f"{name} ({plugin})" for _, cell in planned for name, plugin in cell.checkers.items()}
    if named:
        yield Text(f"checkers of plug-ins: {', '.join(sorted(named))}")
    cells: dict[tuple[str, Prospect, str], dict[str, None]] = {}
    for run, cell in planned:
        for one in forecast(run, cell):
            key = (one.name, one.prospect, one.reason)
            cells.setdefault(key, {})[cell.cell.name] = None
    names: dict[tuple[Prospect, str, tuple[str, ...]], list[str]] = {}
    for (name, prospect, reason), of in cells.items():
        names.setdefault((prospect, reason, tuple(of)), []).append(name)
    many = len({cell.cell.name for _, cell in planned})
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("", "guarantees", "reason"):
        table.add_column(heading, overflow="fold")
    for prospect in Prospect:
        for (its, reason, where), of_it in names.items():
            if its is prospect:
                place = "" if len(where) == many else f" in {_cells_in_words(where)}"
                table.add_row(f"{prospect}{place}", ", ".join(of_it), plain(reason))
    yield table


def _cells_in_words(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= _CELLS_NAMED_MAX else f"{len(names)} cells"


def _run(campaign: Campaign, run: RunPlan, runs: int) -> Iterator[Text | Table]:
    lasts = _seconds(scheduler.duration_ms(campaign, run.faults))
    swept = "".join(f", {name}={as_text(value)}" for name, value in run.swept.items())
    yield Text(f"{campaign.name} {run.number}/{runs}{swept}: the workload lasts {lasts} or longer")
    yield Text(described(campaign.workload, [planned.cell for planned in run.cells]))
    yield _table(run.faults) if run.faults else Text("no faults")
    if any(planned.gap_ms is not None for planned in run.faults):
        yield Text(f"+ or later: after the previous fault is healed{_settling(campaign)}")
    if any(planned.part is not None for planned in run.faults):
        yield Text("~ a step of a story, injected on its cue; the time is an estimate")
    if campaign.schedule.until == "first-broken-guarantee":
        yield Text("until a server ends by itself; no further run after one that broke a guarantee")
    for planned in run.cells:
        if expected := list(_expected(planned)):
            yield Text(f"expected of {planned.cell.name}: {', '.join(expected)}")
    for failover in run.failovers:
        yield Text(f"then, with {failover.partitions:,} partitions, a kill of {failover.target}")


def _expected(planned: PlannedCell) -> Iterator[str]:
    """Yield the campaign's expectations of a cell."""
    if planned.expect:
        yield " or ".join(planned.expect)
    for one in planned.thresholds:
        limit = MEASURES[one.measure].unit.words(one.limit)
        yield f"{one.measure} {one.operator} {limit}"


def _settling(campaign: Campaign) -> str:
    """Return the further condition that a fault waits for."""
    settle = campaign.schedule.settle
    return f" and the cluster has settled, for at most {_seconds(settle)}" if settle else ""


def _table(plan: Sequence[ScheduledFault]) -> Table:
    lanes = {planned.lane for planned in plan} - {0}
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("time", "hold"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("fault", no_wrap=True)
    table.add_column("target", overflow="fold")
    table.add_column("parameters", overflow="fold")
    notes = {planned.fault_id: _note(planned, lanes) for planned in plan}
    if any(notes.values()):
        table.add_column("", overflow="fold")
    for planned in plan:
        table.add_row(
            _seconds(planned.start_ms) + _mark(planned),
            _seconds(planned.end_ms - planned.start_ms),
            f"{planned.fault}#{planned.fault_id}",
            Text(planned.target),
            Text(as_written(planned.parameters.model_dump())),
            *([Text(notes[planned.fault_id])] if any(notes.values()) else []),
        )
    return table


def _mark(planned: ScheduledFault) -> str:
    if planned.part is not None and planned.part.begins is not None:
        return "~"
    return " " if planned.gap_ms is None else "+"


def _note(planned: ScheduledFault, lanes: Collection[int]) -> str:
    """Return the lane of a fault, if there are several, and its step of a story with its cues."""
    notes = [f"lane {planned.lane}"] if planned.lane and len(lanes) > 1 else []
    if (part := planned.part) is not None:
        notes.append(part.label)
        notes += [f"when {part.begins}"] if part.begins is not None else []
        notes += [f"lasts until {part.until}"] if part.until is not None else []
    return "; ".join(notes)


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:.1f} s"
