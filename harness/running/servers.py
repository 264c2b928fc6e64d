"""The servers' processes, from deploy until everything is read and measured: what starts, what
ends, which ends no fault accounts for, and how long they wait for a processor.

A server that ends by itself breaks a promise of its own, whatever becomes of the records: whoever
looks only now and then at what runs misses the one that died after the last fault was healed.
"""

import time
from dataclasses import dataclass

from ackproof.harness.running import processes
from ackproof.harness.running.context import Run
from ackproof.harness.running.processes import Watch, exit_status, in_words, last_words
from ackproof.infra.api.interface import InfraError, Process, ProcessState, Scheduled, Server

# --- servers from the first start to the last -----------------------------------------------------


def watch(run: Run) -> None:
    """Begin to watch every server. One that was never started is not there yet; of one that is seen
    from outside alone nobody tells how it ended."""
    for server in (*run.system.brokers, *run.system.zookeepers):
        if server.distant is None:
            watch_one(run, server)


def watch_one(run: Run, server: Server) -> None:
    """Begin to watch a server, unless it is watched already."""
    if server.name not in run.watches:
        run.watches[server.name] = Watch(server.name, _Watched(run, server).look).start()


class NothingLeft(Exception):
    """No broker is left to test."""


def check_brokers_left(run: Run) -> None:
    """Raise NothingLeft if all brokers are down for good."""
    if brokers_are_gone(run):
        raise NothingLeft("all brokers have ended for good: nothing is left to test")


def brokers_are_gone(run: Run) -> bool:
    """Return whether all brokers have ended and nothing will start one of them again.

    The fault that ended a broker starts it when it is healed. If it then ends once more, or does
    not come up, the fault is not proven healed, and nobody tries again before the step ``heal``.
    """
    return all(_is_gone(run, broker) for broker in (*run.system.brokers, *run.system.added.there))


def _is_gone(run: Run, broker: Server) -> bool:
    if broker.distant is not None:  # what is seen from outside is not enough to give it up
        return False
    try:
        exited = broker.process.state() is ProcessState.EXITED
    except (LookupError, InfraError):
        return False
    held_by = {entry.fault_id for entry in run.ledger.still_open()}
    return exited and not (run.ledger.ending(broker.name) & held_by) - run.unhealed


class _Watched:
    """One server, its process as it was last seen."""

    def __init__(self, run: Run, server: Server) -> None:
        self._run = run
        self._server = server
        self._process: Process | None = None
        self._ended = False
        self._known: frozenset[int] = frozenset()
        """The faults that ended it, or may have, until the last look."""
        self._lately: int | None = None
        """The fault that was on it at some time since the last look that got an answer."""
        self._times: tuple[int, Scheduled] | None = None
        """How long its process had run and waited when that was looked at last, and when."""

    def look(self) -> None:
        """Record what changed since the last look."""
        on = self._run.ledger.holding(self._server.name)
        ending = self._run.ledger.ending(self._server.name)
        # One that came and was healed between two looks is on at neither of them: restarted while
        # it is cut off, a broker is not waited for until it is registered.
        self._lately = max(ending - self._known, default=self._lately)
        self._known = ending
        try:
            process = self._server.process
        except LookupError:
            return
        if process is not self._process:
            # Killed and started again between two looks, its fault may be healed by now: that
            # the old process has ended is that fault's doing all the same.
            self._see_end(self._lately)
            self._process, self._ended = process, False
            self._run.recorder.server(self._server.name, "started")
            self._times = None
        # Not so here: a fault is off the ledger once its servers are proven to run, so that a
        # process that is found ended after that has ended by itself.
        self._see_end(on)
        self._lately = on
        if not self._ended:
            self._see_times(process)

    def _see_times(self, process: Process) -> None:
        """Record how long it ran, and waited for a processor, since the last look."""
        now = time.monotonic_ns()
        times = process.scheduled()
        before, self._times = self._times, None if times is None else (now, times)
        if times is None or before is None:
            return
        since, former = before
        # A thread that has ended takes its times with it.
        ran, waited = (max(b - a, 0) for a, b in zip(former, times, strict=True))
        self._run.recorder.scheduled(self._server.name, now - since, ran, waited)

    def _see_end(self, fault: int | None) -> None:
        process = self._process
        if process is None or self._ended or process.state() is not ProcessState.EXITED:
            return
        if self._server.name in self._run.leaving:  # see harness.running.servers
            return
        if fault is None:  # it may have come since: it is in the ledger before it strikes
            fault = self._run.ledger.holding(self._server.name)
        code = exit_status(process)
        self._ended = True
        self._run.recorder.server(self._server.name, "ended", exit_code=code, fault_id=fault)
        if fault is None:
            self._run.ended_by_themselves.append(self._server.name)
            words = last_words(self._server.node, self._server.name)
            self._run.tell(f"servers: {self._server.name} ended by itself, {in_words(code)}{words}")


# --- brokers that a fault adds --------------------------------------------------------------------
#
# A broker that joins is watched from its first start on. Its log is fetched before its node is
# removed. Its replicas are not fetched: a broker that leaves in order has none left. From a broker
# that did not leave, the step ``collect`` fetches everything.


def attend_joining(run: Run) -> None:
    """Be told of those that join, from now on."""
    run.attendants.present.append(_Joining(run))


@dataclass(frozen=True, slots=True)
class _Joining:
    """Implements ``nemesis.interface.Attendant``."""

    run: Run

    def joins(self, server: Server) -> None:
        watch_one(self.run, server)

    def leaves(self, server: Server) -> None:
        """The last look comes before it is asked to end: one that it finds ended has ended by
        itself."""
        processes.stop_watching(self.run.watches, [server.name])
        if _runs(server):
            self.run.leaving.add(server.name)

    def left(self, server: Server) -> None:
        node = server.node
        node.fetch(node.log_directory, self.run.directory / "logs" / node.name)
        if server.name in self.run.leaving:
            fault = self.run.ledger.upon(server.name)
            code = exit_status(server.process)
            self.run.recorder.server(server.name, "ended", exit_code=code, fault_id=fault)
            self.run.leaving.discard(server.name)


def _runs(server: Server) -> bool:
    try:
        return server.process.state() is not ProcessState.EXITED
    except LookupError:
        return False
