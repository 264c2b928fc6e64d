"""The reading of a run that goes on: from the files in its results to its state."""

import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ackproof.config.sensitive import HIDDEN, holds_secret
from ackproof.harness.directory import LIVE_LOGS
from ackproof.harness.report.axis.sends import CellSends, Sends
from ackproof.harness.report.live import state
from ackproof.harness.report.live.state import (
    Curves,
    FaultState,
    Finding,
    PartitionView,
    ProcessView,
)
from ackproof.history import manifest, reader, storage
from ackproof.history.errors import DamagedFiles, HistoryError
from ackproof.history.manifest import Manifest, PlannedRun
from ackproof.history.messages import printable
from ackproof.history.names import SendType
from ackproof.history.storage import AnyPath

LOG_LINES = 12
_LOG_BYTES = 8192
_LINES_MIN, _LINES_MAX, _LINES_ALL = 3, 40, 240
"""The fewest and the most lines of a server's log, and about the most of all servers together: an
event has all of them once a second."""
_LINE_LETTERS = 400
_WITH_FINDINGS = frozenset({"phases", "servers", "clients"})
_AFTER_CLIENTS = frozenset({"final-read", "failover", "collect", "teardown"})
"""The steps in which no producer writes any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """The state of a run that goes on.

    Attributes:
        began: The start of its first step in nanoseconds of the epoch; None before it.
        observed_servers: Whether Ackproof watches the servers' processes. It does not on an
            external cluster.
        cells: The sends of each cell, by name. A cell without any row is missing.
        findings: The findings so far; None if a table that has some cannot be read.
        curves: Outcomes a second over time; None before any.
        log: The last lines of the harness's log.
        server_logs: The last lines of each server's log, by the server's name. They are a few
            seconds old.
        unreadable: The problems of files that could not be read.
    """

    campaign: str
    system: str
    seed: int
    number: int
    runs: int
    now: int
    began: int | None
    step: str
    faults: Sequence[FaultState]
    findings: Sequence[Finding] | None
    servers: Sequence[ProcessView]
    observed_servers: bool
    clients: Sequence[ProcessView]
    partitions: Sequence[PartitionView]
    cells: Mapping[str, CellSends]
    curves: Curves | None
    log: Sequence[str]
    server_logs: Mapping[str, Sequence[str]]
    unreadable: Sequence[str]

    @property
    def open_faults(self) -> Sequence[FaultState]:
        """The faults that are not proven healed."""
        return [fault for fault in self.faults if fault.end is None]


class RunSource:
    """The files of a campaign's results, read from any thread, one at a time.

    Args:
        directory: The results.
        clock: The present time in nanoseconds of the Unix epoch.
    """

    def __init__(self, directory: Path, clock: Callable[[], int] = time.time_ns) -> None:
        self._directory = directory
        self._clock = clock
        self._lock = threading.Lock()
        self._manifest: Manifest | None = None
        self._number = 0
        self._sends: Sends | None = None
        self._tables: dict[str, tuple[object, state.Rows]] = {}
        self._unreadable: dict[str, str] = {}

    def read(self) -> RunState | None:
        """Return the state of the latest run. Return None before the first one, and for results
        without a readable manifest."""
        with self._lock:
            number = self._latest()
            plan = self._plan()
            if number is None or plan is None:
                return None
            if number != self._number or self._sends is None:
                self._number, self._tables = number, {}
                self._sends = Sends(self._directory / "runs" / str(number) / "history")
            return self._state(plan, self._sends)

    def _latest(self) -> int | None:
        try:
            names = [path.name for path in (self._directory / "runs").iterdir()]
        except OSError:
            return None
        return max((int(name) for name in names if name.isascii() and name.isdigit()), default=None)

    def _plan(self) -> Manifest | None:
        if self._manifest is None:
            try:
                self._manifest = manifest.read(self._directory)
            except DamagedFiles:
                return None
        return self._manifest

    def _state(self, plan: Manifest, sends: Sends) -> RunState:
        self._unreadable = {}
        planned = next((run for run in plan.runs if run.number == self._number), None)
        phases, faults = self._rows("phases"), self._rows("faults")
        servers, clients = self._rows("servers"), self._rows("clients")
        now, step = self._clock(), state.step_of(phases)
        states = state.faults_of(faults, planned)
        sends.follow()
        reports = self._reports()
        over = step in _AFTER_CLIENTS or step == state.CHECK
        return RunState(
            campaign=plan.campaign,
            system=plan.system,
            seed=plan.seed,
            number=self._number,
            runs=len(plan.runs),
            now=now,
            began=min((row["time"] for row in phases), default=None),
            step=step,
            faults=states,
            findings=None
            if self._unreadable.keys() & _WITH_FINDINGS
            else state.findings_of(phases, servers, clients),
            servers=state.servers_of(servers, states),
            observed_servers=planned is None or "servers-stay-up" not in planned.unchecked,
            clients=list(state.clients_of(_clients(planned), reports, clients, now)),
            partitions=state.partitions_of(self._rows("cluster"), phases, planned),
            cells=dict(sorted(sends.cells.items())),
            curves=state.curves_of(
                {kind: sends.seconds[kind] for kind in _CURVES if kind in sends.seconds},
                None if over else state.complete_until(reports),
            ),
            log=_tail(self._run / "logs" / "harness.log", LOG_LINES),
            server_logs=self._server_logs(),
            unreadable=[*self._unreadable.values(), *sends.unreadable.values()],
        )

    @property
    def _run(self) -> Path:
        return self._directory / "runs" / str(self._number)

    def _rows(self, table: str) -> state.Rows:
        """Return the rows of a small table so far. If it cannot be read, return those of the last
        time: a part may have become the closed file meanwhile."""
        stamp, known = self._tables.get(table, (None, ()))
        paths: Sequence[AnyPath] = ()
        try:
            paths = reader.files(self._run / "history", table)
            present = [(path.name, storage.size(path)) for path in paths]
            if present != stamp:
                known = reader.read_files(table, paths).to_pylist()
                self._tables[table] = (present, known)
        except (HistoryError, OSError) as error:
            if all(path.exists() for path in paths):
                self._unreadable[table] = str(error)
        return known

    def _reports(self) -> dict[str, Mapping[str, Any]]:
        """Return the progress file of each client by its name."""
        found: dict[str, Mapping[str, Any]] = {}
        for path in sorted((self._run / "progress").glob("*.json")):
            try:
                report = json.loads(path.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                continue
            if isinstance(report, dict):
                found[path.stem] = report
        return found

    def _server_logs(self) -> dict[str, Sequence[str]]:
        """Return the last lines of each server's log. While the run goes on, they are those that
        the run has copied from the servers' nodes."""
        files = sorted((self._run / LIVE_LOGS).glob("*.log"))
        lines = max(_LINES_MIN, min(_LINES_MAX, _LINES_ALL // max(1, len(files))))
        return {path.stem: _tail(path, lines) for path in files}


def _tail(path: Path, lines: int) -> Sequence[str]:
    """Return the last lines of a log without secrets, or none if it cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LOG_BYTES))
            last = file.read().decode("utf-8", "replace").splitlines()[-lines:]
    except OSError:
        return ()
    return [HIDDEN if holds_secret(line) else printable(line)[:_LINE_LETTERS] for line in last]


_CURVES = (SendType.OK, SendType.FAIL, SendType.INFO)


def _clients(planned: PlannedRun | None) -> list[str]:
    """Return the names of the run's clients, each once."""
    writers = planned.writers if planned else ()
    return list(dict.fromkeys(one.client for one in writers if one.client is not None))
