"""A server of an external cluster, whose process is only visible from outside."""

import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any

from ackproof.infra.agent.impairments import CUT, Impairment
from ackproof.infra.agent.measuring import accepts
from ackproof.infra.api.interface import (
    InfraError,
    PodPlace,
    PodRefusal,
    ProcessState,
    ViewUnavailable,
)
from ackproof.infra.backends.kubernetes import broker_pods, cpu_limits
from ackproof.infra.backends.kubernetes.broker_pods import ROOT, BrokerPod, BrokerPods
from ackproof.infra.machine.waiting import wait_until
from ackproof.infra.node.agent_client import AgentClient, NodeGone
from ackproof.infra.node.attached import FoundProcess, LogDirectoryDisk, ServerLimits
from ackproof.infra.node.node import AgentNode
from ackproof.infra.systems.external.control import carry_out
from ackproof.infra.systems.external.description import (
    Action,
    BrokerControl,
    by_agent,
    controller_name,
    server_name,
)
from ackproof.infra.systems.external.journal import Journal
from ackproof.infra.systems.external.limits import PodLimits
from ackproof.infra.systems.external.probes import answers, log_directories_of, settings_of

_LOOK_EVERY_S = 0.2
_IDENTITY = "meta.properties"
"""The file of a log directory in which Kafka keeps the ids of its broker and its cluster."""
_FOREVER_S = float("inf")
_BY_SIGNAL: Mapping[int, Action] = {
    signal.SIGTERM: Action.STOP,
    signal.SIGKILL: Action.KILL,
    signal.SIGSTOP: Action.PAUSE,
    signal.SIGCONT: Action.RESUME,
}
_BACK: Mapping[Action, Action] = {
    Action.STOP: Action.START,
    Action.KILL: Action.START,
    Action.PAUSE: Action.RESUME,
}
"""The action that undoes each action."""
_VERBS = {Action.PAUSE: "pause_server", Action.RESUME: "resume_server"}
"""The verbs of the agent for actions."""


