"""**AlteredAsAsked**: IncrementalAlterConfigs changes what it names, AlterConfigs all there is.

What was set and is not named stays with the one (KIP-339) and goes with the other, which is why
there are two; what is taken back has its default again. And what it is can be asked for
(DescribeConfigs), of every broker, and is what its replicas go by (SettingsAgree); so with what is
set of brokers. Who changes
something at the same time as somebody else undoes nothing of it.
"""

import asyncio
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

from kio.schema.errors import ErrorCode

from ackproof.broker.wire.messages import alter_configs as whole
from ackproof.broker.wire.messages import incremental_alter_configs as single
from ackproof.broker.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from simulation.clients.administration import Administrator
from simulation.clients.client import Client, beside
from simulation.model.metadata import ALL
from simulation.verdict import agreeing, patience
from simulation.verdict.administered.invalid_settings import BROKER, SET, TOPIC
from simulation.verdict.refused.words import answered
from simulation.verdict.settings.asked_topics import PATIENCE_S, made
from simulation.verdict.settling import Cluster
from simulation.violation import Violation

INVARIANT: Final = "AlteredAsAsked"
NAME: Final = "altered"
DELETE: Final = 1
OF_TOPIC: Final = 1
"""Where a value comes from: the topic itself."""

RETENTION: Final = "log.retention.ms"

Settings = Mapping[str, str]
Resource = tuple[int, str]
"""Its kind and name."""


async def check(client: Client, administrator: Administrator, world: Cluster) -> None:
    """Raises Violation."""
    begins = {"retention.ms": "86400000", "flush.messages": "5"}
    await made(administrator, world, NAME, begins)
    # One whose ZooKeeper server is behind knows of no such topic yet, and may say so.
    await _are_described(client, begins)
    one, other = {"retention.ms": "86400001"}, {"segment.bytes": "100000"}
    limit = {"min.insync.replicas": "2"}
    for what, request, expected in (
        ("a value", _single(SET, "retention.ms", "86400001"), {**one, "flush.messages": "5"}),
        ("a value taken back", _single(DELETE, "flush.messages", None), one),
        ("a further value", _single(SET, "segment.bytes", "100000"), {**one, **other}),
        ("a limit", _single(SET, "min.insync.replicas", "2"), {**one, **other, **limit}),
        ("all values", _whole({"max.message.bytes": "5000"}), {"max.message.bytes": "5000"}),
        ("no value", _whole({}), {}),
    ):
        answer = await answered(client, client.brokers[-1], request)
        error = answer.responses[0].error_code
        there = world.observer.configs.get(NAME, {})
        if error is not ErrorCode.none or there != expected:
            told = f"{error.name} to {what}, and it has {there}, not {expected}"
            raise Violation(INVARIANT, f"topic {NAME}: {told}")
        await _are_described(client, expected)
        await agreeing.settings(world.observer, world.hosted)
    await _two_at_once(client, world)
    await _of_brokers(client, world)


async def _of_brokers(client: Client, world: Cluster) -> None:
    """Of all of them, then of one, and taken back (KIP-226): of a topic that says nothing of its
    own, and of others where they say nothing."""
    one = client.brokers[-1]
    day, longer = "86400003", "86400004"
    whole, own = {RETENTION: day}, {RETENTION: longer}
    given = world.observer.settings.properties[one].log_retention_ms
    static = None if given is None else str(given)
    for name, operation, value, expected in (
        (ALL, SET, day, {ALL: whole}),
        (str(one), SET, longer, {ALL: whole, str(one): own}),
        (ALL, DELETE, None, {str(one): own}),
        (str(one), DELETE, None, {}),
    ):
        entity = "" if name == ALL else name
        request = _single(operation, RETENTION, value, (BROKER, entity))
        answer = await answered(client, one, request)
        error, there = answer.responses[0].error_code, world.observer.settings.dynamic
        left = {each: dict(settings) for each, settings in there.items() if settings}
        if error is not ErrorCode.none or left != expected:
            told = f"{error.name} to {value} of {name}, and they have {left}, not {expected}"
            raise Violation(INVARIANT, f"brokers: {told}")
        await agreeing.settings(world.observer, world.hosted)
        due = longer if str(one) in expected else expected.get(ALL, {}).get(RETENTION, static)
        described = await _described_broker(client, one)
        if described != due:
            what = f"broker {one} tells {described}, and {RETENTION} is {due}"
            raise Violation(INVARIANT, what)


async def _described_broker(client: Client, broker: int) -> str | None:
    answer = await answered(client, broker, describe((BROKER, str(broker))))
    told = (each.value for each in answer.results[0].configs if each.name == RETENTION)
    return next(told, None)


async def _two_at_once(client: Client, world: Cluster) -> None:
    """Of two changes of different values, asked of two brokers, none undoes the other."""
    values = {"retention.ms": "86400002", "segment.bytes": "100002", "flush.messages": "7"}
    expected: dict[str, str] = {}
    async with beside(client) as other:
        await answered(other, client.brokers[-1], describe())  # both are connected
        for (one, first), (two, second) in pairwise(values.items()):
            asked = (
                answered(client, client.brokers[0], _single(SET, one, first)),
                answered(other, client.brokers[-1], _single(SET, two, second)),
            )
            for answer in await asyncio.gather(*asked):
                error = answer.responses[0].error_code
                if error is not ErrorCode.none:
                    raise Violation(INVARIANT, f"{error.name} to one of two changes at once")
            expected |= {one: first, two: second}
            there = world.observer.configs.get(NAME, {})
            if there != expected:
                told = f"{expected} was set at once by two, and it has {there}"
                raise Violation(INVARIANT, f"topic {NAME}: {told}")
    await _are_described(client, expected)


async def _are_described(client: Client, expected: Settings) -> None:
    """By each broker, once it has heard of them; what it reads is what it answers."""

    async def why() -> str | None:
        for broker in client.brokers:
            answer = await answered(client, broker, describe())
            told = {
                each.name: each.value
                for each in answer.results[0].configs
                if each.config_source == OF_TOPIC
            }
            if told != expected:
                return f"broker {broker} says {told} of topic {NAME}, which is set to {expected}"
        return None

    await patience.wait(INVARIANT, PATIENCE_S, why)


def describe(of: Resource = (TOPIC, NAME)) -> DescribeConfigsRequest:
    """A DescribeConfigs of one resource."""
    kind, name = of
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )
    return DescribeConfigsRequest(version=1, resources=(resource,), include_synonyms=False)


def _single(operation: int, name: str, value: str | None, of: Resource = (TOPIC, NAME)) -> Any:
    config = single.AlterableConfig(name=name, config_operation=operation, value=value)
    resource = single.AlterConfigsResource(
        resource_type=of[0], resource_name=of[1], configs=(config,)
    )
    return single.IncrementalAlterConfigsRequest(
        version=0, resources=(resource,), validate_only=False
    )


def _whole(settings: Settings) -> Any:
    configs = tuple(
        whole.AlterableConfig(name=name, value=value) for name, value in settings.items()
    )
    resource = whole.AlterConfigsResource(resource_type=TOPIC, resource_name=NAME, configs=configs)
    return whole.AlterConfigsRequest(version=0, resources=(resource,), validate_only=False)
