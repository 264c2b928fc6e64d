"""**KnownAnew**: a leader goes by nothing that is from before its epoch.

Another broker may have led in between, and followers have cut what they had: taken for level by
what they fetched then, they are let into the ISR without what is committed. A word of a former
epoch comes late by less than a ms; so each leadership that begins is told one.
"""

import copy
from dataclasses import replace

from ackproof.broker.coordination.events import Progress
from ackproof.broker.coordination.hosting.leading import Leading
from ackproof.broker.coordination.outbox import Outbox
from ackproof.broker.replication.epochs import UNKNOWN_OFFSET
from ackproof.broker.replication.events import WriteIsr
from ackproof.broker.replication.replica import Replica
from ackproof.broker.types import LeaderEpoch, Offset
from simulation.violation import Violation

LEVEL = Offset(0)
"""All are, in an epoch in which nothing was written."""


def begun(replica: Replica, name: str) -> None:
    """It leads in another epoch than before, since just now; raises Violation."""
    leader = replica._leader
    for broker, remote in leader.remotes.items() if leader is not None else ():
        if remote.log_end_offset != UNKNOWN_OFFSET or remote.log_start_offset != UNKNOWN_OFFSET:
            what = f"leader {replica.broker} begins epoch {replica.leader_epoch}, and knows already"
            what = f"{what} that broker {broker} has all below {remote.log_end_offset}"
            raise Violation("KnownAnew", f"{name}: {what}")


def begins(leading: Leading) -> None:
    """Where there is no controller; raises Violation."""
    twin = copy.copy(leading)
    twin._context = replace(leading._context, outbox=Outbox())
    tp, me = leading.partition.tp, leading._context.me
    former = LeaderEpoch(leading.epoch - 1)
    twin.progressed(
        Progress(
            partition=tp,
            leader_epoch=former,
            log_end=LEVEL,
            high_watermark=LEVEL,
            ends=dict.fromkeys(leading.replicas, LEVEL),
        )
    )
    told = f"{tp}: leader {me} of epoch {leading.epoch}"
    if twin.progress is not leading.progress:
        raise Violation("KnownAnew", f"{told} would count how far its followers were in {former}")
    twin.isr_asked(WriteIsr(leader_epoch=former, isr=(me,), zk_version=leading.version))
    if twin._asked is not leading._asked or twin.isr != leading.isr:
        raise Violation("KnownAnew", f"{told} would write the ISR that was asked for in {former}")
