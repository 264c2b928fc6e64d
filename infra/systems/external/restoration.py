"""The removal of a run's changes to an external cluster, by the run or by a later process."""

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from ackproof.infra.api.interface import InfraError, PodRefusal, ViewUnavailable
from ackproof.infra.backends.kubernetes import broker_pods, cpu_limits, network_policies
from ackproof.infra.machine.parallel import on_all
from ackproof.infra.systems.admin import admin_client
from ackproof.infra.systems.external.control import carry_out
from ackproof.infra.systems.external.description import Action, by_agent
from ackproof.infra.systems.external.journal import FILE, Journal, Left
from ackproof.infra.systems.external.probes import ProbingObserver

_ANSWER_S = 10.0
_GONE_WITHIN_S = 60.0
_PAUSE_S = 0.5
_NOT_THERE = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.GROUP_ID_NOT_FOUND})
_OFFSETS_TOPIC = "__consumer_offsets"

Tell = Callable[[str], None]


def restore(results: Path, tell: Tell) -> None:
    """Undo the changes of all runs of a campaign to an external cluster.

    Runs without changes, and runs on other clusters, have nothing to undo. What was undone is noted
    in the run's journal, so a later call tries only what failed.

    Raises:
        InfraError: Changes of one or more runs could not be undone. The other runs were tried all
            the same.
    """
    failures = []
    for path in sorted(results.glob(f"runs/*/{FILE}")):
        try:
            undo(Journal(path), tell)
        except InfraError as failure:
            failures.append(str(failure))
    if failures:
        raise InfraError("; ".join(dict.fromkeys(failures)))


def undo(journal: Journal, tell: Tell, within_s: float = _GONE_WITHIN_S) -> None:
    """Remove the agents of a run, uncordon the nodes that it cordoned, withdraw its orders to roll
    pods, lift its limits of their CPU, remove its NetworkPolicies, start the brokers that it
    stopped, and delete its topics and groups.

    Brokers in pods are started first: an agent has ended with its pod. Those on hosts are started
    when their agents have undone what would disturb them.

    Args:
        journal: The journal of the run. What was undone is noted there.
        tell: Called with a line for each change that was undone.
        within_s: The time limit in seconds until topics and groups are gone.

    Raises:
        InfraError: Names all changes that could not be undone.
    """
    left = journal.left()
    handles = left.described.handles
    deleted = {
        broker: back
        for broker, back in left.down.items()
        if back is Action.START and broker in handles and handles[broker].pod is not None
    }
    others = {broker: back for broker, back in left.down.items() if broker not in deleted}
    failures = [
        *_uncordon(journal, left, tell),
        *_withdraw_rolls(journal, left, tell),
        *_lift_limits(journal, left, tell),
        *_remove_policies(journal, left, tell),
        *_bring_back(journal, left, deleted, tell),
        *_detach(journal, left, tell),
        *_bring_back(journal, left, others, tell),
    ]
    if left.topics or left.groups:
        failures += _remove(journal, left, tell, within_s)
    if failures:
        raise InfraError("; ".join(failures))


def _detach(journal: Journal, left: Left, tell: Tell) -> Iterator[str]:
    """Yield why agents of a dead run are not all removed. They undo their faults when they end."""
    run = left.attached
    if run is None:
        return
    from ackproof.infra.backends.attachment import detach  # slow to import

    hosts = left.described.hosts

    def removed(name: str) -> str | None:
        try:
            if detach(hosts[name], run):
                tell(f"{name}: removed the agent")
        except InfraError as error:
            return f"{name}: {error}"
        return None

    failures = [failure for failure in on_all(removed, sorted(hosts)) if failure is not None]
    if not failures:
        journal.detached()
    yield from failures


def _uncordon(journal: Journal, left: Left, tell: Tell) -> Iterator[str]:
    """Yield why nodes of Kubernetes are still cordoned."""
    # The pods of all brokers are in the same cluster.
    pods = next((one.pod.pods for one in left.described.handles.values() if one.pod), None)
    if pods is None:
        return
    for node, run in sorted(left.cordoned.items()):
        try:
            if broker_pods.uncordon(pods, node, run):
                tell(f"node {node}: uncordoned")
        except (InfraError, PodRefusal) as error:
            yield f"node {node} is still cordoned: {error}"
        else:
            journal.uncordoned(node)


def _withdraw_rolls(journal: Journal, left: Left, tell: Tell) -> Iterator[str]:
    """Yield which orders to roll a pod still stand."""
    for broker, (uid, run) in sorted(left.rolling.items()):
        handle, name = left.described.handles.get(broker), left.described.name_of(broker)
        if handle is None or handle.pod is None:
            continue
        try:
            if broker_pods.withdraw_roll(handle.pod, uid, run):
                tell(f"{name}: withdrew the order to roll its pod")
        except (InfraError, PodRefusal) as error:
            yield f"{name}: the order to roll its pod still stands: {error}"
        else:
            journal.rolled(broker)


