"""``python -m tests.support.clusters.kafka_release 4.1.1``: writes what is shipped of a release of
Apache Kafka, ``infra/systems/kafka/<version>.json``: its jars, and what it says of itself.
Without a version it writes ``records.json`` there, of the release ``releases.NEWEST_RECORDS``.

Needs ``mvn`` and a JDK 17 or newer.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

from ackproof.infra.systems.kafka import releases
from ackproof.infra.systems.kafka.jars import resolve
from ackproof.infra.systems.kafka.releases import Release, asked, description_text

KNOWN = Path(releases.__file__).parent


def described(version: str) -> str:
    """Return the content of the file of a release."""
    maven = shutil.which("mvn")
    assert maven is not None, "Maven is needed"
    with tempfile.TemporaryDirectory() as directory:
        repository = Path(directory, "repository")
        jars = resolve(version, repository, maven, print)
        found = {"jars": jars, **asked(Release(version=version), repository.rglob("*.jar"))}
    return description_text(found)


def records(version: str) -> str:
    """Return what is shipped of a release of which only the metadata log is read."""
    return description_text({"records": json.loads(described(version))["records"]})


if __name__ == "__main__":
    for version in sys.argv[1:]:
        (KNOWN / f"{version}.json").write_text(described(version), encoding="utf-8")
    if not sys.argv[1:]:
        (KNOWN / "records.json").write_text(records(releases.NEWEST_RECORDS), encoding="utf-8")
