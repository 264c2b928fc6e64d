"""Whose log may lack what the ISR says it has: brokers that went down since they were let in.

A broker that registers anew may have lost what it had not flushed. It is a suspect until a state
says that it is out of the ISR, or was let in afterwards.
"""

from collections.abc import Mapping
from dataclasses import replace

from ackproof.broker.controller.cluster import LiveBroker, PartitionState
from ackproof.broker.controller.events import StateWrite
from ackproof.broker.controller.intent import Intent
from ackproof.broker.types import NO_LEADER, BrokerId

Live = Mapping[BrokerId, LiveBroker]


def bounced(state: PartitionState, live: Live) -> frozenset[BrokerId]:
    """Those of the ISR who have registered anew since the state counts on them."""
    relied_on = live.keys() & state.isr
    return frozenset(b for b in relied_on if live[b].epoch > state.trusted_up_to(b))


def suspects(intent: Intent, state: PartitionState, live: Live) -> frozenset[BrokerId]:
    """The partition's suspects. Where nobody leads, nobody has judged those who came back since:
    all of them are."""
    if state.leader != NO_LEADER or intent.begun_anew:
        return intent.suspects
    return intent.suspects | bounced(state, live)


def without_who_joined(
    intent: Intent, known: PartitionState, read: PartitionState, live: Live
) -> Intent:
    """A suspect that was let into the ISR after it had registered again is none any more.

    That is certain when it was not in the ISR before this very write. With a write in between
    that nobody here has seen, it may have been let in before it went down.
    """
    if read.zk_version != known.zk_version + 1:
        return intent
    came = {b for b in read.isr if b in live and live[b].epoch < read.mzxid}
    return replace(intent, suspects=intent.suspects - (came - set(known.isr)))


def who_may_have_joined(intent: Intent, state: PartitionState) -> Intent:
    """There is nothing to write: suspects count as failed already, or nobody leads. Those whom the
    ISR lacks remain suspects nevertheless.

    3 is let into the ISR and loses power before the leader has notified anybody of that. As
    far as is known here it was not in the ISR, and it is back when the notification comes:
    it would stay in the ISR with a shorter log, and lead as soon as the leader dies.
    """
    left = intent.suspects - set(state.isr)
    return replace(intent, suspects=left if state.leader != NO_LEADER else frozenset())


def left_by(write: StateWrite, intent: Intent) -> Intent:
    """Suspects who are in the ISR that was written: they went down after it was decided. Without
    a leader the ISR is kept, so that is no sign."""
    left = intent.suspects & set(write.isr)
    return replace(intent, suspects=left if write.leader != NO_LEADER else frozenset())
