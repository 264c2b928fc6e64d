"""``ackproof run``: a campaign, from its file to its report."""

import os
import secrets
import shlex
import shutil
import sys
from itertools import chain
from pathlib import Path
from typing import NoReturn

import click

from ackproof.harness import directory as places
from ackproof.harness import external_cluster
from ackproof.harness.campaign import validation
from ackproof.harness.campaign.backends import (
    SSH,
    BackendContext,
    go_inside,
    place_of,
    require_inventory,
)
from ackproof.harness.campaign.model.campaign import Campaign
from ackproof.harness.campaign.model.workload import clients_named
from ackproof.harness.campaign.plan.needs import commands_of, joining, needs_of
from ackproof.harness.campaign.plan.runs import runs_of
from ackproof.harness.campaign.problems.places import (
    elsewhere,
    lacking_capabilities,
    missing_programs,
    never_offered,
    nothing_left,
    strange_programs,
    unusable_commands,
    without_hosts,
    without_refused,
)
from ackproof.harness.campaign.problems.sizes import bytes_of_a_run
from ackproof.harness.campaign.validation import CampaignFile
from ackproof.harness.commands import live, options
from ackproof.harness.commands.errors import debugging, fail, reported_errors
from ackproof.harness.commands.live import WatchPort
from ackproof.harness.commands.preview import print_warnings, timelines
from ackproof.harness.console import console
from ackproof.harness.exit_status import ExitStatus
from ackproof.harness.interruption import Interruption
from ackproof.harness.running.deadline import SystemClock
from ackproof.infra import run_control
from ackproof.infra.api.interface import Capability, InfraError
from ackproof.infra.backends.local.processes import MEANT_AS_1
from ackproof.infra.machine.registry import EntryKind, Registry
from ackproof.infra.systems import known, prepare

# --- free space -----------------------------------------------------------------------------------
#
# A disk that becomes full during a run costs its evidence, and often the cluster. With the backend
# local, the brokers keep their logs there, too.

_MB = 1_000_000
LEAST_MB = 256
"""The space for logs, histories and reports of the smallest campaign, in MB. ZooKeeper alone
reserves 64 MB for each of its logs."""


def require(campaign: Campaign, directory: Path) -> None:
    """Raise InfraError if the file system of ``directory``, which need not exist yet, has less
    space than ``campaign`` needs for its results."""
    there = directory.absolute()
    while not there.exists():
        there = there.parent
    free = shutil.disk_usage(there).free // _MB
    needed = LEAST_MB + int(bytes_of_a_run(campaign)) // _MB
    if free < needed:
        raise InfraError(
            f"{directory} has {free:,} MB of free space, but {campaign.name} needs about "
            f"{needed:,} MB: make room, or give another directory with --out"
        )


# --- the command ----------------------------------------------------------------------------------

_SEED_BITS = 32
_JOINS_WITHIN_S = 180.0
"""The time for brokers that a dead run had stopped to join their cluster again."""


