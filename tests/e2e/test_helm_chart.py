"""The Helm chart: a cluster accepts what it renders, and a night in a cluster leaves a report."""

import contextlib
import json
import os
import secrets
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from kubernetes import client as kube
from kubernetes.client import ApiClient
from kubernetes.dynamic import DynamicClient

from ackproof.infra.backends.kubernetes.cleanup import leftovers
from ackproof.infra.backends.kubernetes.cluster import IMAGE, connected
from ackproof.infra.backends.kubernetes.manifests import POD
from ackproof.infra.machine.waiting import wait_until
from tests.e2e.conftest import PROJECT, SMALL
from tests.support.clusters.kafka_in_pods import KafkaInPods, kafka_in_pods
from tests.support.processes.deadlines import PATIENCE_S, TEST_S

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(2 * TEST_S)]

CHART = PROJECT / "deploy" / "helm" / "ackproof"
HELM = PROJECT / "tests" / "tools" / "kubernetes" / "helm.sh"
HARNESS_IMAGE = "ACKPROOF_TEST_HARNESS_IMAGE"
BUILT_WITHIN_S = 3600
NIGHT_S = 1200
RELEASE = "night"
NAME = "night-ackproof"
KEPT = {"kube-root-ca.crt", "default", "kubernetes"}
"""The objects that each namespace has, and the service of the API in ``default``."""


