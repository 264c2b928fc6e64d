"""Whole campaigns through the command line, each with a registry of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.waiting import wait_until

SMALL = """
name: small
cluster:
  properties:
    zookeeper.session.timeout.ms: 2000
    replica.lag.time.max.ms: 2000
    offsets.topic.num.partitions: 1
cells:
  acks: [1, all]
  min.insync.replicas: 2
  partitions: 2
workload: {rate: 200}
evidence: {acked.min: 500}
schedule: {warmup: 2s, gap: 2s, tail: 2s}
faults:
  - {fault: isolate, target: "leader(acks-1-minisr-2, any)", hold: 7s}
"""

COMMAND = (sys.executable, "-m", "harness")


class Ackproof:
    """The command line, as a user has it, in a directory and with a registry of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.state = directory / "state"
        self.environ = {**os.environ, "ACKPROOF_STATE_DIRECTORY": str(self.state)}
        self.campaign = directory / "small.yaml"
        self.campaign.write_text(SMALL, encoding="utf-8")

    def __call__(self, *arguments: str, timeout: float = 240) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*COMMAND, *arguments],
            cwd=self.directory,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        """Start a command; its output goes to the file ``output``."""
        with self.output.open("wb") as output:
            return subprocess.Popen(
                [*COMMAND, *arguments],
                cwd=self.directory,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def output(self) -> Path:
        return self.directory / "output"

    def wait_for_output(self, words: str, timeout: float) -> None:
        wait_until(lambda: words in self.output.read_text(), timeout, f"{words!r} in the output")


@pytest.fixture
def ackproof(tmp_path: Path) -> Iterator[Ackproof]:
    command = Ackproof(tmp_path)
    yield command
    command("clean", "--all")
