"""Brokers that join a system have ids of their own, and leave nothing when they cannot be made."""

import pytest

from ackproof.infra.api.interface import InfraError, NoBrokerAdditions
from ackproof.infra.systems.deployment import AddedBrokers, name_of
from ackproof.testing.memory.cluster import memory_cluster
from ackproof.testing.memory.servers import MemoryBackend, MemoryServer


def added(backend: MemoryBackend, *, broken: bool = False) -> AddedBrokers:
    cluster = memory_cluster(1)

    def make(number: int) -> MemoryServer:
        backend.servers[name_of(number)] = cluster.system.added.add(number)
        if broken:
            raise InfraError("its configuration could not be written")
        return backend.servers[name_of(number)]

    return AddedBrokers(backend, make, deployed=3)


def test_an_id_belongs_to_one_broker_for_good() -> None:
    found = added(backend := MemoryBackend())
    first = found.add(4)
    assert found.add(4) is first
    assert found.next_id == 5
    for _ in range(2):
        found.remove(4)
    assert found.next_id == 5
    assert not found.there
    assert not backend.remains("broker-4")


def test_of_one_that_cannot_be_made_nothing_is_left() -> None:
    found = added(backend := MemoryBackend(), broken=True)
    with pytest.raises(InfraError, match="configuration"):
        found.add(4)
    assert not found.there
    assert not backend.remains("broker-4")
    assert found.next_id == 5


def test_join_without_a_deployment_is_refused() -> None:
    no_broker = NoBrokerAdditions("an external cluster is not deployed")
    with pytest.raises(
        LookupError, match="broker 4 cannot join: an external cluster is not deployed"
    ):
        no_broker.add(4)
    assert not no_broker.there
