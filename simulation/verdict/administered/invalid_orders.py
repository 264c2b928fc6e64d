"""**InvalidRefused**, of administrators: counts, replicas, names and settings that cannot be, what
is not there, and what is asked of a broker that has no say; and what is to be looked at only.

Each is refused as Kafka does it (``ZkAdminManager``, ``AdminUtils``, ``KafkaController`` and, of
settings, KIP-226 and KIP-339), and nothing is different afterwards: whoever writes first and looks
then leaves what no broker can start with. Administrators of a plan ask for what can be done.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kio.schema.errors import ErrorCode

from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from ackproof.broker.types import BrokerId, Offset, TopicPartition
from ackproof.broker.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ackproof.broker.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ackproof.broker.wire.messages.delete_topics import DeleteTopicsRequest
from ackproof.broker.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from simulation.clients.client import Client
from simulation.model.observer import Observer
from simulation.verdict.administered.invalid_settings import settings
from simulation.verdict.led import of_clients
from simulation.verdict.promised.deleting import delete_records
from simulation.verdict.promised.moving import reassignment, who_decides
from simulation.verdict.refused.invalid_groups import NOWHERE
from simulation.verdict.refused.words import Word, is_refused, of_parts, of_whole
from simulation.violation import Violation

INVARIANT: Final = "InvalidRefused"
NEW: Final = "to-be"
STRANGER: Final = 99
TIMEOUT_MS: Final = 5_000
PREFERRED, UNCLEAN, NO_ELECTION = 0, 1, 7

Said = tuple[str, Any, ErrorCode]
"""What, the request and its answer's errors."""

NAME: Final = ErrorCode.invalid_topic_exception
PARTITIONS: Final = ErrorCode.invalid_partitions
FACTOR: Final = ErrorCode.invalid_replication_factor
REPLICAS: Final = ErrorCode.invalid_replica_assignment
NOT_THERE: Final = ErrorCode.unknown_topic_or_partition


async def check(client: Client, observer: Observer) -> None:
    """Says it all to who decides, and some of it to who does not; raises Violation."""
    tp = next(of_clients(observer), None)
    replicas = None if tp is None else observer.topics[tp.topic].replicas(tp.partition)
    if tp is None or replicas is None:
        return
    count = len(observer.topics[tp.topic].partitions)
    before = _all_there_is(observer)
    decides = who_decides(client, observer)
    for what, request, expected in (
        *_creations(tp, client.brokers),
        *_collisions(observer),
        *_extensions(tp, count, replicas, client.brokers),
        *_moves(tp, replicas),
        *_elections(tp),
        (f"DeleteTopics of {NOWHERE.topic}", _delete(NOWHERE.topic), NOT_THERE),
    ):
        await is_refused(client, Word(what, decides, request, errors, expected), INVARIANT)
    for what, request, expected in settings(tp, decides):
        await is_refused(client, Word(what, decides, request, errors, expected), INVARIANT)
    nowhere = delete_records(NOWHERE, Offset(0))
    word = Word(f"DeleteRecords of {NOWHERE}", decides, nowhere, of_parts, NOT_THERE)
    await is_refused(client, word, INVARIANT)
    others = () if observer.controller is None else set(client.brokers) - {decides}
    for broker in sorted(others):
        for what, request, expected in _to_others(tp, count, replicas):
            await is_refused(client, Word(what, broker, request, errors, expected), INVARIANT)
    if (after := _all_there_is(observer)) != before:
        raise Violation(INVARIANT, f"nothing was to be done, and {before} became {after}")


def _all_there_is(observer: Observer) -> Mapping[str, Any]:
    """In ZooKeeper: partitions with their replicas, and settings, by topic. Not the one that comes
    into being when somebody first looks for a coordinator."""
    return {
        name: (dict(topic.assignment.partitions), topic.is_doomed, observer.configs.get(name))
        for name, topic in observer.topics.items()
        if name != OFFSETS_TOPIC
    }


