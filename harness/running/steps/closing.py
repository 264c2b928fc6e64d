"""The last steps of a run: flush, final read, collect and teardown."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath

from ackproof.harness.campaign.clients import message_timeout_ms
from ackproof.harness.running import client_health, clients, processes
from ackproof.harness.running.context import Run
from ackproof.harness.running.deadline import Deadline
from ackproof.harness.running.log_starts import hold
from ackproof.harness.running.processes import exit_status, last_words
from ackproof.harness.running.servers import check_brokers_left, record_files, remove_live_logs
from ackproof.harness.running.steps.setup import CLIENTS, SILENCE, compare_clocks, ended_otherwise
from ackproof.history import storage
from ackproof.infra.api.interface import InfraError, Node, Server
from ackproof.workloads.interface import CATCH_UP_S, Client, ClientRole
from ackproof.workloads.reading_back.processes import apart, crashed

# --- flush ----------------------------------------------------------------------------------------
#
# Producers stop first, because consumers must read the records that they have under way. Consumers
# are asked when no producer sends any more, and go on until they have read to the end.

CLOSE_HISTORIES_S = 20.0
_FETCH_HISTORIES_S = 20.0
_RETURNS_WITHIN_S = 60.0
"""The time for a broker whose pod is being replaced to return, before logs are collected."""


def flush_limit_s(run: Run) -> float:
    """Return how long the step may take with the running clients, in seconds."""
    there = {one.client.role for one in run.running}
    return _FETCH_HISTORIES_S + sum(_share_s(run, role) for role in there)


def flush(run: Run, deadline: Deadline) -> None:
    """Let every client finish what is under way, close its history and end."""
    processes.stop_watching(run.watches, [CLIENTS, SILENCE])
    for role in (ClientRole.PRODUCER, ClientRole.CONSUMER):
        # Each role has a share of its own. Otherwise one hanging producer would leave the consumers
        # no time, and all of them would be killed for it.
        end = min(deadline.end, run.clock.monotonic() + _share_s(run, role))
        _stop(run, role, replace(deadline, end=end))
    for node in run.client_nodes:
        _tried(run, node.sync)
        if run.ended_well.get("workload") is not None:
            _tried(run, partial(compare_clocks, run, node, "end"))
    # Where files are copied from hosts, the last report of a client arrives only now.
    client_health.note_ended_sessions(run)


def _share_s(run: Run, role: ClientRole) -> float:
    """Return the seconds of a role. Producers wait at most message.timeout.ms for the records under
    way, and consumers CATCH_UP_S for the records still to be read."""
    sent_s = max(map(message_timeout_ms, run.cells)) / 1000
    return CLOSE_HISTORIES_S + (sent_s if role is ClientRole.PRODUCER else CATCH_UP_S)


def _stop(run: Run, role: ClientRole, deadline: Deadline) -> None:
    for one in clients.of_role(role, run.running):
        if not one.ended():
            _tried(run, partial(clients.ask_to_stop, one))
    while left := clients.of_role(role, run.running):
        one = left[-1]
        how = clients.wait(one, deadline)
        run.running.remove(one)
        if how and one.ended():
            ended_otherwise(run, one, how)
        elif how:
            run.finding("flush", f"the client {one.client.name} {how}")


def _tried(run: Run, act: Callable[[], None]) -> None:
    """Run ``act``. A host that does not answer is a finding, and the remaining actions are still
    done."""
    try:
        act()
    except InfraError as silence:
        run.finding("flush", str(silence))


# --- final read, collect, teardown ----------------------------------------------------------------

log = logging.getLogger(__name__)

_REGISTRATIONS = ("egistered broker", "connecting to ZooKeeper at")
"""Words of the lines by which the checkers tell a broker's processes apart."""
_OF_PARTITION = ("Leader {} ", "Follower {} ", "Truncating partition {} ", "[Partition {} broker=")
"""Words of the lines about a single partition that the checkers read. Others may name partitions of
other topics, too."""
_LOGS_OF_S = 7 * 86_400.0
"""The age of the oldest log files that are looked through. Kafka begins a new one each hour."""


def final_read(run: Run, deadline: Deadline) -> None:
    """Read every partition of every cell from its start to its end."""
    check_brokers_left(run)
    if run.log_starts.topics:
        for topic, refusal in hold(run.log_starts, run.system.admin, deadline).items():
            run.tell(f"final-read: the retention of {topic} could not be stopped: {refusal}")
    node = run.client_nodes[0]
    limit_s = run.campaign.limits.final_read / 1000
    end = run.clock.monotonic() + limit_s
    reader = run.workload.final_read(
        run.cells,
        bootstrap_servers=run.system.bootstrap_servers,
        place=run.place(node),
        deadline_s=limit_s,
    )
    problem, why = _read(run, node, reader, deadline)
    left_s = round(end - run.clock.monotonic(), 1)
    if why is not None and left_s > 0:
        # A partition that crashes librdkafka would cost all cells their final read.
        run.tell(f"final-read: {why}; each topic is read by a process of its own")
        problem, _ = _read(run, node, apart(reader, left_s), deadline)
    node.sync()
    if problem:
        run.finding("final-read", problem)


