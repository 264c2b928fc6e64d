"""After an unclean stop: a replica that may have lost its log's end leaves the ISR (fenced)."""

from ackproof.broker.coordination.nodes import ANY_VERSION, Change, Kind, Node, PartitionView
from ackproof.broker.coordination.nodes import StateChangeRequest as Request
from ackproof.broker.coordination.ops import Check, Enqueue, Op, PutIsr
from ackproof.broker.coordination.variants import hosting
from ackproof.broker.types import BrokerId, TopicPartition


def leaving(me: BrokerId, tp: TopicPartition, view: PartitionView) -> tuple[Op, ...] | None:
    """The write by which ``me`` leaves the ISR; None: there is none to leave, or nobody would be
    left who may lead.

    1 is in the ISR, loses power and with it what it had acknowledged, and is back before its
    session is over: it would lead, being the preferred replica, or be elected later, without what
    the others have. Where it is not in the ISR it writes the same once more: a leader that saw it
    catch up before may be about to let it in, and is to be refused.
    """
    isr = view.isr
    left = tuple(broker for broker in isr.isr if broker != me) if isr else ()
    heir = next((broker for broker in left if view.hosts(broker)), None)
    if isr is None or heir is None:
        return None
    ops: list[Op] = [
        *hosting(heir, tp, view),
        PutIsr(partition=tp, isr=left, epoch=isr.epoch, expected=isr.version),
    ]
    if view.leader is not None and view.leader.broker != me:
        request = Request(change=Change.ISR_CHANGED, partition=tp, leader=me, epoch=isr.epoch)
        ops.append(Check(node=Node(Kind.LEADER, tp), expected=ANY_VERSION))
        ops.append(Enqueue(broker=view.leader.broker, request=request))
    return tuple(ops)
