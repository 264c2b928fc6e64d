"""Whole campaigns through the command line, each with a registry of its own."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from ackproof.infra.machine.registry import Registry
from ackproof.infra.machine.waiting import wait_until
from tests.support.builders.installations import lay_decoys
from tests.support.processes.deadlines import PATIENCE_S

PROJECT = Path(__file__).parent.parent.parent

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

COMMAND = (sys.executable, "-P", "-m", "ackproof.harness")
# Compiled modules are copied, too: else every process of a campaign compiles all that it imports.
# Those that are being written beside us are not.
NOT_SOURCES = shutil.ignore_patterns(".*", "*.pyc.*", "*.egg-info")
NO_ROOMS = {"results", "tests", "docs"}
"""Of the project itself: a room may have a room of that name."""


def _no_sources(directory: str, names: list[str]) -> set[str]:
    here = NO_ROOMS if Path(directory) == PROJECT else set()
    return NOT_SOURCES(directory, names) | here


class Ackproof:
    """The command line, as a user has it, in a directory and with a registry of its own. It has
    met no cluster yet."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.state = directory / "state"
        self.environ = {
            **os.environ,
            "ACKPROOF_STATE_DIRECTORY": str(self.state),
            "XDG_STATE_HOME": str(directory / "known"),
        }
        lay_decoys(directory)
        self.vary({})

    def vary(self, changes: Mapping[str, object]) -> None:
        """Make the small campaign another one, in some of its sections."""
        document = {**yaml.safe_load(SMALL), **changes}
        (self.directory / "small.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")

    def with_sources(self, sources: Path) -> None:
        """Run these instead of the project's own: ours and those of the nodes."""
        self.environ["PYTHONPATH"] = str(sources)

    def __call__(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*COMMAND, *arguments],
            cwd=self.directory,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        """Start a command; its output goes to the file ``output``. SIGINT is ignored to begin
        with, as in a script's ``ackproof ... &``; it is in a process group of its own, as a shell
        would have it."""
        command = ["env", "--ignore-signal=INT", *COMMAND, *arguments]
        with self.output.open("wb") as output:
            return subprocess.Popen(
                command,
                process_group=0,
                cwd=self.directory,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def piped(self, *arguments: str) -> "subprocess.Popen[bytes]":
        """Start a command whose output we read."""
        return subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=self.directory,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    @property
    def output(self) -> Path:
        return self.directory / "output"

    def wait_for_output(self, words: str) -> None:
        wait_until(lambda: words in self.output.read_text(), PATIENCE_S, f"output with {words!r}")


@pytest.fixture
def ackproof(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Ackproof]:
    command = Ackproof(tmp_path)
    yield command
    away = [request.node.get_closest_marker(name) for name in ("docker", "kubernetes", "ssh")]
    if request.node.get_closest_marker("kubernetes"):
        command("clean", "--backend", "kubernetes")
    if any(away) or Registry(command.state).run_ids():
        command("clean", "--all")


@pytest.fixture(scope="module")
def ackproof_of_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ackproof]:
    """One for all tests of a module."""
    command = Ackproof(tmp_path_factory.mktemp("ackproof"))
    yield command
    command("clean", "--all")


@pytest.fixture
def patched(tmp_path: Path) -> Callable[[str, str, str], Path]:
    """A copy of the sources with one line of one file changed."""

    def patch(file: str, line: str, instead: str) -> Path:
        copy = tmp_path / "patched"
        shutil.copytree(PROJECT, copy, symlinks=True, ignore=_no_sources)
        text = (copy / file).read_text(encoding="utf-8")
        assert text.count(line) == 1, f"{file} has another way of saying this by now"
        (copy / file).write_text(text.replace(line, instead), encoding="utf-8")
        return copy

    return patch
