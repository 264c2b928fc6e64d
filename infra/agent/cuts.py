"""One-way cuts: what certain addresses send is dropped where it comes in, by nftables.

In a table of our own in the node's network namespace, which is removed as a whole. The hook is the
first that packets for this node meet, before connection tracking: open connections are cut too.
Dropping at the receiver is silent; a blackhole route at the sender would tell the sending program.
"""

import ipaddress
from collections.abc import Sequence

from infra.agent import privilege
from infra.agent.wire import Refused

TABLE = "inet ackproof"
_RAW = -300
_FAMILIES = {4: ("ip", "ipv4_addr"), 6: ("ip6", "ipv6_addr")}


def obstacle() -> str | None:
    """None when links can be cut here, tried without effect; else why not."""
    try:
        _nft(_table(None), "--check")
    except Refused as refused:
        return str(refused)
    return None


def cut(addresses: Sequence[str], spared_port: int | None = None) -> None:
    """Drop whatever comes from these addresses, but for what comes to the TCP port
    ``spared_port``. Raises Refused, and has done nothing then: nft does all or nothing."""
    _nft(_table(spared_port) + _elements("add", addresses))


def heal(addresses: Sequence[str], spared_port: int | None = None) -> None:
    """Undo :func:`cut`. An element that is not there cannot be deleted: it is added before."""
    elements = _elements("add", addresses) + _elements("delete", addresses)
    _nft(_table(spared_port) + elements)


def remove() -> None:
    """Remove the table. Raises Refused."""
    _nft(f"add table {TABLE}\ndelete table {TABLE}\n")


def _nft(script: str, *options: str) -> None:
    privilege.as_root(["nft", *options, "-f", "-"], script)


def _table(spared_port: int | None) -> str:
    """Makes everything but the elements; changes nothing when it is there."""
    chain = f"{TABLE} incoming"
    spared = () if spared_port is None else (f"add rule {chain} tcp dport {spared_port:d} accept",)
    lines = [
        f"add table {TABLE}",
        *(f"add set {TABLE} cut{n} {{ type {kind}; }}" for n, (_, kind) in _FAMILIES.items()),
        f"add chain {chain} {{ type filter hook input priority {_RAW}; }}",
        f"flush chain {chain}",
        *spared,
        *(f"add rule {chain} {ip} saddr @cut{n} drop" for n, (ip, _) in _FAMILIES.items()),
    ]
    return "\n".join(lines) + "\n"


def _elements(verb: str, addresses: Sequence[str]) -> str:
    parsed = sorted(map(ipaddress.ip_address, addresses), key=str)
    return "".join(f"{verb} element {TABLE} cut{a.version} {{ {a} }}\n" for a in parsed)
