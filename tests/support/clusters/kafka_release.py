"""``python -m tests.support.clusters.kafka_release 4.1.1``: writes what is shipped of a release of
Apache Kafka, ``infra/systems/kafka/<version>.json``: its jars, and what it says of itself.

Needs ``mvn`` and a JDK 17 or newer.
"""

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


if __name__ == "__main__":
    for version in sys.argv[1:]:
        (KNOWN / f"{version}.json").write_text(described(version), encoding="utf-8")
