"""The consumers against real brokers: what they record is what the log holds."""

import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import count, pairwise
from pathlib import Path

import psutil
import pytest
from confluent_kafka import TopicPartition

from ackproof.history.cell import LIBRDKAFKA
from ackproof.history.payload import Identity
from ackproof.history.reader import read
from ackproof.infra.clients import programs
from ackproof.infra.machine.waiting import wait_until
from ackproof.workloads.interface import Delivery
from tests.support.clients.confluent import create_topic, watermarks
from tests.support.clients.consumer_groups import KILLED_SESSION_MS, OVERRIDES, committed
from tests.support.clients.here import here
from tests.support.clusters.bundled import PATIENT, Cluster, running_cluster
from tests.support.processes.deadlines import PATIENCE_S

pytestmark = pytest.mark.integration

PARTITIONS = 3
RATE = 300
QUICK = {"auto.commit.interval.ms": 200, "heartbeat.interval.ms": 300}
"""A group's properties, in tests that wait for commits and rebalances."""
COOPERATIVE_STICKY = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
QUICK_PROGRAM = {"heartbeat.interval.ms": 300}
OTHERS = [
    pytest.param(one, marks=pytest.mark.libraries) for one in ("java", "aiokafka", "franz-go")
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[Cluster]:
    """For tests that break no broker."""
    overrides = {**PATIENT, **OVERRIDES}
    with running_cluster(tmp_path_factory.mktemp("consumers"), overrides=overrides) as cluster:
        yield cluster


@pytest.fixture
def breakable(tmp_path_factory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("breakable"), overrides=OVERRIDES) as cluster:
        yield cluster


topics = (f"cell.{number}" for number in count())


class Clients:
    """The clients of one topic. Each has a directory of its own."""

    def __init__(self, start: Callable, cluster: Cluster) -> None:
        self._start = start
        self._cluster = cluster
        self.topic = next(topics)
        create_topic(cluster, self.topic, PARTITIONS, config={"min.insync.replicas": "2"})

    def producer(self, rate: float = RATE, **further: object):
        of_cell = {"cell": "c", "acks": "all", "producer": 0, "rate": rate, "record_bytes": 100}
        return self._client("ackproof.workloads.producing.producer", "producer", of_cell | further)

    def reader(self, name: str = "reader"):
        return self._client("ackproof.workloads.consuming.tail_reader", name, {"client": name})

    def member(
        self,
        name: str,
        delivery: Delivery,
        config: Mapping = {},
        library: str = LIBRDKAFKA,
        **further: object,
    ):
        quick = QUICK if library == LIBRDKAFKA else QUICK_PROGRAM
        of_group = {"client": name, "group": f"{self.topic}-g", "delivery": delivery, **further}
        of_group["consumer_config"] = {**quick, **config}
        if library == LIBRDKAFKA:
            return self._client("ackproof.workloads.consuming.group_member", name, of_group)
        of_group |= {"library": library, "program": programs.command(library, here())}
        return self._client("ackproof.workloads.foreign.member", name, of_group)

    def _client(self, module: str, name: str, further: Mapping):
        specification = {
            "topic": self.topic,
            "partitions": PARTITIONS,
            "bootstrap_servers": self._cluster.bootstrap,
            **further,
        }
        return self._start(module, specification, name)


@pytest.fixture
def clients(cluster: Cluster, client) -> Clients:
    return Clients(client, cluster)


def wait_for(condition: Callable[[], bool], *processes) -> None:
    """Wait for ``condition`` while the processes live."""

    def holds() -> bool:
        for process in processes:
            assert process.process.poll() is None, process.log()
        return condition()

    wait_until(holds, PATIENCE_S, f"a condition of {[p.figures() for p in processes]}")


def stop(*processes) -> None:
    for process in processes:
        process.process.terminate()
    for process in processes:
        assert process.wait() == 0, process.log()


def acked(directory: Path) -> dict[tuple[int, int], Identity]:
    """Return the identity of each acknowledged record by partition and offset."""
    return {
        (row["partition"], row["offset"]): Identity(row["cell"], row["producer"], row["sequence"])
        for row in read(directory, "sends").to_pylist()
        if row["type"] == "ok"
    }


def shown(directory: Path) -> dict[tuple[int, int], Identity]:
    """Return the records that a consumer read, in the form of :func:`acked`."""
    return {
        (row["partition"], row["offset"]): Identity(row["cell"], row["producer"], row["sequence"])
        for row in read(directory, "polls").to_pylist()
    }


def order(directory: Path) -> dict[int, list[int]]:
    """The offsets that a consumer was shown, in order, by partition."""
    found = defaultdict(list)
    for row in read(directory, "polls").to_pylist():
        found[row["partition"]].append(row["offset"])
    return found


def events(process) -> list[tuple]:
    columns = ("event", "partition", "offset")
    rows = read(process.history, "assignments", columns).to_pylist()
    return [tuple(row.values()) for row in rows]


def commits(process) -> dict[tuple[int, int], list[dict]]:
    """The rows of each commit and partition, in order."""
    found = defaultdict(list)
    for row in read(process.history, "commits").to_pylist():
        if row["type"] not in ("fetched", "looked"):
            found[row["commit"], row["partition"]].append(row)
    return found


def shared(*members) -> bool:
    """Whether they have all partitions between them, each one of them some."""
    has = [member.figures()["assigned"] for member in members]
    return all(has) and sum(has) == PARTITIONS


def holds_what_was_acked(cluster: Cluster, clients: Clients, producer, *consumers) -> None:
    """Between them they were shown the whole log, and every ack where it said it was."""
    seen: dict[tuple[int, int], Identity] = {}
    for consumer in consumers:
        seen |= shown(consumer.history)
    ends = [watermarks(cluster, clients.topic, p) for p in range(PARTITIONS)]
    assert set(seen) == {(p, o) for p, (low, high) in enumerate(ends) for o in range(low, high)}
    assert acked(producer.history).items() <= seen.items()


def test_a_tail_reader_is_shown_the_log_in_order_over_changes_of_leaders(
    breakable: Cluster, client
) -> None:
    clients = Clients(client, breakable)
    producer, reader = clients.producer(), clients.reader()
    wait_for(lambda: reader.figures()["shown"] > RATE, producer, reader)
    leader = breakable.leader(clients.topic, 0)
    breakable.brokers[leader].kill()
    wait_for(lambda: breakable.leader(clients.topic, 0) not in (-1, leader), producer, reader)
    before = producer.figures()["acked"]
    wait_for(lambda: producer.figures()["acked"] > before + 3 * RATE, producer, reader)
    breakable.brokers[leader].start()
    stop(producer)
    stop(reader)

    offsets = order(reader.history)
    assert {p: list(range(len(o))) for p, o in offsets.items()} == offsets
    holds_what_was_acked(breakable, clients, producer, reader)
    assert events(reader) == [("assigned", p, 0) for p in range(PARTITIONS)]
    polls = read(reader.history, "polls").to_pylist()
    times = {row["poll"]: row["time"] for row in polls}
    assert sorted(times) == list(range(1, len(times) + 1))
    assert all(a < b for a, b in pairwise(times[poll] for poll in sorted(times)))
    assert len({row["leader_epoch"] for row in polls if row["partition"] == 0}) > 1
    assert reader.figures()["shown"] == len(polls)


def test_a_stop_reads_to_the_end(cluster: Cluster, clients: Clients) -> None:
    producer = clients.producer(rate=2000)
    wait_for(lambda: producer.figures()["acked"] > 2000, producer)
    stop(producer)
    consumers = (
        clients.reader(),
        clients.member("alone", Delivery.AT_LEAST_ONCE),
    )
    wait_for(lambda: all(c.figures()["assigned"] == PARTITIONS for c in consumers), *consumers)
    stop(*consumers)
    for consumer in consumers:
        holds_what_was_acked(cluster, clients, producer, consumer)
        assert order(consumer.history).keys() == set(range(PARTITIONS))


# Members of the other tests commit at least once.
@pytest.mark.parametrize(
    ("library", "delivery"),
    [
        (LIBRDKAFKA, Delivery.AT_MOST_ONCE),
        (LIBRDKAFKA, Delivery.AUTO_COMMIT),
        pytest.param(LIBRDKAFKA, Delivery.AT_LEAST_ONCE, marks=pytest.mark.long),
        pytest.param("java", Delivery.AT_MOST_ONCE, marks=pytest.mark.libraries),
        pytest.param("java", Delivery.AT_LEAST_ONCE, marks=pytest.mark.libraries),
        pytest.param("aiokafka", Delivery.AT_MOST_ONCE, marks=pytest.mark.libraries),
        pytest.param("aiokafka", Delivery.AT_LEAST_ONCE, marks=pytest.mark.libraries),
        pytest.param("franz-go", Delivery.AT_MOST_ONCE, marks=pytest.mark.libraries),
    ],
)
def test_members_share_a_topic_and_commit(
    cluster: Cluster, clients: Clients, library: str, delivery: Delivery
) -> None:
    members = [clients.member(name, delivery, library=library) for name in ("a", "b")]
    wait_for(lambda: shared(*members), *members)
    producer = clients.producer()
    wait_for(lambda: all(m.figures()["committed"] > 3 for m in members), producer, *members)
    stop(producer)
    stop(*members)

    holds_what_was_acked(cluster, clients, producer, *members)
    for partition in range(PARTITIONS):
        end = watermarks(cluster, clients.topic, partition)[1]
        assert committed(cluster, f"{clients.topic}-g", clients.topic, partition) == end
    for member in members:
        assert {kinds(rows) for rows in commits(member).values()} <= expected(delivery)
        assert nothing_is_committed_before_it_is_shown(member)
        if library != LIBRDKAFKA:
            read_on_from_where_they_were_assigned(member)
        if delivery is Delivery.AT_MOST_ONCE:
            assert every_poll_is_committed_before_the_next(member)
        assert events(member)[-1][0] in ("revoked", "lost")


@pytest.mark.parametrize("instance", ["", pytest.param("static", marks=pytest.mark.long)])
def test_a_member_leaves_while_a_rebalance_waits_for_its_callback(
    cluster: Cluster, clients: Clients, tmp_path: Path, instance: str
) -> None:
    """Were it only closed, it would hang with Python's lock held."""
    said = tmp_path / "said.log"
    arguments = [cluster.bootstrap, f"{clients.topic}-g", clients.topic, instance]
    command = [sys.executable, "-m", "tests.support.clients.leaving_member", *arguments]
    with (
        said.open("wb") as log,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log) as leaving,
    ):
        try:
            wait_until(lambda: b"joined" in said.read_bytes(), PATIENCE_S, "a member")
            other = clients.member("b", Delivery.AUTO_COMMIT)
            revoked = b"delegating revoke"
            wait_until(lambda: revoked in said.read_bytes(), PATIENCE_S, "a rebalance")
            leaving.communicate(b"\n", timeout=PATIENCE_S)
        finally:
            leaving.kill()
    assert leaving.returncode == 0
    if not instance:
        wait_for(lambda: other.figures()["assigned"] == PARTITIONS, other)
    stop(other)


