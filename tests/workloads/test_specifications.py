"""Specifications are checked, and what is secret in them is not repeated."""

import json
from collections.abc import Iterator, Sequence
from ctypes import string_at
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from confluent_kafka import Consumer, ShareConsumer

from ackproof.history.cell import Cell
from ackproof.history.names import PARTITIONED, FileStem
from ackproof.workloads import WORKLOADS
from ackproof.workloads.configuration import (
    CONSUMER_RESERVED,
    SHARE_RESERVED,
    commit_s,
    connection_properties,
    is_cooperative,
    member_properties,
    producer_properties,
    reader_properties,
    rejoin_s,
    share_member_properties,
)
from ackproof.workloads.interface import (
    Client,
    ClientNode,
    ClientRole,
    Delivery,
    Group,
    Load,
    ShareGroup,
)
from ackproof.workloads.librdkafka.keys import Keys, keys_of, partitions_of
from ackproof.workloads.librdkafka.library import UNASSIGNED
from ackproof.workloads.spec import (
    FINAL_READ,
    ConsumerSpec,
    FinalReadSpec,
    GroupMemberSpec,
    ProducerSpec,
    ShareMemberSpec,
    SpecificationError,
    load,
)
from ackproof.workloads.topics import topic_properties

CELL = Cell(
    name="acks-all.minisr-2",
    topic="acks-all-minisr-2",
    settings={
        "acks": "all",
        "min.insync.replicas": 2,
        "partitions": 3,
        "unclean.leader.election.enable": False,
        "topic.segment.bytes": 1048576,
        "producer.sasl.password": "hunter2",
        "producer.linger.ms": 0,
    },
)
OTHER = Cell(name="acks-all", topic="acks-all", settings={"acks": "all"})
PRODUCE = WORKLOADS["produce"]
PLACE = ClientNode(node="client-1", history="/h", progress="/p")
GROUPS = (
    Group(
        name="twice",
        members=2,
        delivery=Delivery.AT_LEAST_ONCE,
        config={"session.timeout.ms": 7000},
    ),
    Group(name="fixed", members=1, delivery=Delivery.AUTO_COMMIT, static=True),
)
FULL = Load(rate=100, record_bytes=200, producers=2, readers=1, groups=GROUPS)


def clients(cell: Cell, asked: Load) -> dict[str, Client]:
    made = PRODUCE.clients(cell, asked, bootstrap_servers="10.0.0.1:9092", places=[PLACE])
    named = {client.name: client for client in made}
    assert len(named) == len(made)
    return named


def producer_spec(**changed: object) -> dict[str, object]:
    (client,) = clients(CELL, Load(rate=100, record_bytes=200)).values()
    assert (client.module, client.role) == (
        "ackproof.workloads.producing.producer",
        ClientRole.PRODUCER,
    )
    return {**client.specification, **changed}


def reader_spec(**changed: object) -> ConsumerSpec:
    client = clients(CELL, FULL)["reader-acks-all-minisr-2-0"]
    assert (client.module, client.role) == (
        "ackproof.workloads.consuming.tail_reader",
        ClientRole.CONSUMER,
    )
    return ConsumerSpec.model_validate({**client.specification, **changed})


def member_spec(group: str = "twice", **changed: object) -> GroupMemberSpec:
    client = clients(CELL, FULL)[f"member-acks-all-minisr-2-{group}-0"]
    assert (client.module, client.role) == (
        "ackproof.workloads.consuming.group_member",
        ClientRole.CONSUMER,
    )
    return GroupMemberSpec.model_validate({**client.specification, **changed})


def written(path: Path, specification: object) -> Path:
    path.write_text(json.dumps(specification))
    return path


def test_consumers_are_spread_over_racks_unless_configured() -> None:
    """Test also the replacement clients, which have the racks of the former ones."""
    groups = (
        Group(name="spread", members=3, delivery=Delivery.AUTO_COMMIT),
        Group(name="near", members=2, delivery=Delivery.AUTO_COMMIT, config={"client.rack": "x"}),
    )
    asked = Load(rate=1, record_bytes=100, readers=3, groups=groups, racks=("broker-1", "broker-2"))
    made = PRODUCE.clients(
        CELL,
        asked,
        bootstrap_servers="10.0.0.1:9092",
        places=[PLACE],
        replacements={ClientRole.CONSUMER: 1},
    )
    consumers = [client for client in made if client.role is ClientRole.CONSUMER]
    expected = ["broker-1", "broker-2", "broker-1"] * 2 + ["x", "x"]
    assert [rack(client) for client in consumers] == expected
    assert [rack(client.successor) for client in consumers] == expected


