"""Coordinators that a cluster would not have are told when the campaign is read."""

from pathlib import Path

import pytest

from ackproof.harness.campaign.validation import CampaignRefused, check

CAMPAIGN = """\
name: c
cluster: {backend: local, brokers: 2, properties: {PROPERTIES}}
cells: {acks: all, min.insync.replicas: 1, replication.factor: 2, partitions: 1CELLS}
workload: {kind: KIND, rate: 100, record.bytes: 100GROUPS}
faults: []
"""
GROUPS = ", groups: [{name: g, members: 1}]"
TRANSACTIONAL = ", enable.idempotence: true"
ONE_PARTITION = "offsets.topic.num.partitions: 1"
OFFSETS = "offsets.topic.replication.factor"
TRANSACTIONS = "transaction.state.log.replication.factor"
MIN_ISR = "transaction.state.log.min.isr"


def problems(
    directory: Path, system: str, kind: str, *properties: str, groups: str = ""
) -> list[str]:
    text = CAMPAIGN.replace("PROPERTIES", ", ".join((ONE_PARTITION, *properties)))
    text = text.replace("KIND", kind).replace("GROUPS", groups)
    text = text.replace("CELLS", TRANSACTIONAL if kind == "transactions" else "")
    file = directory / "c.yaml"
    file.write_text(text, encoding="utf-8")
    try:
        check(file, system=system)
    except CampaignRefused as refusal:
        return [f"{problem.field}: {problem.reason}" for problem in refusal.problems]
    return []


@pytest.mark.parametrize("system", ["bundled", "kafka:0.11.0.3", "kafka:3.9.1", "kafka:4.1.1"])
def test_groups_need_as_many_brokers_as_their_topic_has_replicas(
    tmp_path: Path, system: str
) -> None:
    (problem,) = problems(tmp_path, system, "produce", groups=GROUPS)
    assert problem == (
        "cluster.brokers: the brokers would not create __consumer_offsets: "
        "offsets.topic.replication.factor is 3; set it in cluster.properties to at most 2"
    )
    assert problems(tmp_path, system, "produce", f"{OFFSETS}: 2", groups=GROUPS) == []
    assert problems(tmp_path, system, "produce") == [], "no group is coordinated"


def test_an_old_release_makes_do_with_the_brokers_that_there_are(tmp_path: Path) -> None:
    assert problems(tmp_path, "kafka:0.10.2.2", "produce", groups=GROUPS) == []


def test_transactions_need_both_topics_and_enough_in_sync(tmp_path: Path) -> None:
    told = problems(tmp_path, "kafka:4.1.1", "transactions")
    assert [problem.partition(":")[0] for problem in told] == ["cluster.brokers"] * 2
    assert f"{OFFSETS} is 3" in told[0]
    assert f"{TRANSACTIONS} is 3" in told[1]
    alone = (f"{OFFSETS}: 1", f"{TRANSACTIONS}: 1")
    (problem,) = problems(tmp_path, "kafka:4.1.1", "transactions", *alone)
    assert problem == (
        f"cluster.properties.{TRANSACTIONS}: no transaction could begin: {MIN_ISR} is 2, and "
        f"__transaction_state has 1 replica ({TRANSACTIONS})"
    )
    assert problems(tmp_path, "kafka:4.1.1", "transactions", *alone, f"{MIN_ISR}: 1") == []
