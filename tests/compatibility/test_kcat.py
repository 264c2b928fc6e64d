"""kcat, a program on librdkafka of its distribution's age."""

import json
import shutil
import subprocess

import pytest

from tests.support.clients.confluent import create_topic
from tests.support.clusters.bundled import TIMEOUT_S, Cluster

KCAT = shutil.which("kcat")
pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(KCAT is None, reason="kcat is not installed (Debian package kcat)"),
]

LINES = [f"line {number}" for number in range(200)]


def kcat(cluster: Cluster, *arguments: str, stdin: str = "") -> str:
    done = subprocess.run(
        [str(KCAT), "-b", cluster.bootstrap, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_produces_and_consumes(cluster: Cluster, topic: str, codec: str) -> None:
    create_topic(cluster, topic)
    options = ("-z", codec, "-X", "acks=all", "-X", "enable.idempotence=true")
    kcat(cluster, "-P", "-t", topic, *options, stdin="\n".join(LINES))
    assert kcat(cluster, "-C", "-e", "-q", "-t", topic).splitlines() == LINES


def test_keys_headers_and_offsets(cluster: Cluster, topic: str) -> None:
    create_topic(cluster, topic)
    kcat(cluster, "-P", "-t", topic, "-K", ":", "-H", "colour=blue", stdin="a:1\nb:2\n")
    (line,) = kcat(cluster, "-C", "-e", "-q", "-J", "-t", topic, "-o", "1").splitlines()
    message = json.loads(line)
    found = {name: message[name] for name in ("offset", "key", "payload", "headers")}
    assert found == {"offset": 1, "key": "b", "payload": "2", "headers": ["colour", "blue"]}


def test_consumes_in_a_group(cluster: Cluster, topic: str) -> None:
    create_topic(cluster, topic, partitions=2)
    kcat(cluster, "-P", "-t", topic, stdin="\n".join(LINES))
    wanted = ("-G", f"{topic}-group", "-e", "-q", "-X", "auto.offset.reset=earliest", topic)
    assert sorted(kcat(cluster, *wanted).splitlines()) == sorted(LINES)
    assert kcat(cluster, *wanted) == ""


def test_kcat_lists_brokers_topics_and_offsets(cluster: Cluster, topic: str) -> None:
    create_topic(cluster, topic, partitions=2)
    kcat(cluster, "-P", "-t", topic, "-p", "1", stdin="\n".join(LINES))
    found = json.loads(kcat(cluster, "-L", "-J", "-t", topic))
    assert {broker["id"] for broker in found["brokers"]} == set(cluster.brokers)
    (listed,) = found["topics"]
    assert [len(partition["isrs"]) for partition in listed["partitions"]] == [3, 3]
    assert kcat(cluster, "-Q", "-t", f"{topic}:1:-1") == f"{topic} [1] offset {len(LINES)}\n"
