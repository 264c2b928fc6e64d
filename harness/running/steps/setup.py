"""The steps before the first fault: deploy, ready, workload."""

from harness.running import clients
from harness.running.context import Run
from harness.running.deadline import Deadline, StepTimeout
from infra.interface import ViewUnavailable
from workloads.interface import Load
from workloads.topics import create_topics


def deploy(run: Run, deadline: Deadline) -> None:
    """Start every server, and begin to record what changes in ZooKeeper."""
    run.system.deploy()
    deadline.check()
    run.observer.start()


def ready(run: Run, deadline: Deadline) -> None:
    """Make every cell's topic; wait until each partition is led and its ISR full."""
    run.recorder.cells(run.cells, minimum_acked=run.campaign.evidence.acked_min)
    create_topics(run.system.bootstrap_servers, run.cells, deadline.remaining())
    if not deadline.until(lambda: whole(run)):
        raise StepTimeout(f"not ready: {unwhole(run)}")


def start_workload(run: Run, deadline: Deadline) -> None:
    """Start every cell's clients; wait until each has something acknowledged."""
    load = Load(rate=run.campaign.workload.rate, record_bytes=run.campaign.workload.record_bytes)
    shared = run.client_node.share(run.directory)
    for cell in run.cells:
        deadline.check()
        progress = f"progress/{cell.name}.json"
        for client in run.workload.clients(
            cell,
            load,
            bootstrap_servers=run.system.bootstrap_servers,
            history=str(shared / "history"),
            progress=str(shared / progress),
        ):
            started = clients.start(client, run.client_node, run.directory / progress)
            run.producers.append(started)
    if not deadline.until(
        lambda: all(producer.counts().get("acked") for producer in run.producers)
    ):
        silent = [p.client.name for p in run.producers if not p.counts().get("acked")]
        raise StepTimeout(f"nothing was acknowledged to {', '.join(silent)}")


def whole(run: Run) -> bool:
    """Whether every partition of every cell is led and its ISR full, as ZooKeeper tells."""
    return not unwhole(run)


def unwhole(run: Run) -> str:
    """What keeps the cluster from being whole, in words; empty when it is."""
    try:
        partitions = run.system.view().partitions
    except ViewUnavailable as silence:
        return f"ZooKeeper does not answer ({silence})"
    missing = []
    for cell in run.cells:
        for number in range(cell.partitions):
            view = partitions.get((cell.topic, number))
            if view is None or view.leader == -1:
                missing.append(f"{cell.topic}-{number} has no leader")
            elif len(view.isr) < cell.replication_factor:
                missing.append(f"{cell.topic}-{number} has the ISR {list(view.isr)}")
    return "; ".join(missing)
