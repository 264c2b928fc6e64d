"""Topics created automatically by requests for them."""

from pathlib import Path

import pytest

from tests.support.clients.confluent import produce, read_all
from tests.support.clusters.bundled import running_cluster

pytestmark = pytest.mark.integration


def test_a_producer_gets_the_topic_it_asks_for(tmp_path: Path) -> None:
    overrides = {"auto.create.topics.enable": "true", "num.partitions": "2"}
    with running_cluster(tmp_path, brokers=1, overrides=overrides) as cluster:
        assert produce(cluster, "new", [b"first"]) == {b"first": None}
        assert read_all(cluster, "new") == [b"first"]
        assert len(cluster.topic("new").partitions) == 2
