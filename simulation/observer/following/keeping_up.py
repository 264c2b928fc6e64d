"""What a leader would make of followers that fall behind, if nothing else happened from now on.

* **LaggardsWouldLeave**: with ``replica.lag.max.messages`` smaller by one than the lag of whoever
  of the ISR lags most, that one would leave it when the leader looks next. Few followers ever are
  many messages behind, and in few plans does anybody count them.
* **WatermarkWouldFollow**: had the slowest of the ISR just left it, and were it silent from now on,
  then all that the others have is committed at the first tick after ``replica.lag.time.max.ms``.
  Somebody fetches or appends long before that, in nearly all plans, and the watermark is looked at
  then.

Told by a copy of the leader: the leader itself hears of nothing.
"""

import copy
from collections.abc import Mapping
from dataclasses import replace

from ackproof.broker.replication.events import Event, FollowerFetch, Tick, WriteIsr
from ackproof.broker.replication.isr import IsrState
from ackproof.broker.replication.leader import Leader
from ackproof.broker.replication.pending import PendingProduces
from ackproof.broker.replication.replica import Replica
from ackproof.broker.types import BrokerId, Millis, Offset
from simulation.violation import Violation


def stepped(name: str, replica: Replica, event: Event) -> None:
    """A replica has taken ``event`` in; raises Violation."""
    leader = replica._leader
    if leader is None or not leader.serves or leader.isr.proposed is not None:
        return
    ends = replica.follower_ends
    in_sync = {broker: ends[broker] for broker in leader.isr.committed if broker in ends}
    if type(event) is Tick:
        _laggards(name, leader, in_sync, event.now)
    elif type(event) is FollowerFetch:
        _watermark(name, leader, in_sync, event.now)


def _laggards(name: str, leader: Leader, ends: Mapping[BrokerId, Offset], now: Millis) -> None:
    end = leader._log.log_end_offset
    behind = {broker: end - known for broker, known in ends.items() if known >= 0}
    most = max(behind.values(), default=0)
    if most < 1:
        return
    twin = _twin(leader)
    twin.config = replace(leader.config, replica_lag_max_messages=most - 1)
    twin._next_isr_check = now
    kept = leader.isr.committed
    for effect in twin.tick(Tick(now=now)):
        if type(effect) is WriteIsr:
            kept = effect.isr
    stayed = sorted(broker for broker in kept if behind.get(broker, 0) == most)
    if stayed:
        what = f"brokers {stayed} lag {most} messages, and would stay in the ISR if"
        raise Violation("LaggardsWouldLeave", f"{name}: {what} {most - 1} were allowed")


def _watermark(name: str, leader: Leader, ends: Mapping[BrokerId, Offset], now: Millis) -> None:
    slowest = min(ends, key=lambda broker: ends[broker], default=None)
    if slowest is None:
        return
    others = (end for broker, end in ends.items() if broker != slowest)
    have = min([leader._log.log_end_offset, *others])
    if have <= leader._log.high_watermark:
        return
    twin, later = _twin(leader), Millis(now + leader.config.replica_lag_time_max_ms + 1)
    kept = tuple(broker for broker in leader.isr.committed if broker != slowest)
    twin.isr = IsrState(committed=kept, zk_version=leader.isr.zk_version)
    twin.tick(Tick(now=later))
    committed = twin._log.high_watermark
    if committed < have:
        what = f"{list(kept)} have what lies below {have}, and without {slowest}, which is silent"
        when = f"from {now} to {later} ms, what lies below {committed} would be committed"
        raise Violation("WatermarkWouldFollow", f"{name}: {what} {when}")


def _twin(leader: Leader) -> Leader:
    """The same, and nobody waits for what it does."""
    twin = copy.copy(leader)
    twin._log, twin.pending = copy.copy(leader._log), PendingProduces()
    return twin
