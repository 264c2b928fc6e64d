"""The backend kubernetes without a cluster: what it would create, and its refusals."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kubernetes import client as kube

from ackproof.harness.cli import cli
from ackproof.infra.api.interface import InfraError, PodPlace
from ackproof.infra.backends.kubernetes import agent_pods, broker_pods, cluster, manifests
from ackproof.infra.backends.kubernetes.broker_pods import BrokerPods
from ackproof.infra.backends.kubernetes.manifests import PodSettings
from ackproof.infra.backends.kubernetes.pods import exit_status

PLAIN = PodSettings(image="registry.example/ackproof-node:1", resources={})

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
"""
"""No process listens at this port."""


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Set the variables that are given, and no other."""

    def only(**variables: str) -> None:
        for name in (cluster.IMAGE, cluster.CPU, cluster.MEMORY, cluster.STORAGE_CLASS):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.delenv("KUBECONFIG", raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return only


def container(settings: PodSettings) -> dict[str, Any]:
    (only,) = manifests.pod("broker-1", "run", settings)["spec"]["containers"]
    return dict(only)


def test_pod_has_no_right_but_to_affect_its_own_network() -> None:
    rights = container(PLAIN)["securityContext"]
    assert rights["capabilities"] == {"drop": ["ALL"], "add": ["NET_ADMIN"]}
    assert "privileged" not in rights
    assert rights["allowPrivilegeEscalation"] is False


def test_pod_with_disks_is_privileged() -> None:
    settings = PodSettings(image="i", resources={}, privileged=True)
    assert container(settings)["securityContext"]["privileged"] is True


def test_pod_is_never_restarted_and_gets_no_token() -> None:
    spec = manifests.pod("broker-1", "run", PLAIN)["spec"]
    assert spec["restartPolicy"] == "Never"
    assert spec["automountServiceAccountToken"] is False


def test_pods_of_a_run_are_kept_apart() -> None:
    pod = manifests.pod("broker-1", "run", PLAIN)
    (wish,) = pod["spec"]["affinity"]["podAntiAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]
    chosen = wish["podAffinityTerm"]["labelSelector"]["matchLabels"]
    assert chosen.items() <= pod["metadata"]["labels"].items()


def test_agent_of_a_pod_has_a_lease() -> None:
    *_, role, socket, lease = container(PLAIN)["command"]
    assert (role, float(lease)) == ("listen", manifests.LEASE_S)
    assert manifests.AGENT_CONNECTION[-2:] == ["connect", socket]


def test_storage_class_makes_a_claim_that_goes_with_the_pod() -> None:
    settings = PodSettings(image="i", resources={}, storage_class="fast")
    (plain,) = manifests.pod("a", "run", PLAIN)["spec"]["volumes"]
    (claimed,) = manifests.pod("a", "run", settings)["spec"]["volumes"]
    assert plain["emptyDir"] == {}
    claim = claimed["ephemeral"]["volumeClaimTemplate"]["spec"]
    assert claim["storageClassName"] == "fast"


def test_resources_are_requested_and_limited() -> None:
    settings = PodSettings(image="i", resources={"cpu": "2", "memory": "2Gi"})
    assert container(settings)["resources"] == {
        "requests": {"cpu": "2", "memory": "2Gi"},
        "limits": {"cpu": "2", "memory": "2Gi"},
    }


def test_account_has_rights_in_its_namespace_alone() -> None:
    assert manifests.role()["kind"] == "Role"
    binding = manifests.role_binding("run")
    assert binding["roleRef"]["kind"] == "Role"
    assert binding["subjects"][0]["namespace"] == "run"
    resources = {name for rule in manifests.role()["rules"] for name in rule["resources"]}
    assert resources == {"pods", "pods/exec", "pods/log"}


def test_namespace_names_its_owner() -> None:
    metadata = manifests.namespace("run")["metadata"]
    assert json.loads(metadata["annotations"][manifests.OWNER]).keys() == {"pid", "start", "boot"}
    assert metadata["labels"][manifests.MACHINE] == manifests.machine()


def test_namespace_of_a_harness_in_a_pod_names_the_pod_and_goes_with_its_owner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(manifests.OWN_POD, "nights/nightly-1")
    owner = {"kind": "ClusterRole", "name": "nightly"}
    metadata = manifests.namespace("run", owner)["metadata"]
    assert metadata["annotations"][manifests.POD] == "nights/nightly-1"
    assert metadata["ownerReferences"] == [owner]


def test_settings_come_from_the_environment(environment) -> None:
    environment(**{cluster.IMAGE: "i", cluster.CPU: "1", cluster.STORAGE_CLASS: "fast"})
    assert cluster.settings_from_environment(privileged=False) == PodSettings(
        image="i", resources={"cpu": "1"}, storage_class="fast"
    )


@pytest.mark.parametrize(
    ("by", "name", "labels", "broker"),
    [
        ("ordinal", "kafka-2", {}, 2),
        ("ordinal", "mine-pool-b-1004", {}, 1004),
        ("ordinal+100", "kafka-2", {}, 102),
        ("ordinal", "kafka-2x", {}, None),
        ("ordinal", "kafka-", {}, None),
        ("node/id", "kafka-2", {"node/id": "7"}, 7),
        ("node/id", "kafka-2", {"node/id": "seven"}, None),
        ("node/id", "kafka-2", {}, None),
    ],
)
def test_broker_of_a_pod_is_in_its_name_or_a_label(by: str, name: str, labels, broker) -> None:
    pods = BrokerPods(namespace="n", selector="app=kafka", id=by)
    assert pods.broker_of(name, labels) == broker


RESTARTS = [
    ("ManualRollingUpdate", 100.4),
    ("ConfigChangeRequiresRestart", 145.7),
    ("PodHasOldRevision", 145.7),
]
"""The reasons of Strimzi's operator for two restarts of a pod, and the seconds at which it gave
them. The pods were created at 0, 100 and 145 s, and the last one still runs."""


def restart_event(reason: str, at: float, pod: str = "mine-pool-1") -> "kube.CoreV1Event":
    return kube.CoreV1Event(
        metadata=kube.V1ObjectMeta(),
        action="StrimziInitiatedPodRestart",
        event_time=datetime.fromtimestamp(at, UTC),
        involved_object=kube.V1ObjectReference(kind="Kafka", name="mine"),
        reason=reason,
        related=kube.V1ObjectReference(kind="Pod", name=pod),
        reporting_component="operator",
    )


@pytest.mark.parametrize(
    ("created", "said", "words"),
    [
        (0, RESTARTS[:1], "operator: ManualRollingUpdate"),
        (100, RESTARTS, "operator: ConfigChangeRequiresRestart, operator: PodHasOldRevision"),
        (100, RESTARTS[:1], "unknown, because no event of Strimzi's operator names it"),
        (145, RESTARTS, "unknown, because no event of Strimzi's operator names it"),
        (0, [], "unknown, because no event of Strimzi's operator names it"),
    ],
    ids=["first", "second", "second-by-another", "third-by-another", "none"],
)
def test_reasons_of_a_restart_are_not_those_of_the_restart_before(
    created: float, said: list[tuple[str, float]], words: str
) -> None:
    events = [restart_event(*one) for one in said]
    events.append(restart_event("PodStuck", 300.0, pod="mine-pool-2"))
    former = PodPlace(uid="u", node="node-1", name="mine-pool-1", created=created)
    assert broker_pods.restart_reasons(events, former) == words


def made_pod(*owners: str) -> "kube.V1Pod":
    """A pod with these kinds of owners, of which the last one controls it."""
    references = [
        kube.V1OwnerReference(
            api_version="v1", kind=kind, name="o", uid="u", controller=kind == owners[-1]
        )
        for kind in owners
    ]
    return kube.V1Pod(metadata=kube.V1ObjectMeta(name="kafka-0", owner_references=references))


def test_pod_that_nothing_keeps_down_is_not_deleted() -> None:
    assert broker_pods.unkept(made_pod("StatefulSet")) is None
    assert broker_pods.unkept(made_pod("Deployment", "StrimziPodSet")) is None
    assert "kafka-0 has no owner" in (broker_pods.unkept(made_pod()) or "")
    assert "a pod of another name" in (broker_pods.unkept(made_pod("ReplicaSet")) or "")


VOLUMES = {
    "data": kube.V1Volume(name="data", empty_dir=kube.V1EmptyDirVolumeSource()),
    "own": kube.V1Volume(name="own", ephemeral=kube.V1EphemeralVolumeSource()),
    "here": kube.V1Volume(name="here", host_path=kube.V1HostPathVolumeSource(path="/x")),
    "kept": kube.V1Volume(
        name="kept",
        persistent_volume_claim=kube.V1PersistentVolumeClaimVolumeSource(claim_name="c"),
    ),
}


@pytest.mark.parametrize(
    ("mounts", "path", "storage"),
    [
        ({"/data": "data"}, "/data/logs", ("the emptyDir volume data", True)),
        ({"/data": "own"}, "/data", ("the ephemeral volume own", True)),
        ({"/data": "here"}, "/data/logs", ("the hostPath volume here", False)),
        ({"/data": "kept"}, "/data/logs", None),
        ({"/data": "data", "/data/logs": "kept"}, "/data/logs/0", None),
        ({"/data": "kept", "/": "data"}, "/data/logs", None),
        ({"/data": "kept"}, "/database", ("the file system of the container kafka", True)),
        ({}, "/tmp/logs", ("the file system of the container kafka", True)),
        ({"/data": "from a newer version"}, "/data", None),
    ],
)
def test_storage_of_logs_that_does_not_outlive_the_pod_is_named(mounts, path, storage) -> None:
    pod = made_pod("StatefulSet")
    mounted = [kube.V1VolumeMount(mount_path=at, name=name) for at, name in mounts.items()]
    pod.spec = kube.V1PodSpec(
        containers=[
            kube.V1Container(name="other", volume_mounts=[]),
            kube.V1Container(name="kafka", volume_mounts=mounted),
        ],
        volumes=list(VOLUMES.values()),
    )
    pods = BrokerPods(namespace="n", selector="app=kafka", container="kafka")
    found = broker_pods.storage_of(pods, pod, path)
    assert found == (None if storage is None else ("kafka-0", *storage))


def test_agents_container_may_affect_the_pod_and_see_the_broker_and_no_more() -> None:
    made = agent_pods.container("ackproof-1", "image", "kafka")
    assert made["targetContainerName"] == "kafka"
    rights = made["securityContext"]
    assert rights["allowPrivilegeEscalation"] is False
    assert "privileged" not in rights
    assert rights["capabilities"]["drop"] == ["ALL"]
    assert {"NET_ADMIN", "SYS_PTRACE"} <= set(rights["capabilities"]["add"])


@pytest.mark.parametrize(
    ("frame", "status"),
    [
        ({"status": "Success"}, (0, "")),
        (
            {
                "status": "Failure",
                "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
            },
            (3, ""),
        ),
        ({"status": "Failure", "message": "no python3"}, (126, "no python3")),
    ],
)
def test_exit_status_of_an_exec_is_in_its_last_frame(frame, status: tuple[int, str]) -> None:
    assert exit_status(json.dumps(frame).encode()) == status


def test_missing_image_is_refused_with_the_way_to_one(environment) -> None:
    environment()
    assert "make docker-image" in (cluster.unavailable() or "")
    with pytest.raises(InfraError, match="names no image"):
        cluster.settings_from_environment(privileged=False)


def test_missing_kubeconfig_is_refused(environment, tmp_path: Path) -> None:
    environment(**{cluster.IMAGE: "i"})
    assert "no kubeconfig" in (cluster.unavailable() or "")
    environment(**{cluster.IMAGE: "i", "KUBECONFIG": str(tmp_path / "absent")})
    assert "kubeconfig cannot be used" in (cluster.unavailable() or "")


def test_damaged_kubeconfig_is_refused(environment, tmp_path: Path) -> None:
    (tmp_path / "config").write_text("clusters: 7\n")
    environment(**{cluster.IMAGE: "i", "KUBECONFIG": str(tmp_path / "config")})
    assert "kubeconfig cannot be used" in (cluster.unavailable() or "")


def test_silent_cluster_is_reported_by_run_and_clean(environment, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(KUBECONFIG)
    environment(**{cluster.IMAGE: "i", "KUBECONFIG": str(tmp_path / "config")})
    assert "the API server does not answer" in (cluster.unavailable() or "")
    cleaned = CliRunner().invoke(cli, ["clean", "--backend", "kubernetes"])
    assert cleaned.exit_code == 5, cleaned.output
    assert "the API server does not answer" in cleaned.output
