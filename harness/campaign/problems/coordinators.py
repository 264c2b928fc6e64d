"""The coordinators of consumer groups and of transactions, as the campaign's brokers will have
them, and why there would be none.

Whoever leads a partition of their topic coordinates the groups, or the transactional ids, that are
hashed to it: a fault may be aimed at it as at a cell's.
"""

from collections.abc import Iterator, Mapping

from ackproof.config.documents import Problem
from ackproof.harness.campaign.model.clusters import ClusterSpec, ClusterSweep
from ackproof.harness.campaign.problems.draft import Draft
from ackproof.infra import systems

OFFSETS_TOPIC = "__consumer_offsets"

TRANSACTIONS_TOPIC = "__transaction_state"

_UNKNOWN = 2**31
"""Partitions, as nobody can tell how many: whichever is named may be one."""


def partitions(draft: Draft) -> Mapping[str, int]:
    """How many their topics have, by name, as the topics of cells are told: those of which there is
    anything to coordinate. A cluster that is wrong, or a workload, leaves it open."""
    return {topic: _partitions(draft.cluster, _COUNTS[topic]) for topic in _coordinated(draft)}


_COUNTS: Mapping[str, str] = {
    OFFSETS_TOPIC: "offsets.topic.num.partitions",
    TRANSACTIONS_TOPIC: "transaction.state.log.num.partitions",
}
"""The broker property that says how many partitions each topic has."""


def _coordinated(draft: Draft) -> Iterator[str]:
    load = draft.workload
    transactional = load is not None and load.is_transactional
    if load is None or load.groups or transactional:
        yield OFFSETS_TOPIC
    if transactional:
        yield TRANSACTIONS_TOPIC


def _partitions(cluster: ClusterSweep | None, name: str) -> int:
    if cluster is None:
        return _UNKNOWN
    said = (_in_force(one, name) for one, _ in cluster.points())
    return min(_UNKNOWN if number is None else number for number in said)


_FACTORS: Mapping[str, str] = {
    OFFSETS_TOPIC: "offsets.topic.replication.factor",
    TRANSACTIONS_TOPIC: "transaction.state.log.replication.factor",
}
_TRANSACTIONS_MIN_ISR = "transaction.state.log.min.isr"
_FACTOR_STANDS_SINCE = (0, 11)
"""Before, the topic of the offsets was made with fewer replicas where there were fewer brokers
(``KafkaApis.createGroupMetadataTopic``)."""


def coordinator_problems(draft: Draft) -> Iterator[Problem]:
    """Topics of coordinators that brokers would not make, or not take a record into: members and
    transactions would be refused to the end, and nothing acknowledged."""
    if draft.cluster is None or draft.workload is None:
        return
    if systems.parse(draft.cluster.system).is_before(_FACTOR_STANDS_SINCE):
        return
    told = (
        problem
        for cluster, _ in draft.cluster.points()
        for topic in _coordinated(draft)
        for problem in _unmade(cluster, topic)
    )
    yield from dict.fromkeys(told)


def _unmade(cluster: ClusterSpec, topic: str) -> Iterator[Problem]:
    name = _FACTORS[topic]
    factor = _in_force(cluster, name)
    if factor is None:
        return
    if factor > cluster.brokers:
        reason = (
            f"the brokers would not make {topic}: {name} is {factor}; say it in "
            f"cluster.properties, {cluster.brokers} at most"
        )
        yield Problem(field="cluster.brokers", reason=reason)
        return
    floor = _in_force(cluster, _TRANSACTIONS_MIN_ISR) if topic == TRANSACTIONS_TOPIC else None
    if floor is not None and floor > factor:
        reason = (
            f"no transaction could begin: {_TRANSACTIONS_MIN_ISR} is {floor}, and {topic} has "
            f"{factor} replica{'s' if factor > 1 else ''} ({name})"
        )
        yield Problem(field=f"cluster.properties.{name}", reason=reason)


def session_refused(cluster: ClusterSpec, session_timeout_ms: int) -> str | None:
    """Why a coordinator of ``cluster`` would take no member with this session timeout."""
    least = _in_force(cluster, "group.min.session.timeout.ms")
    most = _in_force(cluster, "group.max.session.timeout.ms")
    if least is None or most is None or least <= session_timeout_ms <= most:
        return None
    return (
        f"session.timeout.ms is {session_timeout_ms}, and brokers take {least} to {most} "
        "(group.min.session.timeout.ms, group.max.session.timeout.ms)"
    )


def _in_force(cluster: ClusterSpec, name: str) -> int | None:
    """A broker property of the cluster; None where nobody can tell what it is by default."""
    if name in cluster.properties:
        return int(cluster.properties[name])
    known = systems.known(cluster.system, cluster.metadata_quorum)
    default = None if known is None else known.in_force(cluster.properties).get(name)
    return None if default is None else int(default)
