"""Injection of a plan's faults and orders into a world, and the recovery from faults."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from kazoo.protocol.serialization import CheckVersion

from simulation.loop import NO_PROCESS, SimulatedLoop
from simulation.machines.disk import UNLIMITED_BYTES
from simulation.machines.node import BrokerNode, ProcessExit
from simulation.model.observer import ClusterObserver
from simulation.network import BASE_S, JITTER_S, SimulatedNetwork
from simulation.plans import actions as act
from simulation.plans.actions import LoseAnswer, LosePowerAfter
from simulation.plans.coverage import FAULT, ORDER
from simulation.verdict import JudgedCluster
from simulation.zookeeper.ensemble import HOST as ZOOKEEPER
from simulation.zookeeper.ensemble import SimulatedZooKeeper
from simulation.zookeeper.server import ZkSession
from simulation.zookeeper.znodes import Change, Txn

# --- links ----------------------------------------------------------------------------------------
#
# The links that a plan has cut or slowed down, and their recovery.

Direction = tuple[str, str]
"""A link, from the first host to the second."""

CUT_WORDS: Final = {
    "out": "no longer reaches",
    "in": "is no longer reached by",
    "both": "is cut from",
}
"""The words of a note about a host, by the direction of a cut."""


def links_between(host: str, others: Iterable[str], direction: str) -> list[Direction]:
    """Return the links that a cut of ``host`` from the others affects."""
    out = [(host, other) for other in others if other != host]
    into = [(other, host) for host, other in out]
    return {"out": out, "in": into, "both": out + into}[direction]


def both_directions(one: str, other: str) -> list[Direction]:
    """Return the links of both directions between two hosts."""
    return [(one, other), (other, one)]


class LinkFaults:
    """The faulty links of one world.

    A link is healed when the last of its cuts is over. Its delay is the one that was set last.
    """

    def __init__(
        self, loop: SimulatedLoop, network: SimulatedNetwork, observer: ClusterObserver
    ) -> None:
        self._loop = loop
        self._network = network
        self._observer = observer
        self._cut: dict[Direction, float] = {}
        """The times at which the cuts end. The attribute below has the ends of delays."""
        self._slow: dict[Direction, float] = {}

    def cut(self, links: Iterable[Direction], for_ms: float) -> None:
        """Cut links for a while."""
        links = tuple(links)
        until = self._loop.time() + for_ms / 1000
        for link in links:
            self._cut[link] = max(until, self._cut.get(link, until))
            self._network.cut(*link)
        self._loop.call_later(for_ms / 1000, self._heal_cuts, links, until, context=NO_PROCESS)

    def _heal_cuts(self, links: tuple[Direction, ...], until: float) -> None:
        for source, target in links:
            if self._cut.get((source, target)) == until:
                del self._cut[source, target]
                self._observer.note(f"{source} reaches {target} again")
                self._network.heal(source, target)

    def slow(self, links: Iterable[Direction], delay_ms: float, for_ms: float) -> None:
        """Delay everything that is sent in the next ``for_ms`` by ``delay_ms``."""
        links = tuple(links)
        until = self._loop.time() + for_ms / 1000
        for link in links:
            self._slow[link] = until
            self._network.set_latency(*link, delay_ms / 1000, JITTER_S)
        self._loop.call_later(for_ms / 1000, self._end_delays, links, until, context=NO_PROCESS)

    def _end_delays(self, links: tuple[Direction, ...], until: float) -> None:
        for link in links:
            if self._slow.get(link) == until:
                del self._slow[link]
                self._network.set_latency(*link, BASE_S, JITTER_S)

    def heal(self) -> None:
        """Heal all links at once."""
        self._cut.clear()
        self._network.heal_all()
        for link in self._slow:
            self._network.set_latency(*link, BASE_S, JITTER_S)
        self._slow.clear()


# --- sessions -------------------------------------------------------------------------------------
#
# Faults of brokers' sessions with ZooKeeper: they expire, or answers are lost.
#
# An answer is lost on purpose directly after the write that it would report. In virtual time, a
# connection that breaks at some time hardly ever does so within the two milliseconds of one write.
# The broker's handling of its own first attempt would then never be tested. Alternatively the
# connection breaks when the write has arrived, and the write is not carried out. The client cannot
# distinguish the two cases.


class SessionFaults:
    """The session faults of one world's brokers."""

    def __init__(
        self, loop: SimulatedLoop, zookeeper: SimulatedZooKeeper, observer: ClusterObserver
    ) -> None:
        self._loop = loop
        self._zookeeper = zookeeper
        self._observer = observer
        self._armed: dict[str, LoseAnswer] = {}
        """The pending fault by host."""
        self._left: dict[str, int] = {}
        """The number of writes until the fault, by host."""
        self._watch()

    def expire(self, node: BrokerNode) -> None:
        """Expire all sessions of a host."""
        for session in self._zookeeper.sessions_of(node.host):
            self._note(session, "loses its ZooKeeper session")
            self._zookeeper.expire(session)

    def drop_connection(self, node: BrokerNode) -> None:
        """Drop the connections of a host. Its sessions stay."""
        for session in self._zookeeper.sessions_of(node.host):
            self._note(session, "loses its connection to ZooKeeper")
            self._zookeeper.drop_connection(session)

    def arm(self, node: BrokerNode, action: LoseAnswer) -> None:
        """Lose an answer in the next ``for_ms``. This replaces the pending fault of the host."""
        self._armed[node.host], self._left[node.host] = action, action.nth
        self._loop.call_later(
            action.for_ms / 1000, self._is_over, node.host, action, context=NO_PROCESS
        )

    def heal(self) -> None:
        """Cancel all pending faults."""
        self._armed.clear()

    def _is_over(self, host: str, action: LoseAnswer) -> None:
        if self._armed.get(host) is action:
            del self._armed[host]

    def _note(self, session: ZkSession, what: str) -> None:
        self._observer.note(f"{session.host.replace('-', ' ')} {what}")

    def _watch(self) -> None:
        """Observe the writes that the leader is about to carry out and has carried out, before any
        client learns of them."""

        def written(changes: list[Change], txn: Txn) -> None:
            session = self._zookeeper.sessions.get(txn.session)
            if session is not None:
                self._written(session, [path for _, path in changes], carried_out=True)

        self._zookeeper.leader.after_write.append(written)
        self._zookeeper.before_write = lambda session, request: self._written(
            session, [*_paths(request)], carried_out=False
        )

    def _written(self, session: ZkSession, paths: Sequence[str], *, carried_out: bool) -> None:
        """Drop the connection if this is the write that the fault waits for."""
        action = self._armed.get(session.host)
        if action is None or action.carried_out is not carried_out:
            return
        if any(path.startswith(action.path) for path in paths):
            self._left[session.host] -= 1
            if not self._left[session.host]:
                self._lose(session, action, paths[0])

    def _lose(self, session: ZkSession, action: LoseAnswer, path: str) -> None:
        """Drop the connection. If the session must expire, it does so a moment later, after the
        write is carried out."""
        del self._armed[session.host]
        what = "is written" if action.carried_out else "is not written"
        self._note(session, f"gets no answer that {path} {what}")
        self._zookeeper.drop_connection(session)
        if action.expires:
            self._loop.call_soon(self._zookeeper.expire, session, context=NO_PROCESS)


