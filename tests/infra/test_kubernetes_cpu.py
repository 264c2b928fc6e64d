"""Containers of a real Kubernetes get less CPU by an in-place resize, and their former CPU back."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ackproof.infra.api.capabilities import LimitedResource
from ackproof.infra.api.interface import PodRefusal
from ackproof.infra.backends.kubernetes import cpu_limits
from ackproof.infra.machine.waiting import wait_until
from ackproof.infra.systems.external.description import BrokerControl, DescribedCluster
from ackproof.infra.systems.external.journal import FILE, Journal
from ackproof.infra.systems.external.limits import PodLimits
from ackproof.infra.systems.external.restoration import undo
from tests.support.clusters.sleepers import Sleepers, sleepers_in_pods
from tests.support.processes.deadlines import PATIENCE_S, TEST_S

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(TEST_S)]

CPU = LimitedResource.CPU
BUSY = ("sh", "-c", "while :; do :; done")
BEFORE = 200
GUARANTEED = {"limits": {"cpu": f"{BEFORE}m", "memory": "64Mi"}}
BURSTABLE = {"requests": {"cpu": "100m", "memory": "64Mi"}, **GUARANTEED}


@pytest.fixture(params=[GUARANTEED, BURSTABLE], ids=["Guaranteed", "Burstable"])
def busy(request) -> Iterator[Sleepers]:
    with sleepers_in_pods(command=BUSY, resources=request.param) as found:
        assert found.present().status.qos_class == request.node.callspec.id
        yield found


def journal_of(pod: Sleepers, directory: Path) -> Journal:
    controls = {0: BrokerControl(pod=pod.pod)}
    described = DescribedCluster(bootstrap_servers="none:1", brokers=(0,), handles=controls)
    return Journal.begin(directory / FILE, described)


def resources(pod: Sleepers) -> Any:
    """Return the requests and limits of its container, and whether an annotation is left."""
    found = pod.present()
    (container,) = found.spec.containers
    left = cpu_limits.BEFORE in (found.metadata.annotations or {})
    return container.resources.to_dict(), left, found.status.container_statuses[0].restart_count


def test_busy_container_is_throttled_until_the_limit_is_lifted(
    busy: Sleepers, tmp_path: Path
) -> None:
    journal = journal_of(busy, tmp_path)
    limits = PodLimits(busy.pod, "run", lambda: journal)
    before = resources(busy)
    assert list(cpu_limits.survey(busy.pods, [0], [20])) == []
    assert limits.counted(CPU) == {}
    for _ in range(2):
        limits.limit(CPU, 20)
    assert cpu_limits.in_force(busy.pod) == 20
    wait_until(lambda: limits.counted(CPU)["throttled"] > 3, PATIENCE_S, "the kernel", 0.2)
    with pytest.raises(PodRefusal, match="is limited by another run"):
        cpu_limits.limit(busy.pod, 10, "other")
    assert cpu_limits.lift(busy.pod, "other") is False
    for _ in range(2):
        limits.lift(CPU)
    assert cpu_limits.in_force(busy.pod) == BEFORE
    assert limits.counted(CPU) == {}
    assert resources(busy) == before
    assert not journal.left().limited


def test_limit_of_a_dead_run_is_lifted_by_its_journal(busy: Sleepers, tmp_path: Path) -> None:
    journal = journal_of(busy, tmp_path)
    before = resources(busy)
    PodLimits(busy.pod, "run", lambda: journal).limit(CPU, 20)
    told: list[str] = []
    undo(Journal(tmp_path / FILE), told.append)
    assert told == ["broker-0: gave its pod the former CPU limit"]
    assert resources(busy) == before
    assert not journal.left().anything


def test_pod_that_was_replaced_has_nothing_to_lift(busy: Sleepers) -> None:
    before = busy.ready()
    cpu_limits.limit(busy.pod, 20, "run")
    busy.core.delete_namespaced_pod(before.name, busy.namespace)
    wait_until(lambda: busy.ready().uid != before.uid, PATIENCE_S, "another pod", 0.2)
    assert cpu_limits.lift(busy.pod, "run") is False
    assert cpu_limits.in_force(busy.pod) == BEFORE


def test_container_without_a_limit_is_refused_and_stays_as_it_was() -> None:
    with sleepers_in_pods(resources={"requests": {"cpu": "10m"}}) as sleeper:
        before = resources(sleeper)
        (reason,) = cpu_limits.survey(sleeper.pods, [0], [20, 30])
        assert "has no CPU limit, and one that is set cannot be removed" in reason
        with pytest.raises(PodRefusal, match="has no CPU limit"):
            cpu_limits.limit(sleeper.pod, 20, "run")
        assert resources(sleeper) == before