def rack(client: Client | None) -> object:
    assert client is not None
    return client.specification["consumer_config"]["client.rack"]


def test_specification_of_the_workload_is_read_by_the_producer(tmp_path: Path) -> None:
    spec = load(ProducerSpec, written(tmp_path / "spec.json", producer_spec()))
    assert (spec.cell, spec.topic, spec.acks, spec.rate) == (CELL.name, CELL.topic, "all", 100)
    properties = producer_properties(spec)
    assert properties["acks"] == "all"
    assert properties["linger.ms"] == 0
    assert properties["enable.idempotence"] is False
    assert "topic.metadata.refresh.interval.ms" not in properties


def test_specification_of_the_workload_is_read_by_the_final_read(tmp_path: Path) -> None:
    client = PRODUCE.final_read(
        [CELL], bootstrap_servers="10.0.0.1:9092", place=PLACE, deadline_s=60
    )
    spec = load(FinalReadSpec, written(tmp_path / "spec.json", client.specification))
    assert [(topic.topic, topic.partitions) for topic in spec.topics] == [(CELL.topic, 3)]
    assert spec.client_config == {"sasl.password": "hunter2"}


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"acks": "2"}, "acks: "),
        ({"rate": 0}, "rate: "),
        ({"partitions": 0}, "partitions: "),
        ({"speed": 3}, "speed: "),
        ({"producer_config": {"sasl.password": ["hunter2"]}}, "producer_config"),
    ],
)
def test_wrong_specification_is_described_without_secrets(
    tmp_path: Path, changed: dict, problem: str
) -> None:
    path = written(tmp_path / "spec.json", producer_spec(**changed))
    with pytest.raises(SpecificationError, match=problem) as caught:
        load(ProducerSpec, path)
    assert "hunter2" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_missing_or_malformed_specification_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SpecificationError, match="No such file"):
        load(ProducerSpec, tmp_path / "none.json")
    (tmp_path / "half.json").write_text('{"cell": ')
    with pytest.raises(SpecificationError, match="it is not valid JSON"):
        load(ProducerSpec, tmp_path / "half.json")


@pytest.mark.parametrize(
    "name",
    ["acks", "request.required.acks", "bootstrap.servers", "delivery.report.only.error"],
)
def test_properties_that_would_falsify_the_history_are_refused(name: str) -> None:
    spec = ProducerSpec.model_validate(producer_spec(producer_config={name: "1"}))
    with pytest.raises(SpecificationError, match="may not set"):
        producer_properties(spec)


@pytest.mark.parametrize("value", [0, -1, "x"])
@pytest.mark.parametrize("name", ["delivery.timeout.ms", "queue.buffering.max.messages"])
def test_limits_must_be_limits(name: str, value: object) -> None:
    spec = ProducerSpec.model_validate(producer_spec(producer_config={name: value}))
    with pytest.raises(SpecificationError, match="must be a number above 0"):
        producer_properties(spec)


def test_other_clients_receive_connection_properties_only() -> None:
    given = {"sasl.username": "u", "ssl.ca.location": "c", "linger.ms": 3, "acks": 1}
    assert connection_properties(given) == {"sasl.username": "u", "ssl.ca.location": "c"}


def test_topic_has_the_properties_of_its_cell() -> None:
    assert topic_properties(CELL) == {
        "segment.bytes": "1048576",
        "min.insync.replicas": "2",
        "unclean.leader.election.enable": "false",
    }


def test_several_producers_share_the_records_of_a_cell_and_send_flat_out_each() -> None:
    said = replace(FULL, rate=None, records=5, producers=3, keys=7, record_bytes_max=900)
    cell = replace(CELL, settings={**CELL.settings, "producer.type": "sync"})
    specs = [
        ProducerSpec.model_validate(client.specification)
        for client in clients(cell, said).values()
        if client.role is ClientRole.PRODUCER
    ]
    assert [spec.records for spec in specs] == [2, 2, 1]
    told = {(spec.rate, spec.sync, spec.keys, spec.record_bytes_most) for spec in specs}
    assert told == {(None, True, 7, 900)}