def helm(*arguments: str, status: int = 0) -> str:
    """Return what Helm prints, which ends with that status."""
    done = subprocess.run(
        [HELM, *arguments], capture_output=True, text=True, timeout=BUILT_WITHIN_S, check=False
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def client() -> Iterator[ApiClient]:
    with connected() as user:
        yield user


@pytest.fixture
def namespace(client: ApiClient) -> Iterator[str]:
    name = f"ackproof-test-{secrets.token_hex(4)}"
    core = kube.CoreV1Api(client)
    core.create_namespace({"metadata": {"name": name}})
    yield name
    core.delete_namespace(name)


# --- what it renders ------------------------------------------------------------------------------

NODE_IMAGE: Mapping[str, Any] = {"nodeImage": "ackproof-node:1"}
VALUES: Mapping[str, Mapping[str, Any]] = {
    "defaults": NODE_IMAGE,
    "external cluster": {
        "backend": "",
        "campaign": "mine.yaml",
        "campaigns": {"mine.yaml": "name: mine\n"},
        "skipRefused": False,
        "envFrom": [{"secretRef": {"name": "kafka-password"}}],
        "secretMounts": [{"secret": "kafka-tls", "path": "/secrets/kafka"}],
        "rbac": {
            "roles": {"default": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
            "drain": True,
        },
    },
    "object store": {
        **NODE_IMAGE,
        "results": {"volume": "emptyDir", "copyTo": "s3a://bucket/nights"},
        "server": {"enabled": False},
        "env": [{"name": "AWS_REGION", "value": "eu-central-1"}],
    },
    "everything": {
        **NODE_IMAGE,
        "fullnameOverride": "kafka-nights",
        "timeZone": "Europe/Berlin",
        "suspend": True,
        "system": "kafka:4.4.0",
        "seeds": 3,
        "arguments": ["--day", "2031-05-17"],
        "nodes": {"cpu": "2", "memory": "2Gi", "storageClass": "fast"},
        "results": {"days": 30, "storageClass": "fast", "accessMode": "ReadWriteMany"},
        "server": {
            "hosts": ["reports.internal"],
            "service": {"type": "NodePort"},
            "ingress": {
                "enabled": True,
                "className": "nginx",
                "host": "reports.example",
                "tlsSecret": "reports-tls",
                "annotations": {"a.example/b": "c"},
            },
        },
        "imagePullSecrets": [{"name": "registry"}],
        "serviceAccount": {"name": "nightly", "annotations": {"a.example/role": "r"}},
        "podAnnotations": {"a.example/b": "c"},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "tests", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
    },
}


def rendered(values: Path, namespace: str) -> Sequence[dict[str, Any]]:
    output = helm("template", RELEASE, str(CHART), "-f", str(values), "--namespace", namespace)
    return [document for document in yaml.safe_load_all(output) if document]


@pytest.mark.parametrize("values", VALUES.values(), ids=list(VALUES))
def test_cluster_accepts_every_rendered_object(client, namespace, tmp_path: Path, values) -> None:
    file = tmp_path / "values.json"
    file.write_text(json.dumps(values))
    helm("lint", str(CHART), "--strict", "-f", str(file))
    dynamic = DynamicClient(client)
    objects = rendered(file, namespace)
    assert {"CronJob"} <= {one["kind"] for one in objects}
    for one in objects:
        kind = dynamic.resources.get(api_version=one["apiVersion"], kind=one["kind"])
        where = one["metadata"].get("namespace", namespace) if kind.namespaced else None
        kind.create(body=one, namespace=where, dry_run="All")


@contextlib.contextmanager
def account(client: ApiClient, namespace: str, values: Path) -> Iterator[str]:
    """Yield the name of the user that a release's account is, with its rights alone."""
    dynamic = DynamicClient(client)
    made = []
    try:
        for one in rendered(values, namespace):
            if one["kind"] != "ServiceAccount" and "rbac" not in one["apiVersion"]:
                continue
            kind = dynamic.resources.get(api_version=one["apiVersion"], kind=one["kind"])
            where = one["metadata"].get("namespace", namespace) if kind.namespaced else None
            kind.create(body=one, namespace=where)
            made.append((kind, one["metadata"]["name"], where))
        yield f"system:serviceaccount:{namespace}:{NAME}"
    finally:
        for kind, name, where in made:
            kind.delete(name=name, namespace=where)


def may(client: ApiClient, user: str, verb: str, resource: str, namespace: str = "") -> bool:
    name, _, part = resource.partition("/")
    asked = {"verb": verb, "resource": name, "subresource": part, "namespace": namespace}
    review = kube.AuthorizationV1Api(client).create_subject_access_review(
        {"spec": {"user": user, "resourceAttributes": asked}}
    )
    return bool(review.status.allowed)


@pytest.mark.parametrize("drain", [True, False])
def test_account_may_cordon_nodes_only_if_the_values_say_so(
    client, namespace: str, tmp_path: Path, drain: bool
) -> None:
    evict = {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]}
    campaign = {"campaign": "mine.yaml", "campaigns": {"mine.yaml": "name: mine\n"}}
    rights = {"roles": {namespace: [evict]}, "drain": drain}
    file = tmp_path / "values.json"
    file.write_text(json.dumps({**campaign, "backend": "", "rbac": rights}))
    with account(client, namespace, file) as user:
        evicts = partial(may, client, user, "create", "pods/eviction")
        wait_until(lambda: evicts(namespace), PATIENCE_S, "the rights in the namespace", 0.2)
        cordons = partial(may, client, user, "patch", "nodes")
        wait_until(lambda: cordons() is drain, PATIENCE_S, "the rights on nodes", 0.2)
        assert may(client, user, "get", "nodes") is drain
        assert not evicts("default")
        others = {"delete nodes": "", "create nodes/proxy": "", "delete pods": namespace}
        for words, where in {**others, "get secrets": namespace}.items():
            assert not may(client, user, *words.split(), where), words


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({}, "nodeImage: the backend kubernetes needs the image of a node"),
        ({**NODE_IMAGE, "campaign": "mine.yaml"}, "mine.yaml is not among campaigns (there are"),
        ({**NODE_IMAGE, "results": {"volume": "emptyDir"}}, "set results.copyTo, or take a claim"),
        (
            {**NODE_IMAGE, "results": {"volume": "emptyDir", "copyTo": "s3a://b/n"}},
            "there are results to serve on a claim only",
        ),
        ({**NODE_IMAGE, "server": {"ingress": {"enabled": True}}}, "server.ingress.host"),
        ({**NODE_IMAGE, "campagin": "quick"}, "campagin"),
        ({**NODE_IMAGE, "results": {"copyTo": "s3a://key:secret@b"}}, "copyTo"),
    ],
)
def test_values_that_cannot_work_are_refused(tmp_path: Path, values, reason: str) -> None:
    file = tmp_path / "values.json"
    file.write_text(json.dumps(values))
    assert reason in helm("template", RELEASE, str(CHART), "-f", str(file), status=1)


# --- a night --------------------------------------------------------------------------------------


@contextlib.contextmanager
def storage(client: ApiClient, namespace: str, directory: Path) -> Iterator[str]:
    """Yield the name of a storage class: the cluster's default, else one with a single volume, in
    a directory of this machine."""
    default = "storageclass.kubernetes.io/is-default-class"
    for one in kube.StorageV1Api(client).list_storage_class().items:
        if (one.metadata.annotations or {}).get(default) == "true":
            yield ""
            return
    core = kube.CoreV1Api(client)
    node = core.list_node().items[0].metadata.name
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    core.create_persistent_volume(
        {
            "metadata": {"name": namespace},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": namespace,
                "local": {"path": str(directory)},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
            },
        }
    )
    try:
        yield namespace
    finally:
        core.delete_persistent_volume(namespace)


