"""What the members of a cell's groups will be like: their properties, asked of the workload's
room."""

from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import Consumer

from ackproof.harness.campaign.clients.refusals import meant, refusal
from ackproof.workloads.configuration import CONSUMER_RESERVED, canonical, member_properties
from ackproof.workloads.interface import Group
from ackproof.workloads.spec import GroupMemberSpec, SpecificationError

Properties = Mapping[str, str | bool | int | float]

OFTEN_SET = (
    *("allow.auto.create.topics", "auto.commit.interval.ms", "check.crcs", "client.rack"),
    *("connections.max.idle.ms", "coordinator.query.interval.ms", "fetch.error.backoff.ms"),
    *("fetch.max.bytes", "fetch.message.max.bytes", "fetch.min.bytes", "fetch.queue.backoff.ms"),
    *("fetch.wait.max.ms", "group.protocol", "group.remote.assignor", "heartbeat.interval.ms"),
    *("max.partition.fetch.bytes", "max.poll.interval.ms", "metadata.max.age.ms"),
    *("partition.assignment.strategy", "queued.max.messages.kbytes", "queued.min.messages"),
    *("receive.message.max.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms"),
    *("retry.backoff.max.ms", "retry.backoff.ms", "security.protocol", "sasl.mechanism"),
    *("sasl.password", "sasl.username", "session.timeout.ms"),
    *("socket.connection.setup.timeout.ms", "socket.keepalive.enable", "socket.timeout.ms"),
    *("ssl.ca.location", "topic.metadata.refresh.interval.ms"),
)
"""Of librdkafka's properties those that a consumer is often told: librdkafka does not list its own.
For suggestions alone."""

_TOGETHER = "Failed to create consumer: "
"""So begins what is told of properties that do not go together, each of which may be right."""

_ANY_GROUP = {"group.id": "not-connected"}
"""confluent-kafka makes no consumer without a group."""


def refused(name: str, value: str | float) -> str | None:
    """Why no member may have this property, whatever else it has; None where it may."""
    if canonical(name) in CONSUMER_RESERVED:
        return f"may not be set: {CONSUMER_RESERVED[canonical(name)]}"
    told = refusal(Consumer, {**_ANY_GROUP, name: value})
    if told is None or told.startswith(_TOGETHER):
        return None
    return meant(told, name, OFTEN_SET)


def properties(group: Group) -> Properties:
    """librdkafka's properties of the group's members, defaults filled in.

    Raises workloads.spec.SpecificationError for what a campaign may not set.
    """
    specification = GroupMemberSpec(
        client="member",
        topic="topic",
        partitions=1,
        bootstrap_servers="not-connected:0",
        consumer_config=dict(group.config),
        history=Path(),
        progress=Path(),
        group=group.name,
        delivery=group.delivery,
        instance="member" if group.static else None,
    )
    return member_properties(specification)


def try_out(group: Group) -> None:
    """Make a member of the group, connected to nowhere. Raises workloads.spec.SpecificationError
    with librdkafka's reason, or ours."""
    config = {**properties(group)}
    del config["bootstrap.servers"]
    if (told := refusal(Consumer, config)) is not None:
        raise SpecificationError(told.removeprefix(_TOGETHER))
