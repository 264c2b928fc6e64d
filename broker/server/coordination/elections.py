"""Elections and reassignments on request, in a cluster without a controller.

Any broker may be asked. It changes the partition's nodes (:mod:`broker.coordination.admin`). The
partition's leader, or the broker that becomes the leader, sees the change and does the rest.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping

from kio.schema.errors import ErrorCode

from ackproof.broker.controller.events import Outcome
from ackproof.broker.coordination.admin import Admin, Command
from ackproof.broker.coordination.admin import Outcome as CommandOutcome
from ackproof.broker.coordination.effects import Check, Enqueue, PutIsr, RemoveBroker, Result
from ackproof.broker.coordination.nodes import (
    ADMIN,
    Change,
    Kind,
    Node,
    PartitionView,
    StateChangeRequest,
)
from ackproof.broker.server.coordination.event_loop import Commands
from ackproof.broker.server.coordination.nodes import queue
from ackproof.broker.server.coordination.zk_nodes import Reader, Writer
from ackproof.broker.server.coordinator import Outcomes
from ackproof.broker.server.topic_names import is_legal
from ackproof.broker.types import BrokerId, LeaderEpoch, TopicPartition

CHECK_INTERVAL_S = 0.05
"""The interval of checks for a leader."""

NAMED_MAX = 5
"""The number of partitions that a refusal names."""

TIMEOUT_S = 30.0
"""The timeout of commands that wait for nothing."""

Targets = Mapping[TopicPartition, tuple[BrokerId, ...] | None]
DONE = Outcome(ErrorCode.none)


class Elections:
    """Carries out requests. It answers when they are written, and for elections when there is a
    leader again."""

    def __init__(self, reader: Reader, writer: Writer, commands: Commands, admin: Admin) -> None:
        self._reader = reader
        self._writer = writer
        self._commands = commands
        self._admin = admin

    # --- elections --------------------------------------------------------------------------

    async def elect(
        self, partitions: tuple[TopicPartition, ...] | None, *, unclean: bool
    ) -> Outcomes:
        """Elect preferred leaders, or unclean ones for partitions without a leader. In a request
        for all partitions (None), those that need no election are left out."""
        named = await self._all() if partitions is None else partitions
        elect = self._elect_unclean if unclean else self._elect_preferred
        outcomes = await self._each(named, elect)
        if partitions is not None:
            return outcomes
        idle = ErrorCode.election_not_needed
        return {tp: outcome for tp, outcome in outcomes.items() if outcome.error is not idle}

    async def _elect_preferred(self, tp: TopicPartition) -> Outcome:
        """Do ``checkLoadBalancing``: "delete .../leader in ZK" if the preferred one is in the
        ISR."""
        while True:
            view = await self._reader.partition(tp)
            live = await self._reader.live()
            refused = _no_such(tp, view) or _led_by_preferred(tp, view)
            if refused is not None:
                return refused
            preferred = view.assigned[0]
            if view.isr is None or preferred not in live or preferred not in view.isr.isr:
                text = f"{tp}: replica {preferred} is not online and in sync"
                return Outcome(ErrorCode.preferred_leader_not_available, text)
            if view.leader is None:
                return await self._led(tp)
            if await self._done(self._admin.elect_preferred(tp)):
                return await self._led(tp)

    async def _elect_unclean(self, tp: TopicPartition) -> Outcome:
        """Let a live replica lead if no member of the ISR is live: it is put into the ISR, alone,
        and told to read the partition. Records that only the others had are lost."""
        while True:
            view = await self._reader.partition(tp)
            live = await self._reader.live()
            refused = _no_such(tp, view)
            if refused is not None:
                return refused
            if view.leader is not None and view.leader.broker in live:
                text = f"{tp} is led by {view.leader.broker}"
                return Outcome(ErrorCode.election_not_needed, text)
            online = [broker for broker in view.assigned if broker in live]
            if not online:
                text = f"{tp}: no replica of it is online"
                return Outcome(ErrorCode.eligible_leaders_not_available, text)
            if view.isr is None or any(broker in live for broker in view.isr.isr):
                return await self._led(tp)
            chosen, epoch = online[0], view.isr.epoch
            ops = (
                PutIsr(partition=tp, isr=(chosen,), epoch=epoch, expected=view.isr.version),
                _request(Change.ISR_CHANGED, tp, chosen, epoch),
            )
            written = await self._writer.write(ops, None)
            if written.result is Result.DONE:
                return await self._led(tp)

    async def _led(self, tp: TopicPartition) -> Outcome:
        while True:
            view = await self._reader.partition(tp)
            if view.leader is not None or view.replicas is None:
                return _no_such(tp, view) or DONE
            await asyncio.sleep(CHECK_INTERVAL_S)

    # --- reassignments ----------------------------------------------------------------------

    async def reassign(self, targets: Targets) -> Outcomes:
        """Move partitions to these replicas, or with None cancel a move."""

        async def begin(tp: TopicPartition) -> Outcome:
            target = targets[tp]
            return await (self._take_back(tp) if target is None else self._move(tp, target))

        return await self._each(targets, begin)

    async def _move(self, tp: TopicPartition, target: tuple[BrokerId, ...]) -> Outcome:
        while True:
            view = await self._reader.partition(tp)
            refused = _no_such(tp, view) or _unusable(tp, target, await self._reader.live())
            if refused is not None:
                return refused
            if target == (view.assigned if view.moving_to is None else view.moving_to):
                done = await self._still(tp, view)
            else:
                done = await self._done(self._admin.reassign(tp, target))
            if done:
                return DONE

    async def _still(self, tp: TopicPartition, view: PartitionView) -> bool:
        """Return whether no order was given since the read.

        Suppose a server of ZooKeeper lags and shows a partition on [1, 2] that has been moved to
        [2]. A request to move it back would be told that there is nothing to do, and a cancellation
        that there is no move. A transaction reaches ZooKeeper's leader, and each order raises AR's
        version.
        """
        assert view.replicas is not None
        check = Check(node=Node(Kind.REPLICAS, tp), expected=view.replicas.version)
        if (await self._writer.write((check,), None)).result is Result.DONE:
            return True
        await asyncio.sleep(CHECK_INTERVAL_S)
        return False

    async def _take_back(self, tp: TopicPartition) -> Outcome:
        """Cancel a reassignment. Wait while the partition would be left without a replica that may
        lead."""
        while True:
            view = await self._reader.partition(tp)
            refused = _no_such(tp, view)
            if refused is not None:
                return refused
            if view.moving_to is None:
                if not await self._still(tp, view):
                    continue
                text = f"{tp} is not being reassigned"
                return Outcome(ErrorCode.no_reassignment_in_progress, text)
            if await self._done(self._admin.cancel_reassignment(tp)):
                return DONE

    # --- brokers ----------------------------------------------------------------------------

    async def remove_broker(self, broker: BrokerId) -> Outcome:
        """Carry out the remove-brokers command (*Design V2*, "Paths stored in Zookeeper"): delete
        the queue of a broker that will not come back. If it does, it gets a new queue.

        A broker that has a replica, or must close one, keeps its queue. Without it the partition
        could be neither moved away nor deleted.
        """
        await self._reader.sync()
        if broker in await self._reader.live():
            return _refused(f"broker {broker} is running: stop it first")
        held = await self._reader.naming(broker, removing=True)
        if held:
            named = ", ".join(map(str, sorted(held)[:NAMED_MAX]))
            more = f" and {len(held) - NAMED_MAX} more" if len(held) > NAMED_MAX else ""
            return _refused(f"broker {broker} has replicas of {named}{more}: move them first")
        if await self._reader.exists(queue(broker)) is None:
            text = f"there is no broker {broker}"
            return Outcome(ErrorCode.broker_id_not_registered, text)
        while True:
            written = await self._writer.write((RemoveBroker(broker=broker),), None)
            if written.result is Result.DONE:
                return DONE
            if written.result is Result.REFUSED:
                return _refused(f"broker {broker} is running: stop it first")

    # --- what they share --------------------------------------------------------------------

    async def _each(
        self,
        partitions: Iterable[TopicPartition],
        order: Callable[[TopicPartition], Awaitable[Outcome]],
    ) -> Outcomes:
        tps = sorted(set(partitions))
        return dict(zip(tps, await asyncio.gather(*map(_known(order), tps)), strict=True))

    async def _all(self) -> tuple[TopicPartition, ...]:
        return tuple(await self._reader.assigned(await self._reader.topics()))

    async def _done(self, command: Command) -> bool:
        """Run a command. Return False, after a moment, if another write interfered and the
        partition must be read again."""
        if await self._commands.run(command, TIMEOUT_S) is CommandOutcome.DONE:
            return True
        await asyncio.sleep(CHECK_INTERVAL_S)
        return False


def _refused(text: str) -> Outcome:
    return Outcome(ErrorCode.invalid_request, text)


def _known(
    order: Callable[[TopicPartition], Awaitable[Outcome]],
) -> Callable[[TopicPartition], Awaitable[Outcome]]:
    """Return the order with a check of names, so that nothing is read for a name that no path can
    contain."""

    async def checked(tp: TopicPartition) -> Outcome:
        if not is_legal(tp.topic) or tp.partition < 0:
            return Outcome(ErrorCode.unknown_topic_or_partition, f"{tp} does not exist")
        return await order(tp)

    return checked


def _no_such(tp: TopicPartition, view: PartitionView) -> Outcome | None:
    if view.replicas is None:
        return Outcome(ErrorCode.unknown_topic_or_partition, f"{tp} does not exist")
    if view.moving_to == ():
        return Outcome(ErrorCode.unknown_topic_or_partition, f"{tp} is being deleted")
    return None


def _led_by_preferred(tp: TopicPartition, view: PartitionView) -> Outcome | None:
    leader = view.leader.broker if view.leader else None
    if not view.assigned or leader != view.assigned[0]:
        return None
    return Outcome(ErrorCode.election_not_needed, f"{tp} is led by {leader}")


def _unusable(
    tp: TopicPartition, target: tuple[BrokerId, ...], live: frozenset[BrokerId]
) -> Outcome | None:
    wrong = ErrorCode.invalid_replica_assignment
    if not target or len(set(target)) != len(target):
        return Outcome(wrong, f"replicas {list(target)} of {tp} are none, or one broker twice")
    unknown = [broker for broker in target if broker not in live]
    if unknown:
        return Outcome(wrong, f"replicas {unknown} of {tp} are on brokers that are not live")
    return None


def _request(change: Change, tp: TopicPartition, broker: BrokerId, epoch: LeaderEpoch) -> Enqueue:
    request = StateChangeRequest(change=change, partition=tp, leader=ADMIN, epoch=epoch)
    return Enqueue(broker=broker, request=request)
