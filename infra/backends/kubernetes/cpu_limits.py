"""CPU limits of brokers' containers, by an in-place resize of their pods (KEP-1287).

The subresource ``resize`` of a pod changes the requests and limits of a running container. The
kubelet applies them to its control group, without an agent and without rights on nodes. A resize
cannot remove a limit, nor change the QoS class of a pod. So only a container that has a limit gets
a smaller one, and its former values can be restored.

An annotation of the pod keeps the former values. It is written before the resize. A pod that takes
the place of another one has the values of its owner's template again.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ackproof.infra.api.capabilities import NotCounted
from ackproof.infra.api.interface import InfraError, PodRefusal
from ackproof.infra.backends.kubernetes.broker_pods import (
    LIMIT,
    BrokerPod,
    BrokerPods,
    annotate,
    core_api,
    pods_of,
    present,
    refusals,
)
from ackproof.infra.backends.kubernetes.cluster import Refusal, answered
from ackproof.infra.machine.waiting import wait_until

if TYPE_CHECKING:
    from kubernetes.client import CoreV1Api

BEFORE = "ackproof/cpu-before"
"""The annotation of a pod whose CPU a run has limited: the run and the former values, as JSON."""
IN_PLACE = "1.33"
"""The first version of Kubernetes that resizes pods by default."""
_APPLIED_WITHIN_S = 30.0
_COUNTED_WITHIN_S = 60.0
"""The time for a program in the container, which has as little CPU as the broker, in seconds."""
_EVERY_S = 0.2
_NOT_FOUND = 404
_PENDING = "PodResizePending"
_RESTARTS = "RestartContainer"
_GUARANTEED = "Guaranteed"
_COUNTERS = "cat /sys/fs/cgroup/cpu.stat 2>/dev/null || cat /sys/fs/cgroup/cpu/cpu.stat"
"""The program that prints what the kernel has counted in the container's control group, of version
2, else of version 1."""


class Cpu(NamedTuple):
    """A container's limit and request, as quantities of Kubernetes."""

    limit: str
    request: str

    @property
    def resources(self) -> Mapping[str, Mapping[str, str]]:
        return {"limits": {"cpu": self.limit}, "requests": {"cpu": self.request}}


class Throttling(NamedTuple):
    """The counters of a container, as the kernel has counted since its start.

    Attributes:
        container: The id of the container.
        periods: The tenths of a second in which a process had to wait.
        waited_us: The time waited, in microseconds.
    """

    container: str
    periods: int
    waited_us: int


def limit(pod: BrokerPod, thousandths: int, run: str) -> None:
    """Limit the broker's container to so many thousandths of one core, and wait until the kubelet
    says that it is so. Idempotent.

    Raises PodRefusal if the pod cannot be limited so, which leaves it as it was, and InfraError
    without an answer.
    """
    with core_api(pod.pods) as core, refusals():
        found = present(core, pod)
        if (reason := unlimitable(pod.pods, found, thousandths)) is not None:
            raise PodRefusal(reason)
        if (by := _by(found)) not in (None, run):
            raise PodRefusal(f"the CPU of {found.metadata.name} is limited by another run")
        if by is None:
            before = {"by": run, **_cpu_of(pod.pods, found)._asdict()}
            annotate(core, found, {BEFORE: json.dumps(before)})
        try:
            _resize(core, pod.pods, found, lowered(pod.pods, found, thousandths))
            _await(core, pod, found.metadata.uid, thousandths)
        except BaseException:
            lift(pod, run)
            raise


def lift(pod: BrokerPod, run: str) -> bool:
    """Undo :func:`limit` of the same run, and wait until the kubelet says that it is so. Return
    False if there is nothing to undo, because the pod was replaced. Raises as :func:`limit`."""
    lifted = False
    with core_api(pod.pods) as core, refusals():
        for found in pods_of(core, pod):
            if _by(found) != run:
                continue
            before = _before(found)
            if _cpu_of(pod.pods, found) != before:
                _resize(core, pod.pods, found, before)
            _await(core, pod, found.metadata.uid, _thousandths(before.limit))
            annotate(core, found, {BEFORE: None})
            lifted = True
    return lifted


def is_limited(pod: BrokerPod, run: str) -> bool:
    """Return whether the present pod is limited by :func:`limit` of that run."""
    with core_api(pod.pods) as core:
        return any(_by(found) == run for found in pods_of(core, pod))


