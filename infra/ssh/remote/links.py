"""One-way cuts: what certain addresses send is dropped where it comes in.

In a table of our own, which is removed as a whole. The hook is the first that packets for this
host meet, before connection tracking: open connections are cut too. Dropping at the receiver is
silent; a blackhole route at the sender would tell the sending program.

The harness's own SSH connection is let through in any case, even when it comes from a host that is
cut off (a jump host, or the harness running on a node).
"""

import ipaddress
import socket
from collections.abc import Sequence

from infra.ssh.remote import privilege
from infra.ssh.remote.facts import connection_ends

TABLE = "inet ackproof"
_RAW = -300
_FAMILIES = {4: ("ip", "ipv4_addr"), 6: ("ip6", "ipv6_addr")}


def obstacle() -> str | None:
    """None when links can be cut here, tried without effect; else why not."""
    try:
        _nft(_table(), "--check")
    except privilege.Refused as error:
        return str(error)
    return None


def cut(addresses: Sequence[str]) -> None:
    """Drop whatever comes from these addresses."""
    _nft(_table() + _elements("add", addresses))


def heal(addresses: Sequence[str]) -> None:
    """Undo :func:`cut`. An element that is not there cannot be deleted: it is added before."""
    _nft(_table() + _elements("add", addresses) + _elements("delete", addresses))


def remove() -> None:
    """Remove the table. Raises Refused."""
    _nft(f"add table {TABLE}\ndelete table {TABLE}\n")


def reaches(address: str, port: int, within: float) -> bool:
    """Whether a new TCP connection from here succeeds ``within`` seconds."""
    try:
        socket.create_connection((address, port), timeout=within).close()
    except OSError:
        return False
    return True


def _nft(script: str, *options: str) -> None:
    privilege.as_root(["nft", *options, "-f", "-"], script)


def _table() -> str:
    """Makes everything but the elements; changes nothing when it is there. The chain alone is made
    anew: our connection may come from elsewhere by now."""
    ends = connection_ends()
    family, _ = _FAMILIES[ipaddress.ip_address(ends["peer"]).version]
    chain = f"{TABLE} incoming"
    lines = [
        f"add table {TABLE}",
        *(f"add set {TABLE} cut{n} {{ type {kind}; }}" for n, (_, kind) in _FAMILIES.items()),
        f"add chain {chain} {{ type filter hook input priority {_RAW}; }}",
        f"flush chain {chain}",
        f"add rule {chain} {family} saddr {ends['peer']} tcp dport {ends['port']:d} accept",
        *(f"add rule {chain} {ip} saddr @cut{n} drop" for n, (ip, _) in _FAMILIES.items()),
    ]
    return "\n".join(lines) + "\n"


def _elements(verb: str, addresses: Sequence[str]) -> str:
    parsed = sorted(map(ipaddress.ip_address, addresses), key=str)
    return "".join(f"{verb} element {TABLE} cut{a.version} {{ {a} }}\n" for a in parsed)
