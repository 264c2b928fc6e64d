"""Apache Kafka in pods, as its operator runs it: a StatefulSet of brokers, and a controller.

The harness has deployed nothing of it. The nodes of the cluster must see this machine's files.
"""

import contextlib
import os
import secrets
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import yaml
from confluent_kafka.admin import AdminClient
from kubernetes import client as kube
from kubernetes import utils
from kubernetes.client import ApiException

from ackproof.infra.backends.kubernetes.broker_pods import CORDONED_BY
from ackproof.infra.backends.kubernetes.cluster import connected
from ackproof.infra.systems.kafka.jars import fetch, jars_of
from ackproof.infra.systems.kafka.releases import VERSIONS, released
from tests.support.clusters.kafka_on_hosts import COMMON, IN_FORCE, JVM, LOGGING, LOGS_BY
from tests.support.processes.deadlines import PATIENCE_S
from tests.support.processes.process import until

BROKERS = 3
RACKS = {"r0": [0, 2], "r1": [1]}
_CONTROLLER = 100
_CLUSTER_ID = "cG9kcy1vZi10aGUtdGVzdC"
_LABELS = {"app": "kafka"}
_SELECTOR = "app=kafka"
_AS_STRIMZI = {
    "strimzi.io/cluster": "mine",
    "strimzi.io/broker-role": "true",
    "strimzi.io/controller-role": "false",
    "strimzi.io/pool-name": "pool",
}
"""The labels of Strimzi 1.2.0 for the pods of brokers of its resource ``Kafka`` named ``mine``.
Their container is ``kafka``, too, and the broker is a child of its first process."""
_RIGHTS = {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}
_APART: Mapping[str, Any] = {
    "podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 100,
                "podAffinityTerm": {
                    "topologyKey": "kubernetes.io/hostname",
                    "labelSelector": {"matchLabels": _LABELS},
                },
            }
        ]
    }
}
"""The wish that each broker has a node of its own."""
_SERVES = {"readinessProbe": {"tcpSocket": {"port": 9092}, "periodSeconds": 1}}
_CPU = {"requests": {"cpu": "100m"}, "limits": {"cpu": "2"}}
"""The resources of a broker's container."""
_BY_HAND = "test/by-hand"
ROLLING = "strimzi.io/manual-rolling-update"
"""The annotation by which Strimzi's operator is told to restart a pod."""
_START = """\
set -e
mkdir -p /data/logs
config=/data/server.properties
echo "$PROPERTIES" > $config
echo "node.id=$NODE_ID" >> $config
echo "LISTENERS" >> $config
java="java -Xmx256m JVM"
$java kafka.tools.StorageTool format --ignore-formatted --cluster-id CLUSTER --config $config
trap 'kill -TERM $child' TERM
echo "$LOGGING" > /data/log4j2.properties
$java LOGS_BY/data/log4j2.properties kafka.Kafka $config >> /data/server.log 2>&1 &
child=$!
wait $child || wait $child
"""


def _script(listeners: str) -> str:
    script = _START.replace("LISTENERS", listeners).replace("CLUSTER", _CLUSTER_ID)
    return script.replace("JVM", " ".join(JVM)).replace("LOGS_BY", LOGS_BY)


_BROKER = _script("listeners=PLAINTEXT://$POD_IP:9092\nbroker.rack=r$((NODE_ID % 2))")
_KEEPER = _script(
    "listeners=CONTROLLER://$POD_IP:9093\ncontroller.quorum.voters=$NODE_ID@$POD_IP:9093"
)


