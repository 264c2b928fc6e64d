"""The rows of ``polls``, ``assignments`` and ``commits`` that record one consumer.

This module owns the counts of polls and commits. What a poll returned is recorded as shown when it
returned, whatever the client does with it then. The rows of ``commits``, and the polls that these
name, show whether it was committed before or after it was processed.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack

import numpy as np

from ackproof.history.names import SendType
from ackproof.history.payload_arrays import Decoder
from ackproof.history.writer import PartitionedWriter, Row, TableWriter
from ackproof.workloads.polled import Records
from ackproof.workloads.spec import ConsumerSpec, GroupMemberSpec

FETCHED = "fetched"
"""The ``type`` of a row of ``commits`` that holds what is committed, after an assignment."""
LOOKED = "looked"
"""The ``type`` of such a row that was asked for in between; its time is that of the question."""
NOTHING_COMMITTED = -1
"""The number in place of an offset; it is Kafka's own in OffsetFetch."""


class ConsumptionTables:
    """The tables of one consumer, flushed and closed together.

    ``commits`` is None for a consumer that is in no group, and commits nothing.
    """

    def __init__(self, spec: ConsumerSpec) -> None:
        partitions = [(spec.topic, number) for number in range(spec.partitions)]
        self.polls = PartitionedWriter(spec.history, "polls", spec.client, partitions)
        self.assignments = TableWriter(spec.history, "assignments", spec.client)
        self.commits = (
            TableWriter(spec.history, "commits", spec.client)
            if isinstance(spec, GroupMemberSpec)
            else None
        )

    def flush_due(self, now: float) -> None:
        """Flush all tables as :meth:`history.writer.TableWriter.flush_due` does."""
        for table in self._all():
            table.flush_due(now)

    def close(self) -> None:
        """Close all tables, even when one fails, then raise the first failure."""
        with ExitStack() as closing:
            for table in reversed(self._all()):
                closing.callback(table.close)

    def _all(self) -> Sequence[PartitionedWriter | TableWriter]:
        return (self.polls, self.assignments, *([self.commits] if self.commits else []))


class ConsumptionRecorder:
    """A recorder of what one consumer sees and does.

    Offsets are by partition of the spec's topic.

    Args:
        clock: Returns nanoseconds of the Unix epoch.
    """

    def __init__(
        self, spec: ConsumerSpec, tables: ConsumptionTables, clock: Callable[[], int]
    ) -> None:
        self._client = spec.client
        self._topic = spec.topic
        self._group = spec.group if isinstance(spec, GroupMemberSpec) else None
        self._clock = clock
        self._polls = tables.polls.columns(spec.topic, spec.partitions, {"client": spec.client})
        self._decoder = Decoder()
        self._assignments = tables.assignments
        self._commits = tables.commits
        self._has: set[int] = set()
        self._counts = dict.fromkeys(("polls", "shown", "committed", "sessions_ended"), 0)
        self._why = ""
        self._commit = 0

    def shown(self, records: Records) -> None:
        """Record the records that a poll has just returned; an empty poll does not count."""
        if not len(records):
            return
        self._counts["polls"] += 1
        self._counts["shown"] += len(records)
        cells, producers, sequences = self._decoder.decode(records.values)
        unknown = records.epochs < 0
        self._polls.extend(
            len(records),
            partition=records.partitions,
            poll=self._counts["polls"],
            time=records.times,
            offset=records.offsets,
            leader_epoch=np.ma.masked_array(records.epochs, unknown)
            if unknown.any()
            else records.epochs,
            cell=cells,
            producer=producers,
            sequence=sequences,
        )

    def assigned(self, starts: Mapping[int, int | None]) -> None:
        """Record that the client was given partitions, and begins to read at these offsets.

        None stands for an offset that the client does not know yet. An empty mapping says that the
        client gets no more partitions.
        """
        self._has |= starts.keys()
        self._event("assigned", starts)

    def revoked(self, partitions: Collection[int]) -> None:
        """Record that partitions are about to be taken away."""
        self._has.difference_update(partitions)
        self._event("revoked", dict.fromkeys(partitions))

    def lost(self, partitions: Collection[int]) -> None:
        """Record that partitions were taken away before the client heard of it."""
        self._has.difference_update(partitions)
        self._event("lost", dict.fromkeys(partitions))

    def start_over(self, why: str) -> None:
        """Record that the client goes on with another instance of its library, which has no
        partitions yet."""
        if self._has:
            self.lost(sorted(self._has))
        self._counts["sessions_ended"] += 1
        self._why = why

    def out_of_range(self, partition: int, resumed: int) -> None:
        """Record that the log does not have the client's position, and that it goes on at
        ``resumed``."""
        self._event("out-of-range", {partition: resumed})

    def fetched(self, offsets: Mapping[int, int | None]) -> None:
        """Record the offsets that the coordinator holds as committed; None stands for nothing."""
        self._record_offsets(self._clock(), FETCHED, offsets)

    def now(self) -> int:
        """Return the time that rows have, for :meth:`looked`."""
        return self._clock()

    def looked(self, asked: int, offsets: Mapping[int, int | None]) -> None:
        """Record the same for a question that was asked at ``asked``.

        The time of the answer would be wrong: a member that was paused meanwhile would hear less
        than others have committed since.
        """
        self._record_offsets(asked, LOOKED, offsets)

    def commit(self, asked: Mapping[int, int]) -> int:
        """Record that a commit of these offsets is about to be asked for, and return its number.

        It has no offsets where the client library has made it by itself.
        """
        self._commit += 1
        now = self._clock()
        for partition, offset in sorted(asked.items()):
            self._commit_row(now, self._commit, SendType.INVOKE, partition, offset, None)
        return self._commit

    def answered(
        self, number: int, outcome: SendType, partition: int, offset: int, error: str | None
    ) -> None:
        """Record the outcome of one offset of a commit."""
        self._counts["committed"] += outcome is SendType.OK
        self._commit_row(self._clock(), number, outcome, partition, offset, error)

    def figures(self) -> Mapping[str, int | str]:
        """Return the figures for the progress file.

        They are ``assigned`` (the count of its partitions), ``polls`` that returned something,
        records ``shown``, and offsets ``committed`` (one a partition and commit).
        ``sessions_ended`` says how often it started over, and ``fatal`` why it did last. ``time``
        is in nanoseconds of the Unix epoch.
        """
        own = {"assigned": len(self._has), "time": self._clock()}
        return {**own, **self._counts, "fatal": self._why}

    def _record_offsets(self, time: int, kind: str, offsets: Mapping[int, int | None]) -> None:
        for partition, offset in sorted(offsets.items()):
            known = NOTHING_COMMITTED if offset is None else offset
            self._commit_row(time, self._commit, kind, partition, known, None)

    def _event(self, event: str, offsets: Mapping[int, int | None]) -> None:
        now, poll = self._clock(), self._counts["polls"]
        about: list[Row] = [(self._topic, p, offset) for p, offset in sorted(offsets.items())]
        for one in about or [(None, None, None)]:
            self._assignments.append((now, self._client, self._group, event, *one, poll))

    def _commit_row(
        self, now: int, number: int, kind: str, partition: int, offset: int, error: str | None
    ) -> None:
        assert self._commits is not None, "a consumer in no group commits nothing"
        self._commits.append(
            (
                now,
                self._client,
                self._group,
                number,
                kind,
                self._topic,
                partition,
                offset,
                self._counts["polls"],
                error,
            )
        )
