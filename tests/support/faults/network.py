"""Faults on the network, on a real cluster of any backend."""

from pathlib import Path

from ackproof.infra.api.interface import Backend
from ackproof.nemesis.examples import EXAMPLES
from ackproof.nemesis.proofs import expiry_ms
from tests.support.faults.injection import TOPIC, nothing_is_lost, striker, with_records

PATIENT = {"zookeeper.session.timeout.ms": "6000"}
"""What is asked for is over before a session is: on a busy machine, too."""


def links_are_cut_in_every_shape(backend: Backend, scratch: Path) -> None:
    """Each for no longer than it takes to see it, one after the other."""
    clients = [backend.node("client-1")]
    with striker(backend, scratch, zookeepers=3, clients=clients, properties=PATIENT) as cluster:
        known = with_records(cluster)
        for name in ("minority", "halves", "majorities-ring", "bridge"):
            cluster.through(name, "all + zookeeper", 0)
        for example in EXAMPLES:
            if example.fault in ("cut", "isolate"):
                cluster.through(example.fault, example.target, 0, **example.parameters)
                cluster.await_whole(TOPIC)
        nothing_is_lost(cluster, known)


def links_are_bad_in_every_way(backend: Backend, scratch: Path) -> None:
    clients = [backend.node("client-1")]
    with striker(backend, scratch, clients=clients, properties=PATIENT) as cluster:
        known = with_records(cluster)
        for example in EXAMPLES:
            if example.fault in ("flap", "lossy", "reset", "narrow", "slow"):
                cluster.through(example.fault, example.target, 0, **example.parameters)
        cluster.through("lossy", f"leader({TOPIC}, 0) <-> clients + zookeeper", 0)
        cluster.await_whole(TOPIC)
        nothing_is_lost(cluster, known)


def several_hold_one_link(backend: Backend, scratch: Path) -> None:
    """A link that is lossy, then cut, then lossy again; and one that flaps through all of a
    session."""
    with striker(backend, scratch) as cluster:
        known = with_records(cluster)
        lossy = cluster.strike("lossy", "broker-1 <-> broker-2")
        cut = cluster.strike("cut", "broker-2 <-> broker-3", 0)
        flap = cluster.strike("flap", "broker-1 <-> broker-3", 3 * expiry_ms(cluster.system))
        cluster.executor.inject(other := cluster.aim("cut", "broker-1 <-> broker-2"))
        cluster.heal(flap)
        cluster.executor.heal(other)
        cluster.ledger.close(other.fault_id)
        assert cluster.bitten(lossy, 30).proven
        cluster.heal(lossy)
        cluster.heal(cut)
        cluster.await_whole(TOPIC)
        nothing_is_lost(cluster, known)


def one_client_is_cut_off(backend: Backend, scratch: Path) -> None:
    """While another one reaches every broker."""
    clients = [backend.node("client-1"), backend.node("client-2")]
    with striker(backend, scratch, brokers=1, clients=clients, properties=PATIENT) as cluster:
        for target in ("client-1", "one(clients)"):
            entry = cluster.through("isolate", target, 0)
            (cut_off,) = entry.target.clients
            (other,) = {"client-1", "client-2"} - {cut_off}
            assert [str(link) for link in entry.plan.spares] == [f"{other}->broker-1"]
        cluster.through("isolate", "clients", 0, direction="in")
        cluster.through("cut", "client-2 -> all", 0)
        cluster.through("lossy", "client-1 <-> all", 0)


CASES = (
    links_are_cut_in_every_shape,
    links_are_bad_in_every_way,
    several_hold_one_link,
    one_client_is_cut_off,
)
