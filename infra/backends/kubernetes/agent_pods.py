"""Agents in the pods of brokers that run already: a further container in a pod of its operator.

The container is an ephemeral one. It shares the pod's network and the processes of the broker's
container, so that the agent affects the pod's links, sees the broker's process and reads its files.
It ends when the harness has removed its agent, or when no run has used it for :data:`IDLE_S`. An
ephemeral container cannot be removed: its entry stays until the pod is replaced.
"""

import secrets
import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from websocket import WebSocketException

from ackproof.infra.api.interface import InfraError
from ackproof.infra.backends.kubernetes.broker_pods import BrokerPod, present
from ackproof.infra.backends.kubernetes.cluster import (
    ANSWERS_WITHIN_S,
    Refusal,
    answered,
    connected,
)
from ackproof.infra.backends.kubernetes.manifests import Manifest
from ackproof.infra.backends.kubernetes.pods import HOPELESS, PodConnection, Pods
from ackproof.infra.backends.ssh.connection import ProgramResult
from ackproof.infra.machine.waiting import wait_until
from ackproof.infra.node.agent_client import NodeGone

DIRECTORY = "/var/lib/ackproof-agent"
"""The directory of the agent in its container, and of all that it writes there."""
IDLE_S = 600.0
"""The time after which a container without a run ends, in seconds."""
_NAME = "ackproof-"
_RIGHTS = ("NET_ADMIN", "SYS_PTRACE", "KILL", "DAC_OVERRIDE")
_STARTS_WITHIN_S = 120.0
_EVERY_S = 0.3
_FRAME = 1 << 15
_LIFE = """\
import os, sys, time
base, idle = sys.argv[1], float(sys.argv[2])
used, came = time.monotonic(), False
while time.monotonic() - used < idle and not (came and not os.path.isdir(base)):
    came = came or os.path.isdir(base)
    if os.path.isdir(os.path.join(base, "run")):
        used = time.monotonic()
    time.sleep(1)
"""
"""The first program of the container. It ends when the agent's directory is gone, or idle."""
_FED = """\
import subprocess, sys
content = sys.stdin.buffer.read(int(sys.argv[1]))
sys.exit(subprocess.run(sys.argv[2:], input=content).returncode)
"""
"""A program that runs another one with so many bytes as its whole input. An exec cannot end its
input."""


