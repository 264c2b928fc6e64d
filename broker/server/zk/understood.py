"""What cannot be understood in ZooKeeper is taken for absent, and logged: whoever wrote it, it must
not stop brokers."""

import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from ackproof.broker.server.zk import znodes

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


def understood(decode: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
    """What ``decode`` makes of a node; None, and a line in the log, when it is malformed."""
    try:
        return decode(*args, **kwargs)
    except znodes.MalformedNode as error:
        logger.error("%s; taken for absent", error)
        return None