def in_force(pod: BrokerPod) -> int | None:
    """Return the limit that the kubelet reports of the broker's container, in thousandths of one
    core; None without one. Raises InfraError without an answer."""
    with core_api(pod.pods) as core:
        return _in_force(pod.pods, present(core, pod))


def throttling(pod: BrokerPod) -> Throttling:
    """Return what the kernel has counted, by a program in the broker's container.

    Raises NotCounted with the reason if it cannot be read, as without the right to ``pods/exec``,
    and InfraError without an answer.
    """
    from websocket import WebSocketException

    from ackproof.infra.backends.kubernetes.pods import Pods

    with core_api(pod.pods) as core:
        found = present(core, pod)
        name, beside = found.metadata.name, pod.pods.beside(found)
        try:
            stream = Pods(core.api_client, pod.pods.namespace).execute(
                name, ["sh", "-c", _COUNTERS], beside
            )
            stream.settimeout(_COUNTED_WITHIN_S)
            status, output = stream.finish()
        except (OSError, WebSocketException) as error:
            raise NotCounted(f"no program runs in {name}: {error}") from error
    fields = dict(line.split() for line in output.splitlines() if len(line.split()) == 2)
    waited = fields.get("throttled_usec") or fields.get("throttled_time", "")[:-3] or "0"
    if status != 0 or "nr_throttled" not in fields:
        raise NotCounted(f"{name} does not show its control group: {output.strip() or status}")
    state = _state(found, beside)
    return Throttling(str(state and state.container_id), int(fields["nr_throttled"]), int(waited))


# --- survey ---------------------------------------------------------------------------------------


def survey(
    pods: BrokerPods, brokers: Collection[int], thousandths: Collection[int]
) -> Iterator[str]:
    """Yield why the brokers' containers cannot be limited to so many ``thousandths`` of one core.
    It is tried by dry runs. Nothing is changed. Raises InfraError without an answer."""
    with core_api(pods) as core:
        for broker in sorted(brokers):
            for found in pods_of(core, BrokerPod(pods=pods, broker=broker)):
                yield from dict.fromkeys(
                    reason
                    for amount in sorted(set(thousandths))
                    if (reason := _obstacle(core, pods, found, amount)) is not None
                )


def _obstacle(core: "CoreV1Api", pods: BrokerPods, pod: Any, thousandths: int) -> str | None:
    if (reason := unlimitable(pods, pod, thousandths)) is not None:
        return reason
    if _by(pod) is not None:
        return f"the CPU of {pod.metadata.name} is limited by another run: ackproof clean"
    try:
        _resize(core, pods, pod, lowered(pods, pod, thousandths), dry=True)
    except Refusal as refusal:
        return str(refusal)
    return None


def probed(pods: BrokerPods, brokers: Collection[int]) -> list[str]:
    """Return the names of the pods whose brokers the kubelet probes, and restarts if they do not
    answer in time (``livenessProbe``). Raises InfraError without an answer."""
    with core_api(pods) as core:
        found = [
            one
            for broker in sorted(brokers)
            for one in pods_of(core, BrokerPod(pods=pods, broker=broker))
        ]
    with_probe = ((one, _container(pods, one)) for one in found)
    return [one.metadata.name for one, of in with_probe if of and of.liveness_probe is not None]


def unlimitable(pods: BrokerPods, pod: Any, thousandths: int) -> str | None:
    """Return why the broker's container in a pod (``V1Pod``) cannot get a limit of so many
    thousandths of one core, or None if nothing is known against it."""
    name, container = pod.metadata.name, _container(pods, pod)
    if container is None:
        return f"{name} has no container {pods.beside(pod)}"
    policies = container.resize_policy or ()
    if any((one.resource_name, one.restart_policy) == ("cpu", _RESTARTS) for one in policies):
        return (
            f"the container {container.name} of {name} is restarted by each change of its CPU "
            "(resizePolicy): set NotRequired"
        )
    resources = container.resources
    if resources is None or "cpu" not in (resources.limits or {}):
        return (
            f"the container {container.name} of {name} has no CPU limit, and one that is set "
            "cannot be removed without a restart: set resources.limits.cpu"
        )
    before = _before(pod) if _by(pod) is not None else _cpu_of(pods, pod)
    if _thousandths(before.limit) <= thousandths:
        return (
            f"the container {container.name} of {name} has a CPU limit of {before.limit}, which is "
            f"not more than {thousandths}m: choose a smaller percent"
        )
    return None


