"""Apache Kafka on hosts, as its operator runs it: a unit on each, which ``systemctl`` starts and
stops. The harness has deployed nothing of it."""

import contextlib
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient

from ackproof.infra.backends.ssh.connection import ProgramResult
from ackproof.infra.systems.kafka.jars import fetch, jars_of
from ackproof.infra.systems.kafka.releases import VERSIONS, released
from tests.support.processes.deadlines import PATIENCE_S
from tests.support.processes.process import until
from tests.support.ssh.hosts import SshHosts, ssh_hosts

IN_FORCE = {"broker.session.timeout.ms": 6_000, "replica.lag.time.max.ms": 6_000}
_PORT, _CONTROLLER_PORT = 9092, 9093
_CLUSTER_ID = "aG9zdHMtb2YtdGhlLXRlc3Q"
_SERVICE = "kafka"
_HOME = "/srv/kafka"
LOGS = f"{_HOME}/logs"
"""The log directory, which is on a small disk of its own."""
RACKS = ("a", "b", "a")
"""The rack of each broker."""
_DISK_MB = 256
_SYSTEMCTL = """\
#!/bin/sh
# systemctl, of one unit.
unit=/run/kafka.pid
alive() { kill -0 "$(cat $unit 2>/dev/null)" 2>/dev/null; }
case "$*" in
  "start kafka")
    alive && exit 0
    setsid COMMAND >> /srv/kafka/server.log 2>&1 < /dev/null &
    echo $! > $unit ;;
  "stop kafka")
    alive || exit 0
    kill -TERM "$(cat $unit)"
    while alive; do sleep 0.1; done ;;
  "kill --signal=SIG"*" kafka") kill -"${2#--signal=SIG}" "$(cat $unit)" ;;
  *) echo "Unit $2 could not be found."; exit 5 ;;
esac
"""
LOGGING = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
"""
LOGS_BY = "-Dlog4j2.configurationFile="
JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
COMMON: Mapping[str, object] = {
    **IN_FORCE,
    "controller.listener.names": "CONTROLLER",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
    "broker.heartbeat.interval.ms": 1300,
    "log.index.size.max.bytes": 1 << 20,
    "log.cleaner.dedupe.buffer.size": 8 << 20,
    "log.dirs": LOGS,
    "log.retention.check.interval.ms": 1000,
    "log.cleaner.backoff.ms": 1000,
}


class KafkaOnHosts:
    """Servers on a host each. ``jars`` is seen there, too. All are broker and controller, or with
    ``apart`` the last one alone is the controller, and the others are brokers."""

    def __init__(self, hosts: SshHosts, jars: Path, *, apart: bool) -> None:
        self.hosts = hosts
        self._jars = jars
        self._apart = apart
        there = list(enumerate(hosts.addresses, start=1))
        voters = there[-1:] if apart else there
        self._brokers = there[:-1] if apart else there
        self.voters = ",".join(f"{n}@{address}:{_CONTROLLER_PORT}" for n, address in voters)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{address}:{_PORT}" for _, address in self._brokers)

    def start(self) -> None:
        for number in range(len(self.hosts.addresses)):
            self._make(number)
            self._on(number, "systemctl", "start", _SERVICE)
        until("all brokers serve", self.complete, PATIENCE_S)

    def restart(self, number: int) -> None:
        """Restart a broker, whether it runs or has ended."""
        for word in ("stop", "start"):
            self._on(number, "systemctl", word, _SERVICE)
        until("all brokers serve", self.complete, PATIENCE_S)

    def address(self, broker: int) -> str:
        return self.hosts.addresses[broker - 1]

    def carry_out(self, broker: int, *argv: str) -> None:
        """Run a program on the host of a broker."""
        done = self.hosts.run(broker - 1, *argv)
        assert done.status == 0, done.output

    def kill(self, broker: int) -> None:
        self.carry_out(broker, "systemctl", "kill", "--signal=SIGKILL", _SERVICE)

    def start_again(self, broker: int) -> None:
        self.carry_out(broker, "systemctl", "start", _SERVICE)

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def complete(self) -> bool:
        with contextlib.suppress(Exception):
            return len(self.admin().list_topics(timeout=5).brokers) == len(self._brokers)
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
                "agent": True,
                "servers": self.servers(),
                **external,
            },
            "properties": IN_FORCE,
        }

    def process_state(self, number: int) -> str:
        """Return the letter of the state of the broker's process, see proc(5)."""
        return self.hosts.run(number, "ps", "-C", "java", "-o", "stat=").output.strip()[:1]

    def servers(self, **control: Any) -> Mapping[str, Any]:
        """The inventory: a unit on each host, or other means to control its broker."""
        login = {
            "user": "admin",
            "key": str(self.hosts.directory / "key"),
            "known.hosts": str(self.hosts.directory / "known_hosts"),
        }
        return {
            self._name(number): {
                **(control or {"systemd": _SERVICE}),
                "ssh": {"address": address, **login},
            }
            for number, address in enumerate(self.hosts.addresses, start=1)
        }

    def _name(self, number: int) -> str:
        return f"{'broker' if number <= len(self._brokers) else 'controller'}-{number}"

    def state(self, number: int) -> str:
        """Return all that a run may leave on a host: programs, rules, queues and files."""
        programs = self.hosts.run(number, "ps", "-e", "-o", "comm=").output.split()
        looks = (
            ["nft", "list", "ruleset"],
            ["tc", "qdisc"],
            ["ls", "-A", "/tmp", "/home/admin"],
            ["find", "/var/lib", "-maxdepth", "1", "-name", "ackproof"],
            ["find", LOGS, "-maxdepth", "1", "-name", ".ackproof*"],
        )
        found = [self.hosts.run(number, *look).output for look in looks]
        return "\n".join([*sorted(set(programs)), *found])

    def _make(self, number: int) -> None:
        address = self.hosts.addresses[number]
        properties = {
            **COMMON,
            "node.id": number + 1,
            "controller.quorum.voters": self.voters,
            **self._roles(number, address),
        }
        lines = "".join(f"{name}={value}\n" for name, value in properties.items())
        config = f"{_HOME}/server.properties"
        logging = f"{_HOME}/log4j2.properties"
        java = ["java", "-Xmx256m", *JVM, "-cp", f"{self._jars}/*"]
        program = _SYSTEMCTL.replace(
            "COMMAND", shlex.join([*java, LOGS_BY + logging, "kafka.Kafka", config])
        )
        # Its package is on the host. The file is sudo's, which makes it at its first use.
        self._on(number, "apt-get", "-qq", "install", "nftables")
        self._on(number, "touch", "/home/admin/.sudo_as_admin_successful")
        self._on(number, "mkdir", "-p", LOGS)
        self._on(number, "mount", "-t", "tmpfs", "-o", f"size={_DISK_MB}m", "tmpfs", LOGS)
        self._put(number, config, lines)
        self._put(number, logging, LOGGING)
        self._put(number, "/usr/local/bin/systemctl", program)
        self._on(number, "chmod", "755", "/usr/local/bin/systemctl")
        where = ["--cluster-id", _CLUSTER_ID, "--config", config]
        self._on(number, *java, "kafka.tools.StorageTool", "format", *where)

    def _roles(self, number: int, address: str) -> Mapping[str, str]:
        broker, controller = f"PLAINTEXT://{address}:{_PORT}", f"CONTROLLER://{address}:9093"
        if self._name(number + 1).startswith("controller"):
            return {"process.roles": "controller", "listeners": controller}
        rack = {"broker.rack": RACKS[number], "advertised.listeners": broker}
        if self._apart:
            return {**rack, "process.roles": "broker", "listeners": broker}
        both = f"{broker},{controller}"
        return {**rack, "process.roles": "broker,controller", "listeners": both}

    def _put(self, number: int, path: str, content: str) -> None:
        with self.hosts.logged_in(number) as connection:
            assert connection.run(["tee", path], content.encode()).status == 0

    def _on(self, number: int, *argv: str) -> ProgramResult:
        with self.hosts.logged_in(number) as connection:
            done = connection.run(argv, timeout=PATIENCE_S)
        assert done.status == 0, done.output
        return done


@contextlib.contextmanager
def kafka_on_hosts(directory: Path, *, apart: bool = False) -> Iterator[KafkaOnHosts]:
    """Yield a cluster of three brokers that serves; ``apart``: see :class:`KafkaOnHosts`. Needs
    root."""
    release = released(VERSIONS[-1])
    fetch(release, sys.stdout.write)
    # The hosts see the directories of this machine, except the users' homes and the project.
    with tempfile.TemporaryDirectory(prefix="ackproof-kafka-", dir="/opt") as seen:
        Path(seen).chmod(0o755)
        for jar in jars_of(release).path.glob("*.jar"):
            shutil.copy(jar, seen)
        with ssh_hosts(directory, 4 if apart else 3) as hosts:
            kafka = KafkaOnHosts(hosts, Path(seen), apart=apart)
            kafka.start()
            yield kafka
