"""The end of runs from outside, and the removal of what dead runs left on this machine."""

import signal
from collections.abc import Callable
from pathlib import Path

from ackproof.infra.agent import throttle
from ackproof.infra.agent.wire import RefusedByNode
from ackproof.infra.api.interface import InfraError
from ackproof.infra.machine import own_commands
from ackproof.infra.machine.identity import ProcessIdentity
from ackproof.infra.machine.registry import Registry, RegistryEntry
from ackproof.infra.systems.external.journal import FILE as JOURNAL

_KILL_TIMEOUT_S = 10.0


def _nobody(_line: str) -> None: ...


def leftovers(registry: Registry) -> list[RegistryEntry]:
    """Return the runs whose outer process is dead, and cannot remove anything any more."""
    return [entry for entry in registry.entries() if not entry.alive]


def clean(
    registry: Registry,
    report: Callable[[str], None],
    *,
    everything: bool = False,
    grace_s: float = 30.0,
) -> bool:
    """Remove what dead runs left; with ``everything``, end the living ones first.

    Args:
        report: Gets a line for each thing that was done or could not be done.
        grace_s: The time for a living run to end by itself, seconds.

    Return whether everything that must go is gone.
    """
    clean_runs = [
        _clean_one(registry, run_id, report, everything=everything, grace_s=grace_s)
        for run_id in registry.run_ids()
    ]
    return all(clean_runs)


def restore_dead(registry: Registry, report: Callable[[str], None]) -> None:
    """Undo what dead runs have done to external clusters. Raises InfraError."""
    for entry in leftovers(registry):
        _restore(entry.results, report)


def restore_results(registry: Registry, results: Path, report: Callable[[str], None]) -> bool:
    """Undo the changes of runs to external clusters and of their commands, given their ``results``.

    After a restart of the machine, no registry knows those runs. Return whether nothing is left.
    """
    there = results.absolute()
    for entry in registry.entries():
        if entry.alive and entry.results == there:
            report(f"{results}: its run is active (process {entry.outer.pid}) and was not changed")
            return True
    try:
        _restore(there, report)
    except InfraError as error:
        report(f"{results}: {error}")
        return False
    return True


def stop(
    registry: Registry,
    entry: RegistryEntry,
    grace_s: float = 30.0,
    report: Callable[[str], None] = _nobody,
) -> None:
    """End a run: send SIGTERM, kill it after ``grace_s`` seconds, then remove what it left.

    ``report`` gets a line for each change to a cluster or by a command that was undone. Raises
    InfraError if it cannot be done.
    """
    try:
        if not entry.outer.end(signal.SIGTERM, grace_s):
            _kill(entry.outer)
        if entry.scratch is not None:  # a process that waits for a slow disk does not end
            throttle.lift_below(str(entry.scratch))
        for process in entry.processes:
            _kill(process)
        if entry.run_id in registry.run_ids():  # otherwise the run has done so itself
            _restore(entry.results, report)
            registry.remove(entry.run_id)
    except (OSError, RefusedByNode) as error:
        raise InfraError(f"cannot remove run {entry.run_id}: {error}") from error


def _clean_one(
    registry: Registry,
    run_id: str,
    report: Callable[[str], None],
    *,
    everything: bool,
    grace_s: float,
) -> bool:
    try:
        entry = registry.get(run_id)
        if entry.alive and not everything:
            report(
                f"{run_id}: {entry.kind} is active (process {entry.outer.pid}) and was not changed"
            )
            return True
        stop(registry, entry, grace_s, report)
    except InfraError as error:
        report(f"{run_id}: {error}")
        return False
    report(f"{run_id}: removed" + (f", with {entry.scratch}" if entry.scratch else ""))
    return True


def _restore(results: Path | None, report: Callable[[str], None]) -> None:
    """Undo what the user's own commands have left, and the changes to an external cluster.

    Raises InfraError: a registry keeps the run, so that it is tried again.
    """
    if results is None:
        return
    own_commands.restore(results, report)
    if any(results.glob(f"runs/*/{JOURNAL}")):
        # librdkafka takes long to import, and few runs have left anything there.
        from ackproof.infra.systems.external.restoration import restore

        restore(results, report)


def _kill(process: ProcessIdentity) -> None:
    if not process.end(signal.SIGKILL, _KILL_TIMEOUT_S):
        raise InfraError(f"process {process.pid} did not end after SIGKILL")
