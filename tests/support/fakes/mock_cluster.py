"""A cluster that librdkafka itself plays: real sockets, real protocol, faults at will.

librdkafka's mock cluster has topics, partition leaders and logs, but no replication, and no peer
that makes topics. What needs a cluster that replicates is tested with the bundled broker.
"""

import ctypes
from pathlib import Path

import confluent_kafka
from confluent_kafka import cimpl

PRODUCER = 0
"""``RD_KAFKA_PRODUCER``"""
VERSIONS_MAX = {0: 9, 1: 11}
"""The newest version of Produce and Fetch, by API key. From the next one on, an answer names the
current leader (KIP-951), and librdkafka 2.16 reads it through a null pointer where there is none:
its mock cluster takes the whole process with it."""


def _librdkafka() -> ctypes.CDLL:
    """The librdkafka that confluent_kafka has loaded: its wheel's own, else the system's."""
    package = Path(confluent_kafka.__file__).parent
    bundled = sorted((package.parent / "confluent_kafka.libs").glob("librdkafka*"))
    library = ctypes.CDLL(str(bundled[0]) if bundled else cimpl.__file__)
    library.rd_kafka_new.restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_new.restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    return library


class MockCluster:
    """librdkafka's mock cluster, of three brokers where nothing else is said. Partitions start with
    leader 1."""

    def __init__(self, brokers: int = 3) -> None:
        self._brokers = brokers
        self._library = _librdkafka()
        problem = ctypes.create_string_buffer(512)
        handle = self._library.rd_kafka_new(PRODUCER, None, problem, len(problem))
        assert handle, problem.value
        self._handle = ctypes.c_void_p(handle)
        self._cluster = ctypes.c_void_p(
            self._library.rd_kafka_mock_cluster_new(self._handle, ctypes.c_int(brokers))
        )
        for api_key, newest in VERSIONS_MAX.items():
            self._library.rd_kafka_mock_set_apiversion(
                self._cluster, ctypes.c_int16(api_key), ctypes.c_int16(0), ctypes.c_int16(newest)
            )
        self.bootstrap_servers = self._library.rd_kafka_mock_cluster_bootstraps(
            self._cluster
        ).decode()

    def create(self, topic: str, partitions: int) -> None:
        """Make a topic; of three brokers partition p is led by p % 3 + 1."""
        many = self._brokers
        self._library.rd_kafka_mock_topic_create(self._cluster, topic.encode(), partitions, many)
        for partition in range(partitions):
            self.lead(topic, partition, partition % many + 1)

    def lead(self, topic: str, partition: int, broker: int) -> None:
        """Make a broker the leader of a partition; -1 for none."""
        self._library.rd_kafka_mock_partition_set_leader(
            self._cluster, topic.encode(), partition, broker
        )

    def down(self, broker: int) -> None:
        self._library.rd_kafka_mock_broker_set_down(self._cluster, broker)

    def up(self, broker: int) -> None:
        self._library.rd_kafka_mock_broker_set_up(self._cluster, broker)

    def fail(self, api_key: int, error: int, times: int) -> None:
        """Answer the next ``times`` requests of a kind with an error."""
        errors = (ctypes.c_int * times)(*[error] * times)
        self._library.rd_kafka_mock_push_request_errors_array(
            self._cluster, ctypes.c_int16(api_key), ctypes.c_size_t(times), errors
        )

    def close(self) -> None:
        self._library.rd_kafka_mock_cluster_destroy(self._cluster)
        self._library.rd_kafka_destroy(self._handle)
