"""Metrics at a broker's ``metrics.listener``, read as by Prometheus."""

import re
import urllib.request
from collections.abc import Callable

from prometheus_client.parser import text_string_to_metric_families

from tests.support.clusters.bundled import TIMEOUT_S, Broker


def address(broker: Broker) -> str:
    """The newest that its log tells."""
    return re.findall(r"Metrics at (\S+)", broker.log.read_text())[-1]


def scrape(broker: Broker, absent: float | None = None) -> Callable[..., float]:
    """Reads all metrics once; the returned function gives the sum of a sample over its labels.

    ``absent``: of one that is not there; None: all that are asked for must be there.
    """
    with urllib.request.urlopen(address(broker), timeout=TIMEOUT_S) as response:
        assert response.headers["content-type"].startswith("text/plain")
        text = response.read().decode()
    samples = [s for family in text_string_to_metric_families(text) for s in family.samples]

    def value(name: str, **labels: str) -> float:
        found = [s.value for s in samples if s.name == name and labels.items() <= s.labels.items()]
        if not found and absent is not None:
            return absent
        assert found, f"no sample {name} {labels}"
        return sum(found)

    return value
