"""Removing from hosts what was ever put there."""

from collections.abc import Callable

from ackproof.infra.interface import InfraError
from ackproof.infra.ssh.connection import Connection
from ackproof.infra.ssh.inventory import Host, Inventory
from ackproof.infra.ssh.login import Trust
from ackproof.infra.ssh.preparation import bring_agent
from ackproof.infra.together import on_all

_REMOVED_WITHIN_S = 120.0


def clean(
    inventory: Inventory,
    report: Callable[[str], None],
    *,
    accepted: frozenset[str] = frozenset(),
    everything: bool = False,
    keep_software: bool = False,
) -> bool:
    """End dead runs on every host and remove the directory that is ours, cached software too; with
    ``everything``, living runs are ended first. Packages of the distribution stay.

    Args:
        keep_software: Remove what runs left, and not what the next one would have to bring again.
        report: Told, a line a host, what was done and what could not be done.

    Returns whether nothing is left of what was to be removed.
    """
    trust = Trust(inventory.known_hosts, accepted)

    def clean_one(host: Host) -> bool:
        connection = Connection(host, trust)
        try:
            report(f"{host}: {_clean(connection, inventory.directory, everything, keep_software)}")
        except InfraError as error:
            report(str(error))
            return False
        finally:
            connection.close()
        return True

    return all(on_all(clean_one, list(inventory.hosts)))


def _clean(connection: Connection, directory: str, everything: bool, keep_software: bool) -> str:
    """What was done, in words."""
    brought = bring_agent(connection, directory)
    base = str(brought.base)
    tenant = brought.agent.ask("tenant", base=base)
    if tenant is not None and tenant["alive"] and not everything:
        return f"a run of {tenant['holder']} is alive, left alone"
    if keep_software:
        brought.agent.ask("release", base=base, timeout=_REMOVED_WITHIN_S)
        return "nothing of a run" if tenant is None else f"removed a run of {tenant['holder']}"
    brought.agent.ask("purge", base=base, timeout=_REMOVED_WITHIN_S)
    return f"removed {base}" + ("" if tenant is None else f", with a run of {tenant['holder']}")
