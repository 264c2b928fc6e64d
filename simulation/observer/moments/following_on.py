"""**FetchesFollowOn**: what a leader answers to a follower's fetch follows on that one's log.

A fetch names partitions and offsets only where they have changed (KIP-227). A leader that has not
heard of a change, since the connection was lost with it, would go on with what it has sent before:
a follower can do nothing with that but refuse it, and falls behind. So it does with a batch in the
middle of which its log ends, if nobody cuts it.
"""

from ackproof.broker.replication.events import Fetched
from ackproof.broker.server.replication import partition as server
from simulation.violation import Violation


def refused(hosted: server.Partition, event: Fetched, why: ValueError) -> None:
    """It was taken for nonsense; raises Violation."""
    first = event.batches[0].base_offset if event.batches else None
    raise Violation(
        "FetchesFollowOn",
        f"{hosted.tp}: broker {hosted.replica.broker}, whose log ends at "
        f"{hosted.replica.log_end_offset}, is sent what begins at {first}: {why}",
    )
