"""The claims of campaigns/known-losses/librdkafka-purged-transaction.md, on one broker of Kafka.

A librdkafka that keeps its committed records fails here: change the report then."""

import subprocess
import sys
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clusters.apache_kafka import KAFKA_3, KAFKA_4, java, run_class
from tests.support.processes.process import TIMEOUT_S, Process, free_port, listens, until

pytestmark = pytest.mark.kafka

SCRIPT = Path(__file__).parents[2] / "campaigns" / "known-losses" / "librdkafka_purged.py"
PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{quorum}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{quorum}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
log.dirs={logs}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
"""


@pytest.fixture(scope="module", params=[KAFKA_3, KAFKA_4])
def bootstrap(request, tmp_path_factory) -> Iterator[str]:
    """A broker that is its own controller."""
    directory = tmp_path_factory.mktemp("kafka")
    port = free_port()
    file = directory / "server.properties"
    file.write_text(
        PROPERTIES.format(port=port, quorum=free_port(), logs=directory / "logs"), encoding="utf-8"
    )
    cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    format_logs = ("format", "--cluster-id", f"x{cluster[1:]}", "--config", file)
    run_class("kafka.tools.StorageTool", *format_logs, version=request.param)
    broker = Process(java("kafka.Kafka", file, version=request.param), directory / "output")
    broker.start()
    try:
        until("the broker listens", lambda: listens(port))
        yield f"127.0.0.1:{port}"
    finally:
        broker.kill()


def outcome(bootstrap: str, *options: str) -> tuple[int, str]:
    """The script's exit status, and the last of what it says."""
    done = subprocess.run(
        [sys.executable, SCRIPT, bootstrap, *options],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert "read_committed" in done.stdout, done.stdout + done.stderr
    return done.returncode, done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("options", "read"),
    [([], "[b'committed-1']"), (["--late"], "[b'aborted', b'committed-1']")],
)
def test_a_committed_record_is_missing(bootstrap: str, options: list[str], read: str) -> None:
    assert outcome(bootstrap, *options) == (1, f"read_committed: {read}")


@pytest.mark.parametrize("options", [[], ["--late"]])
def test_flush_before_abort_loses_nothing(bootstrap: str, options: list[str]) -> None:
    kept = "[b'committed-0', b'committed-1']"
    assert outcome(bootstrap, *options, "--flush") == (0, f"read_committed: {kept}")