def kinds(rows: list[dict]) -> tuple[str, ...]:
    return tuple(row["type"] for row in rows)


def expected(delivery: Delivery) -> set[tuple[str, ...]]:
    """A rebalance may overtake a commit."""
    if delivery is Delivery.AUTO_COMMIT:
        return {("ok",), ("info",)}
    return {("invoke", "ok"), ("invoke", "info")}


def nothing_is_committed_before_it_is_shown(member) -> bool:
    ends = defaultdict(list)
    for row in read(member.history, "polls").to_pylist():
        ends[row["partition"]].append((row["poll"], row["offset"] + 1))
    return all(
        any(poll <= row["poll"] and end >= row["offset"] for poll, end in ends[partition])
        for (_, partition), rows in commits(member).items()
        for row in rows[:1]
    )


def every_poll_is_committed_before_the_next(member) -> bool:
    shown_at = {row["poll"]: row["time"] for row in read(member.history, "polls").to_pylist()}
    answered = {
        (row["poll"], row["partition"], row["offset"]): row["time"]
        for rows in commits(member).values()
        for row in rows[1:]
    }
    last = {
        (row["poll"], row["partition"]): row["offset"] + 1
        for row in read(member.history, "polls").to_pylist()
    }
    return all(
        shown_at[poll] <= answered[poll, partition, end] <= shown_at.get(poll + 1, float("inf"))
        for (poll, partition), end in last.items()
    )


