"""``ackproof doctor``: the capabilities of this machine, and the cost of each missing one."""

import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import psutil
from rich import box
from rich.table import Table

from ackproof.checkers.checks.catalogue import CATALOGUE
from ackproof.harness.console import console
from ackproof.harness.exit_status import ExitStatus
from ackproof.infra.api.capabilities import LimitedResource
from ackproof.infra.api.interface import Capability, InfraError
from ackproof.infra.backends.docker.engine import unavailable
from ackproof.infra.backends.kubernetes import cluster as kubernetes_cluster
from ackproof.infra.backends.local.enter import can_enter, obstacles, undoable, unlimited
from ackproof.infra.backends.ssh import libraries
from ackproof.infra.clients import programs
from ackproof.infra.clients.programs import CLIENTS
from ackproof.infra.machine.software import JAVA_VERSION_MIN, find_java
from ackproof.infra.node.nodes import OF_LINKS, Obstacles, lacking
from ackproof.infra.systems import SYSTEMS
from ackproof.nemesis import FAULTS
from ackproof.plugins import misplaced
from ackproof.workloads import WORKLOADS

_PLUGGABLE = (FAULTS, SYSTEMS, CLIENTS, WORKLOADS, CATALOGUE)
"""The tables that plug-ins add to."""
_GIB = 1024**3
_MEMORY_MIN_GIB = 3.0
_DISK_MIN_GIB = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Prerequisite:
    """One prerequisite.

    Attributes:
        works: Whether it is met.
        seen: The observation.
        cost: The features that need it.
        remedy: The way to meet it.
        needed: Whether ``ackproof run`` with the backend local needs it.
    """

    what: str
    works: bool
    seen: str
    cost: str
    remedy: str
    needed: bool = True


@click.command()
@click.pass_context
def doctor(context: click.Context) -> None:
    """Show what this machine can do, the cost of each missing part, and how to get it.

    Exits with 0 if `ackproof run` works here with the backend local, else with 5.
    """
    found = list(findings(Path.cwd()))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("", "what", "seen", "not available without it", "how to get it"):
        table.add_column(heading)
    for finding in found:
        missing = ("", "") if finding.works else (finding.cost, finding.remedy)
        mark = "[green]ok[/]" if finding.works else "[red]no[/]" if finding.needed else "-"
        table.add_row(mark, finding.what, finding.seen, *missing)
    console().print(table)
    ready = all(finding.works for finding in found if finding.needed)
    click.echo(
        "ackproof run works on this machine"
        if ready
        else "ackproof run does not work on this machine yet"
    )
    context.exit(ExitStatus.HELD if ready else ExitStatus.INFRASTRUCTURE)


def findings(directory: Path) -> Iterator[Prerequisite]:
    """Yield the findings of all prerequisites. Results are expected below ``directory``."""
    for look in (
        _namespaces,
        _links,
        _limits,
        _disks,
        _clocks,
        _java,
        _memory,
        lambda: _disk(directory),
        _clients,
        _docker,
        _ssh,
        _kubernetes,
        _plugins,
    ):
        yield look()


def _namespaces() -> Prerequisite:
    obstacle = can_enter()
    way = "as root" if os.geteuid() == 0 else "rootless"
    return Prerequisite(
        what="namespaces",
        works=obstacle is None,
        seen=way if obstacle is None else "refused",
        cost="the backend local: no cluster on this machine",
        remedy=obstacle or "",
    )


def _links() -> Prerequisite:
    obstacle = can_enter()
    found: Obstacles = dict.fromkeys(OF_LINKS, obstacle) if obstacle else obstacles()
    there = [name for name, why in found.items() if not why]
    return Prerequisite(
        what="links (nft, tc)",
        works=not any(found.values()),
        seen=", ".join(there) or "links cannot be cut",
        cost="faults that need "
        + ", ".join(name for name, why in found.items() if why)
        + ", with the backend local",
        remedy="\n".join(lacking(found)),
        needed=bool(found[Capability.CUT_LINKS]),
    )


def _limits() -> Prerequisite:
    return _dispensable(
        what="control groups",
        obstacle=can_enter() or next(filter(None, map(unlimited, LimitedResource)), None),
        seen=("CPU and memory can be limited", "not usable"),
        cost="starve-cpu and starve-memory, with the backend local",
    )


