"""The network of the local backend: namespaces without a name, and the router between them."""

import ctypes
import ipaddress
import itertools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from errno import EEXIST, ENODEV
from pathlib import Path
from socket import AF_INET
from typing import Any, TypeVar

from pyroute2 import IPRoute, NetlinkError, netns

from ackproof.infra.api.interface import InfraError

T = TypeVar("T")

_CLONE_NEWNET = 0x40000000


class NetworkNamespace:
    """A network namespace, held by a descriptor that this object owns."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def create(cls) -> "NetworkNamespace":
        """Return a fresh namespace. Raises InfraError if the kernel refuses."""
        return cls(_in_a_thread(_fresh))

    @property
    def path(self) -> str:
        """Return the path for a child that inherits the descriptor (``pass_fds``)."""
        return f"/proc/self/fd/{self.descriptor}"

    def call(self, function: Callable[[], T]) -> T:
        """Return the result of ``function()`` inside the namespace, or raise its error.

        Sockets that it opens and processes that it starts belong there.
        """

        def inside() -> T:
            netns.setns(self.descriptor, fork=False)
            return function()

        return _in_a_thread(inside)

    def close(self) -> None:
        """Close the descriptor. The kernel removes the namespace with its last process."""
        os.close(self.descriptor)

    def __enter__(self) -> "NetworkNamespace":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _fresh() -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise InfraError(f"cannot make a network namespace: {reason}")
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _in_a_thread(function: Callable[[], T]) -> T:
    """Call ``function()`` in a thread of its own: a thread that has entered a namespace stays in
    it."""
    results: list[T] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(function())
        except BaseException as error:  # noqa: BLE001 - carried over to the caller
            failures.append(error)

    thread = threading.Thread(target=run, name="network-namespace")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return results[0]


# --- network ----------------------------------------------------------------------------------


_POOL = ipaddress.IPv4Network("10.64.0.0/10")
_PREFIX_LENGTH = 24
_ROUTER = 1
_HOST = 2
_FIRST_NODE = 11
_NODES = 254 - _FIRST_NODE + 1
_NO_IPV6 = {"ipv6/conf/all/disable_ipv6": "1", "ipv6/conf/default/disable_ipv6": "1"}
_ROUTES = {
    "ipv4/ip_forward": "1",
    "ipv4/conf/all/rp_filter": "0",
    "ipv4/conf/default/rp_filter": "0",
}


def free_subnet(taken: Iterable[ipaddress.IPv4Network]) -> ipaddress.IPv4Network:
    """Return the first /24 of 10.64.0.0/10 that overlaps none of ``taken``. Raises InfraError."""
    taken = list(taken)
    for subnet in _POOL.subnets(new_prefix=_PREFIX_LENGTH):
        if not any(subnet.overlaps(other) for other in taken):
            return subnet
    raise InfraError(f"every /{_PREFIX_LENGTH} of {_POOL} is already routed on this machine")


def routed_networks() -> list[ipaddress.IPv4Network]:
    """Return the destinations of the calling thread's namespace, without default routes."""
    with IPRoute() as netlink:
        destinations = [
            (route.get_attr("RTA_DST"), route["dst_len"])
            for route in netlink.get_routes(family=AF_INET)
        ]
    return [ipaddress.IPv4Network(f"{address}/{n}") for address, n in destinations if address]


