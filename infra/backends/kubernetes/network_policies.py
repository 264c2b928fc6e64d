"""NetworkPolicies that cut brokers' pods off from each other, where no agent may treat packets.

A NetworkPolicy is a list of what is allowed, and several that select the same pod add up. So a pod
has one policy of ours. It allows everything, in both directions, except connections with the pods
that it is cut off from. These are named by their addresses and by a label, because plug-ins differ
in what addresses of pods mean (Cilium takes no account of them). Another policy that allows the
same connection keeps it open only if there is one at each of its ends.

The plug-in of the cluster's network decides whether policies are in force, and whether connections
that are open already are cut. Neither is taken for granted: :func:`survey` tries it.
"""

import socket
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, NamedTuple

from ackproof.infra.api.interface import InfraError
from ackproof.infra.backends.kubernetes.broker_pods import (
    LIMIT,
    BrokerPod,
    BrokerPods,
    core_api,
    present,
)
from ackproof.infra.backends.kubernetes.cluster import Refusal, answered
from ackproof.infra.machine.parallel import on_all
from ackproof.infra.machine.waiting import wait_until

if TYPE_CHECKING:
    from kubernetes.client import ApiClient, CoreV1Api

    from ackproof.infra.backends.kubernetes.pods import ExecStream

Manifest = dict[str, Any]

RUN = "ackproof/run"
"""The label of our policies: the name of the run."""
_TRIAL = "trial"
"""The value of that label for policies that only try whether the plug-in enforces any."""
_NAMESPACE = "kubernetes.io/metadata.name"
_NOT_FOUND = 404
_LAST_PORT = 65_535
_CONNECTS_WITHIN_S = 3
_ANSWERS_WITHIN_S = 3
_ENFORCED_WITHIN_S = 15.0
"""The time that a plug-in may take for a new policy, in seconds."""
_EVERY_S = 0.5
_SLACK_S = 20.0
_NO_PROGRAM = (126, 127)
_CONNECT = 'exec 3<>"/dev/tcp/$0/$1"'
_HOLD = f"""\
export LC_ALL=C
trap '' PIPE
{_CONNECT} || exit 1
echo open
while read -r _; do
    while read -r -t 0.05 -N 1 -u 3 _; do :; done
    printf '\\0\\0\\0\\12\\0\\22\\0\\0\\0\\0\\0\\52\\377\\377' >&3 || {{ echo closed; continue; }}
    read -r -t {_ANSWERS_WITHIN_S} -N 1 -u 3 _
    status=$?
    if [ $status = 0 ]; then echo open
    elif [ $status -gt 128 ]; then echo silent
    else echo closed
    fi
done
"""
"""A program of bash that opens a connection, and for each line of its input asks the broker for its
versions (ApiVersions 0, which any listener without TLS answers). It prints whether bytes came back
(``open``), none did in time (``silent``), or the connection has ended (``closed``)."""


class NamedPod(NamedTuple):
    """A pod that a policy can select.

    Attributes:
        name: The name of the pod, which stays when the pod is replaced.
        label: The label whose value is the name, as StatefulSets and Strimzi set it.
        addresses: Its present addresses.
    """

    name: str
    label: str
    addresses: tuple[str, ...]


def named(pod: Any) -> NamedPod | None:
    """Return how a policy selects a pod (``V1Pod``) and its successors, or None if no label has its
    name."""
    name = pod.metadata.name
    labels = sorted(key for key, value in (pod.metadata.labels or {}).items() if value == name)
    if not labels:
        return None
    # The library of Kubernetes 1.34 and before spells the attribute in another way.
    of_pod = getattr(pod.status, "pod_ips", None) or getattr(pod.status, "pod_i_ps", None)
    addresses = [one.ip for one in of_pod or () if one.ip]
    return NamedPod(name, labels[0], tuple(addresses or filter(None, [pod.status.pod_ip])))