def test_each_key_belongs_to_one_partition() -> None:
    keys = Keys(5, 2)
    texts = map(string_at, *(some.tolist() for some in keys.at(np.arange(5))))
    assert list(texts) == [b"key-0", b"key-1", b"key-2", b"key-3", b"key-4"]
    assert keys.partitions.tolist() == keys.destinations.tolist() == [0, 1, 0, 1, 0]
    with pytest.raises(SpecificationError, match="1 keys are too few for 2 partitions"):
        Keys(1, 2)


def test_partitioner_picks_the_partition_of_each_key() -> None:
    keys = keys_of(8, 3, "consistent_random")
    assert keys is not None
    assert keys.partitions.tolist() == [crc32(b"key-%d" % number) % 3 for number in range(8)]
    assert set(keys.destinations.tolist()) == {UNASSIGNED}


def test_murmur2_picks_the_partitions_of_java_clients() -> None:
    """The hashes are those of Apache Kafka's UtilsTest."""
    hashes = {b"21": -973932308, b"foobar": -790332482, b"abc": 479470107}
    picked = partitions_of("murmur2", list(hashes), 1_000_003)
    assert picked.tolist() == [(one & 0x7FFFFFFF) % 1_000_003 for one in hashes.values()]


@pytest.mark.parametrize(
    ("keys", "partitioner", "reason"),
    [
        (9, "random", "the partitioner random does not go by the key"),
        (None, "murmur2", "the partitioner murmur2 needs workload.keys"),
        (3, "consistent", "consistent sends none of 3 keys to partition 1: give more keys"),
    ],
)
def test_partitioner_that_cannot_be_foretold_is_refused(
    keys: int | None, partitioner: str, reason: str
) -> None:
    with pytest.raises(SpecificationError, match=reason):
        keys_of(keys, 3, partitioner)


def test_without_keys_and_partitioner_records_have_no_key() -> None:
    assert keys_of(None, 3, None) is None


def test_several_producers_share_the_rate_of_a_cell() -> None:
    specs = [
        ProducerSpec.model_validate(client.specification)
        for client in clients(CELL, FULL).values()
        if client.role is ClientRole.PRODUCER
    ]
    assert [(spec.producer, spec.rate) for spec in specs] == [(0, 50), (1, 50)]
    assert [spec.client for spec in specs] == [
        "producer-acks-all-minisr-2-0",
        "producer-acks-all-minisr-2-1",
    ]


def test_each_client_has_a_progress_file_of_its_own() -> None:
    for name, client in clients(CELL, FULL).items():
        assert client.specification["progress"] == f"/p/{name}.json"
        assert client.cell == CELL.name


def test_no_two_clients_of_a_run_share_a_name() -> None:
    """A topic's name may be the beginning of another's, and end in a number."""
    cells = [Cell(name=name, topic=name, settings={"acks": "1"}) for name in ("t", "t-1", "t-1-1")]
    names = [name for cell in cells for name in clients(cell, FULL)]
    assert len(set(names)) == len(names) == 18


def test_a_tail_reader_hides_no_place_that_the_log_has_no_more() -> None:
    properties = reader_properties(reader_spec())
    assert properties["auto.offset.reset"] == "error"
    assert properties["enable.auto.commit"] is False
    assert properties["check.crcs"] is True
    assert properties["sasl.password"] == "hunter2"
    assert "linger.ms" not in properties


def test_a_member_commits_as_its_delivery_says() -> None:
    by_hand, automatic = member_properties(member_spec()), member_properties(member_spec("fixed"))
    assert by_hand["group.id"] == "acks-all-minisr-2-twice"
    assert by_hand["session.timeout.ms"] == 7000
    assert by_hand["enable.auto.commit"] is by_hand["enable.auto.offset.store"] is False
    assert automatic["enable.auto.commit"] is automatic["enable.auto.offset.store"] is True
    assert "group.instance.id" not in by_hand
    assert automatic["group.instance.id"] == "member-acks-all-minisr-2-fixed-0"
    assert by_hand["auto.offset.reset"] == automatic["auto.offset.reset"] == "earliest"


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "cooperative-sticky"])
def test_the_protocol_of_a_group_follows_from_its_assignor(assignor: str) -> None:
    spec = member_spec(consumer_config={"partition.assignment.strategy": assignor})
    assert is_cooperative(member_properties(spec)) is (assignor == "cooperative-sticky")
    assert not is_cooperative(member_properties(member_spec()))


