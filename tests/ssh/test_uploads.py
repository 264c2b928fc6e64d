"""Upload of programs to a host: with the host's own commands, in a local directory."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from ackproof.infra.api.artifacts import Artifact, machine_of, program
from ackproof.infra.api.interface import InfraError
from ackproof.infra.backends.ssh.remote.verbs import VERBS
from ackproof.infra.node.copying import bring_artifact

MACHINE = os.uname().machine
CONTENTS = {"a.jar": b"first", "b.jar": b"second"}


class HostHere:
    """An agent of a host whose disk is ours; it loses the connection after so many files."""

    who = "host"

    def __init__(self, patience: int = 100) -> None:
        self._patience = patience
        self.written: list[str] = []

    def ask(self, verb: str, *, timeout: float = 0, **arguments: Any) -> Any:  # noqa: ARG002
        return VERBS[verb](**arguments)

    def write(self, path: PurePosixPath, content: bytes) -> None:
        if len(self.written) == self._patience:
            raise InfraError("host cannot be reached")
        self.written.append(path.name)
        Path(path.parent).mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(content)


@pytest.fixture
def jars(tmp_path: Path) -> Artifact:
    directory = tmp_path / "here"
    directory.mkdir()
    for name, content in CONTENTS.items():
        (directory / name).write_bytes(content)
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in CONTENTS.items()}
    return Artifact(name="kafka-1", title="Apache Kafka 1", path=directory, sums=sums)


@pytest.fixture
def there(tmp_path: Path) -> Path:
    return tmp_path / "there" / "kafka-1"


def bring(
    host: HostHere,
    artifact: Artifact,
    there: Path,
    report: Callable[[str], None] = lambda _line: None,
    machine: str = MACHINE,
) -> None:
    agent: Any = host
    bring_artifact(agent, artifact, PurePosixPath(there), machine, report)


def brought(host: HostHere, jars: Artifact, there: Path) -> list[str]:
    """Return the lines of progress."""
    told: list[str] = []
    bring(host, jars, there, told.append)
    assert {path.name: path.read_bytes() for path in there.glob("*.jar")} == CONTENTS
    return told


def test_jars_are_brought_once(jars: Artifact, there: Path) -> None:
    host = HostHere()
    assert brought(host, jars, there) == ["host: bringing Apache Kafka 1 (0 MB)"]
    assert sorted(host.written) == ["a.jar", "b.jar"]
    assert brought(host, jars, there) == []
    assert sorted(host.written) == ["a.jar", "b.jar"]


def test_bringing_goes_on_where_it_was_lost(jars: Artifact, there: Path) -> None:
    lost, found = HostHere(patience=1), HostHere()
    with pytest.raises(InfraError, match="cannot be reached"):
        brought(lost, jars, there)
    brought(found, jars, there)
    assert sorted(lost.written + found.written) == ["a.jar", "b.jar"]


def test_a_jar_that_was_changed_there_is_brought_again(jars: Artifact, there: Path) -> None:
    host = HostHere()
    brought(host, jars, there)
    (there / "b.jar").write_bytes(b"another")
    brought(host, jars, there)
    assert sorted(host.written) == ["a.jar", "b.jar", "b.jar"]


def test_a_jar_that_is_none_of_them_is_refused(jars: Artifact, there: Path) -> None:
    """Java would take it, too."""
    brought(HostHere(), jars, there)
    (there / "c.jar").touch()
    with pytest.raises(
        InfraError, match=r"^host: c\.jar in .*kafka-1 does not belong to Apache Kaf"
    ):
        brought(HostHere(), jars, there)


# --- programs --------------------------------------------------------------------------------


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A user's own program."""
    path = tmp_path / "my client"
    path.write_text("#!/bin/sh\necho ready\n")
    path.chmod(0o755)
    return path


def said(path: Path) -> str:
    return subprocess.run([path], capture_output=True, text=True, check=True).stdout


def test_a_program_is_brought_once_and_runs_there(mine: Path, tmp_path: Path) -> None:
    artifact = program(mine, mine.name, "the program of mine")
    assert artifact.name.startswith("my-client-")
    host, there, told = HostHere(), tmp_path / "there" / artifact.name, list[str]()
    for _ in range(2):
        bring(host, artifact, there, told.append)
        assert said(there) == "ready\n"
    assert told == ["host: bringing the program of mine (0 MB)"]
    assert host.written == [artifact.name]
    assert [path.name for path in there.parent.iterdir()] == [artifact.name]


def test_program_with_an_interrupted_upload_runs_the_next_time(mine: Path, tmp_path: Path) -> None:
    """It was written, and the upload ended before it was made executable."""
    artifact, there = program(mine, "mine", "mine"), tmp_path / "there"
    shutil.copyfile(mine, there)
    host = HostHere()
    bring(host, artifact, there)
    assert said(there) == "ready\n"
    assert host.written == []


def test_a_program_that_was_changed_there_is_brought_again(mine: Path, tmp_path: Path) -> None:
    artifact, there = program(mine, "mine", "mine"), tmp_path / "there"
    bring(HostHere(), artifact, there)
    there.write_text("#!/bin/sh\necho fatal\n")
    bring(HostHere(), artifact, there)
    assert said(there) == "ready\n"


def test_a_program_for_another_machine_is_refused(tmp_path: Path) -> None:
    compiled = tmp_path / "compiled"
    shutil.copyfile(sys.executable, compiled)
    artifact, there = program(compiled, "compiled", "mine"), tmp_path / "there"
    reason = f"^host: mine was compiled for {MACHINE}, and this is s390x$"
    with pytest.raises(InfraError, match=reason):
        bring(HostHere(), artifact, there, machine="s390x")
    assert not there.exists()
    bring(HostHere(), artifact, there)
    assert there.exists()


def test_scripts_run_on_any_machine(mine: Path, tmp_path: Path) -> None:
    assert machine_of(mine) is None
    bring(HostHere(), program(mine, "mine", "mine"), tmp_path / "there", machine="s390x")
    for content in (b"", b"\x7fELF", b"\x7fELF\x02\x02" + bytes(30)):
        mine.write_bytes(content)
        assert machine_of(mine) is None