def apart(run: str, namespace: str, pod: NamedPod, peers: Sequence[NamedPod]) -> Manifest:
    """Return the policy that cuts a pod off from its peers, in both directions, and from nothing
    else."""
    cut_off: dict[str, list[str]] = {one: [] for one in sorted({peer.label for peer in peers})}
    for peer in peers:
        cut_off[peer.label].append(peer.name)
    not_in = [
        {"key": label, "operator": "NotIn", "values": sorted(names)}
        for label, names in cut_off.items()
    ]
    elsewhere = {"key": _NAMESPACE, "operator": "NotIn", "values": [namespace]}
    allowed = [
        *_addresses_but([address for peer in peers for address in peer.addresses]),
        {"namespaceSelector": {"matchExpressions": [elsewhere]}},
        {"podSelector": {"matchExpressions": not_in}},
    ]
    return _policy(
        f"ackproof-{pod.name}",
        run,
        {
            "podSelector": {"matchLabels": {pod.label: pod.name}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": allowed}],
            "egress": [{"to": allowed}],
        },
    )


def _addresses_but(addresses: Sequence[str]) -> list[Manifest]:
    blocks = []
    for version, everything, length in ((4, "0.0.0.0/0", 32), (6, "::/0", 128)):
        but = sorted(f"{one}/{length}" for one in addresses if ip_address(one).version == version)
        blocks.append({"ipBlock": {"cidr": everything, **({"except": but} if but else {})}})
    return blocks


def without_port(pod: NamedPod, port: int) -> Manifest:
    """Return the policy of a trial: a pod opens no TCP connections to one port, wherever it is."""
    ranges = [(1, port - 1), (port + 1, _LAST_PORT)]
    ports = [
        *({"protocol": "TCP", "port": first, "endPort": last} for first, last in ranges),
        {"protocol": "UDP", "port": 1, "endPort": _LAST_PORT},
    ]
    return _policy(
        f"ackproof-{_TRIAL}-{pod.name}",
        _TRIAL,
        {
            "podSelector": {"matchLabels": {pod.label: pod.name}},
            "policyTypes": ["Egress"],
            "egress": [{"ports": ports}],
        },
    )


def _policy(name: str, run: str, spec: Manifest) -> Manifest:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "labels": {RUN: run}},
        "spec": spec,
    }


# --- policies of a cluster ------------------------------------------------------------------------


def write(client: "ApiClient", namespace: str, policy: Manifest, *, dry: bool = False) -> None:
    """Create or replace a policy. ``dry``: only try whether the cluster admits it. Raises Refusal
    and InfraError."""
    from kubernetes.client import NetworkingV1Api

    policies, name = NetworkingV1Api(client), policy["metadata"]["name"]
    trial = {"dry_run": "All", **LIMIT} if dry else LIMIT
    with answered(f"cannot write the NetworkPolicy {name}"):
        try:
            with answered():
                policies.create_namespaced_network_policy(namespace, policy, **trial)
        except Refusal as refusal:
            if refusal.status != 409:
                raise
            policies.replace_namespaced_network_policy(name, namespace, policy, **trial)


def remove(client: "ApiClient", namespace: str, run: str, name: str | None = None) -> list[str]:
    """Remove the policies of a run, or the one of that name, and return their names. Raises Refusal
    and InfraError."""
    from kubernetes.client import NetworkingV1Api

    policies = NetworkingV1Api(client)
    with answered(f"cannot list NetworkPolicies in {namespace}"):
        found = policies.list_namespaced_network_policy(
            namespace, label_selector=f"{RUN}={run}", **LIMIT
        ).items
    names = [one.metadata.name for one in found if name in (None, one.metadata.name)]
    for one in names:
        try:
            with answered(f"cannot remove the NetworkPolicy {one}"):
                policies.delete_namespaced_network_policy(one, namespace, **LIMIT)
        except Refusal as refusal:
            if refusal.status != _NOT_FOUND:
                raise
    return names


# --- connections from inside of a pod -------------------------------------------------------------


class HeldConnection:
    """A TCP connection that a program in a broker's container has opened and keeps open.

    Raises InfraError if no such program runs there.
    """

    def __init__(self, pod: BrokerPod, host: str, port: int) -> None:
        self._stream, self._name = _started(pod, ["bash", "-c", _HOLD, host, str(port)])
        self.opened = self._answer() == "open"

    def state(self) -> str:
        """Ask the broker at the other end for an answer, and return ``open``, ``silent`` or
        ``closed``."""
        from websocket import WebSocketException

        try:
            self._stream.sendall(b"\n")
        except (OSError, WebSocketException):
            return "closed"
        return self._answer()

    def close(self) -> None:
        self._stream.close()

    def _answer(self) -> str:
        try:
            return self._stream.recv(100).decode().strip() or "closed"
        except ConnectionError:
            return "closed"
        except OSError as error:
            raise InfraError(f"{self._name}: a program there does not answer: {error}") from error


