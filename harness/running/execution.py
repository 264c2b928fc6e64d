"""A campaign from its resolved file to its report: every run, the check, the report."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from checkers.verdict import CampaignResult
from harness import directory as places
from harness import summary
from harness.backends import BACKENDS, CLIENT_NODE, Site, make
from harness.campaign import timeline
from harness.campaign.cells import expand
from harness.campaign.model import Campaign
from harness.campaign.timings import CampaignTimings
from harness.exit_status import ExitStatus, exit_status
from harness.running import orchestrator
from harness.running.context import Run
from harness.running.deadline import Clock
from harness.running.progress import Progress, progress
from harness.running.recorder import RunRecorder
from infra.interface import Backend
from infra.systems.observer import ClusterObserver
from nemesis import FAULTS
from nemesis.ledger import Ledger
from workloads import WORKLOADS


def carry_out(campaign: Campaign, directory: Path, console: Console, clock: Clock) -> ExitStatus:
    """Carry out every run of ``campaign``, check what was recorded, report.

    Args:
        campaign: Resolved: its seed is drawn.
        directory: The campaign's results, made by :func:`harness.directory.create`. Nodes keep
            their files in ``scratch`` below it, which its owner removes.
    """
    for number in range(1, campaign.runs + 1):
        title = f"{campaign.name} {number}/{campaign.runs}"
        with progress(console, title) as display:
            if not _one_run(campaign, number, directory, display, clock):
                break
    return check(directory, console)


def check(directory: Path, console: Console) -> ExitStatus:
    """Run the checkers on the history in ``directory``, write and print the report."""
    # Spark and matplotlib take seconds to import: not before they are needed.
    from checkers import check as checkers
    from harness import report

    result = checkers.check(directory, progress=console.print)
    return tell(directory, result, report.write(directory, result), console)


def tell(directory: Path, result: CampaignResult, page: Path, console: Console) -> ExitStatus:
    """Print what was found, the path of the page last; the exit status."""
    summary.print_result(console, result)
    console.print(str(page), soft_wrap=True, highlight=False, markup=False)
    return exit_status(result, infrastructure_failed=places.infrastructure_failed(directory))


def _one_run(
    campaign: Campaign, number: int, directory: Path, display: Progress, clock: Clock
) -> bool:
    """Carry out one run; False after Ctrl-C."""
    run_directory = directory / "runs" / str(number)
    (run_directory / "progress").mkdir(parents=True)
    (run_directory / "logs").mkdir()
    place = BACKENDS[campaign.cluster.backend]
    site = Site(cluster=campaign.cluster, tell=display.note)
    backend = place.open(site, directory / "scratch" / f"run-{number}", run_directory)
    try:
        with _logging_to(run_directory / "logs" / "harness.log"):
            run = _prepare(campaign, number, run_directory, backend, display, clock)
            return orchestrator.carry_out(run)
    finally:
        backend.close()


def _prepare(
    campaign: Campaign,
    number: int,
    directory: Path,
    backend: Backend,
    display: Progress,
    clock: Clock,
) -> Run:
    timings = CampaignTimings(campaign.cluster)
    holds = {name: fault.hold_ms_min(timings) for name, fault in FAULTS.items()}
    assert campaign.seed is not None
    system = make(campaign.cluster, backend)
    recorder = RunRecorder(directory / "history", clock)
    return Run(
        campaign=campaign,
        number=number,
        directory=directory,
        backend=backend,
        system=system,
        observer=ClusterObserver(system.zookeeper_connect, recorder.cluster, clock.time_ns),
        workload=WORKLOADS[campaign.workload.kind],
        client_node=backend.node(CLIENT_NODE),
        cells=expand(campaign.cells),
        plan=timeline.plan(campaign, timeline.run_seed(campaign.seed, number), holds),
        recorder=recorder,
        progress=display,
        clock=clock,
        ledger=Ledger(directory / "ledger.jsonl"),
    )


@contextmanager
def _logging_to(path: Path) -> Iterator[None]:
    """Everything that is logged meanwhile goes to ``path`` and not to the terminal."""
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.setLevel(before)
        root.removeHandler(handler)
        handler.close()