def _remove_policies(journal: Journal, left: Left, tell: Tell) -> Iterator[str]:
    """Yield why NetworkPolicies of a run still cut its brokers off from each other."""
    pods = next((one.pod.pods for one in left.described.handles.values() if one.pod), None)
    if pods is None or left.policies is None:
        return
    try:
        with broker_pods.core_api(pods) as core:
            found = network_policies.remove(core.api_client, pods.namespace, left.policies)
    except InfraError as error:
        yield f"NetworkPolicies of the run may still be in force: {error}"
        return
    if found:
        tell(f"removed the NetworkPolicies {', '.join(found)}")
    journal.policies(None)


def _lift_limits(journal: Journal, left: Left, tell: Tell) -> Iterator[str]:
    """Yield which pods still have less CPU than before."""
    for broker, run in sorted(left.limited.items()):
        handle, name = left.described.handles.get(broker), left.described.name_of(broker)
        if handle is None or handle.pod is None:
            continue
        try:
            if cpu_limits.lift(handle.pod, run):
                tell(f"{name}: gave its pod the former CPU limit")
        except (InfraError, PodRefusal) as error:
            yield f"{name}: its pod still has less CPU: {error}"
        else:
            journal.lifted(broker)


def _bring_back(
    journal: Journal, left: Left, down: Mapping[int, Action], tell: Tell
) -> Iterator[str]:
    """Yield why servers, by their ids, were not started or resumed."""
    for broker, back in sorted(down.items()):
        handle, name = left.described.handles.get(broker), left.described.name_of(broker)
        if handle is not None and left.described.has_agent(broker) and back in by_agent(handle):
            journal.up(broker)  # the agent has resumed it when it was removed
            continue
        if handle is None:
            yield f"{name}: no command is configured to {back} it"
            continue
        try:
            carry_out(handle, back)
        except InfraError as error:
            yield f"{name}: {error}"
        else:
            journal.up(broker)
            tell(f"{name}: {handle.words(back)}")


def _remove(journal: Journal, left: Left, tell: Tell, within_s: float) -> Iterator[str]:
    described = left.described
    timeout_s = min(within_s, _ANSWER_S)
    end = time.monotonic() + within_s
    try:
        connection = {**described.connection(), "bootstrap.servers": described.bootstrap_servers}
        with admin_client(connection) as client:
            while True:
                problems = [
                    *_groups(client, left, timeout_s),
                    *_topics(client, connection, left, timeout_s),
                ]
                if not problems or time.monotonic() >= end:
                    break
                time.sleep(_PAUSE_S)
    except InfraError as failure:
        yield str(failure)
        return
    if problems:
        yield "; ".join(problems)
        return
    for name in (*left.topics, *left.groups):
        journal.gone(name)
    tell(f"deleted: {', '.join((*left.topics, *left.groups))}")


def _groups(client: AdminClient, left: Left, timeout_s: float) -> Iterator[str]:
    """Yield why the groups are not all gone.

    A cluster without the topic of committed offsets has no coordinator and no groups. A cluster
    that has the topic may be without a coordinator for a while, for example just after its brokers
    were started again. Its groups still exist then.
    """
    if not left.groups:
        return
    futures = client.delete_consumer_groups(list(left.groups), request_timeout=timeout_s)
    refusals = _refusals(futures)
    if not refusals:
        return
    try:
        topics = client.list_topics(timeout=timeout_s).topics
    except KafkaException as failure:
        yield failure.args[0].str()
        return
    if _OFFSETS_TOPIC in topics:
        yield from _in_words(refusals)


def _topics(
    client: AdminClient, connection: Mapping[str, str], left: Left, timeout_s: float
) -> Iterator[str]:
    """Yield why the topics are not all gone. A topic counts as deleted when no broker knows it."""
    if not left.topics:
        return
    futures = client.delete_topics(list(left.topics), request_timeout=timeout_s)
    refusals = _refusals(futures)
    if refusals:
        yield from _in_words(refusals)
        return
    try:
        existing = ProbingObserver(connection).described(left.topics)
    except ViewUnavailable as unavailable:
        yield str(unavailable)
        return
    if existing:
        yield f"still there: {', '.join(existing)}"


def _refusals(futures: Mapping[str, Any]) -> dict[str, KafkaError]:
    """Return the error of each topic or group that may still exist."""
    refusals = {}
    for name, future in futures.items():
        try:
            future.result()
        except KafkaException as failure:
            error = failure.args[0]
            if error.code() not in _NOT_THERE:
                refusals[name] = error
    return refusals


def _in_words(refusals: Mapping[str, KafkaError]) -> list[str]:
    return [f"{name}: {error.str()}" for name, error in refusals.items()]
