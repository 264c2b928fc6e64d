"""The coordinators of consumer groups and transactions, and the problems that would leave a
campaign without them.

The leader of a partition of their topic coordinates the groups, or transactional ids, that are
hashed to that partition. A fault may be aimed at it as at the leader of a cell's partition.
"""

from collections.abc import Iterator, Mapping

from ackproof.config.documents import Problem
from ackproof.harness.campaign.model.clusters import ClusterSpec, ClusterSweep
from ackproof.harness.campaign.plan.context import DELIVERIES
from ackproof.harness.campaign.problems.draft import Draft
from ackproof.infra import systems
from ackproof.workloads.configuration import BROKERS_SESSION

OFFSETS_TOPIC = "__consumer_offsets"

TRANSACTIONS_TOPIC = "__transaction_state"

SHARE_TOPIC = "__share_group_state"

_UNKNOWN = 2**31
"""The number of partitions to assume if it is unknown, so that a target may name any partition."""


def partitions(draft: Draft) -> Mapping[str, int]:
    """Return the number of partitions of each coordinators' topic that the campaign uses, by topic.
    If the cluster or the workload is invalid, nothing is excluded."""
    return {topic: _partitions(draft.cluster, _COUNTS[topic]) for topic in _coordinated(draft)}


_COUNTS: Mapping[str, str] = {
    OFFSETS_TOPIC: "offsets.topic.num.partitions",
    TRANSACTIONS_TOPIC: "transaction.state.log.num.partitions",
    SHARE_TOPIC: "share.coordinator.state.topic.num.partitions",
}
"""The broker property for the number of partitions of each topic."""


def _coordinated(draft: Draft) -> Iterator[str]:
    load = draft.workload
    transactional = load is not None and load.is_transactional
    if load is None or load.groups or load.share_groups or transactional:
        yield OFFSETS_TOPIC
    if transactional:
        yield TRANSACTIONS_TOPIC
    if load is not None and load.share_groups:
        yield SHARE_TOPIC


def _partitions(cluster: ClusterSweep | None, name: str) -> int:
    if cluster is None:
        return _UNKNOWN
    said = (_in_force(one, name) for one, _ in cluster.points())
    return min(_UNKNOWN if number is None else number for number in said)


_FACTORS: Mapping[str, str] = {
    OFFSETS_TOPIC: "offsets.topic.replication.factor",
    TRANSACTIONS_TOPIC: "transaction.state.log.replication.factor",
    SHARE_TOPIC: "share.coordinator.state.topic.replication.factor",
}
_MIN_ISR: Mapping[str, tuple[str, str]] = {
    TRANSACTIONS_TOPIC: ("no transaction could begin", "transaction.state.log.min.isr"),
    SHARE_TOPIC: ("no record could be accepted", "share.coordinator.state.topic.min.isr"),
}
"""The broker property for the smallest ISR of such a topic, and the effect of too few replicas."""
_FACTOR_STANDS_SINCE = (0, 11)
"""The first version with a strict replication factor. Earlier ones created the topic of the offsets
with fewer replicas if there were fewer brokers (``KafkaApis.createGroupMetadataTopic``)."""


def coordinator_problems(draft: Draft) -> Iterator[Problem]:
    """Yield a problem for each coordinators' topic that brokers would not create, or would take no
    record into. Every group or transaction would be refused, and nothing acknowledged."""
    if draft.cluster is None or draft.workload is None:
        return
    if systems.parse(draft.cluster.system).is_before(_FACTOR_STANDS_SINCE):
        return
    problems = (
        problem
        for cluster, _ in draft.cluster.points()
        for topic in _coordinated(draft)
        for problem in _unmade(cluster, topic)
    )
    yield from dict.fromkeys(problems)


def _unmade(cluster: ClusterSpec, topic: str) -> Iterator[Problem]:
    name = _FACTORS[topic]
    factor = _in_force(cluster, name)
    if factor is None:
        return
    if factor > cluster.brokers:
        reason = (
            f"the brokers would not create {topic}: {name} is {factor}; set it in "
            f"cluster.properties to at most {cluster.brokers}"
        )
        yield Problem(field="cluster.brokers", reason=reason)
        return
    effect, min_isr = _MIN_ISR.get(topic, ("", ""))
    floor = _in_force(cluster, min_isr) if min_isr else None
    if floor is not None and floor > factor:
        reason = (
            f"{effect}: {min_isr} is {floor}, and {topic} has "
            f"{factor} replica{'s' if factor > 1 else ''} ({name})"
        )
        yield Problem(field=f"cluster.properties.{name}", reason=reason)


def session_refused(cluster: ClusterSpec, session_timeout_ms: int) -> str | None:
    """Return the reason why a coordinator of ``cluster`` would refuse a member with this session
    timeout, or None."""
    least = _in_force(cluster, "group.min.session.timeout.ms")
    most = _in_force(cluster, "group.max.session.timeout.ms")
    if least is None or most is None or least <= session_timeout_ms <= most:
        return None
    return (
        f"session.timeout.ms is {session_timeout_ms}, but brokers accept {least} to {most} "
        "(group.min.session.timeout.ms, group.max.session.timeout.ms)"
    )


def without_heartbeats(cluster: ClusterSpec) -> str | None:
    """Return the reason why brokers of ``cluster`` would have no members by ``group.protocol:
    consumer`` (KIP-848), or None. A cluster of which nothing is known is assumed to have them."""
    return _too_old(cluster, BROKERS_SESSION, (4, 0), "group.protocol: consumer needs", "(KIP-848)")


def without_share_groups(cluster: ClusterSpec) -> str | None:
    """Return the reason why brokers of ``cluster`` would have no share groups, or None, as
    :func:`without_heartbeats`."""
    return _too_old(cluster, DELIVERIES, (4, 2), "share groups need", "(KIP-932)")


def _too_old(
    cluster: ClusterSpec, name: str, since: tuple[int, int], needs: str, source: str
) -> str | None:
    """Return the reason why brokers lack what the broker property ``name`` came with, or None."""
    known = systems.known(cluster.system, cluster.metadata_quorum)
    lacks_it = known is not None and name not in known.broker
    if not lacks_it and not systems.parse(cluster.system).is_before(since):
        return None
    release = ".".join(map(str, since))
    return f"{needs} Apache Kafka {release} or newer {source}, but the system is {cluster.system}"


def _in_force(cluster: ClusterSpec, name: str) -> int | None:
    """Return the value of a broker property in the cluster, or None if its default is unknown."""
    if name in cluster.properties:
        return int(cluster.properties[name])
    known = systems.known(cluster.system, cluster.metadata_quorum)
    default = None if known is None else known.in_force(cluster.properties).get(name)
    return None if default is None else int(default)
