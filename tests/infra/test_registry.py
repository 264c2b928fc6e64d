"""The registry of runs and clean-up, without namespaces."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from ackproof.infra.api.interface import InfraError
from ackproof.infra.machine.identity import ProcessIdentity
from ackproof.infra.machine.registry import STATE_DIRECTORY, EntryKind, Registry, RegistryEntry
from ackproof.infra.run_control import clean, leftovers, stop


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    monkeypatch.setenv(STATE_DIRECTORY, str(tmp_path / "state"))
    return Registry.open()


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "1000"])
    yield process
    process.kill()
    process.wait()


def _dead_entry(registry: Registry, scratch: Path | None = None) -> RegistryEntry:
    """A run whose outer process is gone, though its id is in use."""
    entry = registry.add("dead", EntryKind.RUN, scratch=scratch)
    dead = replace(entry, outer=replace(entry.outer, start=entry.outer.start - 1))
    registry._write(dead)
    return dead


def test_entries_are_read_as_written(registry: Registry, tmp_path: Path) -> None:
    scratch, results = tmp_path / "scratch", tmp_path / "results"
    written = registry.add("r", EntryKind.CLUSTER, results=results, scratch=scratch, rootless=True)
    registry.note_init("r", os.getppid())
    assert list(registry.entries()) == [
        replace(written, init=ProcessIdentity.of(os.getppid())),
    ]
    assert written.alive
    assert scratch.is_dir()
    assert written.nsenter == (
        "nsenter", "--target", str(os.getpid()), "--user", "--preserve-credentials", "--net", "--",
    )  # fmt: skip


def test_removing_takes_the_scratch_directory_and_leaves_the_results(
    registry: Registry, tmp_path: Path
) -> None:
    scratch, results = tmp_path / "scratch", tmp_path / "results"
    results.mkdir()
    registry.add("r", EntryKind.RUN, results=results, scratch=scratch)
    (scratch / "file").touch()
    registry.remove("r")
    assert registry.run_ids() == []
    assert not scratch.exists()
    assert results.exists()


def test_a_scratch_directory_with_something_in_it_is_refused(
    registry: Registry, tmp_path: Path
) -> None:
    (tmp_path / "precious").touch()
    with pytest.raises(InfraError, match="not empty"):
        registry.add("r", EntryKind.RUN, scratch=tmp_path)
    assert registry.run_ids() == []


def test_a_run_id_is_given_once(registry: Registry) -> None:
    registry.add("r", EntryKind.RUN)
    with pytest.raises(InfraError, match="the run r already exists"):
        registry.add("r", EntryKind.RUN)


@pytest.mark.parametrize("run_id", ["", "../x", "a/b", ".hidden"])
def test_a_run_id_is_a_file_name(registry: Registry, run_id: str) -> None:
    with pytest.raises(InfraError, match="must be a file name"):
        registry.add(run_id, EntryKind.RUN)


def test_the_directory_must_be_ours_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STATE_DIRECTORY, str(tmp_path / "open"))
    (tmp_path / "open").mkdir(mode=0o755)
    with pytest.raises(InfraError, match="chmod 700"):
        Registry.open()
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.setenv(STATE_DIRECTORY, str(tmp_path / "link"))
    with pytest.raises(InfraError, match="not created by Ackproof"):
        Registry.open()


def test_a_reused_process_id_is_not_the_process(sleeper: subprocess.Popen[bytes]) -> None:
    identity = ProcessIdentity.of(sleeper.pid)
    assert identity.lives()
    for other in (replace(identity, start=identity.start - 1), replace(identity, boot="other")):
        assert not other.lives()
        assert other.end(signal.SIGKILL, timeout=5), "there is nothing to end"
    assert sleeper.poll() is None, "and nothing else was ended"


def test_ending_a_process(sleeper: subprocess.Popen[bytes], wait_for: Callable[..., None]) -> None:
    identity = ProcessIdentity.of(sleeper.pid)
    sleeper.send_signal(signal.SIGSTOP)
    process = psutil.Process(sleeper.pid)
    wait_for(lambda: process.status() == psutil.STATUS_STOPPED, "it to stop")
    assert not identity.end(signal.SIGTERM, timeout=0.05), "it is stopped"
    assert identity.end(signal.SIGKILL, timeout=5)
    assert not identity.lives(), "a zombie is dead"
    sleeper.wait()
    with pytest.raises(ProcessLookupError):
        ProcessIdentity.of(sleeper.pid)


def test_leftovers_are_removed_with_their_running_processes(
    registry: Registry, tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    dead = _dead_entry(registry, tmp_path / "scratch")
    registry.note_init("dead", sleeper.pid)
    registry.add("alive", EntryKind.RUN)
    assert [entry.run_id for entry in leftovers(registry)] == [dead.run_id]
    lines: list[str] = []
    assert clean(registry, lines.append)
    assert lines == [
        f"alive: run is active (process {os.getpid()}) and was not changed",
        f"dead: removed, with {tmp_path / 'scratch'}",
    ]
    assert sleeper.wait(5) == -signal.SIGKILL
    assert registry.run_ids() == ["alive"]


def test_a_living_run_is_stopped(registry: Registry, sleeper: subprocess.Popen[bytes]) -> None:
    entry = registry.add("r", EntryKind.CLUSTER)
    registry._write(replace(entry, outer=ProcessIdentity.of(sleeper.pid)))
    stop(registry, registry.get("r"))
    assert sleeper.wait(5) == -signal.SIGTERM
    assert registry.run_ids() == []


def test_failed_cleanup_is_reported(registry: Registry, tmp_path: Path) -> None:
    (registry.directory / "damaged.json").write_text("{}")
    _dead_entry(registry, tmp_path / "scratch")
    lines: list[str] = []
    assert not clean(registry, lines.append)
    assert lines[0].startswith("damaged: ")
    assert "is damaged" in lines[0]
    assert lines[1].startswith("dead: removed"), "the others are cleaned all the same"