def read_on_from_where_they_were_assigned(member) -> None:
    """Check that each read of a partition follows the one before, from its assignment on."""
    reads = read(member.history, "polls").to_pylist()
    changes = read(member.history, "assignments").to_pylist()
    due: dict[int, int | None] = {}
    for row in sorted([*reads, *changes], key=lambda row: (row["poll"], "event" in row)):
        partition, offset = row["partition"], row["offset"]
        if "event" in row:
            due[partition] = offset
        else:
            assert due[partition] in (None, offset), f"partition {partition} in poll {row['poll']}"
            due[partition] = offset + 1


@pytest.mark.parametrize("library", OTHERS)
def test_members_of_a_library_know_tombstones_by_their_headers(
    cluster: Cluster, clients: Clients, library: str
) -> None:
    member = clients.member("a", Delivery.AT_LEAST_ONCE, library=library, tombstones=True)
    wait_for(lambda: member.figures()["assigned"] == PARTITIONS, member)
    producer = clients.producer(keys=6, tombstones=0.3)
    wait_for(lambda: member.figures()["shown"] > RATE, producer, member)
    stop(producer)
    stop(member)
    assert any(row["tombstone"] for row in read(producer.history, "sends").to_pylist())
    holds_what_was_acked(cluster, clients, producer, member)


