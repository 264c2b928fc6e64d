"""The state that the steps of a run share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient

from ackproof.harness.campaign.model.campaign import Campaign
from ackproof.harness.campaign.plan.faults import ScheduledFault
from ackproof.harness.running import clients
from ackproof.harness.running.clients import ClientProcess
from ackproof.harness.running.deadline import TimeSource
from ackproof.harness.running.log_starts import LogStarts
from ackproof.harness.running.pod_restarts import PodRestarts
from ackproof.harness.running.processes import ProcessWatch
from ackproof.harness.running.progress import RunProgress
from ackproof.harness.running.recorder import RunRecorder
from ackproof.history.cell import Cell
from ackproof.history.manifest import PlannedFailover
from ackproof.infra.api.interface import Backend, Node, System, ViewUnavailable
from ackproof.infra.api.metadata import Observer
from ackproof.infra.machine.own_commands import OwnCommands
from ackproof.infra.machine.secrets import Handed
from ackproof.nemesis.execution import Executor, Ledger
from ackproof.nemesis.interface import OWN_TOPICS, Cluster, ServerObservers, WorkloadClient
from ackproof.nemesis.targets.resolution import UNLIMITED, Count
from ackproof.workloads.configuration import connected
from ackproof.workloads.interface import ClientNode, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run: its parts, and the values that its steps pass on to each other.

    Attributes:
        number: A number from 1.
        directory: ``runs/<number>`` of the results.
        started: The clients of the workload, filled by the step ``workload``.
        running: The started clients that are not known to have ended; emptied by ``flush``.
        watches: The watches over servers and clients, by name, from the steps that start them:
            those of clients until ``flush``, those of servers until ``collect``.
        client_nodes: The nodes of clients. The final read runs on the first one.
        failovers: The measurements after the final read.
        room: The number of servers that may be affected at once.
        seed: The seed of the clients' random choices.
        connection: librdkafka's properties for the connection, as clients receive them. Some are
            secrets: they go into the environment of clients, and into nothing that is kept.
        kept: Further properties of the cells' topics.
        racks: The rack of each broker that is in one.
        consumer_racks: The racks of consumers; see :class:`workloads.interface.Load`.
        log_starts: Observes the starts of the logs of topics that set a retention.
        pod_restarts: Observes the pods of brokers, and records the restarts that no fault ordered.
        executor: Injects and heals faults. Faults are counted nowhere else.
        attendants: Receive the brokers that a fault adds or removes.
        commands: Runs the commands of the user's own, and journals the commands that undo them.
        leaving: The names of the brokers that a fault had added and is removing. Their end is no
            failure.
        sessions_ended: The number of sessions of each client that a fatal error has ended, as
            recorded.
        findings: Facts that a reader of the results must know, one sentence each.
        unhealed: The numbers of the faults whose healing was attempted and is not proven.
        unsettled: The conditions that were missing when a fault no longer waited for the cluster to
            settle, by the fault's number, as in the history.
        ended_by_themselves: The names of the servers that ended by themselves under the watch.
        ended_well: Whether each step that was tried ended well, by its name: completely, and
            without a finding.
    """

    campaign: Campaign
    number: int
    directory: Path
    backend: Backend
    system: System
    observer: Observer
    workload: Workload
    client_nodes: Sequence[Node]
    cells: Sequence[Cell]
    plan: Sequence[ScheduledFault]
    recorder: RunRecorder
    progress: RunProgress
    clock: TimeSource
    ledger: Ledger
    failovers: Sequence[PlannedFailover] = ()
    room: Count = UNLIMITED
    seed: int = 0
    connection: Mapping[str, Handed] = field(default_factory=dict, repr=False)
    kept: Mapping[str, str] = field(default_factory=dict)
    racks: Mapping[str, str] = field(default_factory=dict)
    consumer_racks: Sequence[str] = ()
    started: list[ClientProcess] = field(default_factory=list)
    running: list[ClientProcess] = field(default_factory=list)
    watches: dict[str, ProcessWatch] = field(default_factory=dict)
    leaving: set[str] = field(default_factory=set)
    sessions_ended: dict[str, int] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)
    unhealed: set[int] = field(default_factory=set)
    unsettled: dict[int, Mapping[str, str]] = field(default_factory=dict)
    ended_by_themselves: list[str] = field(default_factory=list)
    ended_well: dict[str, bool] = field(default_factory=dict)
    attendants: ServerObservers = field(default_factory=ServerObservers)
    commands: OwnCommands = field(default_factory=OwnCommands)
    executor: Executor = field(init=False)
    log_starts: LogStarts = field(init=False)
    pod_restarts: PodRestarts = field(init=False)

    def __post_init__(self) -> None:
        starts = LogStarts(self.cells, self._admin_client, self.recorder.log_start)
        object.__setattr__(self, "log_starts", starts)
        object.__setattr__(self, "executor", Executor(self.cluster, self.ledger))
        numbers = [fault.fault_id for fault in self.plan]
        restarts = PodRestarts(lambda: self.cluster, self.ledger, self.recorder, numbers, self.tell)
        object.__setattr__(self, "pod_restarts", restarts)

    @property
    def history(self) -> Path:
        """Return the directory of all tables of the run, those of the clients and of the
        harness."""
        return self.directory / "history"

    @property
    def progress_files(self) -> Path:
        """Return the directory in which clients report their progress."""
        return self.directory / "progress"

    def place(self, node: Node) -> ClientNode:
        """Return the directories in which clients on ``node`` write."""
        shared = node.share(self.directory)
        return ClientNode(
            node=node.name, history=str(shared / "history"), progress=str(shared / "progress")
        )

    def client_node(self, name: str) -> Node:
        """Return the client node of that name."""
        return next(node for node in self.client_nodes if node.name == name)

    @property
    def cluster(self) -> Cluster:
        """Return the parts of the run that faults may affect."""
        return Cluster(
            backend=self.backend,
            system=self.system,
            clients=self.client_nodes,
            workload=self._workload,
            bring_back=self._bring_back,
            attendant=self.attendants,
            prefix=self.campaign.cells.prefix or OWN_TOPICS,
            racks=self.racks,
            commands=self.commands,
        )

    def _admin_client(self) -> AdminClient:
        quiet = {"log_level": 0, "bootstrap.servers": self.system.bootstrap_servers}
        return AdminClient({**connected(self.connection), **quiet})

    def _bring_back(self, name: str) -> None:
        gone = next((one.client for one in self.started if one.client.name == name), None)
        if gone is None or gone.successor is None:
            raise LookupError(f"no replacement was planned for {name}")
        if any(one.client is gone.successor for one in self.started):
            return
        node = self.client_node(gone.node)
        started = clients.start(gone.successor, node, self.progress_files, self.connection)
        self.started.append(started)
        self.running.append(started)

    def _workload(self) -> Sequence[WorkloadClient]:
        instead_of = {
            one.client.successor.name: one.client.name
            for one in self.started
            if one.client.successor is not None
        }
        return [
            WorkloadClient(
                name=one.client.name,
                node=one.client.node,
                process=one.process,
                role=one.client.role,
                runs=one in self.running,
                instead_of=(before := instead_of.get(one.client.name)),
                begun=before is None or bool(one.counts()),
            )
            for one in self.started
        ]

    def finding(self, phase: str, text: str) -> None:
        """Record and show a fact that a reader of the results must know. The step has then not
        ended well."""
        self.ended_well[phase] = False
        self.recorder.phase(phase, "failed", text)
        self.tell(f"{phase}: {text}")

    def tell(self, text: str) -> None:
        """Show a fact that another table records."""
        self.findings.append(f"run {self.number}, {text}")
        self.progress.note(text)


# --- counters of ZooKeeper ------------------------------------------------------------------------


def record_zookeeper_counters(run: Run, moment: str, partitions: int | None = None) -> None:
    """Record the counters of ZooKeeper at a moment of :data:`history.schema.ZOOKEEPER`. A ZooKeeper
    that does not answer leaves no rows. Missing counters are unknown, and no verdict depends on
    them."""
    try:
        now = run.system.zookeeper_counters()
    except ViewUnavailable as silence:
        run.progress.note(f"ZooKeeper's counters ({moment}) are unknown: {silence}")
        return
    run.recorder.zookeeper(moment, partitions, now, run.observer.watches)