@click.command(
    epilog="""\b
Examples:
  ackproof run quick                                  a campaign that is installed
  ackproof run mine.yaml                              one of your own
  ackproof run quick --seed 42                        the same schedule once more
  ackproof run quick --dry-run                        what would break when, and no more
  ackproof run quick --out /tmp/r1                    results go there, which must be empty
  ackproof run quick --backend ssh --inventory hosts.yaml
  ackproof run nightly --backend docker --skip-refused
  ackproof run quick --backend kubernetes
  ackproof run quick --watch                          see it in a browser while it goes on
  ackproof run quick --system kafka:4.4.0             Apache Kafka itself
  ackproof run quick --system kafka:3.9.1 --metadata-quorum combined-kraft
""",
)
@options.campaign("campaign_file")
@options.backend
@click.option(
    "--inventory",
    type=click.Path(path_type=Path),
    help="The file with the hosts of the backend ssh.",
)
@click.option(
    "--accept-host-key",
    "accepted",
    multiple=True,
    metavar="FINGERPRINT",
    help=(
        "Accept this key of a host that is contacted for the first time, such as SHA256:... "
        ". Can be given several times."
    ),
)
@click.option(
    "--program",
    "programs",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Allow the campaign to start this program as a client. Can be given several times.",
)
@click.option(
    "--allow-commands",
    "commands_allowed",
    is_flag=True,
    help="Allow the commands of the campaign's own faults (fault: command) on this machine.",
)
@options.system
@options.metadata_quorum
@click.option(
    "--seed", type=click.IntRange(min=0), help="The seed of the schedule. Default: random."
)
@click.option(
    "--yes",
    "meant",
    is_flag=True,
    help=(
        "Skip the confirmation before a very large campaign and before the first run on an "
        "external cluster."
    ),
)
@options.skip_refused
@click.option(
    "--dry-run",
    is_flag=True,
    help=(
        "Print the cells with their topics, the timeline of every run, and the guarantees that "
        "will be checked, and start nothing."
    ),
)
@click.option(
    "--preflight",
    is_flag=True,
    help=(
        "Connect to the hosts or the cluster, report what the campaign would be refused for, and "
        "start nothing."
    ),
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help=(
        "Directory for the results, empty or absent. Default: results/<campaign>-<UTC "
        "time>. results/latest then links to it after the report."
    ),
)
@options.metrics(0)
@click.option(
    "--watch",
    type=WatchPort(),
    is_flag=False,
    flag_value="0",
    metavar="[PORT]",
    help=(
        "Show the run in a browser while it goes on, on this machine only. Default of PORT: a "
        "free one."
    ),
)
@click.option("--hint", default="", hidden=True, help="Print it before the path of the report.")
def run(
    campaign_file: Path,
    backend: str | None,
    inventory: Path | None,
    accepted: tuple[str, ...],
    programs: tuple[Path, ...],
    commands_allowed: bool,
    system: str | None,
    metadata_quorum: str | None,
    seed: int | None,
    meant: bool,
    skip_refused: bool,
    dry_run: bool,
    preflight: bool,
    out: Path | None,
    metrics_port: int | None,
    metrics_address: str,
    watch: int | None,
    hint: str,
) -> None:
    """Run a campaign: deploy, inject faults, heal, read back, check, report.

    Options take precedence over the file. A wrong file is refused before anything is started, with
    all its problems. The last line is the path of the report.
    """
    with reported_errors():
        file = validation.check(
            campaign_file, meant=meant, system=system, metadata_quorum=metadata_quorum
        )
        campaign = _resolved(file.campaign, backend, inventory, seed, campaign_file.parent)
        if strange := list(strange_programs(campaign, programs)):
            fail("; ".join(f"--program: {reason}" for reason in strange), ExitStatus.USAGE)
        if unused := _unused(campaign, inventory, accepted):
            fail(unused, ExitStatus.USAGE)
        file.refuse(missing_programs(campaign, programs))
        # A dry run shows the commands, so that the user can decide whether to allow them.
        file.refuse(unusable_commands(campaign, allowed=commands_allowed or dry_run))
        kept = _placeable(campaign, file, skip_refused)
        print_warnings(file, campaign)
        if out is not None:
            places.require_fresh(out)
            places.require_writable(out)
        if dry_run:
            click.echo(f"{campaign.name}: seed {campaign.seed}")
            _tell_skipped(kept)
            console().print(timelines(kept))
            _tell_doings(kept)
            return
        readers = () if preflight else live.sockets(watch, metrics_port, metrics_address)
        _check_cluster(kept, file, yes=meant, leaves_all=preflight)
        campaign = _placed(campaign, file, frozenset(accepted), skip_refused)
        if preflight:
            if campaign.cluster.external is not None:
                plan = runs_of(campaign)[0]
                rights = external_cluster.lacking_rights(campaign, plan, click.echo)
                file.refuse(chain(external_cluster.refused_topics(plan), rights))
            click.echo(f"{campaign.name}: it can run here; nothing was started")
            return
        clock = SystemClock()
        places.require_writable(out or places.RESULTS)
        require(campaign, out or places.RESULTS)
        directory = places.create(campaign, clock.time_ns(), out)
        click.echo(f"{campaign.name}: seed {campaign.seed}, results in {directory}")
        live.start(directory, *readers)
        _carry_out_inside(campaign, directory, latest=out is None, hint=hint)


@click.command(name="carry-out", hidden=True)
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--latest", is_flag=True, help="Let results/latest link to it once it is reported.")
@click.option("--hint", default="", help="Print it before the path of the report.")
@click.pass_context
def carry_out(context: click.Context, directory: Path, latest: bool, hint: str) -> None:
    """Carry out the campaign whose resolved file is in DIRECTORY: the inner half of ``run``."""
    from ackproof.harness.running import execution  # the outer half does not need all of it

    interruption = Interruption()
    interruption.install()
    with reported_errors():
        campaign = validation.load(directory / places.CAMPAIGN_FILE)
        try:
            status = execution.carry_out(
                campaign, directory, console(), SystemClock(), interruption, hint
            )
        except KeyboardInterrupt:
            _end_at_once(
                f"interrupted; run `ackproof check {directory}` to check the recorded history"
            )
        if latest:  # only now: a link to a run without a report would be of no use to anybody
            places.link_latest(directory)
    context.exit(MEANT_AS_1 if status is ExitStatus.BROKEN else status)


def _carry_out_inside(campaign: Campaign, directory: Path, *, latest: bool, hint: str) -> None:
    """Go on with :func:`carry_out` in the place of the campaign's backend."""
    go_inside(
        [
            *(["--debug"] if debugging() else []),
            "carry-out",
            str(directory),
            *(["--latest"] if latest else []),
            *([f"--hint={hint}"] if hint else []),
        ],
        f"{directory.name}-{secrets.token_hex(4)}",
        kind=EntryKind.RUN,
        scratch=directory / "scratch",
        results=directory,
        backend=campaign.cluster.backend,
    )


