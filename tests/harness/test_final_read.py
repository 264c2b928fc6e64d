"""The final read after a crash of librdkafka: another process reads each topic separately."""

import json
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

import pytest

from ackproof.harness.running.context import Run
from ackproof.harness.running.deadline import Deadline
from ackproof.harness.running.steps import closing
from ackproof.history import reader
from ackproof.infra.api.interface import Command, ProcessState
from ackproof.testing.memory.servers import MemoryNode, MemoryProcess

LIMIT_S = 60.0


@dataclass
class ReadingNode(MemoryNode):
    """Its processes end at once, with these statuses in turn."""

    statuses: list[int] = field(default_factory=list)
    specifications: dict[str, Mapping[str, object]] = field(default_factory=dict)

    def write(self, path: PurePosixPath, content: bytes) -> None:
        self.specifications[path.stem] = json.loads(content)

    def start(self, command: Command) -> MemoryProcess:
        status = self.statuses.pop(0)
        return MemoryProcess(command.name, current=ProcessState.EXITED, code=status)


def read_with(run: Run, *statuses: int) -> tuple[ReadingNode, list[str]]:
    """The node, and with what the step failed."""
    node = ReadingNode("client-1", "client-1", statuses=list(statuses))
    closing.final_read(replace(run, client_nodes=[node]), Deadline.after(run.clock, 80))
    assert not node.statuses
    phases = reader.read(run.history, "phases").to_pylist()
    return node, [row["detail"] for row in phases if row["event"] == "failed"]


def test_final_read_uses_one_process(run: Run) -> None:
    node, failed = read_with(run, 0)
    assert not failed
    assert not run.findings
    assert node.specifications.keys() == {"final-read"}
    assert "apart" not in node.specifications["final-read"]


def test_crash_of_the_final_read_is_a_finding_and_the_step_succeeds(run: Run) -> None:
    node, failed = read_with(run, -signal.SIGABRT, 0)
    assert not failed
    (finding,) = run.findings
    assert "librdkafka ended its process: SIGABRT; each topic is read by" in finding
    before, after = (node.specifications[name] for name in ("final-read", "final-read-apart"))
    assert after.pop("deadline_s") <= before.pop("deadline_s") == LIMIT_S
    assert after == {**before, "apart": True}


@pytest.mark.parametrize("status", [1, 2, -signal.SIGKILL])
def test_another_end_is_no_crash(run: Run, status: int) -> None:
    _, failed = read_with(run, status)
    assert failed == [f"ended with status {status}"]


def test_separate_final_read_may_fail(run: Run) -> None:
    _, failed = read_with(run, -signal.SIGABRT, 1)
    assert failed == ["ended with status 1"]
