"""``ackproof clean``: the removal of what crashed runs left on this machine."""

from pathlib import Path

import click

from ackproof.harness import standing_cluster
from ackproof.harness.campaign.backends import KUBERNETES
from ackproof.harness.commands.errors import reported_errors
from ackproof.harness.exit_status import ExitStatus
from ackproof.infra import run_control
from ackproof.infra.backends.docker.engine import unavailable
from ackproof.infra.backends.ssh.inventory import load
from ackproof.infra.machine.registry import Registry


@click.command()
@click.option(
    "--all", "everything", is_flag=True, help="Also end what is still running, and remove it."
)
@click.option(
    "--inventory",
    type=click.Path(path_type=Path),
    help="Also remove everything that Ackproof ever put on the hosts in this file.",
)
@click.option(
    "--keep-software",
    is_flag=True,
    help=(
        "On those hosts, remove only what runs left, and keep the software that the next run needs."
    ),
)
@click.option("--accept-host-key", "accepted", multiple=True, metavar="FINGERPRINT")
@click.option(
    "--backend",
    type=click.Choice([KUBERNETES]),
    help="Also remove what dead runs left in the cluster of the kubeconfig; --all: of any run.",
)
@click.option(
    "--results",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    multiple=True,
    help="Also undo what the runs of these results left on an external cluster.",
)
@click.pass_context
def clean(
    context: click.Context,
    everything: bool,
    inventory: Path | None,
    keep_software: bool,
    accepted: tuple[str, ...],
    backend: str | None,
    results: tuple[Path, ...],
) -> None:
    """Remove what crashed runs left on this machine, and print what was removed.

    Results stay. Running processes are left alone, unless --all is given.
    """
    if keep_software and inventory is None:
        raise click.UsageError("--keep-software is of the hosts of --inventory FILE: name it.")
    said: list[str] = []

    def tell(line: str) -> None:
        said.append(line)
        click.echo(line)

    with reported_errors():
        removed = run_control.clean(Registry.open(), tell, everything=everything)
        for one in results:
            removed &= run_control.restore_results(Registry.open(), one, tell)
        if unavailable() is None:
            from ackproof.infra.backends.docker import cleanup as containers

            removed &= containers.clean(tell)
        if backend == KUBERNETES:
            from ackproof.infra.backends.kubernetes import cleanup as namespaces

            removed &= namespaces.clean(tell, everything=everything)
        if inventory is not None:
            from ackproof.infra.backends.ssh import hosts

            removed &= hosts.clean_hosts(
                load(inventory), tell, accepted=frozenset(accepted), everything=everything,
                keep_software=keep_software,
            )  # fmt: skip
        standing_cluster.remove_log()
    if not said:
        click.echo("nothing to remove")
    context.exit(ExitStatus.HELD if removed else ExitStatus.INFRASTRUCTURE)
