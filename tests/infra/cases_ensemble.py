"""Run inside by test_ensemble.py: sessions of a real ensemble, ended and taken from outside."""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.interfaces import IAsyncResult
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry

from ackproof.infra.api.interface import ViewUnavailable
from ackproof.infra.backends.local.backend import LocalBackend
from ackproof.infra.machine.waiting import wait_until
from ackproof.infra.systems.bundled import BundledSystem
from ackproof.infra.systems.zookeeper import password
from tests.support.processes.deadlines import PATIENCE_S

SESSION_MS = 6000
"""No session ends by itself meanwhile: on a busy machine, too."""
OCCUPIES = Path(__file__).with_name("occupies_registration.py")
CONTENT = b'{"host": "here"}'


def ensemble_from_outside(scratch: Path) -> None:
    """One ensemble for all of it, which takes longer to start than all the rest."""
    with _system(scratch) as system:
        _a_password_follows_from_the_id(system)
        _one_session_ends_and_no_other(system)
        _a_session_that_many_hold_on_to_ends(system)
        _a_session_of_nobody_leaves_none_of_ours(system)
        _a_registration_is_occupied(system)
        _what_is_occupied_goes_with_the_process(system)
        _what_the_servers_are(system)


def _a_password_follows_from_the_id(system: BundledSystem) -> None:
    with ExitStack() as stack:
        for number in range(1, 6):
            broker = stack.enter_context(_Broker(system, number))
            assert password(broker.session) == broker.password


def _one_session_ends_and_no_other(system: BundledSystem) -> None:
    """End the sessions of clients on each of the servers, one after the other, and no other
    session."""
    with ExitStack() as stack:
        brokers = [stack.enter_context(_Broker(system, number)) for number in range(1, 7)]
        there = _sessions(system)
        for broker in brokers:
            ended = broker.session
            broker.await_registered()
            assert system.view().brokers[broker.number] == ended
            assert system.ensemble.end_session(ended)
            assert system.view().brokers.get(broker.number) != ended
            assert not system.ensemble.end_session(ended), "it is over"
            broker.await_lost()
            broker.await_registered()
        assert [broker.lost for broker in brokers] == [1] * len(brokers)
        assert not system.expired_sessions()
        assert _sessions(system) == there


def _a_session_that_many_hold_on_to_ends(system: BundledSystem) -> None:
    """Clients that go on with one session take the connection from each other, and from us before
    our close is on its way."""
    with _Broker(system, 1) as broker, ExitStack() as stack:
        identity = (broker.session, broker.password)
        for _ in range(2):
            stack.enter_context(_going_on(system, identity))
        assert system.ensemble.end_session(identity[0])
        assert system.view().brokers.get(1) != identity[0]
        broker.await_lost()
        broker.await_registered()


def _a_session_of_nobody_leaves_none_of_ours(system: BundledSystem) -> None:
    there = _sessions(system)
    assert not system.ensemble.end_session(0x1234567)
    assert _sessions(system) == there


def _a_registration_is_occupied(system: BundledSystem) -> None:
    """The broker finds a node that is not its own, for as long as it is ours."""
    with _Broker(system, 1) as broker, _Broker(system, 2) as other:
        there = _sessions(system)
        before = broker.session
        assert not system.ensemble.occupy(3), "no broker is registered"
        assert _sessions(system) == there
        assert system.ensemble.occupy(1)
        assert not system.ensemble.occupy(1), "it is occupied"
        broker.await_lost()
        holder = system.view().brokers[1]
        assert holder in system.ensemble.ours
        assert holder != before
        broker.await_conflict()
        assert system.view().brokers[1] == holder
        assert other.read("/brokers/ids/1") == CONTENT
        system.ensemble.vacate(1)
        broker.await_registered()
        system.ensemble.vacate(1)
        assert holder in system.ensemble.ours, "it was"
        assert (other.lost, _sessions(system)) == (0, there)
        assert not system.expired_sessions()


def _what_is_occupied_goes_with_the_process(system: BundledSystem) -> None:
    """Killed with SIGKILL, it leaves a session that expires."""
    with _Broker(system, 1) as broker:
        broker.await_registered()
        argv = [sys.executable, str(OCCUPIES), system.zookeeper_connect, str(SESSION_MS), "1"]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as occupying:
            assert occupying.stdout is not None
            assert occupying.stdout.readline() == b"occupied\n"
            broker.await_conflict()
            holder = system.view().brokers[1]
            occupying.send_signal(signal.SIGKILL)
        broker.await_registered()
        assert system.expired_sessions() == {holder}


