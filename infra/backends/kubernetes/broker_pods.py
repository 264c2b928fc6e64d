"""The pods of an external cluster's brokers: found by label, deleted, kept away, and evicted from
their nodes.

The owner of a pod makes a new one as soon as the old one is gone. A broker stays down because its
pod is deleted with a finalizer: the containers end, but the pod keeps its name until the finalizer
is removed. What a later process needs for that is in the cluster itself. So is the run that has
cordoned a node: an annotation of the node names it.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel, ConfigDict

from ackproof.infra.api.interface import InfraError, PodPlace, PodRefusal
from ackproof.infra.backends.kubernetes.cluster import (
    ANSWERS_WITHIN_S,
    Refusal,
    answered,
    connected,
)
from ackproof.infra.machine.waiting import wait_until

if TYPE_CHECKING:
    from kubernetes.client import CoreV1Api

FINALIZER = "ackproof/held-down"
"""The finalizer of a pod that must not come back yet."""
CORDONED_BY = "ackproof/cordoned-by"
"""The annotation of a node that a run has cordoned: the name of the run."""
ROLLED_BY = "ackproof/rolled-by"
"""The annotation of a pod whose roll a run has ordered: the name of the run."""
_ROLLING = "strimzi.io/manual-rolling-update"
"""The annotation by which Strimzi's operator is told to replace a pod."""
_OF_STRIMZI = "strimzi.io/cluster"
"""A label of all pods of Strimzi."""
_RESTART = "StrimziInitiatedPodRestart"
"""The action of the events by which Strimzi's operator says why it has restarted a pod."""
_SAID_WITHIN_S = 5.0
"""The age of a pod up to which these events are about the one before it. The operator says why when
the former pod is gone, so at about the time at which the next one is created."""
OWNERS = frozenset({"StatefulSet", "StrimziPodSet"})
"""The kinds of owners that make a new pod of the same name only when the old one is gone."""
ROOT = "/proc/1/root"
"""The file system of the broker's container, as an agent in the pod sees it."""
_ORDINAL = re.compile(r"ordinal(?:\+([0-9]{1,9}))?")
_ENDED = frozenset({"Succeeded", "Failed"})
_ENDS_WITHIN_S = 60.0
"""The time for containers to end, beyond the grace that the pod gives them, in seconds."""
_COMES_WITHIN_S = 60.0
_EVERY_S = 0.2
_EVICTED_EVERY_S = 1.0
_GONE, _CONFLICT, _TOO_MANY, _SERVER_ERROR = 404, 409, 429, 500
"""HTTP statuses of refusals. An eviction that a disruption budget forbids gets 429."""
LIMIT: Mapping[str, Any] = {"_request_timeout": ANSWERS_WITHIN_S}
"""The arguments of each request that limit the time for its answer."""


class BrokerPods(BaseModel):
    """The pods of all brokers of a cluster.

    Attributes:
        namespace: The namespace of the pods.
        selector: The label selector of the pods, as for ``kubectl``.
        id: The place of a pod's ``broker.id``: ``ordinal`` for the number at the end of its name,
            ``ordinal+N`` for that number and N, else the name of a label.
        container: The container of the broker; None for the first one.
        context: The context of the kubeconfig; None for its current one.
        image: The image of the agent's container; None without agents.
        kubeconfig: The absolute paths of the kubeconfig, so that a later process asks the same
            cluster. Empty for that of the calling process.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    namespace: str
    selector: str
    id: str = "ordinal"
    container: str | None = None
    context: str | None = None
    image: str | None = None
    kubeconfig: str = ""

    def broker_of(self, name: str, labels: Mapping[str, str]) -> int | None:
        """Return the ``broker.id`` of the pod of that name, or None if it has none."""
        ordinal = _ORDINAL.fullmatch(self.id)
        written = labels.get(self.id, "") if ordinal is None else name.rpartition("-")[2]
        if not (written.isascii() and written.isdigit()):
            return None
        return int(written) + int((ordinal and ordinal[1]) or 0)

    def beside(self, pod: Any) -> str:
        """Return the container of the broker in a pod (``V1Pod``)."""
        return str(self.container or pod.spec.containers[0].name)

    def __str__(self) -> str:
        context = f" --context {self.context}" if self.context else ""
        return f"kubectl{context} --namespace {self.namespace}"


class BrokerPod(BaseModel):
    """The pod of one broker, whichever pod that is at the time."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pods: BrokerPods
    broker: int

    def __str__(self) -> str:
        return f"the pod of broker {self.broker} ({self.pods.selector})"