def _paths(request: Any) -> Iterator[str]:
    """Yield the paths that a request writes, which is one operation or a transaction of several."""
    for operation in getattr(request, "operations", (request,)):
        if type(operation) is not CheckVersion:
            yield operation.path


# --- slow disks -----------------------------------------------------------------------------------
#
# Disks that are slow for a while: the delays of their brokers' executors.


class SlowDisks:
    """The slow disks of one world, by host."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self._until: dict[str, float] = {}

    def slow(self, host: str, delay_ms: int, for_ms: int) -> None:
        """Delay new operations by up to ``delay_ms``. Operations under way keep their delay."""
        self._loop.executor_s[host] = delay_ms / 1000
        end = self._loop.time() + for_ms / 1000
        self._until[host] = max(end, self._until.get(host, 0.0))
        self._loop.call_later(for_ms / 1000, self._is_over, host, context=NO_PROCESS)

    def heal(self) -> None:
        """Make all disks fast again."""
        self._until.clear()
        self._loop.executor_s.clear()

    def _is_over(self, host: str) -> None:
        """End the delay, unless a later one of the same disk lasts."""
        if self._loop.time() >= self._until.get(host, 0.0) - 1e-9:
            self._loop.executor_s.pop(host, None)


# --- power failures in the middle of a step -------------------------------------------------------
#
# Power failures in the middle of a step, directly after an operation on the disk.
#
# Microseconds pass between a rename and the sync of its directory. In virtual time that is nothing,
# so a power failure at a given time never occurs there. The rest of the step has no effect: the
# process is dead, and each of its operations raises Killed
# (:func:`simulation.machines.node.process_files`).

OPERATIONS: Final = {
    "write": ("open", "write"),
    "cut": ("truncate",),
    "names": ("rename", "remove", "remove_tree", "make_directory"),
    "sync": ("sync", "sync_directory"),
}
"""Kinds of operations, with their names in :class:`~broker.log.disk.FileSystem`."""


class PowerFailures:
    """The power failures of one world that wait for their operation."""

    def __init__(
        self, loop: SimulatedLoop, lose_power: Callable[[BrokerNode, float], None]
    ) -> None:
        """Create an injector without pending failures.

        Args:
            lose_power: A function that switches a machine off for some milliseconds.
        """
        self._loop = loop
        self._lose_power = lose_power

    def arm(self, node: BrokerNode, action: LosePowerAfter) -> None:
        """Fail after an operation in the next ``for_ms``. This replaces the pending failure of the
        machine."""
        left = action.nth

        def after(operation: str) -> None:
            nonlocal left
            left -= operation in OPERATIONS[action.operation]
            if not left:
                node.after_operation = None
                self._lose_power(node, action.down_ms)

        def is_over() -> None:
            if node.after_operation is after:
                node.after_operation = None

        node.after_operation = after
        self._loop.call_later(action.for_ms / 1000, is_over, context=NO_PROCESS)

    def heal(self, nodes: Iterable[BrokerNode]) -> None:
        """Cancel all pending power failures."""
        for node in nodes:
            node.after_operation = None


RESTART_S: Final = 0.5
"""The time after which a broker that ended is started again, as by a supervisor, in seconds."""
DISK_KINDS: Final = {
    "read": ("read",),
    "write": ("write", "truncate"),
    "fsync": ("sync", "sync_directory"),
    "garble": (),
}


class InjectionTarget(JudgedCluster, Protocol):
    """The parts of a world that fault injection needs."""

    loop: SimulatedLoop
    network: SimulatedNetwork
    zookeeper: SimulatedZooKeeper
    nodes: dict[int, BrokerNode]

    def clients(self) -> tuple[str, ...]:
        """Return the hosts of the clients that exist now."""

    def work(self, work: act.ClientWork) -> None:
        """Give a client some work."""

    def order(self, order: act.Order) -> None:
        """Let an administrator request the order."""

    def depose_controller(self) -> None:
        """Delete ``/controller``."""


class FaultInjector:
    """The injector of faults. It knows which faults are active and how to recover from them."""

    def __init__(self, cluster: InjectionTarget) -> None:
        self._cluster = cluster
        self._observer = cluster.observer
        self._loop = cluster.loop
        self._nodes = cluster.nodes
        self._links = LinkFaults(cluster.loop, cluster.network, cluster.observer)
        self._slow_disks = SlowDisks(cluster.loop)
        self._power_failures = PowerFailures(cluster.loop, self._lose_power)
        self._sessions = SessionFaults(cluster.loop, cluster.zookeeper, cluster.observer)
        self._pauses: Counter[int] = Counter()
        self._faulty_disks: dict[int, str] = {}
        self._faulty_until: dict[int, float] = {}
        self._slowest_ms: dict[int, int] = {}
        """The longest delay that each broker's disk ever had."""
        self._down_until: dict[int, float] = {}
        self._healed = False
        self._effects: Mapping[type[act.Fault], Callable[[BrokerNode, Any], None]] = {
            act.KillBroker: lambda node, action: self._kill(node, action.down_ms),
            act.LoseBrokerPower: lambda node, action: self._lose_power(node, action.down_ms),
            act.LosePowerAfter: self._power_failures.arm,
            act.LoseDisk: lambda node, action: self._lose_disk(node, action.down_ms),
            act.StopBroker: lambda node, action: self._stop(node, action.down_ms),
            act.PauseBroker: lambda node, action: self._pause(node, action.for_ms),
            act.Isolate: self._isolate,
            act.CutFromClients: self._cut_from_clients,
            act.IsolateFromZooKeeper: self._isolate_from_zookeeper,
            act.SlowZooKeeper: self._slow_down,
            act.SlowLink: self._slow_link,
            act.ExpireSession: lambda node, _: self._sessions.expire(node),
            act.DropZooKeeperConnection: lambda node, _: self._sessions.drop_connection(node),
            act.LoseAnswer: self._sessions.arm,
            act.FillDisk: self._fill_disk,
            act.BreakDisk: self._break_disk,
            act.SlowDisk: self._slow_disk,
        }

    # --- injection ----------------------------------------------------------------------------

    def inject(self, action: act.Action) -> None:
        """Inject the action now."""
        room = FAULT if isinstance(action, act.Fault) else ORDER
        if isinstance(action, act.ClientWork):
            self._cluster.work(action)
            return
        done = self._fault(action) if isinstance(action, act.Fault) else self._order(action)
        if done:
            self._observer.coverage[room, type(action).__name__] += 1

    def _order(self, order: act.Order) -> bool:
        self._observer.note(f"an administrator orders: {order}")
        self._cluster.order(order)
        return True

    def _fault(self, action: act.Fault) -> bool:
        """Inject a fault now, and return whether there was a target."""
        if isinstance(action, act.Blackout):
            self._blackout(action.down_ms)
        elif isinstance(action, act.DeposeController):
            self._observer.note("an administrator deletes /controller")
            self._cluster.depose_controller()
        else:
            node = self.resolve(action.target)
            if node is None:
                return False
            self._effects[type(action)](node, action)
        return True

    def resolve(self, target: act.Target) -> BrokerNode | None:
        """Return the node that a target means now, or None if there is none."""
        broker: int | None
        match target.role:
            case "broker":
                broker = target.broker
            case "controller":
                broker = self._observer.controller
            case _:
                broker = self._replica(target)
        return None if broker is None else self._nodes.get(broker)

    def _replica(self, target: act.Target) -> int | None:
        topic = self._observer.topics.get(target.topic)
        partition = topic.partitions.get(target.partition) if topic is not None else None
        state = partition.state if partition is not None else None
        if state is None:
            return None
        if target.role == "leader":
            return state.leader
        others = [broker for broker in state.isr if broker != state.leader]
        if not others:
            return None
        return others[0] if target.role == "follower" else others[-1]

    def _later(self, after_ms: float, what: Callable[..., None], *args: Any) -> None:
        self._loop.call_later(after_ms / 1000, what, *args, context=NO_PROCESS)

    def _note(self, node: BrokerNode, what: str) -> None:
        self._observer.note(f"broker {node.id} {what}")

    # --- processes and machines ---------------------------------------------------------------

    def _kill(self, node: BrokerNode, down_ms: float) -> None:
        if node.is_alive:
            self._note(node, "is killed")
            self._forget_damaged_pages(node)
            self._observer.ended_abruptly(node.id)
            node.kill()
        self._keep_down(node, down_ms)

    def _lose_power(self, node: BrokerNode, down_ms: float) -> None:
        self._note(node, "loses power")
        self._observer.ended_abruptly(node.id)
        self._observer.lost_power(node.id)
        node.lose_power()
        self._keep_down(node, down_ms)

    def _lose_disk(self, node: BrokerNode, down_ms: int) -> None:
        self._note(node, "loses its disk")
        self._observer.ended_abruptly(node.id)
        self._observer.lost_power(node.id, disk_too=True)
        node.lose_power()
        node.disk.wipe()  # type: ignore[attr-defined]
        self._keep_down(node, down_ms)

    def _blackout(self, down_ms: int) -> None:
        self._observer.note("the power fails everywhere")
        for node in self._nodes.values():
            self._lose_power(node, down_ms)

    def _stop(self, node: BrokerNode, down_ms: int) -> None:
        if node.is_alive:
            self._note(node, "is asked to stop")
            node.stop()
            self._keep_down(node, down_ms)

    def _keep_down(self, node: BrokerNode, down_ms: float) -> None:
        """Keep the node down for at least ``down_ms``, even if other faults end earlier."""
        until = self._loop.time() + down_ms / 1000
        self._down_until[node.id] = max(until, self._down_until.get(node.id, 0.0))
        self._later(down_ms, self._restart, node)

    def _restart(self, node: BrokerNode) -> None:
        if node.is_alive or self._loop.time() < self._down_until.get(node.id, 0.0) - 1e-9:
            return
        self._note(node, "is started")
        node.start()

    def _pause(self, node: BrokerNode, for_ms: int) -> None:
        if node.is_alive:
            self._note(node, "is paused")
            self._pauses[node.id] += 1
            node.pause()
            self._later(for_ms, self._resume, node)

    def _resume(self, node: BrokerNode) -> None:
        self._pauses[node.id] = max(0, self._pauses[node.id] - 1)
        if not self._pauses[node.id] and node.is_alive:
            self._note(node, "is resumed")
            node.resume()

    def handle_exit(self, node: BrokerNode, process_exit: ProcessExit) -> str | None:
        """Handle a broker that ended by itself, and return the reason why this is an error, or
        None."""
        self._forget_damaged_pages(node)
        self._note(
            node, f"has ended{'' if process_exit.error is None else f': {process_exit.error!r}'}"
        )
        if not self._healed:
            self._keep_down(node, RESTART_S * 1000)
        else:
            self._later(RESTART_S * 1000, self._restart, node)
        if process_exit.was_requested and process_exit.error is None:
            self._observer.ended_in_order(node.id)
        else:
            self._observer.ended_abruptly(node.id)
        if process_exit.was_requested or node.id in self._faulty_disks:
            return None
        if any(type(error).__name__ == "ZkConnectionTimeout" for error in process_exit.errors):
            return None  # the broker was started while it could not reach ZooKeeper
        return f"broker {node.id} ended by itself: {process_exit.error!r}"

    # --- links --------------------------------------------------------------------------------

    def _isolate(self, node: BrokerNode, action: act.Isolate) -> None:
        peer = None if action.peer is None else self.resolve(action.peer)
        if peer is node or (action.peer is not None and peer is None):
            return
        hosts = [n.host for n in self._nodes.values()] if peer is None else [peer.host]
        hosts += self._cluster.clients() if action.clients else ()
        hosts += [ZOOKEEPER] if action.zookeeper else ()
        named = "all brokers" if peer is None else f"broker {peer.id}"
        named += ", the clients" if action.clients else ""
        named += " and ZooKeeper" if action.zookeeper else ""
        self._note(node, f"{CUT_WORDS[action.direction]} {named}")
        self._links.cut(links_between(node.host, hosts, action.direction), action.for_ms)

    def _cut_from_clients(self, node: BrokerNode, action: act.CutFromClients) -> None:
        self._note(node, f"{CUT_WORDS[action.direction]} the clients")
        links = links_between(node.host, self._cluster.clients(), action.direction)
        self._links.cut(links, action.for_ms)

    def _isolate_from_zookeeper(self, node: BrokerNode, action: act.IsolateFromZooKeeper) -> None:
        self._note(node, "is cut from ZooKeeper")
        self._links.cut(both_directions(node.host, ZOOKEEPER), action.for_ms)

    def _slow_down(self, node: BrokerNode, action: act.SlowZooKeeper) -> None:
        self._note(node, f"is {action.delay_ms} ms away from ZooKeeper")
        self._links.slow(both_directions(node.host, ZOOKEEPER), action.delay_ms, action.for_ms)

    def _slow_link(self, node: BrokerNode, action: act.SlowLink) -> None:
        peer = self.resolve(action.peer)
        if peer is None or peer is node:
            return
        self._note(node, f"needs {action.delay_ms} ms to reach broker {peer.id}")
        self._links.slow([(node.host, peer.host)], action.delay_ms, action.for_ms)

    # --- disks --------------------------------------------------------------------------------

    def _fill_disk(self, node: BrokerNode, action: act.FillDisk) -> None:
        disk: Any = node.disk
        self._note(node, "has no space left on its disk")
        disk.capacity -= disk.free
        self._faulty_disks[node.id] = "full"
        self._start_disk_fault(node, action.for_ms)

    def _break_disk(self, node: BrokerNode, action: act.BreakDisk) -> None:
        disk: Any = node.disk
        self._note(node, f"has a broken disk ({action.operation})")
        disk.fail(DISK_KINDS[action.operation])
        name = action.directory
        disk.corrupt_reads(() if name is None else [each / name for each in node.config.log_dirs])
        self._faulty_disks[node.id] = action.operation
        self._start_disk_fault(node, action.for_ms)

    def _slow_disk(self, node: BrokerNode, action: act.SlowDisk) -> None:
        self._note(node, f"has a disk that takes up to {action.delay_ms} ms")
        self._slowest_ms[node.id] = max(action.delay_ms, self._slowest_ms.get(node.id, 0))
        self._slow_disks.slow(node.host, action.delay_ms, action.for_ms)

    def _start_disk_fault(self, node: BrokerNode, for_ms: int) -> None:
        until = self._loop.time() + for_ms / 1000
        self._faulty_until[node.id] = max(until, self._faulty_until.get(node.id, 0.0))
        self._later(for_ms, self._heal_disk, node)

    def _heal_disk(self, node: BrokerNode) -> None:
        if not self._healed and self._loop.time() < self._faulty_until.get(node.id, 0.0) - 1e-9:
            return  # another fault of the disk lasts
        disk: Any = node.disk
        # otherwise a live leader that has not synced meanwhile would count as damaged
        if disk.has_dropped_data:
            self._forget_damaged_pages(node)
        disk.fail(())
        disk.corrupt_reads(())
        disk.capacity = UNLIMITED_BYTES
        # A sync that a slow disk began before this moment may fail after it.
        under_way_ms = self._slowest_ms.get(node.id, 0)
        self._later(RESTART_S * 1000 + under_way_ms, self._end_disk_fault, node)

    def _end_disk_fault(self, node: BrokerNode) -> None:
        """Treat every later error as the broker's own, not as the disk's."""
        if self._healed or self._loop.time() >= self._faulty_until.get(node.id, 0.0):
            self._faulty_disks.pop(node.id, None)

    def _forget_damaged_pages(self, node: BrokerNode) -> None:
        """Count the pages as lost if syncs have failed.

        A failed sync may have dropped its data. The effect is that of a power failure, except that
        a surviving process still sees the data.
        """
        if self._faulty_disks.get(node.id) == "fsync":
            self._observer.lost_power(node.id)

    # --- the end ------------------------------------------------------------------------------

    def heal(self) -> None:
        """Heal every fault, and start every broker."""
        self._observer.note("everything is healed")
        self._healed = True
        self._links.heal()
        self._slow_disks.heal()
        self._power_failures.heal(self._nodes.values())
        self._sessions.heal()
        self._down_until.clear()
        for node in self._nodes.values():
            self._heal_disk(node)
            self._pauses[node.id] = 0
            if node.is_alive:
                node.resume()
            else:
                self._restart(node)