@pytest.mark.parametrize(
    ("library", "strategy"),
    [
        (LIBRDKAFKA, "cooperative-sticky"),
        pytest.param("java", COOPERATIVE_STICKY, marks=pytest.mark.libraries),
        pytest.param("franz-go", COOPERATIVE_STICKY, marks=pytest.mark.libraries),
    ],
)
def test_cooperative_member_receives_new_partitions_only(
    cluster: Cluster, clients: Clients, library: str, strategy: str
) -> None:
    config = {"partition.assignment.strategy": strategy}
    producer = clients.producer()
    first = clients.member("a", Delivery.AT_LEAST_ONCE, config, library)
    wait_for(lambda: first.figures()["assigned"] == PARTITIONS, producer, first)
    second = clients.member("b", Delivery.AT_LEAST_ONCE, config, library)
    wait_for(lambda: shared(first, second), producer, first, second)
    stop(producer)
    stop(first)  # it alone: it would else be given what the other leaves
    stop(second)
    holds_what_was_acked(cluster, clients, producer, first, second)
    given = [event for event in events(first) if event[0] == "assigned" and event[1] is not None]
    taken = [event for event in events(first) if event[0] == "revoked"]
    assert len(given) == PARTITIONS, "what it keeps is not given to it again"
    assert len(taken) >= PARTITIONS, "all is given up in the end"


@pytest.mark.parametrize("library", [LIBRDKAFKA, *OTHERS])
def test_a_killed_member_leaves_its_history_and_its_partitions(
    cluster: Cluster, clients: Clients, library: str
) -> None:
    config = {"session.timeout.ms": KILLED_SESSION_MS}
    members = [clients.member(name, Delivery.AT_LEAST_ONCE, config, library) for name in ("a", "b")]
    wait_for(lambda: shared(*members), *members)
    producer = clients.producer()
    killed, left = members
    wait_for(lambda: killed.figures()["committed"] > 3, producer, *members)
    killed.process.kill()
    killed.wait()
    wait_for(lambda: left.figures()["assigned"] == PARTITIONS, producer, left)
    stop(producer)
    stop(left)

    starts = {row[1]: row[2] for row in events(left) if row[0] == "assigned"}
    of_killed = order(killed.history)
    assert of_killed
    recorded = commits(killed)
    for partition, offsets in of_killed.items():
        # What was flushed is a second old at most: it may have committed more than it tells.
        ends = [
            rows[-1]["offset"]
            for (_, number), rows in recorded.items()
            if number == partition and rows[-1]["type"] == "ok"
        ]
        assert starts[partition] >= max(ends, default=0)
        assert offsets == list(range(offsets[0], offsets[0] + len(offsets)))
    seen = shown(left.history)
    for partition, start in starts.items():
        end = watermarks(cluster, clients.topic, partition)[1]
        # Where nothing was committed, which a cooperative member may keep, it begins at the start.
        assert {(partition, offset) for offset in range(start or 0, end)} <= seen.keys()


@pytest.mark.parametrize("library", OTHERS)
def test_member_paused_past_its_session_joins_again(
    cluster: Cluster, clients: Clients, library: str
) -> None:
    config = {"session.timeout.ms": KILLED_SESSION_MS}
    members = [clients.member(name, Delivery.AT_LEAST_ONCE, config, library) for name in ("a", "b")]
    wait_for(lambda: shared(*members), *members)
    producer = clients.producer()
    paused, other = members
    wait_for(lambda: paused.figures()["committed"] > 3, producer, *members)
    of_paused = psutil.Process(paused.process.pid)
    with_program = [of_paused, *of_paused.children(recursive=True)]
    for process in with_program:
        process.suspend()
    wait_for(lambda: other.figures()["assigned"] == PARTITIONS, producer, *members)
    before = paused.figures()["shown"]
    for process in with_program:
        process.resume()
    wait_for(lambda: shared(*members), producer, *members)
    wait_for(lambda: paused.figures()["shown"] > before, producer, *members)
    stop(producer)
    stop(*members)

    holds_what_was_acked(cluster, clients, producer, *members)
    held = Counter()
    for event, partition, _ in events(paused):
        held[partition] += {"assigned": 1}.get(event, -1)
        assert held[partition] in (0, 1) or partition is None, "it is told what it loses"
    assert nothing_is_committed_before_it_is_shown(paused)
    for member in members:
        read_on_from_where_they_were_assigned(member)


