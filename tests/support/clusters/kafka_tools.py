"""Apache Kafka's command line programs against a cluster, under the names of their scripts."""

from dataclasses import dataclass
from pathlib import Path

from tests.support.clusters.apache_kafka import KAFKA_3, KAFKA_4, java, run_class
from tests.support.processes.process import Process

_TOOLS = "org.apache.kafka.tools"
_PROGRAMS = {
    "kafka-cluster": f"{_TOOLS}.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-consumer-groups": f"{_TOOLS}.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": f"{_TOOLS}.ConsumerPerformance",
    "kafka-console-consumer": f"{_TOOLS}.consumer.ConsoleConsumer",
    "kafka-delete-records": f"{_TOOLS}.DeleteRecordsCommand",
    "kafka-get-offsets": f"{_TOOLS}.GetOffsetShell",
    "kafka-leader-election": f"{_TOOLS}.LeaderElectionCommand",
    "kafka-log-dirs": f"{_TOOLS}.LogDirsCommand",
    "kafka-producer-perf-test": f"{_TOOLS}.ProducerPerformance",
    "kafka-reassign-partitions": f"{_TOOLS}.reassign.ReassignPartitionsCommand",
    "kafka-replica-verification": f"{_TOOLS}.ReplicaVerificationTool",
    "kafka-topics": f"{_TOOLS}.TopicCommand",
    "kafka-transactions": f"{_TOOLS}.TransactionsCommand",
    "kafka-verifiable-consumer": f"{_TOOLS}.VerifiableConsumer",
    "kafka-verifiable-producer": f"{_TOOLS}.VerifiableProducer",
}
_MOVED = {
    KAFKA_3: {
        "kafka-acls": "kafka.admin.AclCommand",
        "kafka-broker-api-versions": "kafka.admin.BrokerApiVersionsCommand",
        "kafka-console-producer": "kafka.tools.ConsoleProducer",
    },
    KAFKA_4: {
        "kafka-acls": f"{_TOOLS}.AclCommand",
        "kafka-broker-api-versions": f"{_TOOLS}.BrokerApiVersionsCommand",
        "kafka-console-producer": f"{_TOOLS}.ConsoleProducer",
    },
}
_BOOTSTRAP = {
    "kafka-producer-perf-test": ("--producer-props", "bootstrap.servers={}"),
    "kafka-replica-verification": ("--broker-list", "{}"),
}

_COMMAND_FIRST = {"kafka-cluster"}
"""Whose options belong to the command that is the first word."""


@dataclass(frozen=True, slots=True)
class KafkaTools:
    """The programs of one version of Apache Kafka, for the cluster at ``bootstrap``."""

    version: str
    bootstrap: str

    def __call__(self, script: str, *arguments: str | Path, stdin: str | None = None) -> str:
        """Return the standard output of the program, which must end with status 0."""
        main, *rest = self._words(script, arguments)
        return run_class(main, *rest, version=self.version, stdin=stdin).stdout

    def process(self, script: str, *arguments: str | Path, log: Path) -> Process:
        """The program, not started yet."""
        main, *rest = self._words(script, arguments)
        return Process(java(main, *rest, version=self.version), log)

    def _words(self, script: str, arguments: tuple[str | Path, ...]) -> list[str]:
        main = (_PROGRAMS | _MOVED[self.version])[script]
        option, value = _BOOTSTRAP.get(script, ("--bootstrap-server", "{}"))
        where, words = [option, value.format(self.bootstrap)], list(map(str, arguments))
        return [main, *words, *where] if script in _COMMAND_FIRST else [main, *where, *words]
