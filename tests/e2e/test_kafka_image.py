"""Apache Kafka out of a container image, from file to report, and without an engine afterwards."""

import io
import json
import sys
import tarfile
from collections.abc import Iterator

import pytest
import yaml

from ackproof.infra import systems
from ackproof.infra.backends.docker.engine import connected
from ackproof.infra.systems import pinned, quorum_of
from ackproof.infra.systems.product import MetadataQuorum
from tests.support.backends.containers import owned_things

pytestmark = [pytest.mark.kafka, pytest.mark.docker, pytest.mark.e2e]

VERSION = "4.1.1"
NAME = "ackproof-test-kafka:4.1.1"


@pytest.fixture(scope="module")
def system() -> Iterator[str]:
    """Yield a system in an image that has only the jars of that release."""
    systems.prepare(f"kafka:{VERSION}", sys.stdout.write)
    (jars,) = systems.artifacts(f"kafka:{VERSION}")
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        dockerfile = tarfile.TarInfo("Dockerfile")
        words = b"FROM scratch\nCOPY libs /opt/kafka/libs\n"
        dockerfile.size = len(words)
        archive.addfile(dockerfile, io.BytesIO(words))
        archive.add(jars.path, "libs")
    context.seek(0)
    with connected(timeout_s=600) as client:
        image, _ = client.images.build(fileobj=context, custom_context=True, tag=NAME, rm=True)
        yield f"kafka:image:{NAME}"
        client.images.remove(image.id, force=True)


@pytest.mark.parametrize("backend", ["local", "docker"])
def test_kafka_image_runs_a_campaign(ackproof, system: str, backend: str) -> None:
    before = owned_things()
    cluster = yaml.safe_load((ackproof.directory / "small.yaml").read_text())["cluster"]
    ackproof.vary({"cluster": {**cluster, "system": system}})
    place = ("--backend", backend)
    result = ackproof("run", "small.yaml", "--seed", "1", *place, "--out", "results")
    assert result.returncode == 0, result.stdout + result.stderr
    results = ackproof.directory / "results"
    document = json.loads((results / "verdict.json").read_text())
    cells = {cell["acks"]: cell for cell in document["cells"]}
    assert cells["1"]["lost"] > 0, "an isolated leader acknowledged what it then had to cut"
    assert (cells["all"]["lost"], cells["all"]["verdict"]) == (0, "pass")
    manifest = json.loads((results / "manifest.json").read_text())
    assert manifest["system"] == document["system"] == pinned(system)
    assert f"system: {pinned(system)}" in (results / "campaign.yaml").read_text()
    assert owned_things() == before


def test_its_jars_are_those_of_the_release(system: str) -> None:
    (known,) = systems.artifacts(f"kafka:{VERSION}")
    (taken,) = systems.artifacts(system)
    assert taken.sums == known.sums
    assert taken.title == known.title
    assert quorum_of(system) is MetadataQuorum.ISOLATED_KRAFT
