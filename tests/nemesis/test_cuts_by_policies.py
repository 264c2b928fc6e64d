"""Links between brokers in pods without agents, which NetworkPolicies cut."""

from dataclasses import dataclass

import pytest

from ackproof.infra.api.interface import Node
from ackproof.testing.faults import Nemesis
from ackproof.testing.memory.servers import MemoryLinks
from tests.support.fakes.remote_probe import put_into_pods


@dataclass
class PolicyLinks(MemoryLinks):
    """Links of which open connections are silent while they are cut, unless the plug-in leaves
    these alone."""

    keeps_open: bool = False

    def hold(self, name: str, source: Node, target: Node, port: int) -> bool:
        if (source.name, name) not in self.connections:
            super().hold(name, source, target, port)
        return self.connections[source.name, name] != "none"

    def held(self, name: str, source: Node) -> str:
        there = self.connections.get((source.name, name), "none")
        cut = any({*pair} == {source.name, there} for pair in self.backend.links_cut)
        return "silent" if cut and not self.keeps_open else "none" if there == "none" else "open"


@pytest.fixture
def in_pods(nemesis: Nemesis) -> Nemesis:
    put_into_pods(nemesis.memory, 3)
    nemesis.memory.backend.links = PolicyLinks(nemesis.memory.backend)
    return nemesis


BOTH = "broker-1 <-> broker-2"


def test_cut_by_policies_is_proven_by_connections_that_were_open(in_pods: Nemesis) -> None:
    seen = in_pods.bitten(in_pods.strike("cut", BOTH)).observations
    links = ("broker-1->broker-2", "broker-2->broker-1")
    assert seen["links closed"] == dict.fromkeys(links, "closed")
    assert seen["open connections"] == dict.fromkeys(links, "silent")
    assert "packets dropped" not in seen


def test_plugin_that_leaves_open_connections_alone_cuts_nothing(in_pods: Nemesis) -> None:
    in_pods.memory.backend.links.keeps_open = True
    proof = in_pods.bitten(in_pods.strike("cut", BOTH))
    assert not proof.proven
    assert proof.observations["missing"].keys() == {"open connections"}


def test_connections_of_a_healed_cut_are_let_go(in_pods: Nemesis) -> None:
    in_pods.through("cut", BOTH)
    assert in_pods.memory.backend.links.connections == {}
