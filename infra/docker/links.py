"""Cutting the link from one container to another, in that direction alone.

All containers of a run are on one bridge: what A sends to B goes to B's hardware address. A cut
gives A a permanent neighbour entry that says B's address is one that nobody has, so that all that
A sends to B is lost on the bridge, silently and for open connections too. B's entry for A is its
own and stays right; ARP goes on (B's questions are answered to the asker's own address, and a
permanent entry does not learn). Nothing is needed of the image or of the kernel but netlink.
"""

import errno
from socket import AF_INET

from pyroute2 import IPRoute, NetlinkError

from infra.local.namespace import NetworkNamespace

_INTERFACE = "eth0"
_NOBODY = "02:00:00:00:00:00"
"""Locally administered; Docker's addresses begin with 02:42, or are drawn from 2^46."""


def cut(source: NetworkNamespace, target: str) -> None:
    """Lose what is sent from ``source`` to the address ``target``. Idempotent."""
    source.call(lambda: _neighbour("replace", target, lladdr=_NOBODY, state="permanent"))


def heal(source: NetworkNamespace, target: str) -> None:
    """Undo :func:`cut`. Idempotent."""
    try:
        source.call(lambda: _neighbour("del", target))
    except NetlinkError as error:
        if error.code != errno.ENOENT:
            raise


def _neighbour(command: str, address: str, **entry: str) -> None:
    with IPRoute() as netlink:
        index = netlink.link_lookup(ifname=_INTERFACE)[0]
        netlink.neigh(command, family=AF_INET, dst=address, ifindex=index, **entry)
