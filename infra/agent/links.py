"""The impairments in force between this node and others, and their application.

Loss, cuts and resets are rules where packets come in. Narrow and slow links are queues where
packets go out. Both are functions of the set of impairments in force. Several may be in force on
one link at once, and each begins and ends independently of the others.
"""

import ipaddress
import itertools
import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from ackproof.infra.agent import privilege, queues, rules
from ackproof.infra.agent.impairments import Active, Impairment
from ackproof.infra.agent.queues import Queues
from ackproof.infra.agent.rules import TABLE
from ackproof.infra.agent.wire import RefusedByNode

_QUEUED = ("narrow", "slow")
_ESTABLISHED = "01"
_lock = threading.Lock()
_Place = tuple[tuple[str, ...], Impairment]
_numbers = itertools.count()
_on: dict[_Place, Active] = {}
_last: dict[_Place, int] = {}
"""The number of the last beginning of each impairment; its counters stay when it ends."""
_queues = Queues()


def impair(
    addresses: Sequence[str], impairment: Mapping[str, Any], spared_port: int | None = None
) -> None:
    """Begin an impairment. Idempotent. Raises Refused, and nothing has changed then.

    Args:
        addresses: The peer's addresses.
        impairment: The fields of an :class:`Impairment`, as JSON has them.
        spared_port: A TCP port. Packets with it at either end pass under any impairment.
    """
    with _lock:
        place = _place(addresses, impairment)
        if place in _on:
            return
        opened = _connections(*place) if place[1].kind == "reset-open" else ()
        new = Active(*place, number=next(_numbers), connections=opened)
        try:
            _apply([*_on.values(), new], new, spared_port, _last.get(place))
        except RefusedByNode:
            _apply(_on.values(), new, spared_port)
            raise
        _on[place], _last[place] = new, new.number


def mend(
    addresses: Sequence[str], impairment: Mapping[str, Any], spared_port: int | None = None
) -> None:
    """Undo :func:`impair`. Idempotent. Raises Refused."""
    with _lock:
        place = _place(addresses, impairment)
        if place not in _on:
            return
        _apply([one for other, one in _on.items() if other != place], _on[place], spared_port)
        del _on[place]


def packets(addresses: Sequence[str], impairment: Mapping[str, Any]) -> dict[str, int]:
    """Return how many packets an impairment has ``seen`` and ``hit`` since it last began.

    The kernel counts them.
    """
    with _lock:
        place = _place(addresses, impairment)
        if place not in _last:
            return {"seen": 0, "hit": 0}
        asked = Active(*place, number=_last[place])
        listing = privilege.as_root(["nft", "-j", "list", "counters", "table", *TABLE.split()])
    entries = (entry["counter"] for entry in json.loads(listing)["nftables"] if "counter" in entry)
    counts = {entry["name"]: entry["packets"] for entry in entries}
    return {"seen": counts[asked.seen], "hit": counts[asked.hit]}


def obstacles() -> dict[str, str | None]:
    """Return why links cannot be impaired here, by capability (``infra.api.interface.Capability``).

    None stands for a capability that the node has. Each is tried without effect.
    """
    found = {
        name: _obstacle(partial(_nft, trial, "--check")) for name, trial in rules.trials().items()
    }
    narrow = found["narrow-links"] or _obstacle(queues.check)
    return {**found, "narrow-links": narrow, "slow-links": narrow}


def remove() -> None:
    """Remove all rules and queues, whichever process made them. Raises Refused.

    The rules go first, so that no packets are marked for a queue that is gone.
    """
    _nft(f"add table {TABLE}\ndelete table {TABLE}\n")
    queues.remove()


def _place(addresses: Sequence[str], impairment: Mapping[str, Any]) -> _Place:
    fields = {**impairment, "ports": tuple(sorted(impairment["ports"]))}
    return tuple(sorted(addresses)), Impairment(**fields)


def _apply(
    active: Iterable[Active],
    changed: Active,
    spared_port: int | None,
    forgotten: int | None = None,
) -> None:
    """Apply the impairments. A queue exists before packets are marked for it, is filled when they
    are, and ends after them."""
    on = list(active)
    asked = queues.asked(one for one in on if one.impairment.kind in _QUEUED)
    if changed.impairment.kind in _QUEUED and changed.addresses in asked:
        _queues.put(changed.addresses, asked[changed.addresses])
    elif changed.impairment.kind in _QUEUED:
        _queues.rest(changed.addresses)
    marks = {peer: mark for peer, mark in _queues.marks().items() if peer in asked}
    _nft(rules.script(on, marks, spared_port, forgotten))
    if changed.addresses not in asked:
        _queues.drop(changed.addresses)
    elif changed.impairment.kind in _QUEUED:
        _queues.fill(changed.addresses)


def _connections(peer: Sequence[str], impairment: Impairment) -> tuple[tuple[str, int, int], ...]:
    """Return the TCP connections that are open with ``peer`` now, as the kernel lists them."""
    ports = impairment.ports
    wanted = {ipaddress.ip_address(address) for address in peer}
    found = []
    for table in ("/proc/self/net/tcp", "/proc/self/net/tcp6"):
        try:
            with open(table, encoding="ascii") as file:
                lines = file.read().splitlines()[1:]
        except FileNotFoundError:  # a kernel without IPv6
            continue
        for ours, theirs, state in (line.split()[1:4] for line in lines):
            address, port = endpoint(theirs)
            own_port = endpoint(ours)[1]
            of_service = not ports or {port, own_port} & set(ports)
            if state == _ESTABLISHED and address in wanted and of_service:
                found.append((str(address), port, own_port))
    return tuple(sorted(found))


def endpoint(text: str) -> tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]:
    """Return the address and port of an endpoint in the kernel's notation.

    The kernel shows an address as 32-bit words of its own byte order. An address of IPv4 may be
    inside one of IPv6.
    """
    words, _, port = text.partition(":")
    content = b"".join(bytes.fromhex(words[n : n + 8])[::-1] for n in range(0, len(words), 8))
    address = ipaddress.ip_address(content)
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped or address, int(port, 16)


def _obstacle(check: Callable[[], None]) -> str | None:
    try:
        check()
    except RefusedByNode as refused:
        return str(refused)
    return None


def _nft(script: str, *options: str) -> None:
    privilege.as_root(["nft", *options, "-f", "-"], script)