def end(pod: BrokerPod, *, at_once: bool) -> None:
    """Delete the pod of a broker, and keep its owner from making a new one. Idempotent.

    Args:
        at_once: Whether the containers get no grace. The kubelet leaves them one second.

    Raises InfraError if no owner would make the pod again, or the cluster refuses.
    """
    from kubernetes.client import V1DeleteOptions, V1Preconditions

    with core_api(pod.pods) as core:
        found = present(core, pod)
        if (reason := unkept(found)) is not None:
            raise InfraError(f"{pod}: {reason}")
        name, uid = found.metadata.name, found.metadata.uid
        held = {"metadata": {"uid": uid, "finalizers": [FINALIZER]}}
        options = V1DeleteOptions(
            grace_period_seconds=0 if at_once else None, preconditions=V1Preconditions(uid=uid)
        )
        with answered(f"cannot delete {pod}"):
            core.patch_namespaced_pod(name, pod.pods.namespace, held, **LIMIT)
            core.delete_namespaced_pod(name, pod.pods.namespace, body=options, **LIMIT)


def bring_back(pod: BrokerPod) -> None:
    """Undo :func:`end`, once the old containers have ended, and wait for the new pod. Idempotent.

    The new pod is another one, by its uid. Whether its broker serves is not awaited. Raises
    InfraError if the containers do not end, as on a node that is down, or no new pod comes.
    """
    with core_api(pod.pods) as core:
        held = [one for one in pods_of(core, pod) if FINALIZER in (one.metadata.finalizers or ())]
        for one in held:
            if one.metadata.deletion_timestamp is not None:
                _await_end(core, pod, one)
            _let_go(core, pod, one)
        former = {one.metadata.uid for one in held if one.metadata.deletion_timestamp is not None}

        def came() -> bool:
            return any(
                one.metadata.uid not in former and one.metadata.deletion_timestamp is None
                for one in pods_of(core, pod)
            )

        _wait(came, _COMES_WITHIN_S, f"a new pod in place of {pod}")


def unkept(pod: Any) -> str | None:
    """Return why a pod (``V1Pod``) would not come back after its deletion, or None if it would."""
    owners = [one.kind for one in pod.metadata.owner_references or () if one.controller]
    if not owners:
        return f"{pod.metadata.name} has no owner, so that nothing would make it again"
    if owners[0] not in OWNERS:
        return (
            f"{pod.metadata.name} belongs to a {owners[0]}, which would replace it at once by a "
            f"pod of another name; only pods of a {' or '.join(sorted(OWNERS))} can be kept down"
        )
    return None


# --- nodes ------------------------------------------------------------------------------------


def place(pod: BrokerPod) -> PodPlace | None:
    """Return where the pod of a broker is, one that was not told to end if there are several; None
    if there is none. Raises InfraError without an answer of the cluster."""
    return places(pod.pods).get(pod.broker)


def places(pods: BrokerPods) -> Mapping[int, PodPlace]:
    """Return where the pods of all brokers are, as :func:`place`, by ``broker.id``."""
    with core_api(pods) as core:
        listed = _listed(core, pods)
    listed = sorted(listed, key=lambda one: one.metadata.deletion_timestamp is None)
    by_broker = {_broker(pods, one): _place_of(pods, one) for one in listed}
    return {broker: found for broker, found in by_broker.items() if broker is not None}


