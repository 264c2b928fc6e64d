"""**SizesAreCounted**: what a fetch counts as read is what it would answer with.

One that waits for more looks again whenever there is news: of one partition, while another one has
as much as may be told. Who counts the news alone answers with more than ``max_bytes``, or waits on
though it has enough. Judged at once, by what it would count if there were news and nothing in it.
"""

import copy

from ackproof.broker.server.requests.fetch import _Reader
from simulation.violation import Violation


def begun(reader: _Reader) -> None:
    """It has read for the first time; raises Violation."""
    looked_at(reader)
    if reader._size and not reader.has_enough:
        twin = copy.copy(reader)
        twin._reads = dict(reader._reads)
        twin.look_again(())
        looked_at(twin)


def looked_at(reader: _Reader) -> None:
    """It has read, or read again; raises Violation."""
    has = sum(len(read.records) for read in reader._reads.values())
    if reader._size != has:
        what = f"counts {reader._size} bytes, and would answer with {has}"
        raise Violation("SizesAreCounted", f"a fetch of {len(reader._reads)} partitions {what}")
