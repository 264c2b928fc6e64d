"""Active link faults as nftables rules and tc queues: pure functions without a network."""

import ipaddress
import random

import pytest

from ackproof.infra.agent.impairments import Active, Impairment, Kind
from ackproof.infra.agent.links import endpoint
from ackproof.infra.agent.queues import PeerQueue, asked, queueing_rate
from ackproof.infra.agent.rules import script, trials
from ackproof.infra.api.interface import Capability

PEER = ("10.64.0.11",)


def active(kind: Kind, amount: int = 0, ports: tuple[int, ...] = (), number: int = 7) -> Active:
    return Active(PEER, Impairment(kind, amount, ports), number)


def rules(*on: Active, spared_port: int | None = None) -> list[str]:
    lines = script(on, {}, spared_port).splitlines()
    return [line.removeprefix("add rule inet ackproof ") for line in lines if "add rule" in line]


def test_nothing_on_is_no_rule_at_all() -> None:
    assert rules() == []
    lines = script([], {}, None).splitlines()
    assert "flush chain inet ackproof incoming" in lines
    assert "flush chain inet ackproof outgoing" in lines


def test_rules_do_not_depend_on_the_order_of_impairments() -> None:
    on = [active("loss", amount, number=amount) for amount in range(1, 100, 7)]
    mixed = random.Random(1).sample(on, len(on))
    assert script(on, {}, None) == script(mixed, {}, None)


def test_a_cut_draws_nothing() -> None:
    assert (
        rules(active("loss", 100))[-1] == "incoming ip saddr { 10.64.0.11 } counter name hit_7 drop"
    )
    assert "numgen random mod 100 < 30" in rules(active("loss", 30))[-1]
    assert (
        rules(active("loss-out", 100))[-1]
        == "outgoing ip daddr { 10.64.0.11 } counter name hit_7 drop"
    )


def test_loss_without_addresses_is_that_of_all_peers_but_the_node_itself() -> None:
    """A process of the node may still connect to its own server."""
    both = [Active((), Impairment(kind, 100), 7) for kind in ("loss", "loss-out")]
    assert [rule for rule in rules(*both) if rule.endswith("drop")] == [
        'incoming iifname != "lo" counter name hit_7 drop',
        'outgoing oifname != "lo" counter name hit_7 drop',
    ]


def test_dropped_packets_are_not_reset() -> None:
    """Test that a dropped packet is not reset, whichever fault began first."""
    both = rules(active("reset", number=1), active("loss", 100, number=2))
    drop, reset = (
        next(i for i, rule in enumerate(both) if word in rule) for word in (" drop", "reset")
    )
    assert drop < reset


def test_a_reset_is_not_reset() -> None:
    assert "tcp flags & rst == 0" in rules(active("reset"))[0]


def test_of_one_port_each_packet_is_drawn_for_once() -> None:
    first, second = (rule for rule in rules(active("loss", 30, (9092,))) if "numgen" in rule)
    assert "tcp dport { 9092 } numgen" in first
    assert "tcp dport != { 9092 } tcp sport { 9092 } numgen" in second


def test_the_spared_port_comes_first() -> None:
    told = rules(active("loss", 100), spared_port=22)
    assert sorted(told[:4]) == [
        "incoming tcp dport 22 accept",
        "incoming tcp sport 22 accept",
        "outgoing tcp dport 22 accept",
        "outgoing tcp sport 22 accept",
    ]


def test_only_open_connections_are_reset() -> None:
    one = active("reset-open")._replace(
        connections=(("10.64.0.11", 40000, 9092), ("fd00::1", 1, 2))
    )
    told = rules(one)
    assert "ip saddr . tcp sport . tcp dport { 10.64.0.11 . 40000 . 9092 }" in told[0]
    assert "ip6 saddr . tcp sport . tcp dport { fd00::1 . 1 . 2 }" in told[1]
    assert rules(active("reset-open")) == []


def test_delayed_packets_are_marked_for_their_queue() -> None:
    told = script([active("slow", 100)], {PEER: "ac00:10"}, None)
    assert "outgoing ip daddr { 10.64.0.11 } meta priority set ac00:10" in told


def test_counters_of_finished_faults_are_deleted() -> None:
    told = script([active("loss", 100, number=8)], {}, None, forgotten=7)
    assert "delete counter inet ackproof hit_7" in told
    assert "add counter inet ackproof hit_8" in told


def test_every_capability_of_links_is_tried() -> None:
    of_links = {one for one in Capability if one.endswith("-links")}
    assert of_links - {Capability.SLOW_LINKS} == set(trials())


@pytest.mark.parametrize(
    ("told", "address", "port"),
    [
        ("0B00400A:2384", "10.64.0.11", 9092),
        ("0000000000000000FFFF00000B00400A:0016", "10.64.0.11", 22),
        ("000000FD000000000000000001000000:0050", "fd00::1", 80),
    ],
)
def test_connections_as_the_kernel_lists_them(told: str, address: str, port: int) -> None:
    assert endpoint(told) == (ipaddress.ip_address(address), port)


def test_queues_are_the_narrowest_and_the_slowest() -> None:
    on = [
        active("narrow", 500),
        active("slow", 100),
        active("narrow", 300),
        active("slow", 50),
        active("slow", 10)._replace(addresses=("10.64.0.12",)),
    ]
    assert asked(on) == {PEER: PeerQueue(300, 100), ("10.64.0.12",): PeerQueue(None, 10)}
    assert asked([]) == {}


def test_a_standing_queue_is_never_longer_than_a_socket_s() -> None:
    for delay_ms in (20, 100, 500, 2000):
        rate = queueing_rate(PeerQueue(None, delay_ms))
        assert rate * delay_ms / 8 <= 200_000
    assert queueing_rate(PeerQueue(None, 20)) == 8_000
    assert queueing_rate(PeerQueue(200, 20)) == 200