def _what_the_servers_are(system: BundledSystem) -> None:
    modes = system.ensemble.modes()
    assert sorted(modes.values()) == ["follower", "follower", "leader"]
    for name in [name for name, mode in modes.items() if mode == "follower"]:
        _process(system, name).signal(signal.SIGSTOP)
    # The leader goes on answering until it has noticed; those that are stopped never do.
    wait_until(lambda: not system.ensemble.modes(), PATIENCE_S, "all servers to stop")
    assert system.zookeeper_leader() is None
    for name in modes:
        _process(system, name).signal(signal.SIGCONT)
    wait_until(lambda: len(system.ensemble.modes()) == 3, PATIENCE_S, "all to serve")


class _Broker:
    """A client that registers, and again in each new session, as soon as it can: when no other
    client is registered by its number. A context manager."""

    def __init__(self, system: BundledSystem, number: int) -> None:
        self.number = number
        self.lost = 0
        self._conflicts = 0
        self._system = system
        self._path = f"/brokers/ids/{number}"
        self._client = KazooClient(system.zookeeper_connect, timeout=SESSION_MS / 1000)

    @property
    def session(self) -> int:
        session: int = self._client.client_id[0]
        return session

    @property
    def password(self) -> bytes:
        told: bytes = self._client.client_id[1]
        return told

    def read(self, path: str) -> bytes:
        content: bytes = self._client.get(path)[0]
        return content

    def await_registered(self) -> None:
        def registered() -> bool:
            known = self._client.client_id
            return known is not None and self._holder() == known[0]

        wait_until(registered, PATIENCE_S, f"broker {self.number} to hold its own node")

    def await_lost(self) -> None:
        wait_until(lambda: self.lost > 0, PATIENCE_S, f"broker {self.number} to be told")

    def await_conflict(self) -> None:
        """Until it has met a node of another session."""
        wait_until(lambda: self._conflicts > 0, PATIENCE_S, f"broker {self.number} to meet it")

    def __enter__(self) -> "_Broker":
        self._client.start(PATIENCE_S)
        self._client.ensure_path("/brokers/ids")
        self._client.create(self._path, CONTENT, ephemeral=True)
        self._client.add_listener(self._on_state)
        return self

    def __exit__(self, *_: object) -> None:
        self._client.remove_listener(self._on_state)
        self._client.stop()
        self._client.close()

    def _holder(self) -> int | None:
        try:
            return self._system.view().brokers.get(self.number)
        except ViewUnavailable:
            return None

    def _on_state(self, state: str) -> None:
        self.lost += state == KazooState.LOST
        if state == KazooState.CONNECTED and self.lost:
            self._register()

    def _register(self, *_: object) -> None:
        made = self._client.create_async(self._path, CONTENT, ephemeral=True)
        made.rawlink(self._registered)

    def _registered(self, made: IAsyncResult) -> None:
        if not made.successful():
            self._conflicts += 1
            self._client.exists_async(self._path, watch=self._register).rawlink(self._looked)

    def _looked(self, there: IAsyncResult) -> None:
        if there.successful() and there.value is None:
            self._register()


@contextmanager
def _going_on(system: BundledSystem, identity: tuple[int, bytes]) -> Iterator[None]:
    client = KazooClient(
        system.zookeeper_connect, timeout=SESSION_MS / 1000, client_id=identity,
        connection_retry=KazooRetry(max_tries=-1, delay=0.01, max_delay=0.01),
    )  # fmt: skip
    client.start_async()
    try:
        yield
    finally:
        client.stop()
        client.close()


@contextmanager
def _system(scratch: Path) -> Iterator[BundledSystem]:
    backend = LocalBackend(scratch / "nodes")
    properties = {"zookeeper.session.timeout.ms": str(SESSION_MS)}
    system = BundledSystem(backend, brokers=0, zookeepers=3, properties=properties)
    try:
        system.deploy()
        wait_until(lambda: len(system.ensemble.modes()) == 3, PATIENCE_S, "the ensemble")
        system.view()  # so that its own session is there, too
        yield system
    finally:
        system.close()
        backend.close()


def _sessions(system: BundledSystem) -> int:
    """Return the number of sessions that the ensemble's leader reports."""
    leader = system.zookeeper_leader()
    assert leader is not None
    with socket.create_connection((leader.node.address, leader.port)) as connection:
        connection.sendall(b"mntr")
        with connection.makefile("r", encoding="utf-8") as answer:
            told = dict(line.rstrip("\n").split("\t", 1) for line in answer)
    return int(told["zk_global_sessions"])


def _process(system: BundledSystem, name: str):
    return next(server.process for server in system.zookeepers if server.name == name)
