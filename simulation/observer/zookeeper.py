"""How an observer gets to see what ZooKeeper commits, as its leader applies it."""

from typing import Any

from ackproof.broker.server.zk.znodes import BROKER_IDS, CONTROLLER
from simulation.observer.led_tree import LedTree
from simulation.observer.observer import Observer
from simulation.observer.writing import announced, compared
from simulation.zookeeper.ensemble import ZooKeeper


def watch_commits(zookeeper: ZooKeeper, observer: Observer, led: LedTree | None) -> None:
    """``led``: who makes states of partitions of the nodes that there are without a controller."""
    tree = zookeeper.leader.tree
    write, end_session = tree.write, tree.end_session
    observer.peek = tree.peek

    def tell(changes: list[tuple[int, str]], zxid: int) -> None:
        seen = [(path, *tree.peek(path)) for _, path in changes]
        observer.controller_session = tree.owner(CONTROLLER)
        sessions = (tree.owner(path) for path, _, _ in seen if path.startswith(f"{BROKER_IDS}/"))
        observer.registered_in.update(filter(None, sessions))
        with observer.failing():
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
            announced.check(request, tree.peek)
        answer, changes = write(request, txn)
        tell(changes, txn.zxid)
        return answer, changes

    def observed_end(txn: Any) -> Any:
        changes = end_session(txn)
        tell(changes, txn.zxid)
        return changes

    setattr(tree, "write", observed_write)  # noqa: B010  mypy would not have it assigned
    setattr(tree, "end_session", observed_end)  # noqa: B010
