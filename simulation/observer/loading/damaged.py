"""**DamagedAreRefused**: nobody would serve groups from a log in which a bit is turned over.

A CRC covers all that groups have stored. Without a look at it a group goes on from another offset,
or from that of the commit before, or is none. None covers where a batch stands: of one that is said
to stand further on, whoever goes on behind it passes over what comes next. It costs all groups of
that log: their consumers ask again, and the next leader has them. No plan turns bits over: who
recovered such a log would rightly cut it there.
"""

from copy import copy
from itertools import product
from typing import Any, Final

from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.server.groups.group_coordinator import GroupCoordinator
from ackproof.broker.server.replication.partition import Partition
from ackproof.broker.wire.batch import HEADER_BYTES, RecordBatch
from simulation.observer.loading.rehearsal import Rehearsal
from simulation.observer.logs.on_disk import batches_of
from simulation.violation import Violation

TURNED_OVER: Final = (7, HEADER_BYTES)
"""Bytes: the last of the base offset, and the first behind the header."""


def check(coordinator: GroupCoordinator, home: Partition) -> None:
    """Of the first batch of its log, and of the last. Raises Violation."""
    try:
        batches = list(batches_of(home.log))
    except OSError:  # its disk refuses to be read
        return
    for batch, at in product((*batches[:1], *batches[1:][-1:]), TURNED_OVER):
        rehearsal = Rehearsal(coordinator, home, _damaged(home.log, batch, at))
        rehearsal.begin()
        rehearsal.go_on()
        if rehearsal.serves:
            what = f"one bit of the batch at {batch.base_offset} turned over, in byte {at}"
            raise Violation("DamagedAreRefused", f"groups of {home.tp} would be served with {what}")


def _damaged(log: PartitionLog, batch: RecordBatch, at: int) -> PartitionLog:
    """The first bit of byte ``at`` of ``batch`` is another one."""

    def read(*asked: Any) -> bytes:
        data = bytearray(log.read(*asked))
        start = data.find(batch.raw)
        if start >= 0:
            data[start + at] ^= 0x80
        return bytes(data)

    twin = copy(log)
    vars(twin)["read"] = read
    return twin
