"""Orders of an administrator, on a real cluster of any backend."""

from collections.abc import Mapping
from pathlib import Path

from confluent_kafka.admin import ConfigResource

from ackproof.infra.api.interface import Backend
from ackproof.infra.machine.waiting import wait_until
from tests.support.clients.confluent import produce, read_all
from tests.support.faults.injection import (
    TOPIC,
    VALUES,
    Known,
    Striker,
    nothing_is_lost,
    striker,
    with_records,
)
from tests.support.processes.deadlines import PATIENCE_S

LATER = [b"later-%d" % number for number in range(50)]
LOST = [b"lost-%d" % number for number in range(20)]
TIMEOUT_S = 10
MIN_ISR = "min.insync.replicas"


def orders_are_carried_out_and_taken_back(backend: Backend, scratch: Path) -> None:
    """With a controller: moves, elections, settings, topics, a broker that leaves."""
    with striker(backend, scratch, brokers=4) as cluster:
        known = with_records(cluster)
        before = _replicas(cluster)
        cluster.through("reassign", f"topic({TOPIC})", 0)
        cluster.through("elect-preferred", f"topic({TOPIC})", 0)
        _a_setting_that_brokers_know_of(cluster, known)
        _own_topics(cluster)
        cluster.through("remove-broker", f"leader({TOPIC}, 0)", 0)
        assert _replicas(cluster) == before
        nothing_is_lost(cluster, known)
        _an_unclean_election_loses_what_only_the_isr_had(cluster, known)
        _what_stays_is_done_for_good(cluster, known)


def orders_without_a_controller(backend: Backend, scratch: Path) -> None:
    """Check the same orders with brokers that have no controller."""
    leader = {"ackproof.coordination": "leader"}
    with striker(backend, scratch, brokers=4, properties=leader) as cluster:
        known = with_records(cluster)
        before = _replicas(cluster)
        cluster.through("reassign", f"topic({TOPIC})", 0, replicas="one")
        cluster.through("elect-preferred", f"topic({TOPIC})", 0)
        _a_setting_that_brokers_know_of(cluster, known)
        _own_topics(cluster)
        cluster.through("remove-broker", "broker-4", 0)
        assert _replicas(cluster) == before
        nothing_is_lost(cluster, known)
        _an_unclean_election_loses_what_only_the_isr_had(cluster, known)
        _what_stays_is_done_for_good(cluster, known)


def a_broker_joins_and_leaves(backend: Backend, scratch: Path) -> None:
    """With a controller."""
    with striker(backend, scratch) as cluster:
        _joins_and_leaves(cluster)


def a_broker_joins_and_leaves_without_a_controller(backend: Backend, scratch: Path) -> None:
    leader = {"ackproof.coordination": "leader"}
    with striker(backend, scratch, properties=leader) as cluster:
        _joins_and_leaves(cluster)


CASES = (
    orders_are_carried_out_and_taken_back,
    orders_without_a_controller,
    a_broker_joins_and_leaves,
    a_broker_joins_and_leaves_without_a_controller,
)


def _joins_and_leaves(cluster: Striker) -> None:
    """Check that the records written to an added broker are on the others after it has left."""
    known = with_records(cluster)
    before = _replicas(cluster)
    entry = cluster.strike("add-broker", f"partition({TOPIC}, 0)", 0, leads=True)
    assert _leader(cluster) == 4
    assert set(produce(known, TOPIC, LATER, 0).values()) == {None}
    cluster.heal(entry)
    assert _replicas(cluster) == before
    assert not cluster.system.added.there
    cluster.await_whole(TOPIC)
    assert cluster.all_run()
    assert read_all(known, TOPIC, 0) == VALUES + LATER
    assert read_all(known, TOPIC, 1) == VALUES


def _own_topics(cluster: Striker) -> None:
    own = {"topics": 2, "partitions": 2}
    cluster.through("create-topic", "all", 0, **own)
    cluster.through("grow-topic", "all", 0, **own)
    for name in ("delete-topic", "delete-records"):
        entry = cluster.strike(name, "all", 0, **own)
        cluster.heal(entry, for_good=name == "delete-topic")
    assert {topic for topic, _ in cluster.system.view().partitions} == {TOPIC}


def _what_stays_is_done_for_good(cluster: Striker, known: Known) -> None:
    """Also when the leader has changed: the next one begins where it did."""
    for name, target, own in (
        ("add-partitions", f"topic({TOPIC})", {"more": 2}),
        ("advance-log-start", f"partition({TOPIC}, 1)", {"before_offset": 50}),
    ):
        entry = cluster.strike(name, target, 0, **own)
        cluster.heal(entry, for_good=True)
    assert len(cluster.partitions(TOPIC)) == 4
    assert read_all(known, TOPIC, 1) == VALUES[50:]
    cluster.through("kill", f"leader({TOPIC}, 1)", 0)
    cluster.await_whole(TOPIC)
    assert read_all(known, TOPIC, 1) == VALUES[50:]


def _a_setting_that_brokers_know_of(cluster: Striker, known: Known) -> None:
    entry = cluster.strike("alter-min-isr", f"topic({TOPIC})", 0, min_insync_replicas=3)
    wait_until(lambda: _min_isr(known) == "3", PATIENCE_S, "the brokers to have the new value")
    cluster.heal(entry)
    wait_until(lambda: _min_isr(known) == "1", PATIENCE_S, "the brokers to have the old value")


def _min_isr(known: Known) -> str | None:
    resource = ConfigResource(ConfigResource.Type.TOPIC, TOPIC)
    admin = known.admin()
    found = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
    value = found[MIN_ISR].value
    return None if value is None else str(value)


def _an_unclean_election_loses_what_only_the_isr_had(cluster: Striker, known: Known) -> None:
    """The followers are down, the leader goes on alone and dies, too."""
    followers = cluster.strike("kill", f"partition({TOPIC}, 0) - leader({TOPIC}, 0)")
    _await_isr(cluster, 1)
    assert set(produce(known, TOPIC, LOST, 0).values()) == {None}
    leader = cluster.strike("kill", f"leader({TOPIC}, 0)")
    cluster.heal(followers)
    wait_until(lambda: _leader(cluster) == -1, PATIENCE_S, "no broker to lead")
    entry = cluster.strike("elect-unclean", f"partition({TOPIC}, 0)")
    cluster.heal(entry, for_good=True)
    cluster.heal(leader)
    cluster.await_whole(TOPIC)
    assert read_all(known, TOPIC, 0) == VALUES


def _await_isr(cluster: Striker, size: int) -> None:
    def shrunk() -> bool:
        return any(v.partition == 0 and len(v.isr) == size for v in cluster.partitions(TOPIC))

    wait_until(shrunk, PATIENCE_S, f"{size} to be in sync")


def _leader(cluster: Striker) -> int | None:
    return next((v.leader for v in cluster.partitions(TOPIC) if v.partition == 0), None)


def _replicas(cluster: Striker) -> Mapping[int, tuple[int, ...]]:
    return {view.partition: view.replicas for view in cluster.partitions(TOPIC)}