def errors(answer: Any) -> Iterator[ErrorCode]:
    """Of the first that was asked for, or of all."""
    outer: ErrorCode = getattr(answer, "error_code", ErrorCode.none)
    if outer is not ErrorCode.none:
        yield outer
        return
    for name in ("topics", "results", "responses", "replica_election_results"):
        for part in getattr(answer, name, ()):
            inner = getattr(part, "partitions", None) or getattr(part, "partition_result", None)
            yield from of_whole(part if inner is None else inner[0])


# --- topics ---------------------------------------------------------------------------------------


def _creations(tp: TopicPartition, brokers: Sequence[int]) -> Iterator[Said]:
    one, many = brokers[0], len(brokers) + 1
    for what, expected, changed in (
        ("with no partition", PARTITIONS, {"num_partitions": 0}),
        ("with no replica", FACTOR, {"replication_factor": 0}),
        ("with more replicas than brokers", FACTOR, {"replication_factor": many}),
        ("with a setting that there is not", ErrorCode.invalid_config, _config("no.such", "1")),
        ("with retention.ms=-2", ErrorCode.invalid_config, _config("retention.ms", "-2")),
        ("called a/b", NAME, {"name": "a/b"}),
        ("called as one that there is", ErrorCode.topic_already_exists, {"name": tp.topic}),
        ("with partitions 0 and 2", REPLICAS, _assigned({0: [one], 2: [one]})),
        ("with a broker twice", REPLICAS, _assigned({0: [one, one]})),
        ("with a broker that there is not", REPLICAS, _assigned({0: [one, STRANGER]})),
        ("with no broker", REPLICAS, _assigned({0: []})),
        (
            "with an assignment and a count",
            ErrorCode.invalid_request,
            {**_assigned({0: [one]}), "num_partitions": 1},
        ),
    ):
        yield f"CreateTopics {what}", _create(changed), expected
    if len(brokers) > 1:
        uneven = _create(_assigned({0: [one], 1: list(brokers[:2])}))
        yield "CreateTopics with one replica here and two there", uneven, REPLICAS
    yield "CreateTopics of one twice", _create({}, times=2), ErrorCode.invalid_request
    yield "CreateTopics, to be looked at only", _create({}, validate_only=True), ErrorCode.none


def _collisions(observer: Observer) -> Iterator[Said]:
    """Dots and underscores are the same in names of metrics."""
    if OFFSETS_TOPIC in observer.topics:
        name = OFFSETS_TOPIC.replace("_offsets", ".offsets")
        yield f"CreateTopics of {name}", _create({"name": name}), NAME


def _create(
    changed: Mapping[str, Any], *, times: int = 1, validate_only: bool = False
) -> CreateTopicsRequest:
    asked: dict[str, Any] = {
        "name": NEW,
        "num_partitions": 1,
        "replication_factor": 1,
        "assignments": (),
        "configs": (),
    }
    topic = CreatableTopic(**{**asked, **changed})
    return CreateTopicsRequest(
        version=4, topics=(topic,) * times, timeout_ms=TIMEOUT_MS, validate_only=validate_only
    )


def _config(name: str, value: str) -> Mapping[str, Any]:
    return {"configs": (CreatableTopicConfig(name=name, value=value),)}


def _assigned(replicas: Mapping[int, Sequence[int]]) -> Mapping[str, Any]:
    assignments = tuple(
        CreatableReplicaAssignment(partition_index=number, broker_ids=tuple(map(BrokerId, ids)))
        for number, ids in replicas.items()
    )
    return {"num_partitions": -1, "replication_factor": -1, "assignments": assignments}


