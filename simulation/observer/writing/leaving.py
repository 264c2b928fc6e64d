"""Without a controller: whose log may lack its end is in no ISR before it has what others have.

* **SuspectsLeave**: a replica that its broker has left in disorder writes that it leaves the ISR
  before it claims anything, leads or follows, however often that is refused. 1 loses power, and
  with it what it has acknowledged; it would lead at once, being the preferred replica.
* **CaughtUpIsNotInSync**: and a leader that waits for who is live lets nobody in who was not there:
  one that had caught up may have lost its log's end since. Whoever is outside joins by a fetch.

Whether such a replica lacks anything, and leads or is counted before it has it again, is a matter
of luck. So all that host and lead are asked, as twins, among others than they have.
"""

import copy
from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final, cast

from ackproof.broker.coordination.events import (
    Assume,
    CreateLeader,
    Effect,
    PartitionRead,
    Progress,
    PutIsr,
    ReadPartition,
    Result,
    Write,
    Written,
)
from ackproof.broker.coordination.hosting.leading import Leading
from ackproof.broker.coordination.hosting.partition import HostedPartition
from ackproof.broker.coordination.nodes import Assigned, IsrNode, LeaderNode, PartitionView
from ackproof.broker.coordination.outbox import Outbox
from ackproof.broker.types import BrokerId, LeaderEpoch, Offset, ZkVersion
from simulation.violation import Violation

FORMER: Final = -1
"""A session that is over, or another broker's."""
VERSION: Final = ZkVersion(7)
EPOCH: Final = LeaderEpoch(3)
LOG_END: Final = Offset(5)


def hosts(hosted: HostedPartition) -> None:
    """A broker that ended in disorder begins to host that replica; raises Violation."""
    if hosted.context.variant.as_printed:
        return
    me = hosted.context.me
    heir = BrokerId(me + 1)
    for leader in (None, heir, me):
        for isr in ((me, heir), (heir,)):
            _leaves(hosted, _view(hosted, (me, heir), leader, isr), heir)


def _leaves(hosted: HostedPartition, view: PartitionView, heir: BrokerId) -> None:
    twin = _apart(hosted)
    twin.begin(view)
    for result in (Result.REFUSED, Result.UNKNOWN, Result.DONE):
        effects = twin.context.outbox.drain()
        left = [(op.isr, op.expected) for op in _ops(effects) if isinstance(op, PutIsr)]
        if left != [((heir,), VERSION)] or _counts(effects):
            what = f"would not leave the ISR before anything else: {view.isr}, {view.leader}"
            raise Violation("SuspectsLeave", f"broker {twin.context.me} ended in disorder: {what}")
        (write,) = (effect for effect in effects if isinstance(effect, Write))
        twin.context.outbox.written(Written(token=write.token, result=result))
        for effect in twin.context.outbox.drain():
            if isinstance(effect, ReadPartition):
                read = PartitionRead(token=effect.token, view=view)
                if result is not Result.DONE:
                    twin.context.outbox.partition_read(read)


def waits(leading: Leading) -> None:
    """It begins; raises Violation."""
    hosted = leading.partition
    me = hosted.context.me
    if hosted.context.variant.as_printed or hosted.busy:
        return
    outside = BrokerId(me + 1)
    twin, twins = copy.copy(leading), _apart(hosted)
    twins.leading, twin.partition, twin._context = twin, twins, twins.context
    twin._reassignment = cast(Any, SimpleNamespace(act=lambda: True))
    twin.isr, twin.view = (me,), _view(hosted, (me, outside), me, (me,))
    twin._live = frozenset((me, outside))
    twin.progress = Progress(
        partition=hosted.tp,
        leader_epoch=twin.epoch,
        log_end=LOG_END,
        high_watermark=LOG_END,
        ends={outside: LOG_END},
    )
    twin.act()
    asked = [op.isr for op in _ops(twins.context.outbox.drain()) if isinstance(op, PutIsr)]
    let_in = [isr for isr in (*asked, twin.isr) if outside in isr]
    if let_in or not twin.serves:
        what = (
            f"broker {me} would begin to lead {hosted.tp} with the ISR {(asked or [twin.isr])[0]}"
        )
        raise Violation("CaughtUpIsNotInSync", f"{what}, where it was {[me]}")


def _apart(hosted: HostedPartition) -> HostedPartition:
    """What it writes and tells is written and told nowhere."""
    twin = copy.copy(hosted)
    twin.context = replace(hosted.context, outbox=Outbox())
    return twin


def _view(
    hosted: HostedPartition,
    assigned: tuple[BrokerId, ...],
    leader: BrokerId | None,
    isr: tuple[BrokerId, ...],
) -> PartitionView:
    led = None if leader is None else LeaderNode(
        broker=leader, epoch=EPOCH, owner=FORMER, version=ZkVersion(0)
    )  # fmt: skip
    return PartitionView(
        replicas=Assigned(replicas=assigned, version=ZkVersion(0)),
        leader=led,
        isr=IsrNode(isr=isr, epoch=EPOCH, version=VERSION),
        topic_id=hosted.topic_id,
    )


def _ops(effects: Iterable[Effect]) -> list[Any]:
    return [op for effect in effects if isinstance(effect, Write) for op in effect.ops]


def _counts(effects: Iterable[Effect]) -> bool:
    """Somebody takes a role, or claims one."""
    claims = any(isinstance(op, CreateLeader) for op in _ops(effects))
    return claims or any(isinstance(effect, Assume) for effect in effects)