# tests/integration/test_groups.py has a static member come back; what a member records of it is
# what it records of any assignment.
@pytest.mark.long
def test_a_static_member_that_is_back_in_time_changes_nothing_for_the_others(
    clients: Clients,
) -> None:
    config = {"session.timeout.ms": 60_000}

    def start(name: str, instance: str):
        return clients.member(name, Delivery.AT_LEAST_ONCE, config, instance=instance)

    producer, stays, goes = clients.producer(), start("a", "one"), start("b", "two")
    wait_for(lambda: shared(stays, goes), producer, stays, goes)
    wait_for(lambda: goes.figures()["committed"] > 3, producer, stays, goes)
    stop(goes)
    before = stays.figures()["shown"]
    back = start("b-again", "two")
    wait_for(lambda: back.figures()["shown"] > 0, producer, stays, back)
    wait_for(lambda: stays.figures()["shown"] > before, producer, stays, back)
    stop(producer)
    stop(stays, back)

    had = [row[1] for row in events(goes) if row[0] == "revoked"]
    given = [row for row in events(back) if row[0] == "assigned"]
    assert [row[1] for row in given] == had[-len(given) :]
    assert not times(stays, "assigned", since=max(times(goes, "revoked")))
    ends = {p: r[-1]["offset"] for (_, p), r in commits(goes).items() if r[-1]["type"] == "ok"}
    assert {row[1]: row[2] for row in given} == {p: ends[p] for _, p, _ in given}


def times(member, event: str, since: int = 0) -> list[int]:
    rows = read(member.history, "assignments").to_pylist()
    return [row["time"] for row in rows if row["event"] == event and row["time"] > since]


def test_replaced_static_member_fails(clients: Clients) -> None:
    first = clients.member("a", Delivery.AT_LEAST_ONCE, instance="one")
    wait_for(lambda: first.figures()["assigned"] == PARTITIONS, first)
    second = clients.member("b", Delivery.AT_LEAST_ONCE, instance="one")
    assert first.wait() == 1, first.log()
    assert "failed for good" in first.log()
    assert not list(first.history.glob("*.part-*"))
    wait_for(lambda: second.figures()["assigned"] == PARTITIONS, second)
    stop(second)


def test_offset_out_of_range_is_recorded(cluster: Cluster, clients: Clients) -> None:
    producer = clients.producer()
    wait_for(lambda: producer.figures()["acked"] > RATE, producer)
    cut = 20
    before = TopicPartition(clients.topic, 0, cut)
    admin = cluster.admin()  # must outlive its futures
    admin.delete_records([before])[before].result(PATIENCE_S)
    reader = clients.reader()
    wait_for(lambda: reader.figures()["shown"] > RATE, producer, reader)
    stop(producer)
    stop(reader)
    assert events(reader) == [
        *(("assigned", p, 0) for p in range(PARTITIONS)),
        ("out-of-range", 0, cut),
    ]
    bounds = [watermarks(cluster, clients.topic, p) for p in range(PARTITIONS)]
    assert bounds[0][0] == cut
    assert order(reader.history) == {p: list(range(*both)) for p, both in enumerate(bounds)}


@pytest.mark.parametrize(
    ("module", "changed", "problem"),
    [
        (
            "ackproof.workloads.consuming.tail_reader",
            {"consumer_config": {"group.id": "g"}},
            "group.id",
        ),
        (
            "ackproof.workloads.consuming.tail_reader",
            {"consumer_config": {"no.such": "hunter2"}},
            "no.such",
        ),
        ("ackproof.workloads.consuming.group_member", {"delivery": "twice"}, "delivery"),
        (
            "ackproof.workloads.consuming.group_member",
            {"consumer_config": {"check.crcs": False}},
            "check.crcs",
        ),
    ],
)
def test_consumer_with_a_wrong_specification_ends_at_once(client, module, changed, problem) -> None:
    specification = {
        "client": "one",
        "topic": "t",
        "partitions": 1,
        "bootstrap_servers": "127.0.0.1:1",
    }
    if module == "ackproof.workloads.consuming.group_member":
        specification |= {"group": "g", "delivery": "at-least-once"}
    process = client(module, {**specification, **changed})
    assert process.wait() == 2
    assert problem in process.log()
    assert "hunter2" not in process.log()
    assert "Traceback" not in process.log()