def _disks() -> Prerequisite:
    return _dispensable(
        what="separate disks for brokers",
        obstacle=can_enter() or undoable(Capability.LOSE_UNSYNCED_WRITES),
        seen=("they lose data that was not synced", "not available"),
        cost="power failures and disks that fail, with the backend local",
    )


def _dispensable(
    *, what: str, obstacle: str | None, seen: tuple[str, str], cost: str
) -> Prerequisite:
    """Return the finding of an optional prerequisite. ``seen`` has the texts for its presence and
    absence."""
    works = obstacle is None
    return Prerequisite(
        what=what,
        works=works,
        seen=seen[0 if works else 1],
        cost=cost,
        remedy=obstacle or "",
        needed=False,
    )


def _clocks() -> Prerequisite:
    return _dispensable(
        what="clocks (libfaketime)",
        obstacle=can_enter() or undoable(Capability.FAKE_CLOCKS),
        seen=("servers can be given another time", "not usable"),
        cost="step-clock, fast-clock and strobe-clock, with the backend local",
    )


def _java() -> Prerequisite:
    java, obstacle = _tried(find_java)
    return Prerequisite(
        what=f"Java {JAVA_VERSION_MIN}+",
        works=java is not None,
        seen=str(java or "missing"),
        cost="ZooKeeper and the checkers (Spark)",
        remedy=obstacle,
    )


def _tried(find: Callable[[], Path]) -> tuple[Path | None, str]:
    try:
        return find(), ""
    except InfraError as error:
        return None, str(error)


def _memory() -> Prerequisite:
    available = psutil.virtual_memory().available / _GIB
    return Prerequisite(
        what="memory",
        works=available >= _MEMORY_MIN_GIB,
        seen=f"{available:.1f} GiB available, {os.cpu_count()} cores",
        cost="room for three brokers, ZooKeeper, the clients and Spark",
        remedy=f"{_MEMORY_MIN_GIB:g} GiB or more; fewer brokers and cells need less",
    )


def _disk(directory: Path) -> Prerequisite:
    free = shutil.disk_usage(directory).free / _GIB
    return Prerequisite(
        what="disk",
        works=free >= _DISK_MIN_GIB,
        seen=f"{free:.1f} GiB free in {directory}",
        cost="room for logs and histories",
        remedy=f"{_DISK_MIN_GIB:g} GiB or more; or use ackproof run --out on another disk",
    )


def _clients() -> Prerequisite:
    lacking = {one: why for one in CLIENTS if (why := programs.missing(one)) is not None}
    return Prerequisite(
        what="client libraries",
        works=not lacking,
        seen=", ".join(one for one in CLIENTS if one not in lacking),
        cost=f"cells with the client {', '.join(lacking)}",
        remedy="\n".join(lacking.values()),
        needed=False,
    )


def _docker() -> Prerequisite:
    return _dispensable(
        what="Docker Engine",
        obstacle=unavailable(),
        seen=("running on this machine", "not usable"),
        cost="the backend docker: nodes as containers",
    )


def _ssh() -> Prerequisite:
    return _dispensable(
        what="SSH",
        obstacle=libraries.unavailable(),
        seen=("hosts are given with --inventory FILE", "not usable"),
        cost="the backend ssh: nodes on other hosts",
    )


def _kubernetes() -> Prerequisite:
    obstacle = kubernetes_cluster.unavailable()
    granted = ""
    if kubernetes_cluster.unreachable() is None:
        try:
            granted = kubernetes_cluster.grants(f"ackproof-{secrets.token_hex(4)}")
        except InfraError as error:
            obstacle = str(error)
    return _dispensable(
        what="Kubernetes",
        obstacle=obstacle,
        seen=(granted, granted or "not usable"),
        cost="the backend kubernetes: nodes as pods",
    )


def _plugins() -> Prerequisite:
    found = [one for table in _PLUGGABLE for one in table.registrations]
    usable = [f"{one.kind} {one.name} ({one.plugin})" for one in found if one.problem is None]
    broken = [str(one) for one in found if one.problem is not None]
    wrong = [*broken, *misplaced([table.group for table in _PLUGGABLE])]
    return Prerequisite(
        what="plug-ins",
        works=not wrong,
        seen="\n".join(usable) or "none",
        cost="the checkers, faults and other parts of these plug-ins",
        remedy="\n".join(wrong),
        needed=False,
    )