def _place_of(pods: BrokerPods, pod: Any) -> PodPlace:
    metadata, status = pod.metadata, pod.status
    beside = pods.beside(pod)
    container = next((o for o in status.container_statuses or () if o.name == beside), None)
    last = container and container.last_state and container.last_state.terminated
    conditions = {one.type: one for one in status.conditions or ()}
    ready = conditions.get("Ready")
    return PodPlace(
        uid=metadata.uid,
        node=pod.spec.node_name,
        ready=ready is not None and ready.status == "True",
        ends=metadata.deletion_timestamp is not None,
        held=FINALIZER in (metadata.finalizers or ()),
        why=_reason_to_end(metadata.annotations or {}, status, conditions.get("DisruptionTarget")),
        name=metadata.name,
        created=metadata.creation_timestamp.timestamp(),
        restarts=container.restart_count if container else 0,
        last_end=last.reason if last else None,
        last_status=last.exit_code if last else None,
    )


def _reason_to_end(annotations: Mapping[str, str], status: Any, disruption: Any) -> str | None:
    """Return the reason that a pod gives for its end, or None."""
    if disruption is not None and disruption.status == "True":
        return f"{disruption.reason}: {disruption.message}"
    if status.phase == "Failed" and status.reason:
        return f"{status.reason}: {status.message}"
    return f"the annotation {_ROLLING}" if annotations.get(_ROLLING) == "true" else None


def restarter(pods: BrokerPods, former: PodPlace) -> str:
    """Return, in words, what had a former pod restarted, by the events of Strimzi's operator.

    Without the right to list events, or an event, the words say so. Raises InfraError without an
    answer of the cluster.
    """
    of_kafka = "involvedObject.kind=Kafka"  # the pod is the other object of such an event
    try:
        with core_api(pods) as core, answered("cannot list events"):
            found = core.list_namespaced_event(
                pods.namespace, field_selector=of_kafka, **LIMIT
            ).items
    except Refusal as refusal:
        return f"unknown, because Strimzi's events cannot be read: {refusal}"
    return restart_reasons(found, former)


def restart_reasons(events: Sequence[Any], former: PodPlace) -> str:
    """Return, in words, why Strimzi's operator restarted a former pod. ``events`` are those of the
    resource ``Kafka`` (``CoreV1Event``), in which pods of the same name follow each other."""
    said = [
        (one.event_time.timestamp(), f"{one.reporting_component}: {one.reason}")
        for one in events
        if one.action == _RESTART
        and one.related is not None
        and one.related.name == former.name
        and one.event_time
    ]
    last = max((at for at, _ in said), default=0.0)
    if last < former.created + _SAID_WITHIN_S:
        return "unknown, because no event of Strimzi's operator names it"
    # The reasons of one restart have the same time.
    return ", ".join(dict.fromkeys(reason for at, reason in said if at == last))


def order_roll(pod: BrokerPod, uid: str, run: str) -> bool:
    """Have Strimzi's operator replace the pod of that ``uid``. Return False if it is gone, or told
    to end.

    Raises PodRefusal if it is no pod of Strimzi's, something else has ordered that already, or the
    cluster refuses, and InfraError without an answer.
    """
    with core_api(pod.pods) as core, refusals():
        found = next((one for one in pods_of(core, pod) if one.metadata.uid == uid), None)
        if found is None or found.metadata.deletion_timestamp is not None:
            return False
        if (reason := _unrollable(found)) is not None:
            raise PodRefusal(reason)
        annotate(core, found, {_ROLLING: "true", ROLLED_BY: run})
    return True


def withdraw_roll(pod: BrokerPod, uid: str, run: str) -> bool:
    """Undo :func:`order_roll` of the same run. Return False if there is nothing to undo, because
    the pod was replaced. Raises as :func:`order_roll`."""
    with core_api(pod.pods) as core, refusals():
        for found in pods_of(core, pod):
            annotations = found.metadata.annotations or {}
            if found.metadata.uid == uid and annotations.get(ROLLED_BY) == run:
                annotate(core, found, {_ROLLING: None, ROLLED_BY: None})
                return True
    return False