class Operator:
    """A stand-in for Strimzi's operator, for as long as the context lasts.

    It deletes the pods of brokers that have the annotation for a roll, one after another. It takes
    the next one when the former is ready, and says by an event that it has restarted a pod.
    """

    def __init__(self, kafka: "KafkaInPods") -> None:
        self._kafka = kafka
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._operate, daemon=True)

    def __enter__(self) -> "Operator":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(PATIENCE_S)

    def _operate(self) -> None:
        while not self._over.wait(0.5):
            ordered = [
                one
                for one in self._kafka.pods()
                if (one.metadata.annotations or {}).get(ROLLING) == "true"
            ]
            if ordered and all(map(_is_ready, self._kafka.pods())):
                self._restart(ordered[0])

    def _restart(self, pod: Any) -> None:
        core, name, namespace = self._kafka.core, pod.metadata.name, pod.metadata.namespace
        core.delete_namespaced_pod(name, namespace)
        until("the pod is replaced", lambda: pod.metadata.uid not in self._kafka.uids(), PATIENCE_S)
        event = {
            "metadata": {"generateName": "strimzi-event", "namespace": namespace},
            "action": "StrimziInitiatedPodRestart",
            "eventTime": datetime.now(UTC).isoformat(timespec="microseconds"),
            "reason": "ManualRollingUpdate",
            "regarding": {"kind": "Kafka", "name": "mine", "namespace": namespace},
            "related": {"kind": "Pod", "name": name, "namespace": namespace},
            "reportingController": "strimzi.io/cluster-operator",
            "reportingInstance": "stand-in",
            "type": "Normal",
        }
        kube.EventsV1Api(core.api_client).create_namespaced_event(namespace, event)


def _is_ready(pod: Any) -> bool:
    conditions = pod.status.conditions or ()
    ready = any(one.type == "Ready" and one.status == "True" for one in conditions)
    return ready and pod.metadata.deletion_timestamp is None