def _delete(topic: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(version=3, topic_names=(topic,), timeout_ms=TIMEOUT_MS)


def _extensions(
    tp: TopicPartition, count: int, replicas: Sequence[int], brokers: Sequence[int]
) -> Iterator[Said]:
    more, topic = count + 1, tp.topic
    for another in sorted(set(brokers) - set(replicas)):
        larger = _extend(topic, more, [(*replicas, another)])
        yield "CreatePartitions with a replica more", larger, REPLICAS
    for what, request, expected in (
        ("to as many as there are", _extend(topic, count), PARTITIONS),
        ("to fewer", _extend(topic, count - 1), PARTITIONS),
        ("of a topic that there is not", _extend(NOWHERE.topic, 3), NOT_THERE),
        ("by one, with replicas of two", _extend(topic, more, [replicas] * 2), REPLICAS),
        ("with no replica", _extend(topic, more, [()]), REPLICAS),
        (
            "with a broker that there is not",
            _extend(topic, more, [(*replicas[1:], STRANGER)]),
            REPLICAS,
        ),
        (
            "to be looked at only",
            _extend(topic, more, [replicas], validate_only=True),
            ErrorCode.none,
        ),
    ):
        yield f"CreatePartitions {what}", request, expected


def _extend(
    topic: str,
    count: int,
    replicas: Sequence[Sequence[int]] = (),
    *,
    validate_only: bool = False,
) -> CreatePartitionsRequest:
    given = tuple(
        CreatePartitionsAssignment(broker_ids=tuple(map(BrokerId, ids))) for ids in replicas
    )
    asked = CreatePartitionsTopic(name=topic, count=count, assignments=given or None)
    return CreatePartitionsRequest(
        version=1, topics=(asked,), timeout_ms=TIMEOUT_MS, validate_only=validate_only
    )


# --- partitions -----------------------------------------------------------------------------------


def _moves(tp: TopicPartition, replicas: Sequence[int]) -> Iterator[Said]:
    one = replicas[0]
    for what, where, target, expected in (
        ("to nobody", tp, (), REPLICAS),
        ("to a broker twice", tp, (one, one), REPLICAS),
        ("to a broker that there is not", tp, (one, STRANGER), REPLICAS),
        ("that there is not", NOWHERE, (one,), NOT_THERE),
        ("back, which is not moved", tp, None, ErrorCode.no_reassignment_in_progress),
        ("back that there is not", NOWHERE, None, NOT_THERE),
    ):
        yield f"a move of {where} {what}", reassignment(where, target), expected


def _elections(tp: TopicPartition) -> Iterator[Said]:
    needless = ErrorCode.election_not_needed
    for what, kind, where, expected in (
        ("of a kind that there is not", NO_ELECTION, tp, ErrorCode.invalid_request),
        ("of who leads", PREFERRED, tp, needless),
        ("of anybody, where somebody leads", UNCLEAN, tp, needless),
        ("of a preferred leader of nothing", PREFERRED, NOWHERE, NOT_THERE),
        ("of anybody of nothing", UNCLEAN, NOWHERE, NOT_THERE),
    ):
        yield f"an election {what}", elect(kind, where), expected


def elect(kind: int, tp: TopicPartition, timeout_ms: int = TIMEOUT_MS) -> ElectLeadersRequest:
    """Of one partition; ``kind``: :data:`PREFERRED` or :data:`UNCLEAN`, or none that there is."""
    named = (TopicPartitions(topic=tp.topic, partitions=(tp.partition,)),)
    return ElectLeadersRequest(
        version=1, election_type=kind, topic_partitions=named, timeout_ms=timeout_ms
    )


def _to_others(tp: TopicPartition, count: int, replicas: Sequence[int]) -> Iterator[Said]:
    """Where there is a controller, nobody else does any of it."""
    expected = ErrorCode.not_controller
    for request in (
        _create({}),
        _delete(tp.topic),
        _extend(tp.topic, count + 1, [replicas]),
        elect(PREFERRED, tp),
        reassignment(tp, tuple(replicas[:1])),
    ):
        yield f"a {type(request).__name__}, which is not the controller,", request, expected
