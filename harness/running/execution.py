"""The execution of a resolved campaign: every run, the check and the report."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console

from ackproof.checkers.verdict import CampaignResult
from ackproof.harness import environment
from ackproof.harness.campaign.backends import BACKENDS, BackendContext, client_nodes, make
from ackproof.harness.campaign.model.campaign import Campaign
from ackproof.harness.campaign.plan.runs import RunPlan, manifest_of, runs_of
from ackproof.harness.directory import alone, marked_as_running
from ackproof.harness.exit_status import ExitStatus, exit_status, worst
from ackproof.harness.external_cluster import KEPT, made, releases
from ackproof.harness.interruption import Interruption
from ackproof.harness.running import orchestrator
from ackproof.harness.running.context import Run
from ackproof.harness.running.deadline import TimeSource
from ackproof.harness.running.progress import RunProgress, logging_to, progress
from ackproof.harness.running.recorder import RunRecorder
from ackproof.harness.running.spark_prewarm import SparkPrewarm
from ackproof.history.messages import printable
from ackproof.history.schema import INTERRUPTED
from ackproof.history.storage import AnyPath
from ackproof.infra.api.interface import Backend, System
from ackproof.infra.machine.own_commands import FILE as COMMANDS
from ackproof.infra.machine.own_commands import OwnCommands
from ackproof.infra.systems.properties import racks_of_consumers
from ackproof.nemesis.execution import Ledger
from ackproof.workloads import WORKLOADS

log = logging.getLogger(__name__)


def carry_out(
    campaign: Campaign,
    directory: Path,
    console: Console,
    clock: TimeSource,
    interruption: Interruption,
    hint: str = "",
) -> ExitStatus:
    """Carry out every run of ``campaign``, check the recorded histories, and report.

    The next runs and the check follow even if a run fails, so that a failed run does not hide a
    broken guarantee that another one recorded. After a request to stop, no further run begins. If
    the campaign's schedule is ``until: first-broken-guarantee``, none begins after a broken
    guarantee. The manifest then names the runs that were begun.

    Args:
        campaign: The resolved campaign, whose seed is drawn.
        directory: The campaign's results, made by :func:`harness.directory.create`. Nodes keep
            their files in ``scratch`` below it, which its owner removes.
        hint: A line to print before the path of the report.

    Raises KeyboardInterrupt at a second request to stop, or at one during the check.
    """
    with marked_as_running(directory), SparkPrewarm(directory / "scratch" / "spark") as ahead:
        _carry_out(campaign, directory, console, clock, interruption, ahead)
        return check(directory, console, ahead, hint=hint)


def _carry_out(
    campaign: Campaign,
    directory: Path,
    console: Console,
    clock: TimeSource,
    interruption: Interruption,
    ahead: SparkPrewarm,
) -> None:
    runs = runs_of(campaign)
    manifest_of(campaign, runs).write(directory)
    environment.write(directory, kafka=releases(runs[0].cluster))
    for plan in runs:
        # If it started earlier, Spark would compete with the cluster that is being measured.
        begins = ahead.at("teardown") if plan is runs[-1] else _nothing
        try:
            with progress(console, f"{campaign.name} {plan.number}/{len(runs)}") as display:
                _one_run(campaign, plan, directory, display, clock, interruption, begins)
        except KeyboardInterrupt:
            if interruption.asked_again:
                raise
        if interruption.asked:
            break
        if _goes_no_further(campaign, plan, directory, console):
            manifest_of(campaign, runs[: plan.number]).write(directory)
            break


def _nothing(_: str) -> None:
    pass


def _goes_no_further(campaign: Campaign, plan: RunPlan, directory: Path, console: Console) -> bool:
    """Return whether the campaign ends with the first broken guarantee, and this run broke one."""
    if campaign.schedule.until != "first-broken-guarantee" or plan.number == len(runs_of(campaign)):
        return False
    from ackproof.checkers import check as checkers  # Spark takes seconds to import

    with alone(directory, wait=True):
        result = checkers.check(directory, only=plan.number, progress=console.print)
    broken = any(result.broken)
    if broken:
        console.print(f"run {plan.number} broke a guarantee: no further run is started")
    return broken


def check(
    directory: AnyPath,
    console: Console,
    ahead: SparkPrewarm | None = None,
    spark_master: str | None = None,
    hint: str = "",
) -> ExitStatus:
    """Run the checkers on the history in ``directory``, write and print the report.

    ``ahead`` may hold a Spark session that was started for it. ``spark_master`` is the cluster on
    which to start one. ``hint`` is a line to print before the path of the report.
    """
    # Spark and matplotlib take seconds to import, so they are imported only when they are needed.
    from ackproof.checkers import check as checkers
    from ackproof.harness import report

    with alone(directory, wait=ahead is not None):
        report.require_runs(directory)
        # A report must not outlive its verdict. Even if this process ends early, the former
        # findings no longer describe the history.
        try:
            report.remove(directory)
        finally:
            _list_among_all(directory)
        spark = None if ahead is None else ahead.session()
        result = checkers.check(directory, spark=spark, master=spark_master, progress=console.print)
        findings = (*result.findings, *report.campaign_file.findings(directory))
        return tell(directory, replace(result, findings=findings), console, hint)


def report_again(directory: AnyPath, console: Console) -> ExitStatus | None:
    """Write the report of checked results again. Return None if they are not checked. Raises
    DamagedResults."""
    from ackproof.harness import report

    with alone(directory):
        try:
            result = report.load(directory)
        finally:
            _list_among_all(directory)  # the former page is gone
        return None if result is None else tell(directory, result, console)


def print_for_ci(directory: AnyPath, form: str) -> ExitStatus | None:
    """Print a summary of checked results, and change nothing. Return None if they are not checked.

    Args:
        form: ``markdown``, or ``github`` for workflow commands of GitHub Actions.

    Raises DamagedResults.
    """
    from ackproof.harness.report import campaign_file, ci, require_runs, shown, verdict

    require_runs(directory)
    result = verdict.read(directory, whole=True)
    if result is None:
        return None
    campaign = campaign_file.read(directory)
    title = f"{campaign.get('name')}, seed {campaign.get('seed')}"
    cells, _ = shown(directory, result)
    write = {"markdown": ci.to_markdown, "github": ci.to_commands}[form]
    click.echo(printable(write(title, result, cells)), nl=False)
    return exit_status(result)


def tell(
    directory: AnyPath, result: CampaignResult, console: Console, hint: str = ""
) -> ExitStatus:
    """Print the result, write the report, print ``hint`` and the path of its page last, and return
    the exit status. A failure to print or write is reported and does not hide the result."""
    from ackproof.harness import report
    from ackproof.harness.report import terminal

    status = exit_status(result)
    troubles: list[str] = []
    with _telling("the summary", troubles):
        terminal.print_result(console, result, *report.shown(directory, result))
    with _telling("the report", troubles):
        report.write(directory, result)
    _list_among_all(directory)
    for trouble in troubles:
        click.echo(f"ackproof: {trouble}", err=True)
    if (page := directory / report.PAGE).is_file():
        if hint:
            console.print(hint, soft_wrap=True, highlight=False, markup=False)
        console.print(printable(str(page)), soft_wrap=True, highlight=False, markup=False)
    return worst([status, ExitStatus.INFRASTRUCTURE]) if troubles else status


@contextmanager
def _telling(what: str, troubles: list[str]) -> Iterator[None]:
    """Add an error in printing or writing something to ``troubles``."""
    try:
        yield
    except Exception as error:
        log.exception("%s", what)
        troubles.append(printable(f"{what} is not complete: {error or type(error).__name__}"))


def _list_among_all(directory: AnyPath) -> None:
    """Write the index of all results beside ``directory`` again. A failure is only reported,
    because the result does not depend on the index."""
    from ackproof.harness.report import index

    if not isinstance(directory, Path) or not index.wanted(directory.parent):
        return
    troubles: list[str] = []
    with _telling("the index", troubles):
        index.write(directory.parent)
    for trouble in troubles:
        click.echo(f"ackproof: {trouble}", err=True)


def _one_run(
    campaign: Campaign,
    plan: RunPlan,
    directory: Path,
    display: RunProgress,
    clock: TimeSource,
    interruption: Interruption,
    begins: Callable[[str], None],
) -> None:
    """Carry out one run. If it cannot begin, its history holds the reason."""
    run_directory = directory / "runs" / str(plan.number)
    (run_directory / "progress").mkdir(parents=True)
    (run_directory / "logs").mkdir()
    recorder = RunRecorder(run_directory / "history", clock)
    scratch = directory / "scratch" / f"run-{plan.number}"
    with logging_to(run_directory / "logs" / "harness.log", display.note):
        try:
            with _backend(plan, scratch, run_directory, display) as backend, interruption.noted():
                run = _prepare(campaign, plan, run_directory, backend, recorder, display, clock)
                orchestrator.carry_out(run, interruption, begins=begins)
        except KeyboardInterrupt:
            recorder.phase("deploy", "failed", INTERRUPTED)
            raise
        except Exception as error:
            log.exception("run %d", plan.number)
            recorder.phase("deploy", "failed", f"the run did not begin: {error}")
            display.note(f"run {plan.number} failed: {type(error).__name__}: {error}")
        finally:
            recorder.close()


@contextmanager
def _backend(
    plan: RunPlan, scratch: Path, results: Path, display: RunProgress
) -> Iterator[Backend]:
    """Open the run's backend. A failure to close it is reported, and does not affect the following
    steps."""
    place = BACKENDS[plan.cluster.backend]
    site = BackendContext(cluster=plan.cluster, tell=display.note, clients=plan.clients)
    backend = place.open(site, scratch, results)
    try:
        yield backend
    finally:
        try:
            backend.close()
        except Exception as error:
            log.exception("closing the backend of run %d", plan.number)
            display.note(f"the backend was not closed: {error}")


def _prepare(
    campaign: Campaign,
    plan: RunPlan,
    directory: Path,
    backend: Backend,
    recorder: RunRecorder,
    display: RunProgress,
    clock: TimeSource,
) -> Run:
    outside = made(plan, directory, backend) if plan.cluster.external is not None else None
    system: System = make(plan.cluster, backend) if outside is None else outside.system
    return Run(
        campaign=campaign,
        number=plan.number,
        seed=plan.seed,
        directory=directory,
        backend=backend,
        system=system,
        observer=system.observer(recorder.cluster, clock.time_ns),
        workload=WORKLOADS[campaign.workload.kind],
        client_nodes=[backend.node(name) for name in client_nodes(plan.cluster)],
        cells=[planned.cell for planned in plan.cells],
        plan=plan.faults,
        recorder=recorder,
        progress=display,
        clock=clock,
        ledger=Ledger(directory / "ledger.jsonl"),
        failovers=plan.failovers,
        room=plan.room,
        connection=system.connection if outside is None else outside.connection,
        kept={} if outside is None else KEPT,
        racks=plan.cluster.rack_of,
        consumer_racks=racks_of_consumers(plan.cluster.rack_of, plan.cluster.properties),
        commands=OwnCommands(
            directory / COMMANDS, plan.number, () if outside is None else outside.secrets
        ),
    )
