"""The servers' processes from deployment to the end of all reads and measurements: their starts,
their ends, the ends that no fault explains, and the time that they wait for a processor.

A server that ends by itself violates a guarantee of its own, even if no record is lost. Occasional
looks at the running servers would miss one that died after the last fault was healed.
"""

import logging
import shutil
import time
from dataclasses import dataclass

from ackproof.harness.directory import LIVE_LOGS
from ackproof.harness.running import processes
from ackproof.harness.running.context import Run
from ackproof.harness.running.processes import ProcessWatch, exit_status, in_words, last_words
from ackproof.history.storage import digest, write_text
from ackproof.infra.api.interface import InfraError, Process, ProcessState, SchedulingTimes, Server
from ackproof.infra.machine.own_commands import masked

log = logging.getLogger(__name__)

# --- servers from the first start to the last -----------------------------------------------------

_PODS = "pods"
"""The name of the watch over the pods of brokers."""


def watch(run: Run) -> None:
    """Begin to watch every server whose process can be seen, unless it is watched already. A server
    that was never started is not there yet."""
    for server in (*run.system.brokers, *run.system.zookeepers):
        if server.distant is None or server.distant.attached:
            watch_one(run, server)


def watch_pods(run: Run) -> None:
    """Begin to watch the pods of an external cluster's brokers, if they are in pods."""
    if run.pod_restarts.pods:
        run.pod_restarts.look()
        run.watches[_PODS] = ProcessWatch(_PODS, run.pod_restarts.look).start()


def watch_one(run: Run, server: Server) -> None:
    """Begin to watch a server, unless it is watched already."""
    if server.name not in run.watches:
        run.watches[server.name] = ProcessWatch(
            server.name, _WatchedServer(run, server).look
        ).start()


def remove_live_logs(run: Run) -> None:
    """Remove the ends of logs that were copied for the live page, once no server is watched."""
    shutil.rmtree(run.directory / LIVE_LOGS, ignore_errors=True)


class AllBrokersEnded(Exception):
    """The end of all brokers, so that nothing is left to test."""


def check_brokers_left(run: Run) -> None:
    """Raise NothingLeft if all brokers are down for good."""
    if brokers_are_gone(run):
        raise AllBrokersEnded("all brokers have ended permanently: nothing is left to test")


def brokers_are_gone(run: Run) -> bool:
    """Return whether all brokers have ended and nothing will start one of them again.

    The fault that ended a broker starts it when it is healed. If the broker then ends once more, or
    does not come up, the fault is not proven healed. It is not started again before the step
    ``heal``.
    """
    return all(_is_gone(run, broker) for broker in (*run.system.brokers, *run.system.added.there))


def _is_gone(run: Run, broker: Server) -> bool:
    if broker.distant is not None:  # remote probes do not suffice to give it up
        return False
    try:
        exited = broker.process.state() is ProcessState.EXITED
    except (LookupError, InfraError):
        return False
    held_by = {entry.fault_id for entry in run.ledger.still_open()}
    return exited and not (run.ledger.ending(broker.name) & held_by) - run.unhealed


LOG_BYTES = 8192
"""The most bytes of a server's log that are copied at a time."""

_LOG_LOOKS = 2
"""The number of looks at a server between two at its log, which cost its host a request each."""


