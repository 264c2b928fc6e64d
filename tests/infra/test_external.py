"""Permitted actions on an external cluster: by the configured means, and journaled before."""

import signal
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from ackproof.infra import run_control
from ackproof.infra.api.interface import InfraError, ProcessState
from ackproof.infra.machine.registry import EntryKind, Registry
from ackproof.infra.machine.secrets import Secret, handed, read_all
from ackproof.infra.systems.external.control import carry_out
from ackproof.infra.systems.external.description import Action, BrokerControl, DescribedCluster
from ackproof.infra.systems.external.journal import FILE, Journal
from ackproof.infra.systems.external.probes import survey
from ackproof.infra.systems.external.restoration import restore
from ackproof.infra.systems.external.server import ExternalServer
from ackproof.nemesis.effects import ProcessKill, Terminate


class Alone:
    """A cluster with one server."""

    def __init__(self, server: ExternalServer) -> None:
        self._server = server

    def server(self, name: str) -> ExternalServer:
        assert name == self._server.name
        return self._server


def touching(path: Path) -> BrokerControl:
    """Hands that leave a file for each thing they do."""
    script = "import pathlib, sys; pathlib.Path(sys.argv[1]).touch()"
    return BrokerControl(
        commands={
            action: ((sys.executable, "-c", script, str(path / action)),) for action in Action
        }
    )


def described(handle: BrokerControl | None) -> DescribedCluster:
    return DescribedCluster(
        bootstrap_servers="unreachable:1",
        secrets={"sasl.password": Secret(env="NOT_SET_ANYWHERE")},
        brokers=(7,),
        handles={} if handle is None else {7: handle},
    )


def test_failed_command_is_reported_with_its_output(tmp_path: Path) -> None:
    failing = (sys.executable, "-c", "print('no such unit'); raise SystemExit(4)")
    with pytest.raises(InfraError, match="ended with 4: no such unit"):
        carry_out(BrokerControl(commands={Action.STOP: (failing,)}), Action.STOP)
    with pytest.raises(InfraError, match="no command is configured to kill it"):
        carry_out(BrokerControl(commands={Action.STOP: (failing,)}), Action.KILL)
    with pytest.raises(InfraError, match="No such file"):
        carry_out(
            BrokerControl(commands={Action.STOP: ((str(tmp_path / "absent"),),)}), Action.STOP
        )


def test_process_started_by_a_command_is_not_awaited(tmp_path: Path) -> None:
    """It goes on with the command's output open, for as long as it lives."""
    fifo = tmp_path / "fifo"
    script = "import os, sys; os.mkfifo(sys.argv[1])\nif not os.fork(): open(sys.argv[1]).read()"
    carry_out(
        BrokerControl(commands={Action.START: ((sys.executable, "-c", script, str(fifo)),)}),
        Action.START,
    )
    fifo.write_text("it was there to read this")


def test_a_broker_without_hands_is_not_touched(tmp_path: Path) -> None:
    journal = Journal.begin(tmp_path / FILE, described(None))
    server = ExternalServer(7, None, {}, lambda: journal)
    with pytest.raises(InfraError, match="not in the inventory"):
        server.start()
    assert not journal.left().anything


def test_action_is_journaled_before_it_is_carried_out(tmp_path: Path) -> None:
    """A command that fails half-way may have stopped it."""
    failing = (sys.executable, "-c", "raise SystemExit(1)")
    handle = BrokerControl(commands={Action.KILL: (failing,)})
    journal = Journal.begin(tmp_path / FILE, described(handle))
    server = ExternalServer(7, handle, {}, lambda: journal)
    server.at("127.0.0.1", 1)
    assert server.process.state() is ProcessState.EXITED, "no server listens there"
    with pytest.raises(InfraError):
        server.do(Action.KILL)
    assert journal.left().down == {7: Action.START}


@pytest.mark.parametrize(
    ("done", "back"), [(Action.KILL, "start"), (Action.STOP, "start"), (Action.PAUSE, "resume")]
)
def test_action_of_a_killed_run_is_undone_once(tmp_path: Path, done: Action, back: str) -> None:
    run = tmp_path / "results" / "runs" / "1"
    run.mkdir(parents=True)
    handle = touching(tmp_path)
    journal = Journal.begin(run / FILE, described(handle))
    ExternalServer(7, handle, {}, lambda: journal).do(done)
    with (run / FILE).open("a") as file:
        file.write('{"down": 8, "ba')  # the harness was killed while it wrote
    told: list[str] = []
    restore(tmp_path / "results", told.append)
    assert (tmp_path / back).exists()
    assert len(told) == 1
    restore(tmp_path / "results", told.append)
    assert len(told) == 1