def _unrollable(pod: Any) -> str | None:
    """Return why Strimzi's operator would not roll a pod by our order, or None."""
    name = pod.metadata.name
    if _OF_STRIMZI not in (pod.metadata.labels or {}):
        return f"{name} has no label {_OF_STRIMZI}: no operator of Strimzi's looks after it"
    if (pod.metadata.annotations or {}).get(_ROLLING):
        return f"{name} has the annotation {_ROLLING} already, which is not Ackproof's"
    return None


def annotate(
    core: "CoreV1Api", pod: Any, annotations: Mapping[str, str | None], *, dry: bool = False
) -> None:
    """Set annotations of that very pod (``V1Pod``), or remove those with the value None. ``dry``:
    only try whether the cluster admits that. Raises Refusal."""
    trial = {"dry_run": "All", **LIMIT} if dry else LIMIT
    change = {"metadata": {"uid": pod.metadata.uid, "annotations": annotations}}
    with answered(f"cannot annotate {pod.metadata.name}"):
        core.patch_namespaced_pod(pod.metadata.name, pod.metadata.namespace, change, **trial)


def cordon(pods: BrokerPods, node: str, run: str) -> bool:
    """Keep new pods off a node. Return False if ``run`` does so already.

    Raises PodRefusal if something else has cordoned it, or the cluster refuses, and InfraError
    without an answer.
    """

    def changes(found: Any) -> dict[str, Any] | None:
        by = (found.metadata.annotations or {}).get(CORDONED_BY)
        if not found.spec.unschedulable:
            return {"annotations": {CORDONED_BY: run}}
        if by != run:
            whom = "by another run" if by else "not by Ackproof"
            raise PodRefusal(f"the node {node} is cordoned already, {whom}, and stays as it is")
        return None

    return _change_node(pods, node, changes, unschedulable=True)


def uncordon(pods: BrokerPods, node: str, run: str) -> bool:
    """Undo :func:`cordon` of the same run. Return False if there is nothing to undo, also for a
    node that has left the cluster. Raises as :func:`cordon`."""

    def changes(found: Any) -> dict[str, Any] | None:
        mine = (found.metadata.annotations or {}).get(CORDONED_BY) == run
        return {"annotations": {CORDONED_BY: None}} if mine else None

    return _change_node(pods, node, changes, unschedulable=None)


def is_cordoned(pods: BrokerPods, node: str) -> bool:
    """Return whether a node takes no new pods. Raises InfraError without an answer of the
    cluster."""
    with core_api(pods) as core, answered(f"cannot read the node {node}"):
        return bool(core.read_node(node, **LIMIT).spec.unschedulable)


def evict(pod: BrokerPod, uid: str, within_s: float, *, budgets: bool) -> bool:
    """End the pod of that ``uid`` gracefully; its owner makes another one. Return False if it was
    gone, or told to end, before the cluster was asked.

    Args:
        within_s: How long an eviction that a PodDisruptionBudget forbids is repeated, in seconds.
        budgets: Whether disruption budgets count: else the pod is deleted.

    Raises PodRefusal if no owner would make the pod again, or the cluster refuses to the end, and
    InfraError without an answer.
    """
    refused: list[Refusal] = []
    evicted: list[str] = []

    def is_over() -> bool:
        found = [one for one in pods_of(core, pod) if one.metadata.uid == uid]
        if not found or found[0].metadata.deletion_timestamp is not None:
            return True
        if (reason := unkept(found[0])) is not None:
            raise PodRefusal(f"{pod}: {reason}")
        try:
            _end_gracefully(core, found[0], evicted=budgets)
        except Refusal as refusal:
            if refusal.status not in (_GONE, _CONFLICT, _TOO_MANY):
                raise
            refused.append(refusal)
            return False
        evicted.append(uid)
        return True

    with core_api(pod.pods) as core, refusals():
        try:
            wait_until(is_over, within_s, "an eviction", _EVICTED_EVERY_S)
        except TimeoutError as late:
            raise PodRefusal(f"{refused[-1]} (repeated for {within_s:g} s)") from late
    # An operator may refuse an eviction and end the pod itself, as Strimzi's Drain Cleaner does.
    return bool(evicted) or any(refusal.status == _TOO_MANY for refusal in refused)


