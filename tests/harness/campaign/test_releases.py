"""Settings that an old release of Apache Kafka lacks: refused when the campaign is read."""

from pathlib import Path

import pytest

from ackproof.harness.campaign.validation import CampaignRefused, check

CAMPAIGN = """\
name: c
cluster: {backend: local, brokers: 4, properties: {offsets.topic.num.partitions: 1}CLUSTER}
cells: {acks: all, min.insync.replicas: 1, replication.factor: 3, partitions: 1CELLS}
workload: {kind: produce, rate: 100, record.bytes: 100}
faults: [FAULT]
"""


def refused(
    directory: Path, system: str, fault: str, cells: str = "", cluster: str = ""
) -> list[str]:
    file = directory / "c.yaml"
    text = CAMPAIGN.replace("CELLS", cells).replace("FAULT", fault).replace("CLUSTER", cluster)
    file.write_text(text, encoding="utf-8")
    try:
        check(file, system=system)
    except CampaignRefused as refusal:
        return [str(problem) for problem in refusal.problems]
    return []


@pytest.mark.parametrize(
    ("first", "before", "fault", "source"),
    [
        ("3.9.1", "2.0.1", "fault: reassign, target: topic(acks-all-minisr-1)", "2.4 (KIP-455)"),
        ("3.9.1", "2.0.1", "fault: elect-preferred, target: topic(acks-all-minisr-1)", "KIP-460"),
        ("3.9.1", "2.0.1", "fault: add-broker, target: topic(acks-all-minisr-1)", "KIP-455"),
        (
            "3.9.1",
            "2.0.1",
            "story: administrator-elects-uncleanly, topic: acks-all-minisr-1",
            "460",
        ),
        ("1.1.1", "0.11.0.3", "fault: grow-topic, target: all", "1.0 (KIP-195)"),
        ("0.11.0.3", "0.10.2.2", "fault: delete-records, target: all", "0.11 (KIP-107)"),
    ],
)
def test_an_order_that_brokers_do_not_take(
    tmp_path: Path, first: str, before: str, fault: str, source: str
) -> None:
    entry = "{" + fault + "}"
    assert refused(tmp_path, f"kafka:{first}", entry) == []
    assert refused(tmp_path, "bundled", entry) == []
    (reason,) = refused(tmp_path, f"kafka:{before}", entry)
    assert reason.startswith("faults[0].")
    assert source in reason
    assert reason.endswith(f"but kafka:{before} does not")


def test_move_between_log_directories_is_refused_where_it_is_impossible(tmp_path: Path) -> None:
    entry = "{fault: move-log-dir, target: topic(acks-all-minisr-1)}"
    two = ", disks: {per.broker: 2, megabytes: 64}"

    def reasons(system: str, cluster: str) -> list[str]:
        return refused(tmp_path, system, entry, cluster=cluster)

    assert reasons("kafka:3.9.1", two) == []
    assert reasons("kafka:3.9.1", two + ", metadata.quorum: isolated-kraft") == []
    (bundled,) = reasons("bundled", two)
    assert "the bundled broker does not: use a release of Apache Kafka" in bundled
    for one in ("", two.replace("2", "1", 1)):
        (single,) = reasons("kafka:3.9.1", one)
        assert single.endswith("set cluster.disks: {per.broker: 2, megabytes: 256}")
    (old,) = reasons("kafka:3.3.2", two + ", metadata.quorum: isolated-kraft")
    assert "since 3.7 (KIP-858), but kafka:3.3.2 does not" in old
    (ancient,) = reasons("kafka:1.1.1", two)
    assert "since 2.0 (KIP-113), but kafka:1.1.1 does not" in ancient


def test_removal_of_voters_needs_a_quorum_that_can_be_changed(tmp_path: Path) -> None:
    def reasons(system: str, cluster: str) -> list[str]:
        entry = "{fault: remove-voter, target: TARGET}"
        target = "one(zookeeper)" if system == "bundled" else "one(quorum)"
        return refused(tmp_path, system, entry.replace("TARGET", target), cluster=cluster)

    dynamic = ", zookeepers: 3, metadata.quorum: dynamic-kraft"
    assert reasons("kafka:3.9.1", dynamic) == []
    (fixed,) = reasons("kafka:3.9.1", ", zookeepers: 3, metadata.quorum: isolated-kraft")
    assert fixed.endswith("dynamic-kraft, which Apache Kafka supports since 3.9")
    (bundled,) = reasons("bundled", ", zookeepers: 3")
    assert "remove-voter needs a metadata quorum that can be changed (KIP-853)" in bundled
    (old,) = reasons("kafka:3.3.2", dynamic)
    assert "supports only zookeeper, isolated-kraft, combined-kraft" in old


def test_producers_have_no_ids_before_0_11(tmp_path: Path) -> None:
    idempotent = ", enable.idempotence: true"
    kill = "{fault: kill, target: one}"
    assert refused(tmp_path, "kafka:0.11.0.3", kill, idempotent) == []
    assert refused(tmp_path, "kafka:0.10.2.2", kill, idempotent) == [
        (
            "cells.enable.idempotence: it needs producer ids that Apache Kafka supports since "
            "0.11 (KIP-98), but kafka:0.10.2.2 does not"
        )
    ]