class _WatchedServer:
    """One server, with its process at the last look."""

    def __init__(self, run: Run, server: Server) -> None:
        self._run = run
        self._server = server
        self._process: Process | None = None
        self._ended = False
        self._known: frozenset[int] = frozenset()
        """The faults that ended it, or may have, until the last look."""
        self._lately: int | None = None
        """The fault that affected it at some time since the last look that got an answer."""
        self._times: tuple[int, SchedulingTimes] | None = None
        """The time of the last look at its scheduling, and the times that its process had run and
        waited by then."""
        self._looks = 0
        self._log_size = -1

    def look(self) -> None:
        """Record the changes since the last look, and copy the end of its log."""
        self._see_process()
        self._looks += 1
        if self._looks % _LOG_LOOKS == 0:
            self._see_log()

    def _see_log(self) -> None:
        """Copy the newest lines of its log for the live page, without secrets. Nothing depends on
        them."""
        node, name = self._server.node, f"{self._server.name}.log"
        try:
            found = node.tail(node.log_directory / name, LOG_BYTES, self._log_size)
            if found is None:
                return
            self._log_size, text = found
            target = self._run.directory / LIVE_LOGS / name
            target.parent.mkdir(exist_ok=True)
            write_text(target, masked(text, ()))
        except OSError as error:
            log.debug("the end of %s was not copied: %s", name, error)

    def _see_process(self) -> None:
        on = self._run.ledger.holding(self._server.name)
        ending = self._run.ledger.ending(self._server.name)
        # A fault that began and was healed between two looks is active at neither. A broker that is
        # restarted while it is isolated, for example, is not waited for until it is registered.
        self._lately = max(ending - self._known, default=self._lately)
        self._known = ending
        try:
            distant = self._server.distant
            process = self._server.process if distant is None else distant.found()
        except LookupError:
            return
        if process is not self._process:
            # If the server was killed and started again between two looks, its fault may be healed
            # by now. That fault still explains the end of the old process.
            self._see_end(self._lately)
            self._process, self._ended = process, False
            self._run.recorder.server(self._server.name, "started")
            self._times = None
        # This does not hold here. A fault leaves the ledger once its servers are proven to run. A
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
        # The times of a thread that has ended are no longer included.
        ran, waited = (max(b - a, 0) for a, b in zip(former, times, strict=True))
        self._run.recorder.scheduled(self._server.name, now - since, ran, waited)

    def _see_end(self, fault: int | None) -> None:
        process = self._process
        if process is None or self._ended or process.state() is not ProcessState.EXITED:
            return
        if self._server.name in self._run.leaving:  # a fault removes it
            return
        if fault is None:  # one may have come since: it is in the ledger before its injection
            fault = self._run.ledger.holding(self._server.name)
        if fault is None:  # its pod ends before it does
            fault = self._run.pod_restarts.explaining(self._server.name)
        code = exit_status(process)
        self._ended = True
        self._run.recorder.server(self._server.name, "ended", exit_code=code, fault_id=fault)
        if fault is None:
            self._run.ended_by_themselves.append(self._server.name)
            words = last_words(self._server.node, self._server.name)
            self._run.tell(f"servers: {self._server.name} ended by itself, {in_words(code)}{words}")


def record_files(run: Run, directory: str) -> None:
    """Record the digests of all files below a directory of the run, so that a check reads them."""
    files = (path for path in sorted((run.directory / directory).rglob("*")) if path.is_file())
    run.recorder.collected(
        {path.relative_to(run.directory).as_posix(): digest(path) for path in files}
    )


# --- servers that a fault adds or removes ---------------------------------------------------------
#
# A broker that joins is watched from its first start on. Its log is fetched before its node is
# removed. Its replicas are not fetched, because a broker that leaves in order has none left. From a
# broker that did not leave, the step ``collect`` fetches everything.


def attend_joining(run: Run) -> None:
    """Watch all brokers that join from now on."""
    run.attendants.present.append(_JoinWatch(run))


@dataclass(frozen=True, slots=True)
class _JoinWatch:
    """The watch over joining brokers: an implementation of ``nemesis.interface.ServerObserver``."""

    run: Run

    def joins(self, server: Server) -> None:
        watch_one(self.run, server)

    def leaves(self, server: Server) -> None:
        """Take the last look before the server is asked to end. A server that has ended by then has
        ended by itself."""
        processes.stop_watching(self.run.watches, [server.name])
        if _runs(server):
            self.run.leaving.add(server.name)

    def left(self, server: Server) -> None:
        node, target = server.node, f"logs/{server.node.name}"
        node.fetch(node.log_directory, self.run.directory / target)
        record_files(self.run, target)
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
