"""The final read of a partition that ends librdkafka: it costs that partition its reading, and no
other."""

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from ackproof.history.names import FileStem
from ackproof.history.reader import by_stem, files, read, read_files
from ackproof.history.writer import TableWriter
from tests.support.clients.confluent import create_topic, produce
from tests.support.clusters.bundled import PATIENT, Cluster, running_cluster, until

pytestmark = pytest.mark.integration

PLAIN = "ackproof.workloads.reading_back.final_read"
TRANSACTIONAL = "ackproof.workloads.transactions.final_read"
TOPICS = {"damaged": 2, "sound": 2}
BATCHES, RECORDS = 4, 10
KILLED = "librdkafka ended its process: SIGABRT"
HOLDS = BATCHES * RECORDS


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One partition of ``damaged`` has a batch whose second half is zeros."""
    directory = tmp_path_factory.mktemp("final-read")
    overrides = PATIENT | {"offsets.topic.replication.factor": "1"}
    with running_cluster(directory, 1, overrides) as cluster:
        for topic, partitions in TOPICS.items():
            create_topic(cluster, topic, partitions, replication_factor=1)
            for number in range(partitions):
                for _ in range(BATCHES):
                    values = [b"v" * 100] * RECORDS
                    produce(cluster, topic, values, number, linger_ms=1000)
        half_zeroed(cluster, "damaged", 1)
        yield cluster


def half_zeroed(cluster: Cluster, topic: str, partition: int) -> None:
    """Its second batch, as half a page write leaves it: the header is right."""
    (segment,) = (cluster.brokers[1].logs / f"{topic}-{partition}").glob("*.log")
    with segment.open("r+b") as file:
        data = file.read()
        begin = batch_end(data, 0)
        end = batch_end(data, begin)
        file.seek((begin + end) // 2)
        file.write(bytes(end - (begin + end) // 2))


def batch_end(data: bytes, begin: int) -> int:
    return begin + 12 + int.from_bytes(data[begin + 8 : begin + 12], "big")


Start = Callable[..., subprocess.Popen]


@pytest.fixture
def start(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    started = []

    def start(module: str, **further: object) -> subprocess.Popen:
        path = tmp_path / f"specification-{len(started)}.json"
        specification = {
            "topics": [{"topic": topic, "partitions": many} for topic, many in TOPICS.items()],
            "bootstrap_servers": cluster.bootstrap,
            "history": str(tmp_path / "history"),
            "progress": str(tmp_path / "progress.json"),
            "deadline_s": 100,
        }
        path.write_text(json.dumps(specification | further))
        started.append(subprocess.Popen([sys.executable, "-P", "-m", module, str(path)]))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def rows(history: Path, table: str) -> Mapping[tuple[str, int], dict]:
    """Return the rows by partition, one each."""
    found = read(history, table).to_pylist()
    by_partition = {(row["topic"], row["partition"]): row for row in found}
    assert len(by_partition) == len(found)
    return by_partition


ALL = [(topic, number) for topic, many in TOPICS.items() for number in range(many)]


@pytest.mark.parametrize(
    ("module", "tables"),
    [
        (PLAIN, {"log": "reads"}),
        pytest.param(
            TRANSACTIONAL,
            {"log": "reads", "committed": "committed_reads"},
            marks=pytest.mark.long,  # the same processes, with one more table
        ),
    ],
)
def test_a_partition_that_ends_librdkafka_costs_no_other(
    start: Start, tmp_path: Path, module: str, tables: Mapping[str, str]
) -> None:
    groups = {"groups": {"sound": "g"}} if module == TRANSACTIONAL else {}
    assert start(module, **groups).wait() == -signal.SIGABRT
    history = tmp_path / "history"
    assert not files(history, "reads"), "librdkafka ended it before it was done"
    assert start(module, **groups, apart=True).wait() == 0
    closings = {
        (row["table"], row["writer"], row["topic"], row["partition"]): row["rows"]
        for row in read(history, "closings").to_pylist()
    }
    for table, reads in tables.items():
        told = rows(history, reads)
        assert sorted(told) == sorted(ALL)
        assert [key for key, row in told.items() if not row["complete"]] == [("damaged", 1)]
        assert told["damaged", 1]["error"].startswith(KILLED)
        assert closings[reads, "final-read", None, None] == len(ALL)
        counted = Counter((r["topic"], r["partition"]) for r in read(history, table).to_pylist())
        assert counted == {key: HOLDS for key in ALL if key != ("damaged", 1)}
        assert {stem.writer for stem in by_stem(history, table)} == {"final-read"}
        for key in ALL:
            assert closings[table, "final-read", *key] == counted[key]
    if groups:
        fetched = read(history, "transaction_offsets").to_pylist()
        assert [(row["topic"], row["partition"]) for row in fetched] == [("sound", 0), ("sound", 1)]


def test_leftovers_of_the_former_reader_do_not_count(start: Start, tmp_path: Path) -> None:
    """It had flushed rows of two partitions and closed one of its tables; what others have written
    stays as it is."""
    history = tmp_path / "history"
    row = ("sound", 0, 0, 0, 0, None, None, None)
    for partition in (("sound", 0), ("damaged", 1)):
        left = TableWriter(history, "log", "final-read", partition=partition)
        left.append((*partition, *row[2:]))
        left.flush()
    reads = TableWriter(history, "reads", "final-read")
    reads.append(("sound", 0, 0, 1, 1, 1, True, None))
    reads.close()
    another = TableWriter(history, "log", "another", partition=("sound", 0))
    another.append(row)
    another.close()
    assert start(PLAIN, apart=True).wait() == 0
    whose = by_stem(history, "log")
    mine = [path for stem, paths in whose.items() if stem.writer == "final-read" for path in paths]
    counted = Counter((r["topic"], r["partition"]) for r in read_files("log", mine).to_pylist())
    assert counted == {key: HOLDS for key in ALL if key != ("damaged", 1)}
    assert sorted(rows(history, "reads")) == sorted(ALL)
    (path,) = whose[FileStem(table="log", writer="another", partition=("sound", 0))]
    assert len(read_files("log", [path])) == 1


def test_unreadable_topic_leaves_the_others_their_time(start: Start, tmp_path: Path) -> None:
    """And is read once more when they are read, for as long as there is."""
    topics = [{"topic": "nobodys", "partitions": 1}, {"topic": "sound", "partitions": 2}]
    assert start(PLAIN, apart=True, topics=topics, deadline_s=16).wait() == 0
    told = rows(tmp_path / "history", "reads")
    assert {key for key, row in told.items() if row["complete"]} == {("sound", 0), ("sound", 1)}
    (seconds,) = re.findall(r"^(\S+) s had passed", told["nobodys", 0]["error"])
    assert float(seconds) != 8, "its first turn was half of the time"


@pytest.mark.parametrize("moment", ["its reader has just begun", "a topic is being read"])
def test_asked_to_stop_it_ends_and_says_so(start: Start, tmp_path: Path, moment: str) -> None:
    """Also while the reader of a topic does not listen yet."""
    nobodys = {"topic": "nobodys", "partitions": 1}
    process = start(PLAIN, apart=True, topics=[nobodys, {"topic": "sound", "partitions": 2}])
    begun = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text
    reads = (tmp_path / "progress.json").exists
    until(moment, reads if moment == "a topic is being read" else begun)
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait() == 0
    told = rows(tmp_path / "history", "reads")
    assert sorted(told) == [("nobodys", 0), ("sound", 0), ("sound", 1)]
    assert all("stopped" in row["error"] for row in told.values())
