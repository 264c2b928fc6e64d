"""What is brought to a host, and what is not: with the host's own verbs, in a directory here."""

import hashlib
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from infra.interface import InfraError
from infra.jars import Jars
from infra.ssh.bringing import bring_jars
from infra.ssh.remote.verbs import VERBS

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
def jars(tmp_path: Path) -> Jars:
    directory = tmp_path / "here"
    directory.mkdir()
    for name, content in CONTENTS.items():
        (directory / name).write_bytes(content)
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in CONTENTS.items()}
    return Jars(name="kafka-1", title="Apache Kafka 1", directory=directory, sums=sums)


@pytest.fixture
def there(tmp_path: Path) -> Path:
    return tmp_path / "there" / "kafka-1"


def brought(host: HostHere, jars: Jars, there: Path) -> list[str]:
    """What was told meanwhile."""
    told: list[str] = []
    bring_jars(host, jars, PurePosixPath(there), told.append)  # type: ignore[arg-type]
    assert {path.name: path.read_bytes() for path in there.glob("*.jar")} == CONTENTS
    return told


def test_jars_are_brought_once(jars: Jars, there: Path) -> None:
    host = HostHere()
    assert brought(host, jars, there) == ["host: bringing Apache Kafka 1 (0 MB)"]
    assert sorted(host.written) == ["a.jar", "b.jar"]
    assert brought(host, jars, there) == []
    assert sorted(host.written) == ["a.jar", "b.jar"]


def test_bringing_goes_on_where_it_was_lost(jars: Jars, there: Path) -> None:
    lost, found = HostHere(patience=1), HostHere()
    with pytest.raises(InfraError, match="cannot be reached"):
        brought(lost, jars, there)
    brought(found, jars, there)
    assert sorted(lost.written + found.written) == ["a.jar", "b.jar"]


def test_a_jar_that_was_changed_there_is_brought_again(jars: Jars, there: Path) -> None:
    host = HostHere()
    brought(host, jars, there)
    (there / "b.jar").write_bytes(b"another")
    brought(host, jars, there)
    assert sorted(host.written) == ["a.jar", "b.jar", "b.jar"]


def test_a_jar_that_is_none_of_them_is_refused(jars: Jars, there: Path) -> None:
    """Java would take it, too."""
    brought(HostHere(), jars, there)
    (there / "c.jar").touch()
    with pytest.raises(InfraError, match=r"^host: c\.jar in .*kafka-1 is not of Apache Kafka 1"):
        brought(HostHere(), jars, there)
