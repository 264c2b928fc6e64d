"""The steps before the first fault: deploy, ready and workload."""

from collections.abc import Mapping

from ackproof.harness.campaign.model.workload import described, idle
from ackproof.harness.campaign.plan.runs import replacements
from ackproof.harness.running import client_health, clients, servers
from ackproof.harness.running.client_health import SilenceWatch
from ackproof.harness.running.context import Run, record_zookeeper_counters
from ackproof.harness.running.deadline import Deadline, StepTimeout
from ackproof.harness.running.processes import ProcessWatch, exit_status, in_words, last_words
from ackproof.harness.running.steps.recovery import unwhole, whole
from ackproof.infra.api.capabilities import AdminTimeout, OrderRefused
from ackproof.infra.api.interface import DeploymentError, Node
from ackproof.workloads.configuration import connected
from ackproof.workloads.interface import ClientRole
from ackproof.workloads.produce import group_id
from ackproof.workloads.topics import create_topics

CLIENTS, SILENCE = "clients", "clients' silence"
"""The names of the watches over clients: whether they run, and whether they give signs of life."""

STARTS = "log starts"
"""The name of the watch over the starts of logs."""


def deploy(run: Run, deadline: Deadline) -> None:
    """Start every server, and begin to record the changes in ZooKeeper."""
    servers.watch(run)
    servers.attend_joining(run)
    try:
        run.system.deploy()
    except DeploymentError as error:
        if error.server is None:
            raise
        cause, *_ = str(error).splitlines()
        words = last_words(error.server.node, error.server.name)
        raise DeploymentError(f"{cause}{words}", error.server) from error
    servers.watch(run)  # those that ran before, now that an agent is beside them
    servers.watch_pods(run)
    deadline.check()
    record_zookeeper_counters(run, "deployed")
    run.observer.start()


def ready(run: Run, deadline: Deadline) -> None:
    """Create every cell's topic, and wait until each partition has a leader and a full ISR."""
    connection = connected(run.connection)
    create_topics(
        run.system.bootstrap_servers, run.cells, deadline.remaining(), connection, run.kept
    )
    if not deadline.until(lambda: whole(run)):
        raise StepTimeout(f"not ready: {unwhole(run)}")
    _let_share_groups_begin_at_the_start(run, deadline)
    record_zookeeper_counters(run, "ready")


def _let_share_groups_begin_at_the_start(run: Run, deadline: Deadline) -> None:
    """Let share groups begin at the start of the log, so that they are owed every record. A share
    group begins at the end otherwise, and only a setting of the group itself changes that."""
    for cell in run.cells:
        for group in run.campaign.workload.load_of(cell).share_groups:
            name = group_id(cell, group)
            try:
                run.system.admin.set_group_config(
                    name, "share.auto.offset.reset", "earliest", deadline.remaining()
                )
            except (OrderRefused, AdminTimeout) as refusal:
                reason = f"share.auto.offset.reset of the group {name} cannot be set: {refusal}"
                raise StepTimeout(reason) from refusal


def start_workload(run: Run, deadline: Deadline) -> None:
    """Start every cell's clients, and wait until each of them has begun its work. Those that do not
    begin concern only their own cells, as long as one cell is left."""
    for node in run.client_nodes:
        compare_clocks(run, node, "start")
    spec = run.campaign.workload
    run.progress.note(described(spec, run.cells))
    places = [run.place(node) for node in run.client_nodes]
    loads = spec.loads_of(run.cells, run.consumer_racks)
    for cell in run.cells:
        for client in run.workload.clients(
            cell,
            loads[cell.name],
            bootstrap_servers=run.system.bootstrap_servers,
            places=places,
            replacements=replacements(run.plan),
            seed=run.seed,
        ):
            deadline.check()
            node = run.client_node(client.node)
            started = clients.start(client, node, run.progress_files, run.connection)
            run.started.append(started)
            run.running.append(started)
    run.watches[CLIENTS] = ProcessWatch(CLIENTS, lambda: _look_after_clients(run)).start()
    if run.log_starts.topics:
        run.watches[STARTS] = ProcessWatch(STARTS, run.log_starts.look).start()
    run.watches[SILENCE] = ProcessWatch(SILENCE, SilenceWatch(run).look).start()
    if not deadline.until(lambda: not unready(run)):
        _leave_to_their_cells(run, unready(run))


def unready(run: Run) -> Mapping[str, str]:
    """Return the running clients that have not begun their work, by name, with what is missing. In
    a group, as many members may be idle as its cell has no partitions for."""
    waiting = [one for one in tuple(run.running) if not clients.ready(one)]
    producers = clients.of_role(ClientRole.PRODUCER, waiting)
    missing = {one.client.name: "nothing was acknowledged to it" for one in producers}
    for cell in run.cells:
        consumers = clients.of_role(ClientRole.CONSUMER, waiting)
        there = [one.client.name for one in consumers if one.client.cell == cell.name]
        idlers = idle(run.campaign.workload.load_of(cell), cell)
        if len(there) > idlers:
            but = f" ({idlers} of {len(there)} members may be idle)" if idlers else ""
            missing |= dict.fromkeys(there, f"no partition was assigned to it{but}")
    return missing


def _leave_to_their_cells(run: Run, missing: Mapping[str, str]) -> None:
    """Record the clients that do not begin, each with the last lines of its log. They cost their
    own cells the evidence, and the others go on. Raises StepTimeout if no cell is left."""
    concerned = {one.client.cell for one in run.running if one.client.name in missing}
    words = {
        one.client.name: f"did not begin: {missing[one.client.name]}"
        f"{last_words(run.client_node(one.client.node), one.client.name)}"
        for one in run.running
        if one.client.name in missing
    }
    if {cell.name for cell in run.cells} <= concerned:
        raise StepTimeout("; ".join(f"the client {name} {how}" for name, how in words.items()))
    for name, how in words.items():
        run.recorder.client(name, None, None, how)
        run.tell(f"workload: the client {name} {how}")


def compare_clocks(run: Run, node: Node, moment: str) -> None:
    """Record the clock of a node where rows are written, at the ``start`` or ``end`` of the
    workload. Raises InfraError if the node does not answer."""
    run.recorder.clock(node.name, moment, node.clock())


def ended_otherwise(run: Run, one: clients.ClientProcess, how: str) -> None:
    """Record that a client has ended unexpectedly, and show it if no fault explains it. It concerns
    only its own cell, and no cell if the client only read."""
    name = one.client.name
    status = exit_status(one.process)
    if (fault_id := min(run.ledger.ending(name), default=None)) is not None:
        run.recorder.client(name, status, fault_id, None)
        return
    how += last_words(run.client_node(one.client.node), name)
    run.recorder.client(name, status, None, how)
    run.tell(f"workload: the client {name} {how}")


def _look_after_clients(run: Run) -> None:
    """Record the clients that have ended before they were asked to."""
    client_health.note_ended_sessions(run)
    ended = [one for one in tuple(run.running) if one.ended()]
    if CLIENTS not in run.watches:  # they were asked to end during this look
        return
    for one in ended:
        run.running.remove(one)
        ended_otherwise(run, one, f"ended by itself, {in_words(exit_status(one.process))}")