def _end_gracefully(core: "CoreV1Api", pod: Any, *, evicted: bool, dry: bool = False) -> None:
    from kubernetes.client import V1DeleteOptions, V1Eviction, V1ObjectMeta, V1Preconditions

    name, namespace = pod.metadata.name, pod.metadata.namespace
    trial = {"dry_run": "All", **LIMIT} if dry else LIMIT
    options = V1DeleteOptions(preconditions=V1Preconditions(uid=pod.metadata.uid))
    if not evicted:
        with answered(f"cannot delete {name}"):
            core.delete_namespaced_pod(name, namespace, body=options, **trial)
        return
    body = V1Eviction(metadata=V1ObjectMeta(name=name), delete_options=options)
    with answered(f"cannot evict {name}"):
        core.create_namespaced_pod_eviction(name, namespace, body, **trial)


@contextmanager
def refusals() -> Iterator[None]:
    """Raise PodRefusal for a refusal by which nothing has changed."""
    try:
        yield
    except Refusal as refusal:
        if refusal.status >= _SERVER_ERROR:
            raise
        raise PodRefusal(str(refusal)) from refusal


def _change_node(
    pods: BrokerPods,
    node: str,
    changes: Callable[[Any], dict[str, Any] | None],
    *,
    unschedulable: bool | None,
) -> bool:
    """Change the metadata of a node, and whether it takes pods, at once. ``changes`` returns what
    to change of the metadata, or None for nothing. Return whether something was changed."""
    changed: list[bool] = []

    def is_done() -> bool:
        with answered(f"cannot read the node {node}"):
            found = core.read_node(node, **LIMIT)
        if (metadata := changes(found)) is None:
            return True
        # Between the look and the change, something else may have cordoned it.
        metadata["resourceVersion"] = found.metadata.resource_version
        try:
            with answered(f"cannot change the node {node}"):
                patch = {"metadata": metadata, "spec": {"unschedulable": unschedulable}}
                core.patch_node(node, patch, **LIMIT)
        except Refusal as refusal:
            if refusal.status != _CONFLICT:
                raise
            return False
        changed.append(True)
        return True

    with core_api(pods) as core, refusals():
        try:
            _wait(is_done, ANSWERS_WITHIN_S, f"the change of the node {node}")
        except Refusal as refusal:
            if unschedulable or refusal.status != _GONE:
                raise
    return bool(changed)


# --- storage ----------------------------------------------------------------------------------


class PodStorage(NamedTuple):
    """The storage of a log directory that does not stay with the broker.

    Attributes:
        pod: The name of the pod.
        words: The storage, such as ``the emptyDir volume data``.
        ends_with_pod: Whether it is gone with the pod. Else it stays on the pod's node, where a pod
            on another node does not find it.
    """

    pod: str
    words: str
    ends_with_pod: bool


def passing_storage(
    pods: BrokerPods, directories: Mapping[int, Sequence[str]]
) -> Mapping[int, Sequence[PodStorage | None]]:
    """Return the storage of each directory of brokers with pods, by their specs; None for one that
    stays with the broker, or may.

    ``directories`` has the log directories of each broker, as paths in its container. Raises
    InfraError without an answer of the cluster.
    """
    with core_api(pods) as core:
        there = {_broker(pods, one): one for one in _listed(core, pods)}
    return {
        broker: [storage_of(pods, there[broker], path) for path in paths]
        for broker, paths in directories.items()
        if broker in there
    }