class KafkaInPods:
    """Three brokers of a StatefulSet behind a Service, and a controller in a pod of its own, in a
    namespace.

    Attributes:
        bootstrap: The address of the Service, which stays when pods come and go.
        voters: The address of the controller, as in ``controller.quorum.voters``.
    """

    def __init__(self, core: "kube.CoreV1Api", image: str, jars: Path, files: Path | None) -> None:
        self.core = core
        self.namespace = f"kafka-of-test-{secrets.token_hex(3)}"
        self._image, self._jars, self._files = image, jars, files
        self.bootstrap = self.voters = ""
        self._roles: list[str] = []

    def start(self) -> None:
        self.core.create_namespace({"metadata": {"name": self.namespace}})
        self.core.create_namespaced_pod(self.namespace, self._controller())
        until("the controller has an address", lambda: bool(self._address("keeper")), PATIENCE_S)
        self.voters = f"{_CONTROLLER}@{self._address('keeper')}:9093"
        service = self.core.create_namespaced_service(self.namespace, _service())
        self.bootstrap = f"{service.spec.cluster_ip}:9092"
        apps = kube.AppsV1Api(self.core.api_client)
        apps.create_namespaced_stateful_set(self.namespace, self._brokers())
        until("all brokers serve", self.complete, PATIENCE_S)

    def close(self) -> None:
        rights = kube.RbacAuthorizationV1Api(self.core.api_client)
        for name in self._roles:
            rights.delete_cluster_role_binding(name)
            rights.delete_cluster_role(name)
        self.core.delete_namespace(self.namespace)
        # A broker that ends gracefully waits for the controller, which ends, too.
        self.core.delete_collection_namespaced_pod(self.namespace, grace_period_seconds=0)
        until("the namespace is gone", self._is_gone, PATIENCE_S)

    def uids(self) -> Sequence[str]:
        """Return the uid of each broker's pod."""
        return [one.metadata.uid for one in self.pods()]

    def nodes(self) -> Sequence[str]:
        """Return the node that each broker's pod is on."""
        return [one.spec.node_name for one in self.pods()]

    def cordoned(self) -> set[str]:
        """Return the nodes that take no new pods, or have a mark that they once did not."""
        return {
            one.metadata.name
            for one in self.core.list_node().items
            if one.spec.unschedulable or CORDONED_BY in (one.metadata.annotations or {})
        }

    def forbid_evictions(self) -> None:
        """Make a disruption budget, named ``budget``, that forbids to evict any broker."""
        spec = {"minAvailable": BROKERS, "selector": {"matchLabels": _LABELS}}
        kube.PolicyV1Api(self.core.api_client).create_namespaced_pod_disruption_budget(
            self.namespace, {"metadata": {"name": "budget"}, "spec": spec}
        )

    def allow_evictions(self) -> None:
        kube.PolicyV1Api(self.core.api_client).delete_namespaced_pod_disruption_budget(
            "budget", self.namespace
        )

    def account(self, name: str, files: Sequence[Path]) -> str:
        """Return a kubeconfig of an account that has the rights in these files and no others.

        The files have the account ``ackproof`` in the namespace ``kafka``.
        """
        own = f"{self.namespace}-{name}"
        self.core.create_namespaced_service_account(self.namespace, {"metadata": {"name": own}})
        for document in (one for file in files for one in yaml.safe_load_all(file.read_text())):
            if document["kind"] not in _RIGHTS:
                continue
            document["metadata"] = {"name": f"{own}-{document['metadata']['name']}"}
            if document["kind"].endswith("Binding"):
                document["roleRef"]["name"] = document["metadata"]["name"]
                document["subjects"][0] |= {"name": own, "namespace": self.namespace}
            if document["kind"] == "ClusterRole":
                self._roles.append(document["metadata"]["name"])
            utils.create_from_dict(self.core.api_client, document, namespace=self.namespace)
        asked = {"spec": {"audiences": [], "expirationSeconds": 7200}}
        token = self.core.create_namespaced_service_account_token(own, self.namespace, asked)
        config = yaml.safe_load(Path(os.environ["KUBECONFIG"]).read_text())
        config["users"][0]["user"] = {"token": token.status.token}
        return str(yaml.safe_dump(config))

    def pods(self) -> Sequence[Any]:
        found = self.core.list_namespaced_pod(self.namespace, label_selector=_SELECTOR).items
        return sorted(found, key=lambda one: str(one.metadata.name))

    def annotate(self, broker: int) -> None:
        """Tell the operator to restart a broker's pod."""
        change = {"metadata": {"annotations": {ROLLING: "true"}}}
        self.core.patch_namespaced_pod(f"kafka-{broker}", self.namespace, change)

    def limits(self) -> Sequence[Any]:
        """Return the requests and limits of each broker's container, and the annotations of its
        pod."""
        return [
            (one.spec.containers[0].resources.to_dict(), one.metadata.annotations)
            for one in self.pods()
        ]

    def orders(self) -> list[str]:
        """Return the names of pods that the operator is told to restart."""
        return [
            one.metadata.name for one in self.pods() if ROLLING in (one.metadata.annotations or {})
        ]

    def finalizers(self) -> list[str]:
        found = self.core.list_namespaced_pod(self.namespace).items
        return [name for one in found for name in one.metadata.finalizers or ()]

    def agents(self) -> list[bool]:
        """Return of each agent's container that was ever put into a present pod whether it runs."""
        pods = self.core.list_namespaced_pod(self.namespace).items
        found = [one for pod in pods for one in pod.status.ephemeral_container_statuses or ()]
        return [one.state.running is not None for one in found]

    def rules(self, broker: int) -> str:
        """Return the rules and queues in the network of a broker's pod."""
        looks = (["nft", "list", "ruleset"], ["tc", "qdisc", "show", "dev", "eth0"])
        return "".join(self.carry_out(broker, *look) for look in looks)

    def address(self, broker: int) -> str:
        return self._address(f"kafka-{broker}")

    def carry_out(self, broker: int, *argv: str) -> str:
        """Run a program of this machine in the network of a broker's pod, and return its output."""
        inside = ["nsenter", "--net", f"--target={self._process(broker).pid}", *argv]
        return subprocess.run(inside, check=True, capture_output=True, text=True).stdout

    def kill(self, broker: int) -> None:
        """Delete a broker's pod without grace, and keep it from coming back."""
        name = f"kafka-{broker}"
        held = {"metadata": {"finalizers": [_BY_HAND]}}
        self.core.patch_namespaced_pod(name, self.namespace, held)
        self.core.delete_namespaced_pod(name, self.namespace, grace_period_seconds=0)

    def start_again(self, broker: int) -> None:
        free = {"metadata": {"$deleteFromPrimitiveList/finalizers": [_BY_HAND]}}
        self.core.patch_namespaced_pod(f"kafka-{broker}", self.namespace, free)

    def crash(self, broker: int) -> None:
        """Kill a broker's process, so that its container is started again in the same pod."""
        self._process(broker).kill()

    def _process(self, broker: int) -> psutil.Process:
        """Return the broker's process, which this machine sees: its nodes are here."""
        wanted = {"POD_NAME": f"kafka-{broker}", "NAMESPACE": self.namespace}
        for process in psutil.process_iter(["name"]):
            with contextlib.suppress(psutil.Error):
                if process.name() == "java" and wanted.items() <= process.environ().items():
                    return process
        raise LookupError(f"no process of kafka-{broker} is on this machine")

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def complete(self) -> bool:
        with contextlib.suppress(Exception):
            return len(self.admin().list_topics(timeout=5).brokers) == BROKERS
        return False

    def topics(self) -> set[str]:
        """Return the topics of users."""
        return {t for t in self.admin().list_topics(timeout=30).topics if t[:2] != "__"}

    def section(self, **external: Any) -> Mapping[str, Any]:
        """The section ``cluster`` of a campaign file."""
        return {
            "system": "external",
            "backend": "here",
            "external": {
                "bootstrap.servers": self.bootstrap,
                "kubernetes": {"namespace": self.namespace, "strimzi": "mine"},
                "controllers": {"quorum.voters": self.voters},
                **external,
            },
            "properties": IN_FORCE,
        }

    def _address(self, name: str) -> str:
        with contextlib.suppress(ApiException):
            return self.core.read_namespaced_pod(name, self.namespace).status.pod_ip or ""
        return ""

    def _is_gone(self) -> bool:
        try:
            self.core.read_namespace(self.namespace)
        except ApiException as error:
            return bool(error.status == 404)
        return False

    def _controller(self) -> Mapping[str, Any]:
        properties = {"process.roles": "controller"}
        variables = [{"name": "NODE_ID", "value": str(_CONTROLLER)}]
        return {"metadata": {"name": "keeper"}, "spec": self._pod(_KEEPER, properties, variables)}

    def _brokers(self) -> Mapping[str, Any]:
        properties = {"process.roles": "broker", "controller.quorum.voters": self.voters}
        index = "metadata.labels['apps.kubernetes.io/pod-index']"
        return {
            "metadata": {"name": "kafka"},
            "spec": {
                "replicas": BROKERS,
                "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": _LABELS},
                "template": {
                    "metadata": {"labels": {**_LABELS, **_AS_STRIMZI}},
                    "spec": {
                        **self._pod(
                            _BROKER,
                            properties,
                            [_of_field("NODE_ID", index)],
                            {**_SERVES, "resources": _CPU},
                        ),
                        "affinity": _APART,
                    },
                },
            },
        }

    def _pod(
        self,
        script: str,
        own: Mapping[str, str],
        variables: Sequence[Mapping[str, Any]],
        further: Mapping[str, Any] = {},
    ) -> Mapping[str, Any]:
        properties = {**COMMON, **own, "log.dirs": "/data/logs"}
        data = {"emptyDir": {}} if self._files is None else _of_host(self._files)
        lines = "\n".join(f"{name}={value}" for name, value in properties.items())
        return {
            "terminationGracePeriodSeconds": 60,
            "enableServiceLinks": False,
            "containers": [
                {
                    "name": "kafka",
                    "image": self._image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["sh", "-c", script],
                    **further,
                    "env": [
                        {"name": "PROPERTIES", "value": lines},
                        {"name": "CLASSPATH", "value": "/jars/*"},
                        {"name": "LOGGING", "value": LOGGING},
                        _of_field("POD_NAME", "metadata.name"),
                        {"name": "NAMESPACE", "value": self.namespace},
                        _of_field("POD_IP", "status.podIP"),
                        *variables,
                    ],
                    "volumeMounts": [
                        {"name": "jars", "mountPath": "/jars", "readOnly": True},
                        {"name": "data", "mountPath": "/data", "subPathExpr": "$(POD_NAME)"},
                    ],
                }
            ],
            "volumes": [
                {"name": "jars", **_of_host(self._jars)},
                {"name": "data", **data},
            ],
        }


def _service() -> Mapping[str, Any]:
    ports = [{"name": "kafka", "port": 9092}]
    return {"metadata": {"name": "kafka"}, "spec": {"selector": _LABELS, "ports": ports}}


def _of_host(path: Path) -> dict[str, Any]:
    return {"hostPath": {"path": str(path)}}


def _of_field(name: str, path: str) -> Mapping[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


@contextlib.contextmanager
def kafka_in_pods(files: Path | None, image: str) -> Iterator[KafkaInPods]:
    """Yield a cluster that serves.

    ``files`` is an empty directory, which all nodes share and pods find again. With None, the files
    of a pod are lost with it. ``image`` is one with Java.
    """
    release = released(VERSIONS[-1])
    fetch(release, print)
    with connected() as user:
        kafka = KafkaInPods(kube.CoreV1Api(user), image, jars_of(release).path, files)
        try:
            kafka.start()
            yield kafka
        finally:
            kafka.close()
