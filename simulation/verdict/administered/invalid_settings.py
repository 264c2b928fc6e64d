"""Settings that cannot be, of what is not there, or not to be changed here; or that are to be
looked at only. AlterConfigs and IncrementalAlterConfigs (KIP-133, KIP-339)."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from kio.schema.errors import ErrorCode

from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.messages import alter_configs as whole
from ackproof.broker.wire.messages import incremental_alter_configs as single
from simulation.verdict.refused.invalid_groups import NOWHERE

TOPIC, BROKER, NOTHING = 2, 4, 3
"""Kinds of resources, and one that there is not."""
SET, APPEND = 0, 2

Said = tuple[str, Any, ErrorCode]
Setting = tuple[str, str | None]

FINE: Final[Setting] = ("retention.ms", "86400000")


def settings(tp: TopicPartition, broker: int) -> Iterator[Said]:
    """To that broker, of that topic; what, the request, and how it must be answered."""
    config, request = ErrorCode.invalid_config, ErrorCode.invalid_request
    for kind, name, given, expected in (
        (TOPIC, tp.topic, [("no.such.setting", "1")], config),
        (TOPIC, tp.topic, [("min.insync.replicas", "0")], config),
        (TOPIC, tp.topic, [("retention.ms", "for ever")], config),
        (TOPIC, tp.topic, [("message.timestamp.type", "Never")], config),
        (TOPIC, tp.topic, [("retention.ms", None)], request),
        (TOPIC, tp.topic, [FINE, FINE], request),
        (TOPIC, NOWHERE.topic, [FINE], ErrorCode.unknown_topic_or_partition),
        (TOPIC, "a/b", [FINE], ErrorCode.invalid_topic_exception),
        (NOTHING, tp.topic, [FINE], request),
        (BROKER, str(broker + 1), [("log.retention.ms", "86400000")], request),
        (BROKER, str(broker), [("broker.id", "7")], request),
        (BROKER, str(broker), [("log.retention.ms", "-2")], config),
    ):
        what = f"{given} of {name}"
        yield f"AlterConfigs to {what}", _whole(kind, name, given), expected
        yield f"IncrementalAlterConfigs to {what}", _single(kind, name, given), expected
    yield (
        "a setting that is to have another value",
        _single(TOPIC, tp.topic, [FINE], APPEND),
        config,
    )
    twice = _whole(TOPIC, tp.topic, [FINE])
    again = whole.AlterConfigsRequest(version=0, resources=twice.resources * 2, validate_only=False)
    yield "AlterConfigs of a topic twice", again, request
    for asked in (
        _whole(TOPIC, tp.topic, [FINE], validate_only=True),
        _single(TOPIC, tp.topic, [FINE], validate_only=True),
    ):
        yield f"{type(asked).__name__}, to be looked at only", asked, ErrorCode.none


def _whole(
    kind: int, name: str, given: Sequence[Setting], *, validate_only: bool = False
) -> whole.AlterConfigsRequest:
    configs = tuple(whole.AlterableConfig(name=each, value=value) for each, value in given)
    resource = whole.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return whole.AlterConfigsRequest(version=0, resources=(resource,), validate_only=validate_only)


def _single(
    kind: int,
    name: str,
    given: Sequence[Setting],
    operation: int = SET,
    *,
    validate_only: bool = False,
) -> single.IncrementalAlterConfigsRequest:
    configs = tuple(
        single.AlterableConfig(name=each, config_operation=operation, value=value)
        for each, value in given
    )
    resource = single.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return single.IncrementalAlterConfigsRequest(
        version=0, resources=(resource,), validate_only=validate_only
    )