class ExternalNode:
    """The place of a broker: a name and an address, and no operations.

    It has no more of ``infra.api.interface.Node``.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.address = ""
        self.directory = PurePosixPath("/")
        self.log_directory = PurePosixPath("/")

    def __getattr__(self, what: str) -> Any:
        if what.startswith("__"):  # requests of Python itself
            raise AttributeError(what)
        raise InfraError(f"{self.name} is not a node of Ackproof: no {what}")


class PodNode(ExternalNode):
    """The place of a broker in a pod, whose limits the API of Kubernetes sets."""

    def __init__(self, name: str, limits: PodLimits) -> None:
        super().__init__(name)
        self.limit, self.lift, self.counted = limits.limit, limits.lift, limits.counted


class ExternalProcess:
    """An ``infra.api.interface.Process`` that is only visible from outside.

    A killed process counts as gone because of that action, even if something still accepts
    connections at its address, as a proxy does. Otherwise it counts as gone when its port refuses
    connections. Its exit status is unknown.
    """

    pid = 0

    def __init__(self, server: "ExternalServer") -> None:
        self._server = server
        self._paused = False
        self._killed = False
        self._signals: set[int] = set()
        self.name = server.name

    @property
    def signals(self) -> frozenset[int]:
        return frozenset(self._signals)

    def state(self) -> ProcessState:
        if self._killed:
            return ProcessState.EXITED
        if self._paused:
            return ProcessState.STOPPED
        return ProcessState.RUNNING if self._server.accepts() else ProcessState.EXITED

    def scheduled(self) -> None:
        """Return None: its times are not visible."""

    def exit_code(self) -> int | None:
        return None

    def signal(self, signal_number: int) -> None:
        """Do the action that stands for the signal. Raises InfraError if none does."""
        action = _BY_SIGNAL.get(signal_number)
        if action is None:
            raise InfraError(f"{self.name}: no command is configured for signal {signal_number}")
        if action is not Action.RESUME and self.state() is ProcessState.EXITED:
            raise ProcessLookupError(f"{self.name} is down")
        asked_to_end = signal.SIGTERM in self._signals
        self._signals.add(signal_number)
        self._paused = action is Action.PAUSE
        try:
            self._server.do(action)
        except InfraError:
            # A process that has ended on request cannot be killed any more.
            if action is not Action.KILL or not asked_to_end or self._server.answers():
                raise
        self._killed = action is Action.KILL

    def wait(self, timeout: float | None = None) -> int:
        limit = _FOREVER_S if timeout is None else timeout
        gone = lambda: self.state() is ProcessState.EXITED  # noqa: E731
        wait_until(gone, limit, f"the end of {self.name}", _LOOK_EVERY_S)
        return 0


_SILENCE: Sequence[Impairment] = (CUT, CUT._replace(kind="loss-out"))
"""The impairments of both directions. With no addresses, they are those of all peers."""


class ServerPod:
    """An ``infra.api.interface.PodView`` of the pod of a server.

    Args:
        run: The name of the run, by which nodes are cordoned.
        journal: Returns the journal that is written before a node is cordoned.

    Attributes:
        lost_storage: See :class:`PodView`.
    """

    def __init__(
        self, server: "ExternalServer", pod: BrokerPod, run: str, journal: Callable[[], Journal]
    ) -> None:
        self.lost_storage: str | None = None
        self._server, self._pod = server, pod
        self._run, self._journal = run, journal
        self._silenced: str | None = None
        """The uid of the pod whose packets are dropped."""

    @property
    def pods(self) -> BrokerPods:
        """Return the pods of all brokers."""
        return self._pod.pods

    def place(self) -> PodPlace | None:
        return broker_pods.place(self._pod)

    def places(self) -> Mapping[str, PodPlace]:
        found = broker_pods.places(self._pod.pods)
        return {server_name(broker): place for broker, place in found.items()}

    def restarter(self, former: PodPlace) -> str:
        return broker_pods.restarter(self._pod.pods, former)

    def order_roll(self, uid: str) -> bool:
        self._journal().rolling(self._pod.broker, uid, self._run)
        try:
            return broker_pods.order_roll(self._pod, uid, self._run)
        except PodRefusal:
            self._journal().rolled(self._pod.broker)
            raise

    def withdraw_roll(self, uid: str) -> None:
        broker_pods.withdraw_roll(self._pod, uid, self._run)
        self._journal().rolled(self._pod.broker)

    def cordon(self, node: str) -> bool:
        self._journal().cordoned(node, self._run)
        try:
            return broker_pods.cordon(self._pod.pods, node, self._run)
        except PodRefusal:
            self._journal().uncordoned(node)
            raise

    def uncordon(self, node: str) -> None:
        broker_pods.uncordon(self._pod.pods, node, self._run)
        self._journal().uncordoned(node)

    def is_cordoned(self, node: str) -> bool:
        return broker_pods.is_cordoned(self._pod.pods, node)

    def evict(self, uid: str, within_s: float, *, budgets: bool) -> bool:
        return broker_pods.evict(self._pod, uid, within_s, budgets=budgets)

    def cpu_limit(self) -> int | None:
        return cpu_limits.in_force(self._pod)

    def silence(self) -> None:
        found = self.place()
        if found is None:
            raise InfraError(f"{self._server.name} has no pod")
        self._silenced = found.uid
        for impairment in _SILENCE:
            self._impair("impair", impairment)

    def unsilence(self) -> None:
        found = None if self._silenced is None else self.place()
        if found is not None and found.uid == self._silenced:
            for impairment in _SILENCE:
                self._impair("mend", impairment)
        self._silenced = None

    def is_silent(self) -> bool:
        return self._silenced is not None and not accepts(self._server.host, self._server.port)

    def _impair(self, verb: str, impairment: Impairment) -> None:
        agent = self._server.agent
        if agent is None:
            raise InfraError(f"no agent is in the pod of {self._server.name}")
        agent.ask(verb, addresses=[], impairment=impairment._asdict())


class ExternalServer:
    """A broker of an external cluster, or a controller: an ``infra.api.interface.Server`` and its
    ``ExternalView``.

    Args:
        number: Its ``broker.id`` or ``node.id``.
        handle: The way to control it; None if it must not be touched.
        connection: librdkafka's properties for a connection to a broker.
        journal: Returns the journal that is written before each action.
        addresses: Returns the host and port of each registered broker. Raises ViewUnavailable.
        probe: Returns whether a controller that is no broker answers; None for a broker.
        run: The name of the run.

    Attributes:
        log_directories: Its log directories on its node; empty without an agent.
        agent: The agent beside it, if one was put there.
        pod: Its pod; None outside Kubernetes.
    """

    clock = None
    peer_ports = ()

    def __init__(
        self,
        number: int,
        handle: BrokerControl | None,
        connection: Mapping[str, str],
        journal: Callable[[], Journal],
        addresses: Callable[[], Mapping[int, tuple[str, int]]] = dict,
        probe: Callable[[], bool] | None = None,
        run: str = "",
    ) -> None:
        self._addresses = addresses
        self.id = number
        self.name = server_name(number) if probe is None else controller_name(number)
        self._probe = probe
        place = None if handle is None else handle.pod
        self._limits = None if place is None else PodLimits(place, run, journal)
        self.node: Any = (
            ExternalNode(self.name) if self._limits is None else PodNode(self.name, self._limits)
        )
        self.log_directories: Sequence[PurePosixPath] = ()
        self.disks: Sequence[LogDirectoryDisk] = ()
        self.service_ports: Sequence[int] = ()
        self.agent: AgentClient | None = None
        self._found: FoundProcess | None = None
        self.host, self.port = "", 0
        self._handle = handle
        self.pod = None if place is None else ServerPod(self, place, run, journal)
        self._connection = connection
        self._journal = journal
        self.process = ExternalProcess(self)

    @property
    def distant(self) -> "ExternalServer":
        return self

    def at(self, host: str, port: int) -> None:
        """Set the address at which clients reach it."""
        self.host, self.port, self.service_ports = host, port, (port,)
        self.node.address = host

    def attach(self, node: AgentNode, cluster_id: str) -> None:
        """Use the node that the agent beside it serves.

        Raises InfraError unless the host is proven to be this server's: a process listens there on
        its port, and each log directory that a broker names belongs to a broker of this id and
        cluster. A controller names none: the host must have its address.
        """
        if node.agent.ask("listener", port=self.port) is None:
            raise InfraError(
                f"{node.agent.who} is not the host of {self.name}: no process listens there on "
                f"port {self.port}"
            )
        if self._probe is None:
            self._find_logs(node, cluster_id)
        elif not _is_address_of(self.host, node):
            raise InfraError(
                f"{node.agent.who} is not the host of {self.name}: it does not have the address "
                f"{self.host}"
            )
        node.address = self.host
        node.limit_by(self._limits or ServerLimits(node.agent, self.port))
        self.node, self.agent = node, node.agent

    def _find_logs(self, node: AgentNode, cluster_id: str) -> None:
        settings = settings_of(self._connection, self.id)
        named = log_directories_of(settings)
        if not named:
            raise InfraError(
                f"{self.name} does not name its log.dirs: the user needs DescribeConfigs on the "
                "cluster"
            )
        root = PurePosixPath("/" if self.pod is None else ROOT)
        directories = [root / directory.lstrip("/") for directory in named]
        for directory in directories:
            self._require_own(node, directory / _IDENTITY, cluster_id)
        self.log_directories = directories
        self.service_ports = _service_ports(settings, self.port)
        if self.pod is None:
            self.disks = [LogDirectoryDisk(node.agent, directory) for directory in directories]

    def _require_own(self, node: AgentNode, path: PurePosixPath, cluster_id: str) -> None:
        try:
            lines = node.read(path).decode(errors="replace").splitlines()
        except FileNotFoundError:
            lines = []
        said = dict(line.split("=", 1) for line in lines if "=" in line and line[0] != "#")
        broker = said.get("node.id", said.get("broker.id"))
        if (broker, said.get("cluster.id")) != (str(self.id), cluster_id):
            found = f"{path} there says {', '.join(lines[1:])}" if lines else f"it has no {path}"
            raise InfraError(f"{node.agent.who} is not the host of {self.name}: {found}")

    def accepts(self) -> bool:
        """Return whether a process listens at its port, by the agent beside it if there is one: the
        network between here and there may be cut. The agent in a pod ends with the pod."""
        if self.agent is not None:
            try:
                return self.agent.ask("listener", port=self.port) is not None
            except InfraError:
                if self.pod is None:
                    raise
        return accepts(self.host, self.port)

    def answers(self) -> bool:
        if self._probe is not None:
            return self._probe()
        if self.pod is not None:
            # The pod that takes the place of another one has an address of its own.
            with suppress(ViewUnavailable, LookupError):
                self.at(*self._addresses()[self.id])
        return answers(self._connection, (self.host, self.port))

    @property
    def attached(self) -> bool:
        return self.agent is not None

    def found(self) -> FoundProcess:
        if self.agent is None:
            raise LookupError(f"no agent is beside {self.name}")
        if self._found is None or self._found.state() is ProcessState.EXITED:
            with suppress(NodeGone):
                now = self.agent.ask("find_server", port=self.port)
                if now is not None:
                    self._found = FoundProcess(self.name, self.agent, now["pid"], now["start"])
        if self._found is None:
            raise LookupError(f"no process of {self.name} was found")
        return self._found

    def log_lines(self, words: Sequence[str], within_s: float) -> Sequence[str] | None:
        return self.found().log_lines(words, within_s)

    def start(self) -> ExternalProcess:
        self.do(Action.START)
        self.process = ExternalProcess(self)
        return self.process

    def do(self, action: Action) -> None:
        """Do an action. Raises InfraError if it fails, or the description does not name it."""
        if self._handle is None:
            raise InfraError(f"{self.name} is not in the inventory and is not touched")
        if (back := _BACK.get(action)) is not None:
            self._journal().down(self.id, back)
        if self.agent is not None and action in by_agent(self._handle):
            self.agent.ask(_VERBS[action], port=self.port)
        else:
            carry_out(self._handle, action)
        if back is None:
            self._journal().up(self.id)


def _is_address_of(host: str, node: AgentNode) -> bool:
    try:
        return socket.gethostbyname(host) in node.addresses
    except OSError:
        return False


def _service_ports(settings: Mapping[str, str], port: int) -> Sequence[int]:
    """Return the ports of a broker's listeners, ``port`` first, without those of a controller."""
    controller = settings.get("controller.listener.names", "").split(",")
    listeners = (one.strip().partition("://") for one in settings.get("listeners", "").split(","))
    named = {
        int(at.rpartition(":")[2]) for name, _, at in listeners if at and name not in controller
    }
    return [port, *sorted(named - {port})]