def test_paused_controller_is_resumed_by_its_command_and_asked_by_its_own_probe(
    tmp_path: Path,
) -> None:
    run = tmp_path / "results" / "runs" / "1"
    run.mkdir(parents=True)
    handle = touching(tmp_path)
    cluster = described(None).model_copy(update={"handles": {9: handle}, "agent": True})
    journal = Journal.begin(run / FILE, cluster)
    controller = ExternalServer(9, handle, {}, lambda: journal, probe=lambda: True)
    assert controller.name == "controller-9"
    assert controller.answers(), "no broker is asked"
    controller.do(Action.PAUSE)
    told: list[str] = []
    restore(tmp_path / "results", told.append)
    assert (tmp_path / "resume").exists(), "no agent is beside it"
    assert [line.partition(":")[0] for line in told] == ["controller-9"]


def test_results_alone_suffice_to_undo_leftovers(tmp_path: Path) -> None:
    """Test a restarted machine, where no registry knows the run. A live run undoes its own actions
    at its end."""
    results = tmp_path / "results"
    (results / "runs" / "1").mkdir(parents=True)
    handle = touching(tmp_path)
    journal = Journal.begin(results / "runs" / "1" / FILE, described(handle))
    ExternalServer(7, handle, {}, lambda: journal).do(Action.KILL)
    (tmp_path / "registry").mkdir()
    registry = Registry(tmp_path / "registry")
    told: list[str] = []
    registry.add("mine", EntryKind.RUN, results=results)
    assert run_control.restore_results(registry, results, told.append)
    assert "is active" in told[0]
    assert not (tmp_path / "start").exists()
    registry.remove("mine")
    assert run_control.restore_results(registry, results, told.append)
    assert (tmp_path / "start").exists()
    journal.topic("ackproof-t")
    assert not run_control.restore_results(registry, results, told.append)
    assert "NOT_SET_ANYWHERE is not set" in told[-1]


def test_failed_run_does_not_keep_later_runs_from_being_undone(tmp_path: Path) -> None:
    damaged, later = tmp_path / "runs" / "1", tmp_path / "runs" / "2"
    damaged.mkdir(parents=True)
    (damaged / FILE).write_text("no journal\n")
    later.mkdir()
    Journal.begin(later / FILE, described(touching(tmp_path))).down(7, Action.START)
    with pytest.raises(InfraError, match="is damaged"):
        restore(tmp_path, lambda _line: None)
    assert (tmp_path / "start").exists()


