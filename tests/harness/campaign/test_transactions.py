"""A campaign of transactions that cannot be is refused when it is read, and says why."""

from pathlib import Path

import pytest

from ackproof.harness.campaign.model.cells import expand
from ackproof.harness.campaign.plan.runs import manifest_of, runs_of
from ackproof.harness.campaign.validation import CampaignRefused, check
from ackproof.workloads import WORKLOADS
from ackproof.workloads.interface import ClientNode
from ackproof.workloads.transactions.spec import TransformerSpec

SHIPPED = (Path(__file__).parents[3] / "campaigns/transactions.yaml").read_text(encoding="utf-8")


def refused(directory: Path, *changes: tuple[str, str], text: str = SHIPPED) -> str:
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path = directory / "campaign.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CampaignRefused) as caught:
        check(path)
    return str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "system: kafka:4.4.0",
            "system: bundled",
            "the bundled broker does not support transactions",
        ),
        ("  acks: all\n", '  acks: ["1", all]\n', "transactions need acks: all"),
        (
            "enable.idempotence: true",
            "enable.idempotence: [true, false]",
            "transactions need enable.idempotence: true",
        ),
        (
            "  acks: all\n",
            "  acks: all\n  client: aiokafka\n",
            "aiokafka does not support transactions",
        ),
        (
            "  acks: all\n",
            "  acks: all\n  client: [java, java:2.4.1, ./own]\n",
            "java:2.4.1 cannot be a transformer (KIP-447); those of librdkafka and java can: set 0 "
            "(in acks-all.minisr-2.client-java-2-4-1.isolation-read-committed, acks-all.minisr-2.",
        ),
        (
            "  acks: all\n",
            "  acks: all\n  producer: {message.timeout.ms: 60000}\n",
            "message.timeout.ms",
        ),
        (
            "  acks: all\n",
            "  acks: all\n  producer: {partitioner: murmur2}\n",
            "a transaction's records are sent to stated partitions",
        ),
        ("    aborts: 0.2", "    aborts: 1.2", "less than or equal to 1"),
        (
            "  readers: 1\n",
            "  readers: 1\n  groups: [{name: g, members: 1}]\n",
            "transformers for groups",
        ),
        ("  acks: all\n", "  acks: all\n  producer.type: sync\n", "records are sent together"),
        ("  record.bytes: 100", "  record.bytes: [10, 20]", "records of one size"),
        ("  record.bytes: 100", "  record.bytes: 100\n  producers.shared: true", "of each cell"),
        ("  readers: 1\n", "  readers: 1\n  keys: 2\n", "2 keys are too few for 3 partitions"),
        (
            "  readers: 1\n",
            "  readers: 1\n  keys: 20\n  tombstones: 0.1\n",
            "only compaction removes tombstones",
        ),
        (
            "  acks: all\n",
            "  acks: all\n  topic: {cleanup.policy: compact}\n",
            "compaction deletes records: it goes by the keys of records",
        ),
        (
            "  acks: all\n",
            "  acks: all\n  topic: {retention.ms: 60000}\n",
            "retention deletes records: this can be tested with the workload produce only",
        ),
        (
            "fault: crash-client, target: clients, parameters: {",
            "fault: crash-client, target: clients, parameters: {comes_back: true, ",
            "does not replace crashed clients",
        ),
    ],
)
def test_invalid_transaction_settings_are_refused(
    tmp_path: Path, old: str, new: str, told: str
) -> None:
    problems = refused(tmp_path, (old, new))
    assert told in problems


def test_compacted_transactions_need_keys_and_tail_readers(tmp_path: Path) -> None:
    compacted = SHIPPED.replace(
        "  acks: all\n",
        "  acks: all\n  topic: {cleanup.policy: compact, delete.retention.ms: 30000}\n",
    ).replace("  readers: 1\n", "  readers: 1\n  keys: 20\n  tombstones: 0.1\n")
    path = tmp_path / "campaign.yaml"
    path.write_text(compacted, encoding="utf-8")
    campaign = check(path).campaign
    assert (campaign.workload.keys, campaign.workload.tombstones) == (20, 0.1)
    unread = refused(tmp_path, ("  readers: 1\n", ""), text=compacted)
    assert "cells.topic.cleanup.policy" in unread
    assert "workload.readers: 1" in unread


def test_transaction_settings_are_refused_in_other_workloads(tmp_path: Path) -> None:
    problems = refused(
        tmp_path,
        ("kind: transactions", "kind: produce"),
        ("isolation.level: [read_committed, read_uncommitted]", "isolation.level: read_committed"),
    )
    assert "workload.transactions" in problems
    assert "cells.isolation.level" in problems
    assert "no cell has the topic '__transaction_state'" in problems


def test_manifest_names_the_transactional_writers(tmp_path: Path) -> None:
    path = tmp_path / "campaign.yaml"
    path.write_text(SHIPPED, encoding="utf-8")
    campaign = check(path).campaign.resolved(seed=1)
    (run,) = manifest_of(campaign, runs_of(campaign)).runs
    assert all(planned.transactional for planned in run.cells)
    isolations = [cell.isolation for cell in expand(campaign.cells)]
    assert isolations == ["read_committed", "read_uncommitted"]
    tables = {(writer.client, writer.table) for writer in run.writers}
    topic = run.cells[0].cell.topic
    for table in ("sends", "transactions", "inputs", "transaction_offsets"):
        assert (f"transformer-{topic}-1", table) in tables
    assert (None, "committed") in tables


def test_transformer_of_another_library_starts_its_program(tmp_path: Path) -> None:
    path = tmp_path / "campaign.yaml"
    path.write_text(SHIPPED.replace("  acks: all\n", "  acks: all\n  client: java:3.9.1\n"))
    campaign = check(path).campaign
    place = ClientNode(node="client-1", history="history", progress="progress")
    cell = expand(campaign.cells)[0]
    *_, transformer = WORKLOADS["transactions"].clients(
        cell, campaign.workload.load_of(cell), bootstrap_servers="b:1", places=[place]
    )
    assert transformer.library == "java:3.9.1"
    given = {**transformer.specification, "program": ["java"]}
    specification = TransformerSpec.model_validate(given, strict=False)
    assert specification.library == "java"
    assert specification.reader.client == transformer.name


def test_how_large_a_transaction_is_says_nothing_of_when_its_producer_is_done(
    tmp_path: Path,
) -> None:
    """A producer with an outcome of all its ``records`` may be silent for good."""
    path = tmp_path / "campaign.yaml"
    path.write_text(SHIPPED, encoding="utf-8")
    campaign = check(path).campaign
    place = ClientNode(node="client-1", history="history", progress="progress")
    for cell in expand(campaign.cells):
        for client in WORKLOADS["transactions"].clients(
            cell, campaign.workload.load_of(cell), bootstrap_servers="b:1", places=[place]
        ):
            assert client.specification.get("records") is None
