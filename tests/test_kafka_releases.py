"""The table of releases in docs/kafka.md."""

import sys
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
sys.path.insert(0, str(DOCS))

from kafka_releases import VERSIONS, table  # noqa: E402

from ackproof.harness.counterfactuals.changes import NEWEST  # noqa: E402


def test_ackproof_why_tries_the_newest_release_of_the_table() -> None:
    assert f"kafka:{VERSIONS[-1]}" == NEWEST


def test_release_without_a_verdict_has_no_result() -> None:
    missing = ("3.9.2-zookeeper", "3.9.2-combined-kraft", "4.4.0-combined-kraft")
    assert list(table({Path(f"results/kafka-{name}"): None for name in missing})) == [
        "| release | zookeeper | combined-kraft |",
        "| --- | --- | --- |",
        "| 3.9.2 | no result | no result |",
        "| 4.4.0 |  | no result |",
    ]