def storage_of(pods: BrokerPods, pod: Any, path: str) -> PodStorage | None:
    """Return the storage of a path in the broker's container of a pod (``V1Pod``), or None if it
    stays with the broker, or may."""
    beside = pods.beside(pod)
    mounts = [
        mount
        for one in pod.spec.containers
        if one.name == beside
        for mount in one.volume_mounts or ()
        if PurePosixPath(path).is_relative_to(mount.mount_path)
    ]
    name = pod.metadata.name
    if not mounts:
        return PodStorage(name, f"the file system of the container {beside}", ends_with_pod=True)
    volume_name = max(mounts, key=lambda mount: len(PurePosixPath(mount.mount_path).parts)).name
    volume = next((one for one in pod.spec.volumes or () if one.name == volume_name), None)
    if volume is None:
        return None
    if volume.host_path is not None:
        return PodStorage(name, f"the hostPath volume {volume_name}", ends_with_pod=False)
    kind = "emptyDir" if volume.empty_dir is not None else "ephemeral"
    if volume.empty_dir is None and volume.ephemeral is None:
        return None
    return PodStorage(name, f"the {kind} volume {volume_name}", ends_with_pod=True)


# --- survey -----------------------------------------------------------------------------------


def survey(
    pods: BrokerPods,
    brokers: Sequence[int],
    *,
    ends: bool,
    evicts: bool,
    cordons: bool,
    rolls: bool,
) -> Iterator[str]:
    """Yield why the pods of the brokers cannot be used. Nothing is changed.

    ``ends``, ``evicts``, ``cordons`` and ``rolls`` say whether pods will be deleted, and evicted,
    their nodes cordoned, and Strimzi's operator told to roll them. It is then tried whether the
    cluster allows that (by dry runs). Raises InfraError without an answer of the cluster.
    """
    with core_api(pods) as core:
        found = _listed(core, pods)
        by_id: dict[int | None, list[Any]] = {}
        for one in found:
            by_id.setdefault(_broker(pods, one), []).append(one)
        yield from _differing(pods, brokers, by_id)
        there = [one for broker in brokers for one in by_id.get(broker, ())]
        for one in there:
            yield from _obstacles(core, pods, one, ends=ends, evicts=evicts)
            if rolls:
                yield from _obstacles_to_rolls(core, one)
        if cordons:
            for node in sorted({one.spec.node_name for one in there if one.spec.node_name}):
                yield from _obstacles_on(core, node)


def _differing(
    pods: BrokerPods, brokers: Sequence[int], by_id: Mapping[int | None, Sequence[Any]]
) -> Iterator[str]:
    where = f"in the namespace {pods.namespace}"
    if not by_id:
        yield f"{where} no pod has the labels {pods.selector}"
        return
    for one in by_id.get(None, ()):
        yield f"{where} the pod {one.metadata.name} has no broker.id by its {pods.id}"
    there = {broker for broker in by_id if broker is not None}
    if unlike := sorted(there ^ set(brokers)):
        yield (
            f"{where} the pods of {pods.selector} have the ids {_words(sorted(there))}, the "
            f"campaign names {_words(sorted(brokers))}: they differ in {_words(unlike)}"
        )
    for broker in sorted(there):
        if len(by_id[broker]) > 1:
            names = ", ".join(one.metadata.name for one in by_id[broker])
            yield f"{where} several pods are broker {broker}: {names}"


def _obstacles(
    core: "CoreV1Api", pods: BrokerPods, pod: Any, *, ends: bool, evicts: bool
) -> Iterator[str]:
    names = [one.name for one in pod.spec.containers]
    if pods.container not in (None, *names):
        yield f"{pod.metadata.name} has no container {pods.container}, but {', '.join(names)}"
    if not (ends or evicts):
        return
    if (reason := unkept(pod)) is not None:
        yield reason
        return
    if evicts:
        try:
            _end_gracefully(core, pod, evicted=True, dry=True)
        except Refusal as refusal:
            if refusal.status != _TOO_MANY:  # what a disruption budget forbids now, it may allow
                yield str(refusal)
    if not ends:
        return
    trial = {"metadata": {"finalizers": [FINALIZER]}}
    name, dry = pod.metadata.name, {"dry_run": "All", **LIMIT}
    try:
        with answered(f"{name} may not be deleted"):
            core.patch_namespaced_pod(name, pods.namespace, trial, **dry)
            core.delete_namespaced_pod(name, pods.namespace, **dry)
    except InfraError as refusal:
        yield str(refusal)


