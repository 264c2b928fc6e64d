"""``ackproof cluster up | status | down``: a standing cluster to try by hand."""

import shlex
import signal
from pathlib import Path

import click
import yaml
from pydantic import ValidationError

from ackproof.harness import standing_cluster
from ackproof.harness.campaign.model.clusters import ClusterSpec
from ackproof.harness.campaign.problems.properties import property_problems, secret_problems
from ackproof.harness.campaign.problems.systems import own_system_problems, too_few_brokers
from ackproof.harness.commands import options
from ackproof.harness.commands.errors import fail, reported_errors
from ackproof.harness.exit_status import ExitStatus
from ackproof.harness.running.deadline import Deadline, SystemClock
from ackproof.history.cell import Value
from ackproof.infra.systems import prepare, product
from ackproof.infra.systems.product import MetadataQuorum

_UP_WITHIN_S = 120.0


@click.group(
    epilog="""\b
Examples:
  ackproof cluster up --brokers 5
  ackproof cluster up --property zookeeper.session.timeout.ms=6000
  ackproof cluster status
  ackproof cluster down
""",
)
def cluster() -> None:
    """A standing cluster, to try by hand."""


@cluster.command(short_help="Start a cluster, and print its addresses.")
@click.option("--brokers", type=click.IntRange(1, 99), default=3, show_default=True)
@click.option(
    "--zookeepers",
    type=click.IntRange(1, 9),
    default=1,
    show_default=True,
    help="Number of ZooKeeper servers, or of controllers with KRaft.",
)
@options.system
@options.metadata_quorum
@click.option("--property", "properties", multiple=True, metavar="NAME=VALUE", help="Of brokers.")
def up(
    brokers: int,
    zookeepers: int,
    system: str | None,
    metadata_quorum: str | None,
    properties: tuple[str, ...],
) -> None:
    """Start a cluster in the background, and print its addresses: bootstrap.servers and
    zookeeper.connect, or with KRaft controller.quorum.bootstrap.servers."""
    written: dict[str, object] = {
        "system": system or product.BUNDLED,
        "brokers": brokers,
        "zookeepers": zookeepers,
        "properties": dict(map(_property, properties)),
    }
    if metadata_quorum is not None:
        written["metadata.quorum"] = MetadataQuorum(metadata_quorum)
    for problem in own_system_problems({"cluster": written}):
        fail(f"--metadata-quorum: {problem.reason}", ExitStatus.USAGE)
    try:
        wanted = ClusterSpec.model_validate(written)
    except ValidationError as invalid:
        fail(f"--property: {invalid.errors()[0]['msg']}", ExitStatus.USAGE)
    if (reason := too_few_brokers(wanted)) is not None:
        fail(f"--zookeepers: {reason}", ExitStatus.USAGE)
    given = {"cluster": written}
    for problem in (*secret_problems(given), *property_problems(given)):
        fail(f"--property: {problem}", ExitStatus.USAGE)
    with reported_errors():
        prepare(wanted.system, click.echo, tiered=wanted.tiered)
        found = standing_cluster.start(wanted, Deadline.after(SystemClock(), _UP_WITHIN_S))
        _print(found)


@cluster.command()
@click.pass_context
def status(context: click.Context) -> None:
    """Say whether there is a standing cluster, and where.

    Exits with 0 when it serves, else with 5.
    """
    with reported_errors():
        entry = standing_cluster.entry()
        if entry is None:
            click.echo("no standing cluster")
            context.exit(ExitStatus.INFRASTRUCTURE)
        if not entry.alive:
            click.echo(
                "the standing cluster ended unexpectedly; run ackproof clean to remove what it left"
            )
            context.exit(ExitStatus.INFRASTRUCTURE)
        click.echo(f"up, process {entry.outer.pid}")
        _print(standing_cluster.addresses())


@cluster.command()
def down() -> None:
    """End the cluster, and remove everything that it made."""
    with reported_errors():
        click.echo("down" if standing_cluster.stop() else "no standing cluster")


@cluster.command(name="daemon", hidden=True)
@click.argument("specification")
def daemon(specification: str) -> None:
    """Run the standing cluster's process outside of its namespaces."""
    with reported_errors():
        standing_cluster.enter(specification)


@cluster.command(name="inside", hidden=True)
@click.argument("scratch", type=click.Path(path_type=Path))
@click.argument("specification")
def inside(scratch: Path, specification: str) -> None:
    """Run the standing cluster's process inside of its namespaces until SIGTERM."""
    ends = (signal.SIGTERM, signal.SIGINT)
    with (
        reported_errors(),
        standing_cluster.deployed(scratch, ClusterSpec.model_validate_json(specification)),
    ):
        signal.pthread_sigmask(signal.SIG_BLOCK, ends)
        signal.sigwait(ends)


def _property(text: str) -> tuple[str, Value]:
    name, separator, value = text.partition("=")
    if not (name and separator):
        raise click.BadParameter(f"NAME=VALUE, not {text!r}", param_hint="--property")
    parsed = yaml.safe_load(value)
    return name, parsed if isinstance(parsed, int | float | bool) else value


def _print(found: standing_cluster.Addresses) -> None:
    click.echo(f"bootstrap.servers={found.bootstrap_servers}")
    click.echo(found.metadata_connect)
    entry = standing_cluster.entry()
    if found.subnet is None and entry is not None:
        click.echo(f"to run a command in its network: {shlex.join(entry.nsenter)} COMMAND")