class AgentPod:
    """The container for an agent in the pod of a broker, made if there is none: an
    ``infra.backends.ssh.connection.HostConnection``.

    Attributes:
        host: The name of the pod.

    Raises InfraError if the broker has no running pod, or the cluster refuses the container.
    """

    def __init__(self, pod: BrokerPod) -> None:
        self._pod = pod
        with ExitStack() as opened:
            client = opened.enter_context(connected(pod.pods.kubeconfig, pod.pods.context))
            self._pods = Pods(client, pod.pods.namespace)
            found = present(self._pods.core, pod)
            self.host = f"the pod {found.metadata.name}"
            self._name, self._uid = found.metadata.name, found.metadata.uid
            self._await(lambda now: _beside(now, pod) is not None, "the broker's container")
            self._container = _running(found) or self._make(found)
            self._beside = _beside(self._pods.read(self._name), pod)
            self._closing = opened.pop_all()

    def close(self) -> None:
        """Close every connection to it; the container stays. Idempotent."""
        self._closing.close()

    def channels(self, argv: Sequence[str], at_once: int) -> PodConnection:  # noqa: ARG002
        """Return a connection to the agent that ``argv`` starts, or connects with."""
        return PodConnection(self._pods, self._name, argv, self._container, self._gone)

    def run(
        self, argv: Sequence[str], content: bytes = b"", timeout: float = ANSWERS_WITHIN_S
    ) -> ProgramResult:
        """Run a program with ``content`` as its input, and return its exit status and all its
        output. Raises InfraError without an answer."""
        fed = ["python3", "-I", "-S", "-c", _FED, str(len(content)), *argv]
        try:
            stream = self._pods.execute(self._name, fed, self._container)
            stream.settimeout(timeout)
            for start in range(0, len(content), _FRAME):
                stream.sendall(content[start : start + _FRAME])
            return ProgramResult(*stream.finish())
        except (OSError, WebSocketException) as error:
            what = shlex.join(argv[:3])
            raise InfraError(f"{self.host}: {what}: {self._gone() or error}") from error

    def is_gone(self) -> bool:
        try:
            return self._gone() is not None
        except NodeGone:
            return True

    def is_elsewhere(self) -> bool:
        try:
            now = present(self._pods.core, self._pod)
        except InfraError:
            return False
        runs = _beside(now, self._pod) is not None
        return runs and now.metadata.deletion_timestamp is None and self.is_gone()

    def _gone(self) -> str | None:
        """Return None while the container runs, and then the reason of its end.

        Raises NodeGone if the broker's own container has ended, too.
        """
        try:
            now = self._pods.read(self._name)
        except Refusal as refusal:
            if refusal.status != 404:
                raise
            raise NodeGone(f"{self.host} is gone") from refusal
        if now.metadata.uid != self._uid:
            raise NodeGone(f"{self.host} was replaced")
        if _beside(now, self._pod) != self._beside:
            raise NodeGone(f"the broker's container in {self.host} has ended")
        for one in now.status.ephemeral_container_statuses or ():
            if one.name == self._container and one.state.running is not None:
                return None
        return f"the container of the agent in {self.host} has ended"

    def _make(self, found: Any) -> str:
        image = self._pod.pods.image
        if image is None:
            raise InfraError(f"{self.host}: no image of the agent's container is named")
        made = container(f"{_NAME}{secrets.token_hex(3)}", image, self._pod.pods.beside(found))
        patch = {"metadata": {"uid": self._uid}, "spec": {"ephemeralContainers": [made]}}
        with answered(f"{self.host} admits no container of the agent"):
            self._pods.core.patch_namespaced_pod_ephemeralcontainers(
                self._name, self._pods.namespace, patch, _request_timeout=ANSWERS_WITHIN_S
            )
        self._await(lambda now: _runs(now, made["name"]), "the container of the agent")
        return str(made["name"])

    def _await(self, condition: Any, what: str) -> None:
        try:
            wait_until(
                lambda: condition(self._pods.read(self._name)),
                _STARTS_WITHIN_S,
                f"{what} in {self.host}",
                _EVERY_S,
            )
        except TimeoutError as error:
            raise InfraError(str(error)) from error


def had_agent(pod: BrokerPod) -> bool:
    """Return whether an agent was ever put into the present pod of a broker. Raises InfraError."""
    from kubernetes.client import CoreV1Api

    with connected(pod.pods.kubeconfig, pod.pods.context) as client:
        found = present(CoreV1Api(client), pod)
    return any(
        one.name.startswith(_NAME) for one in found.status.ephemeral_container_statuses or ()
    )


def container(name: str, image: str, target: str) -> Manifest:
    """Return an ephemeral container for an agent beside the container ``target``."""
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-I", "-S", "-c", _LIFE, DIRECTORY, str(IDLE_S)],
        "targetContainerName": target,
        "securityContext": {
            "runAsUser": 0,
            "runAsNonRoot": False,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"], "add": list(_RIGHTS)},
        },
    }


def _running(pod: Any) -> str | None:
    """Return the container of an agent that runs in a pod, or None."""
    for one in pod.status.ephemeral_container_statuses or ():
        if one.name.startswith(_NAME) and one.state.running is not None:
            return str(one.name)
    return None


def _runs(pod: Any, name: str) -> bool:
    """Return whether the ephemeral container runs. Raises InfraError if it will not."""
    for one in pod.status.ephemeral_container_statuses or ():
        if one.name != name:
            continue
        state = one.state.waiting if one.state.terminated is None else one.state.terminated
        if one.state.terminated is not None or (state and state.reason in HOPELESS):
            said = " ".join(filter(None, (state.reason, state.message)))
            raise InfraError(f"the container of the agent in {pod.metadata.name}: {said}")
        return one.state.running is not None
    return False


def _beside(now: Any, pod: BrokerPod) -> str | None:
    """Return the id of the broker's container in a pod (``V1Pod``), or None unless it runs."""
    name = pod.pods.beside(now)
    for one in now.status.container_statuses or ():
        if one.name == name and one.state.running is not None:
            return str(one.container_id)
    return None
