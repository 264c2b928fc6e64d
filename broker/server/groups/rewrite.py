"""Keeps ``__consumer_offsets`` short, in place of Kafka's log compaction.

The broker has no log cleaner. Instead the coordinator, which has the latest value of every key in
memory, now and then writes all of them once more to the end of the log; when that is committed, the
log may begin there, and what lies before is deleted with its segments. So a log, and the time it
takes to load it, is bounded by a multiple of what is in use. A crash in between does no harm: the
values stand in the log twice.

Unlike with compaction, offsets of the log do not stay readable for ever: a client that reads the
topic by itself finds its beginning moved.
"""

import asyncio
import logging

from kio.schema.errors import ErrorCode

from ackproof.broker.replication.events import DeleteRecords
from ackproof.broker.server.groups.shard import GroupShard

logger = logging.getLogger(__name__)

SLACK_BYTES = 4 * 2**20
"""Below this no log is worth the effort, unless it has more than one segment: Kafka's cleaner takes
any segment but the last one, however small ``offsets.topic.segment.bytes`` makes them."""

SLACK_FACTOR = 10
"""How many times what is in use a log may hold."""


class Rewriting:
    """Looks after one shard."""

    def __init__(self, shard: GroupShard, slack_bytes: int = SLACK_BYTES) -> None:
        self._shard = shard
        self._slack_bytes = slack_bytes
        self._in_use_bytes = 0
        self._tried_at_bytes = 0
        self._running = False

    @property
    def is_due(self) -> bool:
        """The log holds far more than is in use, and a good deal more than at the last try."""
        limit = max(self._tried_at_bytes + self._slack_bytes, SLACK_FACTOR * self._in_use_bytes)
        return not self._running and self._shard.appended_bytes > limit

    async def rewrite(self) -> None:
        """Writes everything once more, waits until it is committed, and lets the log begin there.

        Without success nothing is lost. It is due again when the log has grown by as much as makes
        it worth the effort, and not at once: a try that is appended and not committed in time
        makes the log longer, ten times a second.
        """
        self._running = True
        try:
            before = self._shard.appended_bytes
            appends = self._shard.append_again(self._shard.groups.snapshot())
            size = self._shard.appended_bytes - before
            self._tried_at_bytes = self._shard.appended_bytes
            produced = await asyncio.gather(*appends)
        finally:
            self._running = False
        errors = {outcome.error for outcome in produced} - {ErrorCode.none}
        partition = self._shard.partition
        if errors or not produced or not self._shard.serves(partition):
            return
        self._in_use_bytes = size
        self._tried_at_bytes = 0
        self._shard.appended_bytes -= before
        start = produced[0].base_offset
        partition.step(DeleteRecords(offset=start))
        partition.delete_old_segments()
        logger.info("%s begins at offset %d now", partition.tp, start)
