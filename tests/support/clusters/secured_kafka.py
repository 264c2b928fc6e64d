"""Apache Kafka as a strict operator runs it: TLS, with certificates for clients, too,
SCRAM and ACLs. Started by hand: the harness has deployed nothing of it."""

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from ackproof.infra.systems.kafka.jars import fetch, jars_of
from ackproof.infra.systems.kafka.releases import VERSIONS, released
from tests.support.builders.certificates import Authority
from tests.support.clusters import manual_broker
from tests.support.processes.deadlines import PATIENCE_S
from tests.support.processes.process import free_port, until

BROKERS = (1, 2, 3)
IN_FORCE = {"broker.session.timeout.ms": 6_000, "replica.lag.time.max.ms": 6_000}
OWNER, USER = "broker", "ackproof"
SECRETS = {
    "sasl.password": "hunter2 of ackproof's",
    "ssl.key.password": "its-key-is-locked-by-this",
}
"""Of the user."""
_OWNERS_PASSWORD = "the-owner-alone-knows"
_MECHANISM = "SCRAM-SHA-512"
_CLUSTER_ID = "c2VjdXJlZC1vZi10ZXN0cw"
_LOGGING = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""
_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_COMMON = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "SASL_SSL",
    "listener.security.protocol.map": "CONTROLLER:SSL,SASL_SSL:SASL_SSL",
    "sasl.enabled.mechanisms": _MECHANISM,
    "sasl.mechanism.inter.broker.protocol": _MECHANISM,
    "ssl.client.auth": "required",
    "ssl.keystore.type": "PEM",
    "ssl.truststore.type": "PEM",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # Controllers know each other by their certificates.
    "super.users": f"User:{OWNER};User:CN={OWNER}",
    # As of a cluster that is older than a week, the metadata log begins with a snapshot.
    "metadata.log.max.record.bytes.between.snapshots": "2000",
    "metadata.log.max.snapshot.interval.ms": "5000",
    "metadata.log.segment.ms": "3000",
    "metadata.max.retention.bytes": "2000",
    "metadata.max.retention.ms": "5000",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "broker.heartbeat.interval.ms": "1300",
    # Two index files of 10 MB for each replica are nothing that a test is about.
    "log.index.size.max.bytes": "1048576",
    "log.cleaner.dedupe.buffer.size": "8388608",
}
_PREFIX = "ackproof-"
_ALLOWED: Mapping[tuple[ResourceType, str, ResourcePatternType], tuple[str, ...]] = {
    (ResourceType.TOPIC, _PREFIX, ResourcePatternType.PREFIXED): (
        *("CREATE", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER", "ALTER_CONFIGS"),
        *("WRITE", "READ", "DELETE"),
    ),
    (ResourceType.TOPIC, "__consumer_offsets", ResourcePatternType.LITERAL): ("DESCRIBE",),
    (ResourceType.GROUP, _PREFIX, ResourcePatternType.PREFIXED): ("READ", "DESCRIBE", "DELETE"),
    (ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL): (
        *("DESCRIBE", "DESCRIBE_CONFIGS", "ALTER"),
    ),
}
"""What docs/your-cluster.md says that the user needs."""
_BY_CERTIFICATE = f"User:CN={USER}"
"""The user at the controllers' listener."""


class SecuredKafka:
    """Three servers on loopback, each broker and controller."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._release = released(VERSIONS[-1])
        self._ports = {n: free_port() for n in BROKERS}
        self._voters = ",".join(f"{n}@127.0.0.1:{free_port()}" for n in BROKERS)
        self._directories = {n: directory / f"broker-{n}" for n in BROKERS}
        self.authority = Authority(directory)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"localhost:{port}" for port in self._ports.values())

    @property
    def client(self) -> Mapping[str, str]:
        """Return the user's connection properties for librdkafka, without the secrets."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": _MECHANISM,
            "sasl.username": USER,
            "ssl.ca.location": str(self.authority.certificate),
            "ssl.certificate.location": str(self._directory / f"{USER}.pem"),
            "ssl.key.location": str(self._directory / f"{USER}.key"),
        }

    @property
    def controllers(self) -> Mapping[str, Any]:
        """Return the section about the controllers, whose listener asks for a certificate alone."""
        client = {name: v for name, v in self.client.items() if name.startswith("ssl.")}
        return {
            "quorum.voters": self._voters,
            "client": {"security.protocol": "SSL", **client},
            "secrets": {"ssl.key.password": {"file": "passphrase"}},
        }

    def start(self) -> None:
        fetch(self._release, sys.stdout.write)
        self.authority.issue(USER, SECRETS["ssl.key.password"])
        self.authority.issue(OWNER)
        for number in BROKERS:
            self._make(number)
            by_hand_do("start", self._directories[number])
        until("all brokers serve", self.complete, PATIENCE_S)
        self._allow()

    def kill(self) -> None:
        for directory in self._directories.values():
            manual_broker.end(directory, signal.SIGKILL)

    def admin(self) -> AdminClient:
        """Its owner's."""
        certificate, key = (str(self._directory / f"{OWNER}{end}") for end in (".pem", ".key"))
        return AdminClient(
            {
                **self.client,
                "ssl.certificate.location": certificate,
                "ssl.key.location": key,
                "sasl.username": OWNER,
                "sasl.password": _OWNERS_PASSWORD,
                "bootstrap.servers": self.bootstrap,
                "log_level": 0,
            }
        )

    def complete(self) -> bool:
        with contextlib.suppress(Exception):
            return len(self.admin().list_topics(timeout=5).brokers) == len(BROKERS)
        return False

    def topics(self) -> set[str]:
        """Return the topics of users."""
        return {t for t in self.admin().list_topics(timeout=30).topics if t[:2] != "__"}

    def groups(self) -> set[str]:
        """Return the groups with offsets or members."""
        admin = self.admin()
        listed = admin.list_consumer_groups(request_timeout=30).result()
        return {group.group_id for group in listed.valid}

    def runs(self, broker: int) -> bool:
        """Whether its process runs, neither gone nor stopped."""
        pid = manual_broker.pid_of(self._directories[broker])
        return manual_broker.runs(pid) and psutil.Process(pid).status() != psutil.STATUS_STOPPED

    def servers(self) -> Mapping[str, Any]:
        """The inventory: commands."""
        return manual_broker.inventory(self._directories)

    def section(self, **external: Any) -> Mapping[str, Any]:
        """The section ``cluster`` of a campaign file."""
        told = {"bootstrap.servers": self.bootstrap, "client": self.client, **external}
        return {
            "system": "external",
            "backend": "here",
            "external": told,
            "properties": IN_FORCE,
        }

    def _make(self, number: int) -> None:
        directory = self._directories[number]
        directory.mkdir()
        certificate, key = (self._directory / f"{OWNER}{end}" for end in (".pem", ".key"))
        (directory / "own.pem").write_bytes(key.read_bytes() + certificate.read_bytes())
        controller = self._voters.split(",")[number - 1].partition("@")[2]
        listener = f"SASL_SSL://localhost:{self._ports[number]}"
        login = "org.apache.kafka.common.security.scram.ScramLoginModule required"
        properties = {
            **_COMMON,
            **IN_FORCE,
            "node.id": number,
            "controller.quorum.voters": self._voters,
            "listeners": f"{listener},CONTROLLER://{controller}",
            "advertised.listeners": listener,
            "log.dirs": directory / "logs",
            "metadata.log.dir": directory / "metadata",
            "ssl.keystore.location": directory / "own.pem",
            "ssl.truststore.location": self.authority.certificate,
            f"listener.name.sasl_ssl.{_MECHANISM.lower()}.sasl.jaas.config": (
                f'{login} username="{OWNER}" password="{_OWNERS_PASSWORD}";'
            ),
        }
        lines = (f"{name}={value}\n" for name, value in properties.items())
        (directory / "server.properties").write_text("".join(lines))
        (directory / "log4j2.properties").write_text(_LOGGING)
        self._format(directory)
        command = [*self._java(directory, 256), "kafka.Kafka", self._properties(directory)]
        (directory / manual_broker.COMMAND).write_text(json.dumps(command))

    def _format(self, directory: Path) -> None:
        users = {OWNER: _OWNERS_PASSWORD, USER: SECRETS["sasl.password"]}
        told = [
            f"--add-scram={_MECHANISM}=[name={name},password={password}]"
            for name, password in users.items()
        ]
        where = ["--cluster-id", _CLUSTER_ID, "--config", self._properties(directory)]
        command = [*self._java(directory, 128), "kafka.tools.StorageTool", "format", *where, *told]
        subprocess.run(command, check=True, capture_output=True)

    def _java(self, directory: Path, heap_mb: int) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={directory / 'log4j2.properties'}"
        class_path = f"{jars_of(self._release).path}/*"
        return ["java", f"-Xmx{heap_mb}m", *_JVM, logging, "-cp", class_path]

    def _properties(self, directory: Path) -> str:
        return str(directory / "server.properties")

    def _allow(self) -> None:
        rules = [
            _allowed(f"User:{USER}", operation, *resource)
            for resource, operations in _ALLOWED.items()
            for operation in operations
        ]
        self._change_acls(rules, [])

    def allow(self, operation: str, prefixed: ResourceType, allowed: bool) -> None:
        """Let the user do an operation on topics, or groups, with the prefix, or no longer."""
        resource = (prefixed, _PREFIX, ResourcePatternType.PREFIXED)
        rule = _allowed(f"User:{USER}", operation, *resource)
        self._change_acls([rule] if allowed else [], [] if allowed else [_as_filter(rule)])

    def allow_controllers(self, allowed: bool) -> None:
        """Let the user read the metadata log, or no longer."""
        cluster = (ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL)
        rule = _allowed(_BY_CERTIFICATE, "CLUSTER_ACTION", *cluster)
        self._change_acls([rule] if allowed else [], [] if allowed else [_as_filter(rule)])

    def _change_acls(self, more: Sequence[AclBinding], gone: Sequence[AclBindingFilter]) -> None:
        admin = self.admin()
        answers = [
            *(admin.create_acls(more).values() if more else ()),
            *(admin.delete_acls(gone).values() if gone else ()),
        ]
        for answer in answers:
            answer.result()


def _allowed(
    user: str, operation: str, kind: ResourceType, name: str, pattern: ResourcePatternType
) -> AclBinding:
    allow = AclPermissionType.ALLOW
    return AclBinding(kind, name, pattern, user, "*", AclOperation[operation], allow)


def _as_filter(rule: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        rule.restype,
        rule.name,
        rule.resource_pattern_type,
        rule.principal,
        rule.host,
        rule.operation,
        rule.permission_type,
    )


def by_hand_do(what: str, directory: Path) -> None:
    """Carry the action out in a process of its own, like a shell's, so that the broker is no child
    of this one."""
    subprocess.run([sys.executable, manual_broker.__file__, what, str(directory)], check=True)


@contextlib.contextmanager
def secured_kafka(directory: Path) -> Iterator[SecuredKafka]:
    """One that serves, and is gone at the end."""
    kafka = SecuredKafka(directory)
    try:
        kafka.start()
        yield kafka
    finally:
        kafka.kill()