@contextlib.contextmanager
def release(
    client: ApiClient, namespace: str, directory: Path, campaign: str, values: Mapping[str, Any]
) -> Iterator[None]:
    """A release whose nights have one campaign and come by hand."""
    harness = os.environ.get(HARNESS_IMAGE)
    if not harness:
        pytest.skip(f"{HARNESS_IMAGE} names no image of the harness")
    repository, _, tag = harness.rpartition(":")
    file, volume = directory / "values.json", directory / "volume"
    volume.mkdir()
    with storage(client, namespace, volume) as storage_class:
        common = {
            "suspend": True,
            "campaign": "small.yaml",
            "campaigns": {"small.yaml": campaign},
            "image": {"repository": repository, "tag": tag, "pullPolicy": "IfNotPresent"},
            "results": {"size": "1Gi", "storageClass": storage_class, "days": 30},
            "resources": {"requests": {"cpu": "100m"}},
            "terminationGracePeriodSeconds": 60,
        }
        file.write_text(json.dumps({**common, **values}))
        into = ("--namespace", namespace)
        helm("install", RELEASE, str(CHART), "-f", str(file), *into, "--wait", "--timeout", "10m")
        yield
        if RELEASE in helm("list", *into, "--short"):
            helm("uninstall", RELEASE, *into, "--wait", "--timeout", "5m")


@pytest.fixture
def installed(client: ApiClient, namespace: str, tmp_path: Path) -> Iterator[str]:
    """The namespace of a release whose nights make a cluster in pods."""
    with release(client, namespace, tmp_path, SMALL, {"nodeImage": os.environ[IMAGE]}):
        yield namespace


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaInPods]:
    with kafka_in_pods(tmp_path_factory.mktemp("kafka"), os.environ[IMAGE]) as cluster:
        yield cluster


def start_night(client: ApiClient, namespace: str, name: str) -> None:
    """Make a job of the CronJob, as ``kubectl create job --from`` does."""
    batch = kube.BatchV1Api(client)
    nightly = batch.read_namespaced_cron_job(NAME, namespace)
    template = nightly.spec.job_template
    owner = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "name": NAME,
        "uid": nightly.metadata.uid,
        "controller": True,
    }
    metadata = {"name": name, "labels": template.metadata.labels, "ownerReferences": [owner]}
    batch.create_namespaced_job(namespace, {"metadata": metadata, "spec": template.spec})


def pod_of(client: ApiClient, namespace: str, job: str) -> Any:
    """Return the pod of a night, once there is one."""
    core = kube.CoreV1Api(client)
    chosen = f"batch.kubernetes.io/job-name={job}"
    found: list[Any] = []

    def is_there() -> bool:
        found[:] = core.list_namespaced_pod(namespace, label_selector=chosen).items
        return bool(found)

    wait_until(is_there, PATIENCE_S, f"the pod of {job}", 0.5)
    return found[0]


def run_namespaces(client: ApiClient, namespace: str) -> list[str]:
    """Return the namespaces of runs whose harness is in a pod of ``namespace``."""
    return [
        one.metadata.name
        for one in kube.CoreV1Api(client).list_namespace().items
        if (one.metadata.annotations or {}).get(POD, "").startswith(f"{namespace}/")
    ]


def served(client: ApiClient, namespace: str, path: str) -> str:
    """Return a page, from the address behind the service, under the service's name."""
    slices = kube.DiscoveryV1Api(client).list_namespaced_endpoint_slice(
        namespace, label_selector=f"kubernetes.io/service-name={NAME}"
    )
    ((address,),) = [one.addresses for one in slices.items[0].endpoints]
    host = {"Host": f"{NAME}.{namespace}.svc"}
    page = urllib.request.Request(f"http://{address}:8642/{path}", headers=host)
    with urllib.request.urlopen(page, timeout=PATIENCE_S) as answer:
        return str(answer.read().decode())


def left_in(client: ApiClient, namespace: str) -> list[str]:
    """Return the objects in a namespace, and the cluster's own that name the release in it."""
    core, apps, batch = kube.CoreV1Api(client), kube.AppsV1Api(client), kube.BatchV1Api(client)
    rights = kube.RbacAuthorizationV1Api(client)
    inside = (
        core.list_namespaced_pod,
        core.list_namespaced_service,
        core.list_namespaced_config_map,
        core.list_namespaced_secret,
        core.list_namespaced_service_account,
        core.list_namespaced_persistent_volume_claim,
        apps.list_namespaced_deployment,
        batch.list_namespaced_cron_job,
        batch.list_namespaced_job,
    )
    names = {one.metadata.name for listed in inside for one in listed(namespace).items}
    outside = (*rights.list_cluster_role().items, *rights.list_cluster_role_binding().items)
    names |= {one.metadata.name for one in outside if namespace in one.metadata.name}
    return sorted({*names, *run_namespaces(client, namespace)} - KEPT)


