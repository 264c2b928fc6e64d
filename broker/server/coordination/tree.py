"""Whose tree it is: a cluster keeps to the kind of coordination that it was started with."""

from functools import partial
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError

from ackproof.broker.config import BrokerConfig
from ackproof.broker.server.coordination import nodes
from ackproof.broker.server.zk import znodes
from ackproof.broker.server.zk.session import ZkError, ZkSession

COORDINATION = "ackproof.coordination"
VARIANT = "ackproof.coordination.variant"


class ForeignTree(ZkError):
    """What is in ZooKeeper was made by brokers that coordinate in another way."""


async def claim(config: BrokerConfig, session: ZkSession) -> None:
    """Makes sure that the tree is of this broker's kind, before anything in it is changed.

    A controller's has ``/controller_epoch`` for ever, one without a controller ``/brokers/state``,
    which holds the variant. The first broker without a controller makes sure in one transaction
    that there is none.

    One variant, since a fence holds if everybody keeps to it: a printed leader overwrites the ISR
    by which a fenced one was elected, or deletes what it has acknowledged.

    Raises:
        ForeignTree: it is of another kind.
        SessionExpired: unknown whether it is claimed.
    """
    if not config.led_by_leaders:
        if await session.get(nodes.STATE) is not None:
            raise _foreign(config, nodes.STATE, COORDINATION, "leader", "controller")
        return
    ours = config.ackproof_coordination_variant
    await session.ensure("/brokers")
    while (found := await session.get(nodes.STATE)) is None:
        if await session.get(znodes.CONTROLLER_EPOCH) is not None:
            raise _is_a_controllers(config)
        results = await session.request(partial(_found, ours), session.number)
        if isinstance(results[0], NodeExistsError):
            raise _is_a_controllers(config)
    try:
        theirs = nodes.decode_variant(nodes.STATE, found[0])
    except znodes.MalformedNode as error:
        raise ForeignTree(f"nobody knows whose it is: {error}") from error
    if theirs != ours:
        raise _foreign(config, nodes.STATE, VARIANT, theirs, ours)


def _found(variant: str, client: KazooClient) -> Any:
    """That a node is not there cannot be checked, but it can be created and deleted."""
    transaction = client.transaction()
    transaction.create(znodes.CONTROLLER_EPOCH, b"0")
    transaction.delete(znodes.CONTROLLER_EPOCH)
    transaction.create(nodes.STATE, nodes.encode_variant(variant))
    transaction.create(nodes.REASSIGNED, b"")
    return transaction.commit_async()


def _is_a_controllers(config: BrokerConfig) -> ForeignTree:
    where = znodes.CONTROLLER_EPOCH
    return _foreign(config, where, COORDINATION, "controller", "leader")


def _foreign(config: BrokerConfig, where: str, name: str, theirs: str, ours: str) -> ForeignTree:
    return ForeignTree(
        f"zookeeper.connect={config.zookeeper_connect} is a cluster's of {name}={theirs} "
        f"(by {where}), and this broker is told {name}={ours}; give it the cluster's, or another "
        "chroot"
    )