def _end_at_once(message: str) -> NoReturn:
    """End the process with a message. Python waits for threads before it ends. A thread that was
    not asked to stop, such as kazoo's in the observer, might wait forever for a ZooKeeper that is
    gone."""
    click.echo(f"ackproof: {message}", err=True)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(ExitStatus.INCONCLUSIVE)


def _resolved(
    campaign: Campaign,
    backend: str | None,
    inventory: Path | None,
    seed: int | None,
    directory: Path,
) -> Campaign:
    drawn = next(s for s in (seed, campaign.seed, secrets.randbits(_SEED_BITS)) if s is not None)
    hosts = None if inventory is None else str(inventory.absolute())
    return campaign.resolved(
        seed=drawn, backend=backend, inventory=hosts, directory=directory.absolute()
    )


def _unused(campaign: Campaign, inventory: Path | None, accepted: tuple[str, ...]) -> str | None:
    """Return the options for hosts that were given, if the campaign runs on none, or None."""
    backend = campaign.cluster.backend
    given = {"--inventory": inventory is not None, "--accept-host-key": bool(accepted)}
    unused = [option for option, is_given in given.items() if is_given]
    if backend == SSH or not unused:
        return None
    return f"{' and '.join(unused)}: only for --backend ssh, but this campaign runs on {backend}"


def _tell_doings(campaign: Campaign) -> None:
    for field, commands in commands_of(campaign):
        for key, argv in commands.named():
            click.echo(f"{field}, to {key}: {shlex.join(argv)} (in {commands.directory})")
    if campaign.cluster.external is None:
        return
    plans = runs_of(campaign)
    for line in (
        *external_cluster.doings(plans[0].cluster),
        external_cluster.topics(campaign, plans[0]),
        *external_cluster.harms(plans),
    ):
        click.echo(line)


def _check_cluster(campaign: Campaign, file: CampaignFile, *, yes: bool, leaves_all: bool) -> None:
    """For an external cluster, undo the leftovers of earlier runs unless it ``leaves_all``, and ask
    the user before the first run on it. Raises InfraError, CampaignRefused."""
    if campaign.cluster.external is None:
        return
    undone: list[str] = []

    def tell(line: str) -> None:
        undone.append(line)
        click.echo(line)

    if not leaves_all:
        run_control.restore_dead(Registry.open(), tell)

    def confirm(question: str) -> bool:
        _tell_doings(campaign)
        return sys.stdin.isatty() and click.confirm(f"{question}: continue?")

    cluster = runs_of(campaign)[0].cluster
    within_s = _JOINS_WITHIN_S if undone else 0.0
    differing = external_cluster.ask(
        campaign, cluster, confirm, click.echo, yes=yes, joins_within_s=within_s
    )
    file.refuse(differing)


def _placeable(campaign: Campaign, file: CampaignFile, skip_refused: bool) -> Campaign:
    """Return the campaign, without the faults that its backend never offers if that is wanted.
    Refuse a campaign that cannot run there, as far as files show it: neither hosts nor engines are
    asked. Raises DocumentRefused."""
    file.refuse(without_hosts(campaign))
    file.refuse(elsewhere(campaign))
    able = frozenset(Capability) - place_of(campaign.cluster).never.keys()
    kept = without_refused(campaign, able) if skip_refused else campaign
    file.refuse(nothing_left(campaign, kept))
    file.refuse(never_offered(kept))
    require_inventory(campaign.cluster.largest)
    return kept


def _placed(
    campaign: Campaign, file: CampaignFile, accepted: frozenset[str], skip_refused: bool
) -> Campaign:
    """Return the campaign as it can run here, without the parts that the backend refuses if that is
    wanted, and fetch the software that its nodes need.

    Raises InfraError if the backend does not work here, and CampaignRefused if it lacks a
    capability that the campaign needs.
    """
    place = place_of(campaign.cluster)
    if obstacle := place.obstacle():
        raise InfraError(obstacle)
    cluster = campaign.cluster
    known_before = known(cluster.system, cluster.metadata_quorum)
    tiered = any(one.tiered for one, _ in cluster.points())
    prepare(cluster.system, click.echo, tiered=tiered)
    if known_before is None:
        # The properties of a release are known only after it was fetched.
        validation.judged(file.document, meant=True)
    site = BackendContext(
        cluster=campaign.cluster.largest,
        tell=click.echo,
        needs=needs_of(campaign),
        joining=joining(campaign.faults),
        clients=tuple(clients_named(campaign.cells, campaign.workload)),
        accepted_host_keys=accepted,
    )
    able = place.capabilities(site)
    kept = without_refused(campaign, able) if skip_refused else campaign
    file.refuse(nothing_left(campaign, kept))
    file.refuse(lacking_capabilities(kept, able))
    _tell_skipped(kept)
    return kept


def _tell_skipped(campaign: Campaign) -> None:
    for one in campaign.skipped:
        click.echo(f"skipped: {one.what}: {one.reason}")