def ended_job(client: ApiClient, namespace: str, name: str) -> bool:
    """Return whether a job succeeded, when it has ended."""
    status: list[Any] = []

    def has_ended() -> bool:
        status[:] = [kube.BatchV1Api(client).read_namespaced_job(name, namespace).status]
        return bool(status[0].succeeded or status[0].failed)

    wait_until(has_ended, NIGHT_S, f"the end of {name}", 1)
    return bool(status[0].succeeded)


def ended_night(client: ApiClient, namespace: str, name: str) -> tuple[bool, str]:
    """Return whether a night succeeded, and its output, when it has ended."""
    succeeded = ended_job(client, namespace, name)
    pod = pod_of(client, namespace, name).metadata.name
    output = kube.CoreV1Api(client).read_namespaced_pod_log(pod, namespace, container="nightly")
    return succeeded, str(output)


def kill_harness(namespace: str, pod: str) -> None:
    """Kill the processes of a night as for want of memory. A pod that is deleted, even without
    grace, is asked to stop first, and heals its faults if it is quick."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("ACKPROOF_POD") == f"{namespace}/{pod}":
                process.kill()


NODES_ARE_HERE = pytest.mark.skipif(
    not os.environ.get("KUBECONFIG", "").startswith("/tmp/ackproof-kubernetes"),
    reason="the nodes must be on this machine, as those of tests/tools/kubernetes are",
)


def test_night_leaves_a_report_that_is_served(client, installed: str) -> None:
    start_night(client, installed, "by-hand")
    succeeded, output = ended_night(client, installed, "by-hand")
    assert succeeded, output
    assert "isolate#1 healed" in output
    assert run_namespaces(client, installed) == []

    assert 'href="latest/' not in served(client, installed, "")
    document = json.loads(served(client, installed, "latest/verdict.json"))
    cells = {cell["acks"]: cell for cell in document["cells"]}
    assert cells["all"]["verdict"] == "pass"
    assert "<h1" in served(client, installed, "latest/report.html")


@NODES_ARE_HERE
def test_uninstalling_leaves_nothing_even_of_a_killed_night(client, installed: str) -> None:
    start_night(client, installed, "killed")
    wait_until(lambda: run_namespaces(client, installed), NIGHT_S, "the namespace of a run", 0.5)
    pod = pod_of(client, installed, "killed").metadata.name
    (run,) = run_namespaces(client, installed)
    assert dict(leftovers(client))[run] is not None, "its harness is alive"
    start_night(client, installed, "too-early")
    succeeded, output = ended_night(client, installed, "too-early")
    assert (succeeded, "failed to get lock" in output) == (False, True), output
    assert run_namespaces(client, installed) == [run]
    kill_harness(installed, pod)
    wait_until(lambda: dict(leftovers(client))[run] is None, PATIENCE_S, "its end", 0.5)

    helm("uninstall", RELEASE, "--namespace", installed, "--wait", "--timeout", "5m")
    wait_until(lambda: not left_in(client, installed), PATIENCE_S, "the end of everything", 1)


@NODES_ARE_HERE
def test_next_night_restores_brokers_in_pods_after_a_killed_one(
    client, namespace: str, kafka: KafkaInPods, tmp_path: Path
) -> None:
    campaign = {
        **yaml.safe_load(SMALL),
        "cluster": kafka.section(),
        "cells": {"acks": "all", "min.insync.replicas": 2, "partitions": 2},
        "limits": {"fault": "5m", "ready": "5m", "recover": "5m", "teardown": "2m"},
        "evidence": {"acked.min": 50},
        "faults": [{"fault": "kill", "target": "broker-1", "hold": "30s"}],
    }
    rights = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "patch", "delete"]}]
    values = {"backend": "", "rbac": {"roles": {kafka.namespace: rights}}}
    with release(client, namespace, tmp_path, yaml.safe_dump(campaign), values):
        start_night(client, namespace, "killed")
        wait_until(kafka.finalizers, NIGHT_S, "the fault", 0.5)
        pod = pod_of(client, namespace, "killed").metadata.name
        kill_harness(namespace, pod)
        assert not ended_job(client, namespace, "killed")
        assert kafka.finalizers() == ["ackproof/held-down"]

        start_night(client, namespace, "next")
        succeeded, output = ended_night(client, namespace, "next")
    assert succeeded, output
    assert "kill#1 healed" in output
    assert (kafka.finalizers(), kafka.topics()) == ([], set())
