"""**UntoldIsKnown**: what a fetch session leaves out, since it was told before, a follower knows.

A leader tells of a watermark once (KIP-227). An answer that came when its follower had entered the
next epoch was passed over: unless that one's next question has all told anew, it takes what is
committed for not committed until the next record comes. Judged when that question comes: all
earlier answers have been taken in by then, or passed over.
"""

from ackproof.broker.replication.replica import Role
from ackproof.broker.server.replication import partition as server
from ackproof.broker.server.replication.fetch_session_cache import FetchSession
from ackproof.broker.types import BrokerId, NamedPartition, TopicPartition
from simulation.observer.observer import Observer
from simulation.violation import Violation


def asked(observer: Observer, session: FetchSession, follower: BrokerId) -> None:
    """Its next request was taken in; raises Violation."""
    for name, fetched in session._partitions.items():
        hosted = _named(observer, follower, name)
        if hosted is None or observer.since[follower, hosted.tp] > session.created / 1000:
            continue  # in its former life it asked, and was told
        replica, asked = hosted.replica, fetched.asked
        now = (replica.role, replica.leader_epoch, replica.log_end_offset)
        if now != (Role.FOLLOWER, asked.current_leader_epoch, asked.fetch_offset):
            continue
        if replica.high_watermark < min(fetched.high_watermark, replica.log_end_offset):
            raise Violation(
                "UntoldIsKnown",
                f"{hosted.tp}: broker {follower} counts as told that what lies below "
                f"{fetched.high_watermark} is committed, and knows it of what is below "
                f"{replica.high_watermark}",
            )


def _named(observer: Observer, broker: BrokerId, name: NamedPartition) -> server.Partition | None:
    if isinstance(name, TopicPartition):
        return observer.hosted(broker, name)
    for topic in observer.topics:
        hosted = observer.hosted(broker, TopicPartition(topic, name.partition))
        if hosted is not None and hosted.id == name:
            return hosted
    return None
