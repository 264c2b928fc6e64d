"""The rules of nftables for the impairments in force: a pure function.

All rules are in one table in the node's network namespace, and are replaced in one transaction. A
packet meets the old rules or the new ones, never a half of them. The hook is the first for packets
to this node, before connection tracking, so that open connections are affected too. Dropping at the
receiver is silent, while a blackhole route at the sender would show in the sending program.
"""

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ackproof.infra.agent.impairments import Active, Impairment

TABLE = "inet ackproof"
_INCOMING = f"{TABLE} incoming"
_OUTGOING = f"{TABLE} outgoing"
_RAW = -300
_FAMILIES = {4: "ip", 6: "ip6"}
_OTHERS = {"saddr": 'iifname != "lo"', "daddr": 'oifname != "lo"'}
"""The packets of all peers, by the end at which the peer's address is."""


def script(
    active: Iterable[Active],
    marks: Mapping[tuple[str, ...], str],
    spared_port: int | None,
    forgotten: int | None = None,
) -> str:
    """Return the script for ``nft -f`` that replaces all rules by those of the ``active``
    impairments.

    It makes the table if there is none. Counters stay.

    Args:
        marks: The queue (a class of ``tc``) of packets to these addresses.
        spared_port: A TCP port. Packets with it at either end pass.
        forgotten: The number of an impairment that has ended, whose counters are removed.
    """
    wanted = sorted(active)
    lines = [
        f"add table {TABLE}",
        *(f"add counter {TABLE} {name}" for one in wanted for name in (one.seen, one.hit)),
        f"add chain {_INCOMING} {{ type filter hook input priority {_RAW}; }}",
        f"add chain {_OUTGOING} {{ type filter hook output priority {_RAW}; }}",
        f"flush chain {_INCOMING}",
        f"flush chain {_OUTGOING}",
    ]
    if forgotten is not None:
        lines.extend(f"delete counter {TABLE} {name}_{forgotten}" for name in ("seen", "hit"))
    if spared_port is not None:
        lines.extend(
            f"add rule {chain} tcp {end} {spared_port:d} accept"
            for chain in (_INCOMING, _OUTGOING)
            for end in ("dport", "sport")
        )
    # Loss comes before resets: a link that is cut must send no answer.
    for one in sorted(wanted, key=lambda one: one.impairment.kind != "loss"):
        lines.extend(_RULES[one.impairment.kind](one))
    for addresses, mark in sorted(marks.items()):
        to_there = _peer("daddr", addresses)
        lines.extend(f"add rule {_OUTGOING} {peer} meta priority set {mark}" for peer in to_there)
    return "\n".join(lines) + "\n"


def trials() -> Mapping[str, str]:
    """Return a script for ``nft --check -f`` by capability (``infra.api.interface.Capability``)."""
    peer, open_one = ("192.0.2.1", "2001:db8::1"), (("192.0.2.1", 1, 2),)
    kinds = {
        "cut-links": [Active(peer, Impairment("loss", 100, (1,)), 0)],
        "lossy-links": [Active(peer, Impairment("loss", 50, (1,)), 0)],
        "reset-links": [
            Active(peer, Impairment("reset", 0, (1,)), 0),
            Active(peer, Impairment("reset-open"), 1, open_one),
        ],
        "narrow-links": [Active(peer, Impairment("narrow", 1), 0)],
    }
    return {name: script(active, {peer: "1:1"}, 1) for name, active in kinds.items()}


def _loss(one: Active) -> Iterator[str]:
    """Yield the rules of a loss. The kernel draws each of the ``amount`` per cent of packets."""
    amount = one.impairment.amount
    chance = "" if amount >= 100 else f"numgen random mod 100 < {amount:d} "
    outgoing = one.impairment.kind == "loss-out"
    chain, end = (_OUTGOING, "daddr") if outgoing else (_INCOMING, "saddr")
    for match in _matches(one, end):
        yield f"add rule {chain} {match} counter name {one.seen}"
        yield f"add rule {chain} {match} {chance}counter name {one.hit} drop"


def _reset(one: Active) -> Iterator[str]:
    """Yield the rules that reset everything, new connections too."""
    for match in _matches(one):
        yield f"add rule {_INCOMING} {match} {_rejected(one)}"


def _reset_open(one: Active) -> Iterator[str]:
    for version, family in _FAMILIES.items():
        tuples = ", ".join(
            f"{ipaddress.ip_address(address)} . {theirs:d} . {ours:d}"
            for address, theirs, ours in one.connections
            if ipaddress.ip_address(address).version == version
        )
        if tuples:
            match = f"{family} saddr . tcp sport . tcp dport {{ {tuples} }}"
            yield f"add rule {_INCOMING} {match} {_rejected(one)}"


def _rejected(one: Active) -> str:
    """Return the action of a reset. It passes resets: with both directions on, none would
    arrive."""
    return f"tcp flags & rst == 0 counter name {one.hit} reject with tcp reset"


def _queued(one: Active) -> Iterator[str]:
    for peer in _peer("daddr", one.addresses):
        yield f"add rule {_OUTGOING} {peer} counter name {one.hit}"


_RULES = {
    "loss": _loss,
    "loss-out": _loss,
    "reset": _reset,
    "reset-open": _reset_open,
    "narrow": _queued,
    "slow": _queued,
}


def _matches(one: Active, end: str = "saddr") -> Iterator[str]:
    """Yield the matches of the packets affected, with the peer at one ``end``.

    A service has its port at one end or the other.
    """
    for peer in _peer(end, one.addresses):
        if not one.impairment.ports:
            yield peer
            continue
        ports = ", ".join(f"{port:d}" for port in one.impairment.ports)
        yield f"{peer} tcp dport {{ {ports} }}"
        yield f"{peer} tcp dport != {{ {ports} }} tcp sport {{ {ports} }}"


def _peer(end: str, addresses: Sequence[str]) -> Iterator[str]:
    if not addresses:
        yield _OTHERS[end]
    parsed = sorted(map(ipaddress.ip_address, addresses), key=str)
    for version, family in _FAMILIES.items():
        if listed := ", ".join(str(address) for address in parsed if address.version == version):
            yield f"{family} {end} {{ {listed} }}"