def test_failed_restore_keeps_its_entry(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "1"
    run.mkdir(parents=True)
    journal = Journal.begin(run / FILE, described(None))
    journal.topic("ackproof-t")
    for _ in range(2):
        with pytest.raises(InfraError, match="NOT_SET_ANYWHERE is not set"):
            restore(tmp_path, lambda _line: None)
    assert journal.left().topics == ["ackproof-t"]


def test_secrets_are_in_the_environment_or_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_TEST", " with spaces ")
    (tmp_path / "password").write_text("from a file\n")
    secrets = {
        "sasl.password": Secret(env="SECRET_OF_TEST"),
        "ssl.key.password": Secret(file=str(tmp_path / "password")),
    }
    found = read_all(secrets)
    assert found == {"sasl.password": " with spaces ", "ssl.key.password": "from a file"}
    with pytest.raises(InfraError, match=r"^sasl\.password: .* is not set$"):
        read_all({"sasl.password": Secret(env="NOT_SET_ANYWHERE")})
    (tmp_path / "password").write_bytes(b"\xff\xfesecret")
    with pytest.raises(InfraError, match="it is not UTF-8") as refused:
        read_all({"sasl.password": Secret(file=str(tmp_path / "password"))})
    assert "secret'" not in str(refused.value)


def test_a_secret_in_a_file_is_handed_on_as_that_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For any working directory of the receiving process."""
    monkeypatch.setenv("SECRET_OF_TEST", "hunter2")
    monkeypatch.chdir(tmp_path)
    secrets = {"a": Secret(env="SECRET_OF_TEST"), "b": Secret(file="password")}
    with pytest.raises(InfraError, match=r"^b: "):
        handed(secrets)
    Path("password").write_text("from a file\n")
    assert handed(secrets) == {"a": "hunter2", "b": {"file": str(tmp_path / "password")}}


def test_a_command_is_the_same_from_wherever_it_is_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "import pathlib; pathlib.Path('here').touch()"
    commands = {Action.START: ((sys.executable, "-c", script),)}
    (tmp_path / "theirs").mkdir()
    monkeypatch.chdir(tmp_path / "theirs")
    carry_out(BrokerControl(commands=commands, directory=str(tmp_path)), Action.START)
    assert (tmp_path / "here").exists()


def test_a_container_is_one_of_the_engine_that_was_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Test two engines, each of which may have a container of that name."""
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    handle = BrokerControl(container="kafka", engine={"DOCKER_HOST": "tcp://127.0.0.1:2"})
    with pytest.raises(InfraError, match=r"^docker -H tcp:.*:2 start kafka: .*port=2"):
        carry_out(handle, Action.START)


@pytest.mark.parametrize(
    "written", ["", "{", "[]", "3", '{"cluster": 3}', '{"cluster": "{}"}', "\\0", None]
)
def test_damaged_journal_is_refused_in_plain_words(tmp_path: Path, written: str | None) -> None:
    """``written``: its first line; None: that one is sound, and the next is no entry."""
    path = tmp_path / FILE
    journal = Journal.begin(path, described(None))
    whole = path.read_text(encoding="utf-8")
    path.write_text(f"{whole}3\n" if written is None else written, encoding="utf-8")
    with pytest.raises(InfraError) as caught:
        journal.left()
    assert str(caught.value) == (
        f"{path} is damaged: the changes that the run left on the cluster are unknown"
    )


def test_the_journal_keeps_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_TEST", "hunter2")
    told = described(None).model_copy(
        update={"secrets": {"sasl.password": Secret(env="SECRET_OF_TEST")}}
    )
    assert told.connection()["sasl.password"] == "hunter2"
    Journal.begin(tmp_path / FILE, told)
    assert "hunter2" not in (tmp_path / FILE).read_text()


def test_unusable_client_settings_are_reported_and_keep_the_entry(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "1"
    run.mkdir(parents=True)
    tls = {"security.protocol": "ssl", "ssl.ca.location": str(tmp_path / "nowhere.pem")}
    told = DescribedCluster(bootstrap_servers="unreachable:1", client=tls, brokers=(7,))
    journal = Journal.begin(run / FILE, told)
    journal.topic("ackproof-t")
    for act in (lambda: survey(told), lambda: restore(tmp_path, lambda _line: None)):
        with pytest.raises(
            InfraError, match=r"refuses these connection settings: .*ssl\.ca\.location"
        ):
            act()
    assert journal.left().topics == ["ackproof-t"]


@pytest.mark.parametrize("asked_before", [False, True])
def test_killed_broker_behind_a_proxy_is_started_when_the_fault_ends(
    tmp_path: Path, asked_before: bool
) -> None:
    """A proxy accepts connections whether or not the broker behind it runs."""
    failing = (sys.executable, "-c", "raise SystemExit(1)")
    handle = touching(tmp_path)
    if asked_before:  # and it has ended since: there is no process to kill
        handle = handle.model_copy(
            update={"commands": {**handle.commands, Action.KILL: (failing,)}}
        )
    journal = Journal.begin(tmp_path / FILE, described(handle))
    server = ExternalServer(7, handle, {"socket.timeout.ms": "100"}, lambda: journal)
    cluster: Any = Alone(server)
    effect = Terminate(server.name) if asked_before else ProcessKill(server.name)
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        server.at(*proxy.getsockname())
        assert effect.apply(cluster)
        assert not (tmp_path / "start").exists()
        if not asked_before:
            assert server.process.state() is ProcessState.EXITED
        effect.undo(cluster)
        assert (tmp_path / "start").exists()
        assert server.process.state() is ProcessState.RUNNING
    assert not journal.left().down


def test_kill_that_fails_is_not_taken_for_done(tmp_path: Path) -> None:
    failing = (sys.executable, "-c", "raise SystemExit(1)")
    handle = BrokerControl(commands={Action.KILL: (failing,)})
    journal = Journal.begin(tmp_path / FILE, described(handle))
    server = ExternalServer(7, handle, {}, lambda: journal)
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        server.at(*proxy.getsockname())
        with pytest.raises(InfraError):
            server.process.signal(signal.SIGKILL)
        assert server.process.state() is ProcessState.RUNNING