def _obstacles_to_rolls(core: "CoreV1Api", pod: Any) -> Iterator[str]:
    """Yield why Strimzi's operator cannot be told to roll a pod."""
    if (reason := _unrollable(pod)) is not None:
        yield reason
        return
    try:
        annotate(core, pod, {_ROLLING: "true", ROLLED_BY: "trial"}, dry=True)
    except Refusal as refusal:
        yield str(refusal)


def _obstacles_on(core: "CoreV1Api", node: str) -> Iterator[str]:
    """Yield why a node cannot be cordoned."""
    try:
        with answered(f"the node {node} may not be cordoned"):
            if core.read_node(node, **LIMIT).spec.unschedulable:
                yield f"the node {node} is cordoned already"
            trial = {"metadata": {"annotations": {CORDONED_BY: "trial"}}}
            core.patch_node(node, trial, dry_run="All", **LIMIT)
    except Refusal as refusal:
        yield str(refusal)


# --- requests ---------------------------------------------------------------------------------


@contextmanager
def core_api(pods: BrokerPods) -> "Iterator[CoreV1Api]":
    """Yield the API of the cluster that the pods are in. Raises InfraError for a kubeconfig that
    cannot be used."""
    from kubernetes.client import CoreV1Api

    with connected(pods.kubeconfig, pods.context) as user:
        yield CoreV1Api(user)


def _listed(core: "CoreV1Api", pods: BrokerPods) -> Sequence[Any]:
    with answered(f"cannot list pods in {pods.namespace}"):
        found = core.list_namespaced_pod(
            pods.namespace, label_selector=pods.selector, **LIMIT
        ).items
    return list(found)


def pods_of(core: "CoreV1Api", pod: BrokerPod) -> Sequence[Any]:
    """Return all pods of a broker (``V1Pod``), also one that ends."""
    return [one for one in _listed(core, pod.pods) if _broker(pod.pods, one) == pod.broker]


def present(core: "CoreV1Api", pod: BrokerPod) -> Any:
    """Return the only pod of a broker (``V1Pod``). Raises InfraError if there is not one."""
    found = pods_of(core, pod)
    if len(found) != 1:
        raise InfraError(f"{pod}: {len(found)} pods match, but exactly one is needed")
    return found[0]


def _broker(pods: BrokerPods, pod: Any) -> int | None:
    return pods.broker_of(pod.metadata.name, pod.metadata.labels or {})


def _await_end(core: "CoreV1Api", pod: BrokerPod, old: Any) -> None:
    """Wait until the containers of a deleted pod have ended: two would share its files else."""
    name = old.metadata.name

    def ended() -> bool:
        now = next((o for o in pods_of(core, pod) if o.metadata.uid == old.metadata.uid), None)
        return now is None or _has_ended(now)

    grace = float(old.metadata.deletion_grace_period_seconds or 0)
    _wait(ended, grace + _ENDS_WITHIN_S, f"the end of {name} on the node {old.spec.node_name}")


def _has_ended(pod: Any) -> bool:
    """Return whether no container of a deleted pod runs. One without a node has none."""
    statuses = pod.status.container_statuses or ()
    return (
        pod.spec.node_name is None
        or pod.status.phase in _ENDED
        or (bool(statuses) and all(one.state.terminated is not None for one in statuses))
    )


def _let_go(core: "CoreV1Api", pod: BrokerPod, held: Any) -> None:
    without = {
        "metadata": {"uid": held.metadata.uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}
    }
    with answered(f"cannot let {pod} come back"):
        core.patch_namespaced_pod(held.metadata.name, pod.pods.namespace, without, **LIMIT)


def _wait(condition: Any, within_s: float, what: str) -> None:
    try:
        wait_until(condition, within_s, what, _EVERY_S)
    except TimeoutError as error:
        raise InfraError(str(error)) from error


def _words(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"
