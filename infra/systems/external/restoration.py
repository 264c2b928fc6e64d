"""The removal of a run's changes to an external cluster, by the run or by a later process."""

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from ackproof.infra.api.interface import InfraError, ViewUnavailable
from ackproof.infra.systems.external.control import carry_out
from ackproof.infra.systems.external.description import server_name
from ackproof.infra.systems.external.journal import FILE, Journal, Left
from ackproof.infra.systems.external.probes import ProbingObserver, admin_client

_ANSWER_S = 10.0
_GONE_WITHIN_S = 60.0
_PAUSE_S = 0.5
_NOT_THERE = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.GROUP_ID_NOT_FOUND,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
    }
)

Tell = Callable[[str], None]


def restore(results: Path, tell: Tell) -> None:
    """Undo what the runs of a campaign have left in its results.

    Do nothing if they have left nothing, or used no such cluster. Raises InfraError if that fails.
    Called again, it continues with the rest.
    """
    for path in sorted(results.glob(f"runs/*/{FILE}")):
        undo(Journal(path), tell)


def undo(journal: Journal, tell: Tell, within_s: float = _GONE_WITHIN_S) -> None:
    """Bring back what is down, then delete what was made.

    Raises InfraError with all that could not be done. ``within_s`` is the time limit for topics to
    go.
    """
    left = journal.left()
    failures = list(_bring_back(journal, left, tell))
    if left.topics or left.groups:
        failures += _remove(journal, left, tell, within_s)
    if failures:
        raise InfraError("; ".join(failures))


def _bring_back(journal: Journal, left: Left, tell: Tell) -> Iterator[str]:
    for broker, back in sorted(left.down.items()):
        handle = left.described.handles.get(broker)
        if handle is None:
            yield f"{server_name(broker)}: no command to {back} it is configured"
            continue
        try:
            carry_out(handle, back)
        except InfraError as error:
            yield f"{server_name(broker)}: {error}"
        else:
            journal.up(broker)
            tell(f"{server_name(broker)}: {handle.words(back)}")


def _remove(journal: Journal, left: Left, tell: Tell, within_s: float) -> Iterator[str]:
    described = left.described
    try:
        connection = {**described.connection(), "bootstrap.servers": described.bootstrap_servers}
        client = admin_client(connection)
    except InfraError as lacking:
        yield str(lacking)
        return
    end = time.monotonic() + within_s
    while True:
        problems = [*_groups(client, left), *_topics(client, connection, left)]
        if not problems or time.monotonic() >= end:
            break
        time.sleep(_PAUSE_S)
    if problems:
        yield "; ".join(problems)
        return
    for thing in (*left.topics, *left.groups):
        journal.gone(thing)
    tell(f"deleted: {', '.join((*left.topics, *left.groups))}")


def _groups(client: AdminClient, left: Left) -> Iterator[str]:
    if left.groups:
        asked = client.delete_consumer_groups(list(left.groups), request_timeout=_ANSWER_S)
        yield from _refusals(asked)


def _topics(client: AdminClient, connection: Mapping[str, str], left: Left) -> Iterator[str]:
    """Yield why the topics are not all gone. A topic counts as deleted when no broker knows it."""
    if not left.topics:
        return
    asked = client.delete_topics(list(left.topics), request_timeout=_ANSWER_S)
    refusals = list(_refusals(asked))
    yield from refusals
    if refusals:
        return
    try:
        there = ProbingObserver(connection).described(left.topics)
    except ViewUnavailable as silence:
        yield str(silence)
        return
    if there:
        yield f"still there: {', '.join(there)}"


def _refusals(asked: Mapping[str, object]) -> Iterator[str]:
    for name, future in asked.items():
        try:
            future.result()  # type: ignore[attr-defined]
        except KafkaException as failure:
            error = failure.args[0]
            if error.code() not in _NOT_THERE:
                yield f"{name}: {error.str()}"
