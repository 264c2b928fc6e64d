"""The step ``failover``: the time that partitions are without a leader, by their number.

The cells are judged only by what happens up to the final read. The kills are in the ledger, as all
faults are, so that the ends of their servers are explained. Their rows in the history are in the
table ``failovers``.
"""

import random
from collections.abc import Sequence
from contextlib import suppress

from confluent_kafka import KafkaException

from ackproof.harness.campaign.model.schedule import TOPIC, FailoverSpec
from ackproof.harness.campaign.plan.context import fault_limit_ms
from ackproof.harness.running.context import Run, record_zookeeper_counters
from ackproof.harness.running.deadline import Deadline, StepTimeout
from ackproof.history.manifest import PlannedFailover
from ackproof.infra.api.interface import InfraError, ViewUnavailable
from ackproof.nemesis import FAULTS
from ackproof.nemesis.execution import Executor, HealFailed, OpenFault
from ackproof.nemesis.interface import Target
from ackproof.nemesis.proofs import prove
from ackproof.nemesis.targets import expressions, resolution
from ackproof.workloads.configuration import connected
from ackproof.workloads.failover import FailoverClients, TopicNotCreated, grow

_LOOK_EVERY_S = 1.0
"""The seconds between two looks. With thousands of partitions, a look is work for ZooKeeper and for
this machine."""


def failover(run: Run, deadline: Deadline) -> None:
    """Measure every planned failover. A failed measurement is a finding, and the next is still
    tried."""
    # The observer reads everything again at each change. With a thousand elections it would keep
    # ZooKeeper busy.
    run.observer.close()
    executor = Executor(run.cluster, run.ledger)
    last = max((planned.fault_id for planned in run.plan), default=0)
    for number, planned in enumerate(run.failovers, start=last + 1):
        try:
            _measured(run, executor, planned, number, deadline)
        except (TopicNotCreated, LookupError, TimeoutError, InfraError, HealFailed) as reason:
            run.finding("failover", f"{planned.partitions} partitions: {reason}")
            if deadline.remaining() == 0:
                return


def _measured(
    run: Run, executor: Executor, planned: PlannedFailover, number: int, deadline: Deadline
) -> None:
    spec = run.campaign.failover
    assert spec is not None
    _grown(run, spec, planned.partitions, deadline)
    record_zookeeper_counters(run, "grown", planned.partitions)
    entry = _aimed(run, planned, number)
    try:
        if _struck(run, executor, entry, planned, deadline):
            record_zookeeper_counters(run, "failed-over", planned.partitions)
    finally:
        executor.heal(entry)
    _await_return(run, executor, entry, deadline)


def _grown(run: Run, spec: FailoverSpec, partitions: int, deadline: Deadline) -> None:
    limit_s = spec.limit / 1000
    seconds = deadline.remaining(at_most=limit_s)
    grow(
        run.system.bootstrap_servers,
        TOPIC,
        partitions,
        spec.replication_factor,
        seconds,
        connected(run.connection),
    )

    def whole() -> bool:
        return not _lacking(run, spec, partitions)

    if not deadline.until(whole, at_most=limit_s, poll=_LOOK_EVERY_S):
        raise StepTimeout(_lacking(run, spec, partitions))


def _lacking(run: Run, spec: FailoverSpec, partitions: int) -> str:
    """Return the reason why the topic is incomplete, in words, or an empty text if it is
    complete."""
    try:
        views = run.system.view().partitions
    except ViewUnavailable as silence:
        return str(silence)
    found = [view for (topic, _), view in views.items() if topic == TOPIC and view.leader != -1]
    full = sum(len(view.isr) >= spec.replication_factor for view in found)
    if full >= partitions:
        return ""
    return f"{len(found)} have a leader, {full} have a full ISR"


def _aimed(run: Run, planned: PlannedFailover, fault_id: int) -> OpenFault:
    expression = expressions.parse(planned.target)
    target = resolution.resolve(expression, run.cluster, planned.seed)
    if len(target.servers) != 1:
        raise LookupError(f"{planned.target} is {', '.join(target.servers)}, not one broker")
    kill = FAULTS["kill"]
    plan = kill.plan(run.cluster.members, target, kill.parameters(), random.Random(planned.seed))
    return OpenFault(fault_id=fault_id, fault=kill, target=target, plan=plan, hold_ms=0)


def _struck(
    run: Run, executor: Executor, entry: OpenFault, planned: PlannedFailover, deadline: Deadline
) -> bool:
    """Kill the broker and watch. Return whether every partition that it led has a leader, and
    acknowledges, again."""
    assert run.campaign.failover is not None
    limit_s = deadline.remaining(at_most=run.campaign.failover.limit / 1000)
    broker = _broker(run, entry.target)
    with FailoverClients(
        run.system.bootstrap_servers,
        TOPIC,
        planned.partitions,
        run.clock.time_ns,
        limit_s,
        connected(run.connection),
    ) as onlooker:
        if not onlooker.warm_up(limit_s):
            raise StepTimeout("not all of them acknowledged a record")
        moved = _led_by(onlooker, broker, deadline)
        killed = run.clock.time_ns()
        executor.inject(entry)
        seen = onlooker.look_on(broker, moved, deadline.check)
    deadline.check()
    run.recorder.failover(planned.partitions, broker, killed, seen)
    late = [number for number, one in seen.items() if one.led is None or one.acked is None]
    if late:
        run.finding(
            "failover",
            (
                f"{planned.partitions} partitions: {len(late)} of the {len(moved)} that broker "
                f"{broker} led did not recover within {limit_s:.0f} s"
            ),
        )
    return not late


def _led_by(onlooker: FailoverClients, broker: int, deadline: Deadline) -> Sequence[int]:
    found: list[int] = []

    def look() -> bool:
        with suppress(KafkaException):
            leaders = onlooker.leaders()
            found[:] = sorted(number for number, leader in leaders.items() if leader == broker)
        return bool(found)

    if not deadline.until(look, at_most=30.0):
        raise LookupError(f"broker {broker} leads no partition of {TOPIC}")
    return found


def _broker(run: Run, target: Target) -> int:
    return run.cluster.server(target.servers[0]).id


def _await_return(run: Run, executor: Executor, entry: OpenFault, deadline: Deadline) -> None:
    looks = entry.fault.healed(executor.injection(entry))
    limit_s = deadline.remaining(at_most=fault_limit_ms(run.campaign, run.system) / 1000)
    proof = prove(looks, deadline, limit_s, by_itself=False)
    if not proof.proven:
        raise StepTimeout(f"{', '.join(entry.target.servers)} did not recover")
    run.ledger.close(entry.fault_id)
