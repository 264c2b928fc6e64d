"""Fixtures of the harness's tests: a campaign to vary, and a run over a cluster in memory."""

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from ackproof.harness.campaign.model.campaign import Campaign
from ackproof.harness.campaign.plan.runs import runs_of
from ackproof.harness.campaign.validation import load
from ackproof.harness.cli import cli
from ackproof.harness.running.context import Run
from ackproof.harness.running.recorder import RunRecorder
from ackproof.nemesis.execution import Ledger
from ackproof.testing.memory.cluster import Memory, memory_cluster
from ackproof.workloads import WORKLOADS

CAMPAIGN = """
name: small
cluster:
  brokers: 3
  properties: {zookeeper.session.timeout.ms: 2000}
cells:
  acks: [0, 1, all]
  min.insync.replicas: [1, 2]
  replication.factor: 3
  partitions: 3
workload: {rate: 100, record.bytes: 100}
faults:
  - {fault: kill, target: "leader(acks-1-minisr-1, any)", hold: 3s}
  - {fault: pause, target: zookeeper, hold: [3s, 5s]}
"""

Vary = Callable[[Mapping[str, object]], Path]


@pytest.fixture
def campaign_file(tmp_path: Path) -> Vary:
    """Writes the campaign with some fields replaced: ``{"cluster.brokers": 2}``; a path's dots
    that belong to a key are written as ``~``."""

    def write(changes: Mapping[str, object]) -> Path:
        document = yaml.safe_load(CAMPAIGN)
        for path, value in changes.items():
            *parents, last = [_key(part) for part in path.split(".")]
            section = document
            for parent in parents:
                section = section[parent]
            section[last] = value
        file = tmp_path / "campaign.yaml"
        file.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
        return file

    return write


@pytest.fixture
def refuses(
    campaign_file: Vary, tmp_path: Path
) -> Callable[[Mapping[str, object], str, str], None]:
    """Checks that a changed campaign is refused with status 2, for that reason in that field, and
    that nothing is written."""

    def check(changes: Mapping[str, object], field: str, reason: str) -> None:
        file = campaign_file(changes)
        result = CliRunner().invoke(cli, ["run", str(file), "--out", str(tmp_path / "out")])
        assert result.exit_code == 2, result.output
        told = rf"^{re.escape(f'{file}:')}\d+:\d+: {re.escape(f'{field}: ')}.*{re.escape(reason)}"
        assert re.search(told, result.stderr, re.MULTILINE), result.stderr
        assert "Traceback" not in result.output
        assert not (tmp_path / "out").exists()

    return check


def _key(part: str) -> str | int:
    return int(part) if part.isdigit() else part.replace("~", ".")


@pytest.fixture
def campaign(campaign_file: Vary) -> Campaign:
    return load(campaign_file({}))


class SteppingClock:
    """Time passes when one waits, and not otherwise."""

    def __init__(self) -> None:
        self.now = 0.0

    def time_ns(self) -> int:
        return int(self.now * 1e9)

    def monotonic(self) -> float:
        return self.now

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.now += seconds
        return event.is_set()


@dataclass
class Told:
    """A display that remembers."""

    phases: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def phase(self, name: str) -> None:
        self.phases.append(name)

    def fault(self, on: str | None, said: str) -> None:  # noqa: ARG002
        self.said.append(said)

    def tick(self, elapsed_s: float, left: str, acked: int, shown: int = 0) -> None: ...

    def note(self, text: str) -> None:
        self.said.append(text)


class NobodyWatching:
    """An observer that sees nothing change."""

    watches = 3

    def start(self) -> None: ...

    def close(self) -> None: ...


@pytest.fixture
def memory() -> Memory:
    return memory_cluster()


@pytest.fixture
def run(campaign: Campaign, memory: Memory, tmp_path: Path) -> Run:
    """A run over the cluster in memory, whose clock steps."""
    (planned,) = runs_of(campaign.resolved(seed=7))
    cells = [one.cell for one in planned.cells]
    memory.system.topics = {cell.topic: cell.partitions for cell in cells}
    clock = SteppingClock()
    return Run(
        campaign=campaign,
        number=1,
        directory=tmp_path,
        backend=memory.backend,
        system=memory.system,
        observer=NobodyWatching(),
        workload=WORKLOADS["produce"],
        client_nodes=memory.cluster.clients,
        cells=cells,
        plan=planned.faults,
        recorder=RunRecorder(tmp_path / "history", clock),
        progress=Told(),
        clock=clock,
        ledger=Ledger(tmp_path / "ledger.jsonl"),
    )
