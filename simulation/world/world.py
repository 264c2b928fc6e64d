"""One world: built from a plan, run and judged. The same plan gives the same history, step for
step."""

import asyncio
import hashlib
import struct
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ackproof.broker.controller.context import Context
from ackproof.broker.server.app import App
from ackproof.broker.server.replication import partition as server
from ackproof.broker.server.zk import znodes
from ackproof.broker.types import TopicPartition
from simulation.clients.administration import Administrator
from simulation.clients.client import SimulatedClient
from simulation.clients.members import SimulatedCommitter, SimulatedMember
from simulation.clients.producers import SimulatedProducer
from simulation.loop import (
    NO_PROCESS,
    EndlessStep,
    OutOfSteps,
    SimulatedLoop,
    SimulatedProcess,
    step_watchdog,
    without_logs_and_warnings,
)
from simulation.machines.disk import SimulatedDisk
from simulation.machines.node import BrokerNode, SharedParts
from simulation.model.clients import AnswersModel
from simulation.model.history import ClientHistory
from simulation.model.observer import ClusterObserver
from simulation.model.probe import ProbeFactory
from simulation.model.replica import Lag
from simulation.model.zookeeper import LeaderCoordinatedTree, watch_commits
from simulation.network import SimulatedNetwork
from simulation.plans.actions import (
    ClientWork,
    CommitMany,
    Consume,
    DeleteTopicOrder,
    ElectPreferredOrder,
    Order,
    ProduceBatches,
)
from simulation.plans.coverage import ENDING, Coverage
from simulation.plans.plan import SimulationPlan, stream
from simulation.verdict import ClusterJudge, settle
from simulation.violation import Violation
from simulation.world.injection import FaultInjector
from simulation.zookeeper.client import ZkShell
from simulation.zookeeper.ensemble import HOST as ZOOKEEPER
from simulation.zookeeper.ensemble import SimulatedZooKeeper

STEPS_MAX: Final = 2_000_000  # ten times the number of steps of a long run
TICK_MS: Final = 500
ADMINISTRATOR: Final = "administrator"
JUDGE: Final = "judge"
PREFERRED_ELECTION_S: Final = 30.0
TAKEOVER_S: Final = 30.0
"""The time for a new member, which includes several sessions and rebalances of former members."""
QUIET_S: Final = 3.0
"""A time longer than any request can be under way once all links are up, in seconds."""
CLOCK_OFFSETS_MS: Final = (0, 0, -1_500, 1_500, None)
"""The clock offsets of producers. A later record may have an older timestamp or none, and lookups
by time must still be right."""
EXIT_CHECK_S: Final = 0.05
"""The interval at which the simulation checks whether a broker has ended by itself, in seconds."""


@dataclass(slots=True)
class RunOutcome:
    """The outcome of a plan."""

    plan: SimulationPlan
    steps: int
    virtual_s: float
    violation: Violation | None
    coverage: Coverage
    notes: list[tuple[float, str]] = field(default_factory=list)
    broke_at_ms: float = 0.0
    """The virtual time at which the invariant broke, after the beginning of the plan."""
    digest: str = ""
    """The digest of all steps, if requested."""


def run(plan: SimulationPlan, *, with_digest: bool = False) -> RunOutcome:
    """Run a plan to its end, or to the first violation."""
    with without_logs_and_warnings():
        return Simulation(plan, with_digest=with_digest).run()