def test_member_by_heartbeats_leaves_its_session_to_the_brokers() -> None:
    properties = member_properties(member_spec(consumer_config={"group.protocol": "consumer"}))
    assert is_cooperative(properties)
    assert "session.timeout.ms" not in properties
    del properties["bootstrap.servers"]
    Consumer(properties).close()
    assert commit_s(properties) == 45 + 6 * 6
    polled = {**properties, "max.poll.interval.ms": 20_000}
    assert rejoin_s(polled, {}) == 45 + 20
    assert rejoin_s(polled, {"group.consumer.session.timeout.ms": "6000"}) == 6 + 20


def test_only_members_that_replace_others_have_the_properties_of_replacements() -> None:
    group = Group(
        name="migrating",
        members=2,
        delivery=Delivery.AT_LEAST_ONCE,
        config={"session.timeout.ms": 6000},
        replacement={"group.protocol": "consumer"},
    )
    made = PRODUCE.clients(
        OTHER,
        Load(rate=1, record_bytes=100, groups=[group]),
        bootstrap_servers="b:1",
        places=[PLACE],
        replacements={ClientRole.CONSUMER: 1},
    )
    members = [one for one in made if "delivery" in one.specification]
    assert [one.specification["consumer_config"] for one in members] == [group.config] * 2
    replacements = [one.successor for one in members]
    assert [one and one.specification["consumer_config"] for one in replacements] == [
        group.replacement
    ] * 2


def test_members_of_share_groups_are_drawn_from_the_seed_and_replaced_by_ones_of_their_own() -> (
    None
):
    group = ShareGroup(name="queue", members=2, releases=0.1, rejects=0.0)
    load = Load(rate=1, record_bytes=100, share_groups=[group])
    replacements = {ClientRole.CONSUMER: 1}
    made = PRODUCE.clients(
        OTHER,
        load,
        bootstrap_servers="b:1",
        places=[PLACE],
        replacements=replacements,
        seed=7,
    )
    members = [one for one in made if one.role is ClientRole.CONSUMER]
    assert [one.name for one in members] == ["member-acks-all-queue-0", "member-acks-all-queue-1"]
    assert [one.successor and one.successor.name for one in members] == [
        "member-acks-all-queue-2",
        "member-acks-all-queue-3",
    ]
    spec = ShareMemberSpec.model_validate(members[0].specification)
    assert (spec.group, spec.releases, spec.seed) == ("acks-all-queue", 0.1, 7)
    writers = PRODUCE.writers([(OTHER, load)], ["client-1"], replacements)
    assert {one.client for one in writers if one.table == "deliveries"} == {
        f"member-acks-all-queue-{number}" for number in range(4)
    }


def test_member_of_a_share_group_acknowledges_each_record_by_itself() -> None:
    group = ShareGroup(name="queue", members=1, releases=0.0, rejects=0.0)
    load = Load(rate=1, record_bytes=100, share_groups=[group])
    (*_, member) = PRODUCE.clients(OTHER, load, bootstrap_servers="b:1", places=[PLACE])
    spec = ShareMemberSpec.model_validate(member.specification)
    properties = share_member_properties(spec)
    assert properties["share.acknowledgement.mode"] == "explicit"
    ShareConsumer(properties).close()
    for name in SHARE_RESERVED:
        wrong = spec.model_copy(update={"consumer_config": {name: "1"}})
        with pytest.raises(SpecificationError, match="may not set"):
            share_member_properties(wrong)


@pytest.mark.parametrize("name", [*CONSUMER_RESERVED, "metadata.broker.list", "auto.commit.enable"])
def test_properties_that_would_falsify_reads_are_refused(name: str) -> None:
    with pytest.raises(SpecificationError, match="may not set"):
        member_properties(member_spec(consumer_config={name: "1"}))
    with pytest.raises(SpecificationError, match="may not set"):
        reader_properties(reader_spec(consumer_config={name: "1"}))