# --- resources of a pod ---------------------------------------------------------------------------


def lowered(pods: BrokerPods, pod: Any, thousandths: int) -> Cpu:
    """Return a limit with the request that goes with it. The request must not be above it, and the
    QoS class must stay: requests that all equal their limits would make it Guaranteed."""
    request = _cpu_of(pods, pod).request
    if pod.status.qos_class == _GUARANTEED:
        request = f"{thousandths}m"
    elif _thousandths(request) >= thousandths:
        request = f"{thousandths - 1}m"
    return Cpu(f"{thousandths}m", request)


def _resize(core: "CoreV1Api", pods: BrokerPods, pod: Any, cpu: Cpu, *, dry: bool = False) -> None:
    """Change the CPU of the broker's container in that very pod. Raises Refusal."""
    name = pod.metadata.name
    change = {
        "metadata": {"uid": pod.metadata.uid},
        "spec": {"containers": [{"name": pods.beside(pod), "resources": dict(cpu.resources)}]},
    }
    trial = {"dry_run": "All", **LIMIT} if dry else LIMIT
    try:
        with answered(f"cannot resize {name}"):
            core.patch_namespaced_pod_resize(name, pod.metadata.namespace, change, **trial)
    except Refusal as refusal:
        if refusal.status != _NOT_FOUND:
            raise
        words = f"{refusal}: pods are resized in place from Kubernetes {IN_PLACE} on"
        raise Refusal(words, _NOT_FOUND) from refusal


def _await(core: "CoreV1Api", pod: BrokerPod, uid: str, thousandths: int) -> None:
    """Wait until the kubelet reports a limit. A container that does not run has none.

    Raises PodRefusal if the node cannot apply it, and InfraError if it does not in time.
    """
    words = ["the kubelet reports the former limit"]

    def applied() -> bool:
        found = next((one for one in pods_of(core, pod) if one.metadata.uid == uid), None)
        state = None if found is None else _state(found, pod.pods.beside(found))
        if found is None or state is None or state.state.running is None:
            return True
        if _in_force(pod.pods, found) == thousandths:
            return True
        pending = next((c for c in found.status.conditions or () if c.type == _PENDING), None)
        if pending is not None:
            words[:] = [f"{pending.reason}: {pending.message}"]
        if pending is not None and pending.reason == "Infeasible":
            raise PodRefusal(f"{pod} cannot be resized: {words[0]}")
        return False

    try:
        wait_until(applied, _APPLIED_WITHIN_S, "a resize", _EVERY_S)
    except TimeoutError:
        late = f"is not applied within {_APPLIED_WITHIN_S:g} s"
        raise InfraError(f"{pod}: a CPU limit of {thousandths}m {late}: {words[0]}") from None


def _in_force(pods: BrokerPods, pod: Any) -> int | None:
    state = _state(pod, pods.beside(pod))
    limits = (state and state.resources and state.resources.limits) or {}
    return _thousandths(limits["cpu"]) if "cpu" in limits else None


def _cpu_of(pods: BrokerPods, pod: Any) -> Cpu:
    """Return the CPU that the spec gives to the broker's container, which has a limit. The API
    server sets a request that is not given."""
    resources = _container(pods, pod).resources
    limit_of = str(resources.limits["cpu"])
    return Cpu(limit_of, str((resources.requests or {}).get("cpu", limit_of)))


def _container(pods: BrokerPods, pod: Any) -> Any:
    name = pods.beside(pod)
    return next((one for one in pod.spec.containers if one.name == name), None)


def _state(pod: Any, container: str) -> Any:
    statuses = pod.status.container_statuses or ()
    return next((one for one in statuses if one.name == container), None)


def _by(pod: Any) -> str | None:
    """Return the run that has limited the CPU of a pod; None if none has."""
    written = (pod.metadata.annotations or {}).get(BEFORE)
    return None if written is None else str(json.loads(written)["by"])


def _before(pod: Any) -> Cpu:
    written = json.loads(pod.metadata.annotations[BEFORE])
    return Cpu(written["limit"], written["request"])


def _thousandths(quantity: str) -> int:
    from kubernetes.utils import parse_quantity

    return int(parse_quantity(quantity) * 1000)