def _read(
    run: Run, node: Node, reader: Client, deadline: Deadline
) -> tuple[str | None, str | None]:
    """Return the problem of the reader, if any, and librdkafka's words if it ended the process."""
    started = clients.start(reader, node, run.progress_files, run.connection)
    problem = clients.wait(started, deadline)
    if problem:
        problem += last_words(node, reader.name)
    return problem, crashed(exit_status(started.process)) if problem else None


def collect(run: Run, deadline: Deadline) -> None:
    """Fetch every replica's raw log, if the brokers' nodes can be asked, and every process's
    output. A broker whose pod something else is replacing has time to return first."""
    deadline.until(lambda: run.pod_restarts.over, at_most=_RETURNS_WITHIN_S)
    processes.stop_watching(run.watches, list(run.watches))
    brokers = (*run.system.brokers, *run.system.added.there)
    for broker in brokers if run.ended_well.get("deploy") else ():
        deadline.check()
        for place, source in _replicas(run, broker):
            _fetch(run, broker.node, source, f"replicas/{place}")
    for node in _nodes(run):
        deadline.check()
        _fetch(run, node, node.log_directory, f"logs/{node.name}")
    _copy_log_lines(run, [broker for broker in brokers if _is_attached(broker)])


def teardown(run: Run, deadline: Deadline) -> None:
    """Stop everything. One failure does not keep the rest from being tried."""
    processes.stop_watching(run.watches, list(run.watches))
    remove_live_logs(run)
    killing = {p.client.name: partial(clients.kill, p) for p in run.running if not p.ended()}
    parts: dict[str, Callable[[], None]] = {
        **killing,
        "observer": run.observer.close,
        "system": run.system.close,
        "backend": run.backend.close,
    }
    for part, close in parts.items():
        deadline.check()
        try:
            close()
        except Exception as error:
            log.exception("closing the %s", part)
            run.finding("teardown", f"the {part} was not closed: {error}")


def _nodes(run: Run) -> list[Node]:
    system = run.system
    servers = (*system.brokers, *system.added.there, *system.zookeepers)
    # A broker may also be a metadata server.
    ours = {server.name: server.node for server in servers if server.distant is None}
    return [*ours.values(), *run.client_nodes]


def _replicas(run: Run, broker: Server) -> Iterator[tuple[str, PurePosixPath]]:
    """Yield the directories of logs to fetch, after their local names. One of several log
    directories has a number. On an external cluster they are those of the run's own partitions,
    because it has no business with others."""
    directories = run.system.log_directories(broker)
    for number, directory in enumerate(directories, start=1):
        place = broker.name if len(directories) == 1 else f"{broker.name}/{number}"
        if broker.distant is None:
            yield place, directory
            continue
        for cell in run.cells:
            for topic, partition in cell.topic_partitions:
                name = f"{topic}-{partition}"
                if broker.node.entries(directory / name):
                    yield f"{place}/{name}", directory / name


def _fetch(run: Run, node: Node, source: PurePosixPath, target: str) -> None:
    """Fetch a directory and record the digest of each file. A file that vanishes meanwhile, or was
    never there, is a finding, and the others are fetched."""
    try:
        node.fetch(source, run.directory / target)
    except (InfraError, OSError) as error:
        run.finding("collect", f"{source} of {node.name} could not be fetched completely: {error}")
    record_files(run, target)


def _is_attached(broker: Server) -> bool:
    return broker.distant is not None and broker.distant.attached


def _copy_log_lines(run: Run, brokers: Sequence[Server]) -> None:
    """Copy what the brokers of an external cluster logged about the run's partitions and their own
    registrations. The lines of one broker alone would not show whether another one led, too: all
    brokers have them, or none."""
    partitions = [f"{topic}-{n}" for cell in run.cells for topic, n in cell.topic_partitions]
    words = [*_REGISTRATIONS, *(line.format(one) for line in _OF_PARTITION for one in partitions)]
    found: dict[str, Sequence[str]] = {}
    for broker in brokers:
        assert broker.distant is not None
        try:
            lines = broker.distant.log_lines(words, _LOGS_OF_S)
        except (InfraError, LookupError) as error:
            run.tell(f"collect: the log of {broker.name} could not be read: {error}")
            return
        if lines is None:
            run.tell(f"collect: {broker.name} writes no file *.log, so its log was not read")
            return
        found[broker.name] = lines
    for name, lines in found.items():
        target = run.directory / "logs" / name
        target.mkdir(parents=True, exist_ok=True)
        storage.write_text(target / f"{name}.log", "".join(lines))
        record_files(run, f"logs/{name}")
