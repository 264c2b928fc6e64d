"""How an observer gets to see what all brokers of a process do: their steps are wrapped."""

import contextlib
from collections.abc import Iterator, Mapping
from weakref import WeakKeyDictionary

from ackproof.broker.controller.controller import Controller
from ackproof.broker.coordination.coordinator import Coordinator
from ackproof.broker.groups.groups import Groups
from simulation.machines.node import Node
from simulation.observer.coverage import (
    CONTROLLER_EFFECT,
    CONTROLLER_EVENT,
    COORDINATION_EFFECT,
    COORDINATION_EVENT,
    GROUP_EFFECT,
    GROUP_EVENT,
)
from simulation.observer.observer import Observer
from simulation.observer.watched import (
    deciding,
    fetching,
    groups,
    logs,
    obeying,
    replicas,
    serving,
    telling,
    wrapping,
)


@contextlib.contextmanager
def watching(observer: Observer, nodes: Mapping[int, Node]) -> Iterator[None]:
    """``nodes``: by the id of the broker there."""
    brokers = {node.host: broker for broker, node in nodes.items()}
    hosts = {node.host: node for node in nodes.values()}
    opened_by: logs.Opened = WeakKeyDictionary()
    with contextlib.ExitStack() as undo:
        replicas.partitions(undo, observer, brokers)
        replicas.leaderships(undo, observer)
        replicas.fetches(undo, observer)
        replicas.sessions(undo, observer)
        replicas.deletions(undo, observer)
        serving.lives(undo, observer)
        serving.connections(undo, observer)
        serving.doors_open(undo, observer, hosts)
        fetching.sessions(undo, observer)
        fetching.leaders(undo, observer)
        fetching.readings(undo, observer)
        coverage = observer.coverage
        wrapping.count(undo, Controller, coverage, CONTROLLER_EVENT, CONTROLLER_EFFECT)
        deciding.controllers(undo, observer)
        deciding.offices(undo, observer)
        deciding.stopping(undo, observer)
        obeying.fences(undo, observer)
        obeying.isr_writes(undo, observer)
        logs.checkpoints(undo, observer, hosts, opened_by)
        logs.snapshots(undo, observer, hosts, opened_by)
        logs.epochs_written(undo, observer, hosts)
        logs.beginnings(undo, observer, hosts)
        logs.flushes(undo, observer)
        logs.reopenings(undo, observer, hosts, opened_by)
        logs.openings(undo, observer, hosts, opened_by)
        wrapping.count(undo, Coordinator, coverage, COORDINATION_EVENT, COORDINATION_EFFECT)
        deciding.coordinators(undo, observer)
        deciding.queues(undo, observer)
        deciding.administrators(undo, observer)
        wrapping.count(undo, Groups, coverage, GROUP_EVENT, GROUP_EFFECT)
        groups.groups(undo, observer, brokers)
        groups.coordinating(undo, observer)
        telling.responses(undo, observer)
        telling.coordinators(undo, observer)
        telling.views(undo, observer)
        telling.updates(undo, observer)
        groups.descriptions(undo, observer)
        telling.producer_ids(undo, observer)
        yield
