"""The start of runs without namespaces, the end of runs, and the removal of what dead runs left."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from ackproof.infra.agent import throttle
from ackproof.infra.agent.parents import dying_with
from ackproof.infra.agent.wire import RefusedByNode
from ackproof.infra.api.interface import InfraError
from ackproof.infra.backends.local.processes import Forwarder, outermost
from ackproof.infra.machine import own_commands
from ackproof.infra.machine.identity import ProcessIdentity
from ackproof.infra.machine.registry import EntryKind, Registry, RegistryEntry
from ackproof.infra.systems.external import restoration
from ackproof.infra.systems.external.journal import FILE as JOURNAL

# --- end ------------------------------------------------------------------------------------------
#
# The end of runs from outside, and the removal of what dead runs left on this machine.


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


# --- supervised runs ------------------------------------------------------------------------------
#
# Runs that enter no namespaces: their nodes are elsewhere, in an engine or on other hosts.
#
# The calling process becomes the outer one in the registry, and starts the run as its child. If it
# dies, the child dies too (parent-death signal), and ``ackproof clean`` cleans up. If the child
# dies, however it does, the outer process cleans up.


def tell(line: str) -> None:
    """Write a line for the user."""
    sys.stderr.write(f"ackproof: {line}\n")


def _nothing() -> None: ...


def enter(
    argv: Sequence[str],
    run_id: str,
    *,
    kind: EntryKind = EntryKind.RUN,
    results: Path | None = None,
    scratch: Path | None = None,
    afterwards: Callable[[], object] = _nothing,
) -> NoReturn:
    """Run ``argv`` as a run that the registry knows, and exit with its status.

    The status is 128 + n when signal n ended it, and 5 for its 1:
    ``infra.backends.local.processes``. Arguments and errors are those of
    ``infra.backends.local.enter.enter``. ``afterwards`` removes what is not below ``scratch``.
    """
    registry = Registry.open()
    forwarder = Forwarder()  # before the entry, which only the end of this process removes
    registry.add(run_id, kind, results=results, scratch=scratch)
    # The child has a process group of its own, so that Ctrl-C reaches it once, from here.
    child = subprocess.Popen([*dying_with(os.getpid()), *argv], process_group=0)
    forwarder.attach(child.pid)
    registry.note_init(run_id, child.pid)
    code = child.wait()
    try:
        if results is not None:
            own_commands.restore(results, tell)
        afterwards()
        registry.remove(run_id)
    except (InfraError, OSError) as error:
        tell(f"cannot clean up after the run: {error}")
    sys.exit(outermost(code))


# --- runs in containers -----------------------------------------------------------------------


def enter_for_docker(
    argv: Sequence[str],
    run_id: str,
    *,
    kind: EntryKind = EntryKind.RUN,
    results: Path | None = None,
    scratch: Path | None = None,
) -> NoReturn:
    """Start a run whose nodes are containers, like :func:`enter`.

    The harness needs the engine and its bridge, and no namespaces. The outer process, else
    ``ackproof clean``, removes the containers.
    """
    from ackproof.infra.backends.docker import cleanup  # slow to import

    enter(
        argv,
        run_id,
        kind=kind,
        results=results,
        scratch=scratch,
        afterwards=lambda: cleanup.clean(tell),
    )


# --- runs in pods -----------------------------------------------------------------------------


def enter_for_kubernetes(
    argv: Sequence[str],
    run_id: str,
    *,
    kind: EntryKind = EntryKind.RUN,
    results: Path | None = None,
    scratch: Path | None = None,
) -> NoReturn:
    """Start a run whose nodes are pods, like :func:`enter`.

    The outer process, else ``ackproof clean --backend kubernetes``, removes its namespace.
    """
    from ackproof.infra.backends.kubernetes import cleanup

    enter(
        argv,
        run_id,
        kind=kind,
        results=results,
        scratch=scratch,
        afterwards=lambda: cleanup.clean_own(tell),
    )


# --- runs against an external cluster ---------------------------------------------------------


_NEEDED = "setpriv"


def external_obstacle() -> str | None:
    """Return which program is missing, or None."""
    if shutil.which(_NEEDED) is None:
        return f"{_NEEDED} is missing (Debian: apt-get install util-linux)"
    return None


def enter_for_external(
    argv: Sequence[str],
    run_id: str,
    *,
    kind: EntryKind = EntryKind.RUN,
    results: Path | None = None,
    scratch: Path | None = None,
) -> NoReturn:
    """Start a run whose nodes are on this machine as it is, like :func:`enter`.

    The run, its outer process, ``ackproof clean`` or the next run leaves the external cluster as it
    was.
    """

    def afterwards() -> None:
        if results is not None:
            restoration.restore(results, tell)

    enter(argv, run_id, kind=kind, results=results, scratch=scratch, afterwards=afterwards)
