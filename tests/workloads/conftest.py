"""Client processes, and the cluster that librdkafka plays for them."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.fakes.mock_cluster import MockCluster

DEADLINE_S = 120
"""For what takes some seconds: it only matters when something is broken."""


@pytest.fixture
def mock_cluster() -> Iterator[MockCluster]:
    cluster = MockCluster()
    yield cluster
    cluster.close()


class ClientProcess:
    """A client process with its specification, history and progress in one directory."""

    def __init__(self, directory: Path, module: str, specification: Mapping[str, object]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        name = module.rpartition(".")[2]
        self.history = directory / "history"
        self.progress = directory / f"{name}.progress.json"
        self._log = directory / f"{name}.log"
        path = directory / f"{name}.json"
        path.write_text(
            json.dumps(
                {"history": str(self.history), "progress": str(self.progress), **specification}
            )
        )
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, str(path)], stdout=log, stderr=log
            )

    def log(self) -> str:
        return self._log.read_text()

    def figures(self) -> Counter[str]:
        """Return the figures of the progress file; all zero without one."""
        said = json.loads(self.progress.read_text()) if self.progress.exists() else {}
        return Counter(said)

    def terminate(self) -> int:
        self.process.terminate()
        return self.wait()

    def wait(self) -> int:
        """Its exit status, when it has ended."""
        return self.process.wait(DEADLINE_S)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[object]:
    """Starts client processes, and kills those that a test leaves."""
    started: list[ClientProcess] = []

    def start(
        module: str, specification: Mapping[str, object], directory: str = "client"
    ) -> ClientProcess:
        started.append(ClientProcess(tmp_path / directory, module, specification))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
        one.wait()
