"""How an observer gets to see what ZooKeeper commits, as its leader applies it."""

from typing import Any

from broker.server.zk.znodes import CONTROLLER, broker_id, decode_controller
from simulation.observer.led_tree import LedTree
from simulation.observer.moments import compared, electing
from simulation.observer.observer import Observer
from simulation.zookeeper.ensemble import ZooKeeper
from simulation.zookeeper.znodes import Tree


def watch_commits(zookeeper: ZooKeeper, observer: Observer, led: LedTree | None) -> None:
    """``led``: who makes states of partitions of the nodes that there are without a controller."""
    tree = zookeeper.leader.tree
    write, end_session = tree.write, tree.end_session
    observer.peek = tree.peek

    def tell(changes: list[tuple[int, str]], zxid: int) -> None:
        seen = [(path, *tree.peek(path)) for _, path in changes]
        observer.controller_session = tree.owner(CONTROLLER)
        with observer.failing():
            _took_office(tree, seen)
            for path, data, _ in seen:
                observer.producer_ids.written(path, data)
                observer.settings.written(path, data)
                observer.cluster.written(path, data)
        if led is not None:
            led.changed(seen, zxid)
            return
        for path, data, version in seen:
            observer.znode_changed(path, data, version, zxid)

    def observed_write(request: Any, txn: Any) -> Any:
        with observer.failing():
            compared.check(request)
        answer, changes = write(request, txn)
        tell(changes, txn.zxid)
        return answer, changes

    def observed_end(txn: Any) -> Any:
        changes = end_session(txn)
        tell(changes, txn.zxid)
        return changes

    setattr(tree, "write", observed_write)  # noqa: B010  mypy would not have it assigned
    setattr(tree, "end_session", observed_end)  # noqa: B010


def _took_office(tree: Tree, seen: list[tuple[str, bytes | None, int]]) -> None:
    for path, data, _ in seen:
        session = tree.owner(path)
        if path == CONTROLLER and data is not None and session:  # else a person's
            broker = decode_controller(data)
            electing.took_office(broker, session, tree.owner(broker_id(broker)))
