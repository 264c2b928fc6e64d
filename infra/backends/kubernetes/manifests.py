"""The objects of a run in a cluster, as Kubernetes takes them: a namespace, an account, and pods.

All of it is in the namespace of the run and goes with it. The account may do what the harness does
there, and nothing elsewhere.
"""

import json
import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Any

from ackproof.infra.agent.main import command_line
from ackproof.infra.api.interface import Capability
from ackproof.infra.machine.identity import ProcessIdentity

Manifest = dict[str, Any]

NEVER = {
    Capability.SLOW_DISKS: "/sys is read-only in pods",
    Capability.LIMIT_CPU: "control groups are read-only in pods",
    Capability.LIMIT_MEMORY: "control groups are read-only in pods",
}
"""The capabilities that no pod has, with the reasons."""

OWNER = "ackproof.owner"
"""The annotation of a namespace: the owner's ProcessIdentity as JSON."""
MACHINE = "ackproof.machine"
"""The label of a namespace: the name of the owner's machine. Every namespace of a run has it."""

POD = "ackproof.pod"
"""The annotation of a namespace whose owner runs in a pod: ``NAMESPACE/NAME`` of that pod."""
OWN_POD = "ACKPROOF_POD"
"""The environment variable that says the same to the owner."""

ENDED = ("Succeeded", "Failed")
"""The phases of a pod whose containers have ended for good."""

ACCOUNT = "harness"
CONTAINER = "node"
_RUN = "ackproof.run"
_PRIVILEGED = "privileged"
_POD_SECURITY = "pod-security.kubernetes.io/enforce"
"""The label of Pod Security Admission. NET_ADMIN is beyond the level ``baseline``."""

# These paths are those of the image (infra/backends/docker/Dockerfile).
HOME = PurePosixPath("/var/lib/ackproof")
ARTIFACTS = PurePosixPath("/opt/ackproof")
PYTHON = str(ARTIFACTS / "bin" / "python3")
SOURCES = ARTIFACTS / "src"
_SOCKET = "/run/ackproof.sock"

LEASE_S = 600
"""The time that a pod outlives the last request of its harness, in seconds."""
_GRACE_S = 5
_LABEL_MAX = 63

_RULES: Sequence[Mapping[str, Sequence[str]]] = (
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "delete", "get", "list"]},
    # The upgrade to a WebSocket is a GET, and from Kubernetes 1.35 on also needs "create".
    {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create", "get"]},
    {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
)
"""The rights of the account."""

AGENT_CONNECTION = command_line(PYTHON, str(SOURCES), "connect", _SOCKET)
"""The program that connects its standard input and output with a pod's agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSettings:
    """The settings of all pods of a run.

    Attributes:
        image: The reference of the image of a node.
        storage_class: The storage class of the claims that hold the nodes' files; None for files on
            the disk of the cluster's node (emptyDir).
        storage: The size of each claim, a quantity such as ``10Gi``.
        resources: The quantities of ``cpu`` and ``memory`` that a pod requests, and has as its
            limit. Empty for a pod without requests.
        privileged: Whether pods may mount file systems and use loop devices, as root of their
            cluster's node may.
    """

    image: str
    storage_class: str | None = None
    storage: str = "10Gi"
    resources: Mapping[str, str]
    privileged: bool = False


def machine() -> str:
    """Return the name of this machine as a label can have it."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:_LABEL_MAX].strip("._-")


def namespace(name: str, owner: Manifest | None = None) -> Manifest:
    """Return the namespace of a run of this process.

    ``owner`` is a reference to an object of the cluster, with which the namespace goes, too.
    """
    pod = os.environ.get(OWN_POD)
    identity = json.dumps(asdict(ProcessIdentity.of(os.getpid())))
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": name,
            "labels": {MACHINE: machine(), _POD_SECURITY: _PRIVILEGED},
            "annotations": {OWNER: identity, **({POD: pod} if pod else {})},
            "ownerReferences": [owner] if owner else [],
        },
    }


def account() -> Manifest:
    """Return the service account."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": ACCOUNT},
        "automountServiceAccountToken": False,
    }


def role() -> Manifest:
    """Return the role with the account's rights in the run's namespace."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": ACCOUNT},
        "rules": [dict(rule) for rule in _RULES],
    }


def role_binding(namespace_name: str) -> Manifest:
    """Return the binding of the role to the account of that namespace."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": ACCOUNT},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": ACCOUNT},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace_name}],
    }


def pod(name: str, run: str, settings: PodSettings) -> Manifest:
    """Return the pod of a node, whose first process is the agent.

    The pods of a run are put on different nodes of the cluster as far as possible. None is ever
    restarted: what a node had in memory would be lost, and nothing would tell.
    """
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {_RUN: run}},
        "spec": {
            "restartPolicy": "Never",
            "serviceAccountName": ACCOUNT,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "hostname": name,
            "terminationGracePeriodSeconds": _GRACE_S,
            "affinity": {"podAntiAffinity": _apart(run)},
            "containers": [_container(settings)],
            "volumes": [_volume(settings)],
        },
    }


def _container(settings: PodSettings) -> Manifest:
    return {
        "name": CONTAINER,
        "image": settings.image,
        "imagePullPolicy": "IfNotPresent",
        "command": [
            *command_line(PYTHON, str(SOURCES), "listen", _SOCKET, str(LEASE_S)),
        ],
        "workingDir": str(HOME),
        "securityContext": _rights(privileged=settings.privileged),
        "resources": {"requests": dict(settings.resources), "limits": dict(settings.resources)},
        "volumeMounts": [{"name": "files", "mountPath": str(HOME)}],
    }


def _rights(*, privileged: bool) -> Manifest:
    if privileged:
        return {"runAsUser": 0, "privileged": True}
    return {
        "runAsUser": 0,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN"]},
    }


def _volume(settings: PodSettings) -> Manifest:
    if settings.storage_class is None:
        return {"name": "files", "emptyDir": {}}
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": settings.storage_class,
        "resources": {"requests": {"storage": settings.storage}},
    }
    # A claim of this kind belongs to the pod and goes with it.
    return {"name": "files", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}


def _apart(run: str) -> Manifest:
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {_RUN: run}},
    }
    return {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 100, "podAffinityTerm": term}
        ]
    }