class Simulation:
    """A world and its plan."""

    def __init__(self, plan: SimulationPlan, *, with_digest: bool = False) -> None:
        seed = plan.seed
        self.plan = plan
        self.loop = SimulatedLoop(stream(seed, "executor"), STEPS_MAX)  # type: ignore[abstract]
        self.network = SimulatedNetwork(self.loop, stream(seed, "network"))
        self.network.add_host(ZOOKEEPER)
        self.zookeeper = SimulatedZooKeeper(
            self.loop,
            self.network,
            stream(seed, "zookeeper"),
            tick_ms=TICK_MS,
            servers=plan.zookeeper_servers,
            lag_s=plan.zookeeper_lag_ms / 1000,
        )
        self.observer = ClusterObserver(
            self.loop.time, self.loop.fail, checks_data=plan.guarantees_records,
            unclean=not plan.guarantees_records,
            lag_max=Lag(plan.lag_max_ms, plan.lag_max_messages),
        )  # fmt: skip
        shared = SharedParts(
            self.loop, self.network, self.zookeeper, stream(seed, "machines"),
            probe=ProbeFactory(self.observer),
        )  # fmt: skip
        self.nodes = {broker: self._node(shared, broker) for broker in range(1, plan.brokers + 1)}
        self.history = ClientHistory()
        self._injector = FaultInjector(self)
        self._digest = hashlib.blake2b(digest_size=16) if with_digest else None
        self._processes: dict[str, SimulatedProcess] = {}
        self._working: list[asyncio.Task[Any]] = []
        self._members = 0
        self._answers = AnswersModel(self.observer, self.loop.fail)
        self._began_s = 0.0
        self._seen_exits = dict.fromkeys(self.nodes, 0)
        clocks = stream(seed, "clocks of producers")
        self._producers = [
            SimulatedProducer(
                f"producer-{number}", tuple(self.nodes), self.history, self._topic_id,
                idempotent=idempotent, answers=self._answers,
                clock_offset_ms=clocks.choice(CLOCK_OFFSETS_MS),
            )
            for number, idempotent in enumerate(plan.producers)
        ]  # fmt: skip
        self.shell = ZkShell(self.zookeeper, ADMINISTRATOR, self.loop)
        led = (
            LeaderCoordinatedTree(self.observer, self._incarnation_of)
            if plan.led_by_leaders
            else None
        )
        watch_commits(self.zookeeper, self.observer, led)

    def _node(self, shared: SharedParts, broker: int) -> BrokerNode:
        kept, short = (stream(self.plan.seed, f"{of} of {broker}") for of in ("disk", "writes"))
        return BrokerNode(
            shared, broker, SimulatedDisk(kept, short), self.plan.properties_of(broker)
        )

    # --- running ------------------------------------------------------------------------------

    def run(self) -> RunOutcome:
        """Run the plan. It can be run only once."""
        violation: Violation | None = None
        with step_watchdog(self.loop):
            if self._digest is not None:
                self.loop.observer = self._add_to_digest
            try:
                self._phases()
            except Violation as found:
                violation = found
            except (OutOfSteps, EndlessStep) as endless:
                violation = Violation("Broker/endless-step", str(endless))
            except Exception as error:  # noqa: BLE001  an error must not end the search
                violation = Violation("Broker/unhandled-error", _located(error))
            finally:
                self.loop.observer = None
                at = self.loop.time()
                self.loop.close()
        coverage = self.observer.coverage + self.history.coverage
        coverage[ENDING, "violation" if violation else "clean"] += 1
        return RunOutcome(
            plan=self.plan,
            steps=self.loop.steps,
            virtual_s=at,
            violation=violation,
            coverage=coverage,
            notes=self.observer.notes,
            broke_at_ms=(at - self._began_s) * 1000,
            digest=self._digest.hexdigest() if self._digest else "",
        )

    def _phases(self) -> None:
        for node in self.nodes.values():
            node.start()
        self._check_exits()
        self._run_client(ADMINISTRATOR, self._begin())
        self.observer.note("the cluster is whole; the plan begins")
        self._began_s = self.loop.time()
        for timed in self.plan.actions:
            at = self._began_s + timed.at_ms / 1000
            self.loop.call_at(at, self._injector.inject, timed.action, context=NO_PROCESS)
        self.loop.run_for(self.plan.run_ms / 1000)
        self._injector.heal()
        self._run_client(JUDGE, self._end())
        self._check_unhandled_errors()

    async def _begin(self) -> None:
        administrator = self._administrator()
        for topic in self.plan.topics:
            if not await administrator.carry_out(topic, patience_s=60):
                raise Violation(
                    "Cluster/does-not-serve", f"topic {topic.topic} cannot be created at the start"
                )
        await settle(self)

    async def _end(self) -> None:
        await self._clients_stop()
        if self.plan.led_by_leaders:
            await self._finish_deletions()
        await settle(self)
        judge = ClusterJudge(
            JUDGE, tuple(self.nodes), self.history, self._topic_id,
            idempotent=False, answers=self._answers,
        )  # fmt: skip
        await judge.judge(self)
        await self._administrator().carry_out(
            ElectPreferredOrder(), patience_s=PREFERRED_ELECTION_S
        )
        await settle(self)
        await self._check_groups()

    async def _check_groups(self) -> None:
        """Check that a new member of each group gets all partitions, since all other members are
        gone."""
        work = [t.action for t in self.plan.actions if isinstance(t.action, Consume)]
        for group, topic in sorted({(each.group, each.topic) for each in work}):
            if self._topic_id(topic) is None:
                continue
            new_member = self._member(Consume(group=group, topic=topic, for_ms=0, leaves=True))
            membership = await new_member.get_all_partitions(self.loop.time() + TAKEOVER_S)
            if membership is None:
                what = f"a new member of group {group} has not got all of {topic}"
                raise Violation("Groups/no-progress", f"{what} in {TAKEOVER_S:.0f} s")
            await new_member.leave()
            await new_member.close()

    async def _finish_deletions(self) -> None:
        """Request unfinished deletions again.

        The broker that carried one out may have been killed meanwhile. Without a controller, no
        broker continues the deletion until it is requested again (docs/coordination.md).
        """
        administrator = self._administrator()
        unfinished = [
            name for name, topic in self.observer.topics.items() if topic.is_being_deleted
        ]
        for name in unfinished:
            await administrator.carry_out(DeleteTopicOrder(topic=name), patience_s=60)

    async def _clients_stop(self) -> None:
        """Stop the clients, and wait until nothing that they sent can still arrive."""
        for task in self._working:
            task.cancel()
        await asyncio.sleep(QUIET_S)

    def _run_client(self, host: str, work: Any) -> None:
        """Let a client do some work, and wait until it is done."""
        task = self.loop.create_task(work, context=self._process(host).context.copy())
        self.loop.run_until_complete(task)

    def _check_unhandled_errors(self) -> None:
        for error in self.loop.unhandled_errors:
            raise Violation("Broker/unhandled-error", f"at {error.at:.3f} s: {error}")

    def _add_to_digest(self, process: SimulatedProcess | None) -> None:
        assert self._digest is not None
        self._digest.update(struct.pack(">d", self.loop.time()))
        if process is not None:
            self._digest.update(process.host.encode())

    def _check_exits(self) -> None:
        for broker, node in self.nodes.items():
            while len(node.exits) > self._seen_exits[broker]:
                process_exit = node.exits[self._seen_exits[broker]]
                self._seen_exits[broker] += 1
                why = self._injector.handle_exit(node, process_exit)
                if why is not None:
                    self.loop.fail(Violation("Broker/halted", why))
        self.loop.call_later(EXIT_CHECK_S, self._check_exits, context=NO_PROCESS)

    def _incarnation_of(self, broker: int) -> int:
        process = self.nodes[broker].process
        return 0 if process is None else process.incarnation

    # --- access for the judge -----------------------------------------------------------------

    @property
    def has_controllers(self) -> bool:
        """Return whether brokers compete for the office of controller."""
        return not self.plan.led_by_leaders

    def controller_context(self) -> Context | None:
        """Return the state of the controller, or None if brokers know of no controller."""
        broker = self.observer.controller
        app = self.nodes[broker].app if broker is not None else None
        return None if app is None or app.coordinator is None else app.coordinator.context

    def hosted(self, broker: int, tp: TopicPartition) -> server.Partition | None:
        """Return the replica on a broker that is alive."""
        node = self.nodes[broker]
        if not node.is_alive or node.app is None or node.app.replicas is None:
            return None
        found = node.app.replicas.hosted(tp)
        return found if isinstance(found, server.Partition) else None

    def app(self, broker: int) -> App | None:
        """Return the application that a broker runs or ran."""
        return self.nodes[broker].app

    def clients(self) -> tuple[str, ...]:
        """Return the hosts of the clients that exist now."""
        return tuple(self._processes)

    def _topic_id(self, topic: str) -> object:
        known = self.observer.topics.get(topic)
        return None if known is None or known.is_being_deleted else known.topic_id

    def _partitions(self, topic: str) -> int:
        known = self.observer.topics.get(topic)
        return len(known.partitions) if known is not None else 0

    # --- clients ------------------------------------------------------------------------------

    def _process(self, host: str) -> SimulatedProcess:
        process = self._processes.get(host)
        if process is None:
            self.network.add_host(host)
            process = self._processes[host] = SimulatedProcess(host)
        return process

    def _administrator(self) -> Administrator:
        brokers = tuple(self.nodes)
        return Administrator(ADMINISTRATOR, brokers, self.history).bind(self._partitions)

    def _spawn(self, host: str, work: Any) -> None:
        context = self._process(host).context.copy()
        self._working.append(self.loop.create_task(work, context=context))

    def work(self, work: ClientWork) -> None:
        """Give a client some work."""
        match work:
            case ProduceBatches():
                producer = self._producers[work.producer]
                self._spawn(producer.name, producer.produce(work))
            case CommitMany():
                committer = SimulatedCommitter(
                    "committer", tuple(self.nodes), self.history, self._topic_id
                )
                self._spawn(committer.name, _and_close(committer, committer.commit(work)))
            case Consume():
                member = self._member(work)
                self._spawn(member.name, _and_close(member, member.consume()))

    def _member(self, work: Consume) -> SimulatedMember:
        self._members += 1
        return SimulatedMember(
            f"member-{self._members}", tuple(self.nodes), self.history, work,
            partitions=self._partitions, topic_ids=self._topic_id,
            answers=self._answers,
        )  # fmt: skip

    def order(self, order: Order) -> None:
        """Let an administrator request the order."""
        administrator = self._administrator()
        self._spawn(ADMINISTRATOR, _and_close(administrator, administrator.carry_out(order)))

    def depose_controller(self) -> None:
        """Delete ``/controller`` with a ZooKeeper client of its own, as ``zkCli.sh`` is."""
        self._spawn(ADMINISTRATOR, self.shell.delete(znodes.CONTROLLER))


async def _and_close(client: SimulatedClient, work: Any) -> None:
    try:
        await work
    finally:
        await client.close()


def _located(error: Exception) -> str:
    """Return an unexpected error of a client or the judge, and its place in the code."""
    *_, last = traceback.extract_tb(error.__traceback__)
    return f"{error!r} in {last.name}, line {last.lineno} of {Path(last.filename).name}"