def test_every_cell_has_the_same_clients_on_each_node() -> None:
    """So that all cells live through it alike when a node is cut off."""
    places = [ClientNode(node=f"client-{n}", history=f"/h{n}", progress=f"/p{n}") for n in (1, 2)]
    for cell in (CELL, OTHER):
        made = PRODUCE.clients(cell, FULL, bootstrap_servers="b:1", places=places)
        assert [client.node[-1] for client in made] == ["1", "2", "1", "2", "1", "2"]
        assert {f"/h{client.node[-1]}" == client.specification["history"] for client in made} == {
            True
        }
        assert made[1].specification["progress"] == f"/p2/{made[1].name}.json"
    writers = PRODUCE.writers([(CELL, FULL), (OTHER, FULL)], ["client-1", "client-2"])
    planned = {writer.client: writer.node for writer in writers if writer.client}
    assert planned.items() >= {client.name: client.node for client in made}.items()
    assert {writer.node for writer in writers if writer.client is None} == {"client-1"}


def test_replacement_client_is_a_client_of_its_own() -> None:
    """With the same work, at the same place; a producer by a number that was unused."""
    replacements = {ClientRole.PRODUCER: 2, ClientRole.CONSUMER: 1}
    made = PRODUCE.clients(
        CELL, FULL, bootstrap_servers="b:1", places=[PLACE], replacements=replacements
    )
    lines = [tuple(line_of(client)) for client in made]
    assert [len(line) for line in lines] == [3, 3, 2, 2, 2, 2]
    assert len({client.name for line in lines for client in line}) == sum(map(len, lines))
    numbers = [client.specification["producer"] for line in lines[:2] for client in line]
    assert numbers == [0, 2, 4, 1, 3, 5]
    for first, *others in lines:
        for other in others:
            same = {**first.specification}
            for name in ("producer", "client", "progress"):
                same.pop(name, None)
            assert other.specification.items() >= same.items()
    static = [client for client in made if "fixed" in client.name]
    (instance,) = {c.specification["instance"] for one in static for c in line_of(one)}
    assert instance == "member-acks-all-minisr-2-fixed-0"
    writers = PRODUCE.writers([(CELL, FULL)], ["client-1"], replacements)
    planned = {writer.client: writer.instead_of for writer in writers if writer.client}
    expected = {
        client.name: before
        for line in lines
        for before, client in zip(before_each(line), line, strict=True)
    }
    assert planned == expected


def line_of(client: Client) -> Iterator[Client]:
    one: Client | None = client
    while one is not None:
        yield one
        one = one.successor


def before_each(line: Sequence[Client]) -> list[str | None]:
    return [None, *(client.name for client in line[:-1])]


def test_every_file_that_clients_will_write_is_planned() -> None:
    planned = PRODUCE.writers([(CELL, FULL), (OTHER, FULL)], ["client-1"])
    assert {writer.node for writer in planned} == {"client-1"}
    *of_clients, log, reads = planned
    partitions = tuple((CELL.topic, number) for number in range(3))
    tables: dict[str, list[str]] = {}
    for writer in of_clients:
        cell = CELL if writer.cell == CELL.name else OTHER
        assert writer.writer == writer.client
        assert writer.partitions == (
            cell.topic_partitions if writer.table in PARTITIONED else ()
        ), writer
        tables.setdefault(str(writer.client), []).append(writer.table)
        FileStem(
            table=writer.table,
            writer=writer.writer,
            partition=writer.partitions[0] if writer.partitions else None,
        )
    assert tables.keys() == {*clients(CELL, FULL), *clients(OTHER, FULL)}
    of_kind = {"producer": ["sends"], "reader": ["polls", "assignments"]}
    of_kind["member"] = [*of_kind["reader"], "commits"]
    assert all(said == of_kind[name.partition("-")[0]] for name, said in tables.items())
    assert (log.table, log.writer, log.cell) == ("log", FINAL_READ, None)
    assert log.partitions == (*partitions, (OTHER.topic, 0))
    assert (reads.table, reads.writer, reads.partitions) == ("reads", FINAL_READ, ())
