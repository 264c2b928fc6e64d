"""The table of releases in docs/kafka.md."""

import sys
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
sys.path.insert(0, str(DOCS))

from kafka_releases import table  # noqa: E402


def test_release_without_a_verdict_has_no_result() -> None:
    *_, row = table({Path("results/kafka-4.4.0-combined-kraft"): None})
    assert row == "| 4.4.0 | combined-kraft | no result | | |"