class Router:
    """The calling process's network namespace as the router of ``subnet``."""

    def __init__(self, subnet: ipaddress.IPv4Network) -> None:
        self.subnet = subnet
        self.address = str(subnet[_ROUTER])
        self._lock = threading.Lock()
        self._links = itertools.count(1)
        self._free = deque(str(self.subnet[n]) for n in range(_FIRST_NODE, _FIRST_NODE + _NODES))
        _set(_NO_IPV6 | _ROUTES)
        with IPRoute() as netlink:
            _up(netlink, "lo")

    def attach(self, namespace: NetworkNamespace) -> str:
        """Link a node's namespace to the router, and return its address. Raises InfraError when
        full."""
        with self._lock:
            if not self._free:
                raise InfraError(f"{self.subnet} has room for at most {_NODES} nodes")
            address = self._free.popleft()
            self._link(f"node{next(self._links)}", namespace, "eth0", address)
            namespace.call(lambda: _configure_node(address, self.address))
        return address

    def detach(self, address: str) -> None:
        """Give back the address of a node whose namespace is gone.

        It becomes the last free one. A process that still uses it must find no other node there.
        """
        with self._lock:
            self._free.append(address)

    def reaches(self, address: str) -> bool:
        """Return whether there is a link to the node of that address.

        The link goes a moment after its namespace.
        """
        with self._lock, IPRoute() as netlink:
            routes = list(netlink.get_routes(family=AF_INET))
            return any(route.get_attr("RTA_DST") == address for route in routes)

    def expose(self, host: NetworkNamespace) -> bool:
        """Link the host's namespace too, so that it and the nodes reach each other.

        The link goes with the router's namespace. Return False, with nothing done, if another run
        has linked this subnet. Raises InfraError if another program on the host routes it.
        """
        # The name is unique on the host, since no two runs there have the same subnet.
        name = f"ackproof{int(self.subnet.network_address) >> 8 & 0xFFFF:04x}"
        address = str(self.subnet[_HOST])
        with self._lock:
            try:
                self._link("host", host, name, address)
            except NetlinkError as error:
                if error.code == EEXIST:
                    return False
                raise
            try:
                host.call(lambda: _configure_end(name, address, self.address, str(self.subnet)))
            except NetlinkError as error:
                raise InfraError(
                    f"this machine cannot be given a route to {self.subnet}: {error}"
                ) from error
        return True

    def close(self) -> None:
        """Remove every link; the namespace may serve another run."""
        with self._lock, IPRoute() as netlink:
            for link in list(netlink.get_links(kind="veth")):
                try:
                    netlink.link("del", index=link["index"])
                except NetlinkError as error:
                    # When a node has ended, the kernel removes its namespace and this link, some
                    # time after the last process is gone.
                    if error.code != ENODEV:
                        raise

    def _link(self, name: str, namespace: NetworkNamespace, peer: str, address: str) -> None:
        with IPRoute() as netlink:
            netlink.link(
                "add",
                ifname=name,
                kind="veth",
                peer={"ifname": peer, "net_ns_fd": namespace.descriptor},
            )
            index = _up(netlink, name)
            netlink.addr("add", index=index, address=self.address, prefixlen=32)
            netlink.route("add", dst=f"{address}/32", oif=index)


def exposed_router(host: NetworkNamespace) -> Router:
    """Return a router of a subnet that the host routes nowhere else, linked to it
    (``Router.expose``).

    Two runs may read the host's routes before either of them has added its own. Both want the same
    subnet. One gets it, and the other takes the next. Raises InfraError if none is left.
    """
    taken = host.call(routed_networks)
    while True:
        router = Router(free_subnet(taken))
        if router.expose(host):
            return router
        taken.append(router.subnet)


def _up(netlink: IPRoute, name: str) -> int:
    """Bring a link up, and return its index."""
    index: int = netlink.link_lookup(ifname=name)[0]
    netlink.link("set", index=index, state="up")
    return index


def _set(switches: Mapping[str, str]) -> None:
    for switch, value in switches.items():
        path = Path("/proc/sys/net") / switch
        if path.exists():  # a kernel without IPv6 has none to switch off
            path.write_text(value)


def _configure_node(address: str, router: str) -> None:
    """Configure a node's end of a link. Call it inside the node's namespace."""
    _set(_NO_IPV6)
    _configure_end("eth0", address, router, "default")


def _configure_end(name: str, address: str, router: str, reachable: str) -> None:
    """Configure the far end of a link: its address, and the route to ``reachable`` by the router.

    Call it inside the namespace of that end.
    """
    with IPRoute() as netlink:
        _up(netlink, "lo")
        index = _up(netlink, name)
        netlink.addr("add", index=index, address=address, prefixlen=32)
        netlink.route(
            "add", dst=reachable, gateway=router, oif=index, prefsrc=address, flags=["onlink"]
        )
