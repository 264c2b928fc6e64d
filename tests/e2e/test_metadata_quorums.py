"""KRaft before Apache Kafka 4.0, and controllers that are brokers, too: from file to report."""

import json
import sys

import pytest

from ackproof.infra.systems import prepare

pytestmark = [pytest.mark.kafka, pytest.mark.e2e]


@pytest.mark.parametrize(
    ("version", "quorum"),
    [
        ("3.3.2", "isolated-kraft"),
        ("3.9.1", "isolated-kraft"),
        ("3.9.1", "combined-kraft"),
        ("4.1.1", "combined-kraft"),
    ],
)
def test_the_small_campaign(ackproof, version: str, quorum: str) -> None:
    """It says that acks=1 loses, and acks=all does not, and who kept the metadata."""
    prepare(f"kafka:{version}", sys.stdout.write)
    where = ("--system", f"kafka:{version}", "--metadata-quorum", quorum)
    result = ackproof("run", "small.yaml", *where, "--seed", "1", "--out", "results")
    assert result.returncode == 0, result.stdout + result.stderr
    results = ackproof.directory / "results"
    document = json.loads((results / "verdict.json").read_text())
    cells = {cell["acks"]: cell for cell in document["cells"]}
    assert cells["1"]["lost"] > 0, "an isolated leader acknowledged what it then had to cut"
    assert (cells["all"]["lost"], cells["all"]["verdict"]) == (0, "pass")
    assert document["metadata_quorum"] == quorum
    manifest = json.loads((results / "manifest.json").read_text())
    assert manifest["metadata_quorum"] == quorum
    assert f"metadata <b>{quorum}</b>" in (results / "report.html").read_text()
    assert f"metadata.quorum: {quorum}\n" in (results / "campaign.yaml").read_text()