def reaches(pod: BrokerPod, host: str, port: int, within_s: float) -> bool:
    """Return whether a new TCP connection from a broker's pod succeeds. Raises InfraError if no
    program can be started in its container."""
    limit = max(1, round(within_s))
    stream, name = _started(pod, ["timeout", str(limit), "bash", "-c", _CONNECT, host, str(port)])
    with closing(stream):
        try:
            status, output = stream.finish()
        except OSError as error:
            raise InfraError(f"{name}: a program there does not end: {error}") from error
    if status in _NO_PROGRAM:
        raise InfraError(
            f"{name}: its container needs bash and timeout to try connections: {output.strip()}"
        )
    return status == 0


def _started(pod: BrokerPod, argv: Sequence[str]) -> tuple["ExecStream", str]:
    """Start a program in a broker's container, and return its stream, and the pod's name."""
    from websocket import WebSocketException

    from ackproof.infra.backends.kubernetes.pods import Pods

    with core_api(pod.pods) as core:
        found = present(core, pod)
        name = str(found.metadata.name)
        try:
            stream = Pods(core.api_client, pod.pods.namespace).execute(
                name, argv, pod.pods.beside(found)
            )
        except (OSError, WebSocketException) as error:
            raise InfraError(f"no program runs in {name}: {error}") from error
    stream.settimeout(_ANSWERS_WITHIN_S + _SLACK_S)
    return stream, name


# --- survey ---------------------------------------------------------------------------------------


def survey(pods: BrokerPods, brokers: Collection[int]) -> Iterator[str]:
    """Yield why policies would not cut the brokers' pods off from each other.

    It is tried: each pod opens a connection to a port of this process, and a policy forbids that
    port alone. Nothing of the brokers uses it, and the policy is removed again. Raises InfraError
    without an answer of the cluster.
    """
    with core_api(pods) as core:
        remove(core.api_client, pods.namespace, _TRIAL)
        for reasons in on_all(
            lambda broker: list(_obstacles(core, BrokerPod(pods=pods, broker=broker))),
            sorted(brokers),
        ):
            yield from reasons


def _obstacles(core: "CoreV1Api", pod: BrokerPod) -> Iterator[str]:
    found = present(core, pod)
    name = found.metadata.name
    if found.spec.host_network:
        yield f"{name} has the network of its node, which no NetworkPolicy treats"
        return
    if (selected := named(found)) is None:
        yield f"no label of {name} has its name, by which a NetworkPolicy would select it"
        return
    try:
        write(core.api_client, pod.pods.namespace, apart("r", "n", selected, []), dry=True)
        with closing(_TrialServer(selected.addresses[0])) as server:
            if (reason := _tried(core, pod, selected, server)) is not None:
                yield f"{name}: {reason}"
    except (Refusal, InfraError) as error:
        yield str(error)


def _tried(
    core: "CoreV1Api", pod: BrokerPod, selected: NamedPod, server: "_TrialServer"
) -> str | None:
    """Return why a policy does not keep a pod from its connections to a server here, or None if it
    does. Raises InfraError."""
    if not reaches(pod, server.host, server.port, _CONNECTS_WITHIN_S):
        return (
            f"whether NetworkPolicies are enforced cannot be tried: it does not reach {server.host}"
            f":{server.port} here; run Ackproof in a pod"
        )
    policy = without_port(selected, server.port)
    with closing(HeldConnection(pod, server.host, server.port)) as held:
        write(core.api_client, pod.pods.namespace, policy)
        try:
            with suppress(TimeoutError):
                wait_until(
                    lambda: not reaches(pod, server.host, server.port, _CONNECTS_WITHIN_S),
                    _ENFORCED_WITHIN_S,
                    "the enforcement of a policy",
                    _EVERY_S,
                )
                return None if held.state() == "silent" else _KEPT_OPEN
            return _NOT_ENFORCED
        finally:
            remove(core.api_client, pod.pods.namespace, _TRIAL, policy["metadata"]["name"])


_NOT_ENFORCED = (
    "the network plug-in of this cluster enforces no NetworkPolicies, or another one allows it "
    "everything"
)
_KEPT_OPEN = (
    "the network plug-in of this cluster applies NetworkPolicies to new connections alone, and "
    "brokers keep theirs open"
)


class _TrialServer:
    """A server of this process that answers each byte, at an address that a pod may reach."""

    def __init__(self, pod_address: str) -> None:
        family = socket.AF_INET6 if ":" in pod_address else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((pod_address, 9))  # no packet is sent: it chooses the address from here
            self.host = str(probe.getsockname()[0])
        self._listener = socket.create_server((self.host, 0), family=family)
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=_echo, args=(connection,), daemon=True).start()


def _echo(connection: socket.socket) -> None:
    with suppress(OSError), connection:
        while data := connection.recv(1024):
            connection.sendall(data)
