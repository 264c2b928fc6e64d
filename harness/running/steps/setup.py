"""The steps before the first fault: deploy, ready, workload."""

from harness.running import clients, servers
from harness.running.context import Run
from harness.running.deadline import Deadline, StepTimeout
from harness.running.ends import exit_status, in_words
from harness.running.steps.counting import counted
from harness.running.steps.recovering import unwhole, whole
from harness.running.watch import Watch
from workloads.interface import Load
from workloads.topics import create_topics

CLIENTS = "clients"
"""Their watch."""


def deploy(run: Run, deadline: Deadline) -> None:
    """Start every server, and begin to record what changes in ZooKeeper."""
    servers.watch(run)
    run.system.deploy()
    deadline.check()
    counted(run, "deployed")
    run.observer.start()


def ready(run: Run, deadline: Deadline) -> None:
    """Make every cell's topic; wait until each partition is led and its ISR full."""
    create_topics(run.system.bootstrap_servers, run.cells, deadline.remaining())
    if not deadline.until(lambda: whole(run)):
        raise StepTimeout(f"not ready: {unwhole(run)}")
    counted(run, "ready")


def start_workload(run: Run, deadline: Deadline) -> None:
    """Start every cell's clients; wait until each has something acknowledged."""
    compare_clocks(run, "start")
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
            run.started.append(started)
            run.producers.append(started)
    run.watches[CLIENTS] = Watch(CLIENTS, lambda: _look_after_clients(run)).start()
    if not deadline.until(
        lambda: all(producer.counts().get("acked") for producer in run.producers)
    ):
        silent = [p.client.name for p in run.producers if not p.counts().get("acked")]
        raise StepTimeout(f"nothing was acknowledged to {', '.join(silent)}")


def compare_clocks(run: Run, moment: str) -> None:
    """Record the clocks of the nodes that write rows, at the ``start`` or ``end`` of the workload.
    Raises InfraError when one does not answer."""
    run.recorder.clock(run.client_node.name, moment, run.client_node.clock())


def fault_ended(run: Run, producer: clients.ClientProcess) -> bool:
    """Record that a client has not ended as it was told to; whether a fault accounts for it."""
    fault_id = run.ledger.ended_by(producer.client.name)
    if producer.ended():
        run.recorder.client(producer.client.name, exit_status(producer.process), fault_id)
    return fault_id is not None


def _look_after_clients(run: Run) -> None:
    """A client ends when it is told to; one that ends before that has not sent what it should. One
    that a fault has ended is a matter of its own cell alone."""
    ended = [one for one in tuple(run.producers) if one.ended()]
    if CLIENTS not in run.watches:  # it took so long to tell that they were told to end meanwhile
        return
    for producer in ended:
        run.producers.remove(producer)
        if not fault_ended(run, producer):
            status = in_words(exit_status(producer.process))
            run.finding("workload", f"the client {producer.client.name} ended by itself, {status}")
