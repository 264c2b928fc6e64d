"""Whose tree it is: a cluster keeps to the kind of coordination that it was started with."""

from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError

from broker.config import BrokerConfig
from broker.server import zk_nodes
from broker.server.coordination import nodes
from broker.server.zk_session import ZkError, ZkSession


class ForeignTree(ZkError):
    """What is in ZooKeeper was made by brokers that coordinate in the other way."""


async def claim(config: BrokerConfig, session: ZkSession) -> None:
    """Makes sure that the tree is of this broker's kind, before anything in it is changed.

    A controller's has ``/controller_epoch`` for ever, one without a controller
    ``/brokers/state``. The first broker without a controller makes sure in one transaction that
    there is none.

    Raises:
        ForeignTree: it is of the other kind.
        SessionExpired: unknown whether it is claimed.
    """
    if not config.led_by_leaders:
        if await _exists(session, nodes.STATE):
            raise _foreign(config, nodes.STATE, "leader")
        return
    await session.ensure("/brokers")
    while not await _exists(session, nodes.STATE):
        if await _exists(session, zk_nodes.CONTROLLER_EPOCH):
            raise _foreign(config, zk_nodes.CONTROLLER_EPOCH, "controller")
        results = await session.request(_found, session.number)
        if isinstance(results[0], NodeExistsError):
            raise _foreign(config, zk_nodes.CONTROLLER_EPOCH, "controller")


def _found(client: KazooClient) -> Any:
    """That a node is not there cannot be checked, but it can be created and deleted."""
    transaction = client.transaction()
    transaction.create(zk_nodes.CONTROLLER_EPOCH, b"0")
    transaction.delete(zk_nodes.CONTROLLER_EPOCH)
    transaction.create(nodes.STATE, b"")
    transaction.create(nodes.REASSIGNED, b"")
    return transaction.commit_async()


async def _exists(session: ZkSession, path: str) -> bool:
    return await session.request(lambda client: client.exists_async(path)) is not None


def _foreign(config: BrokerConfig, path: str, theirs: str) -> ForeignTree:
    ours = config.ackproof_coordination
    return ForeignTree(
        f"zookeeper.connect={config.zookeeper_connect} is a cluster's of "
        f"ackproof.coordination={theirs} (there is {path}), and this broker is told "
        f"ackproof.coordination={ours}; give it the cluster's, or another chroot"
    )
