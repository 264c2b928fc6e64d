"""The record schema: what a run leaves behind, as Parquet tables.

Every table is a set of files ``<table>.<writer>.parquet`` in one directory, ``runs/<n>/history``.
A file is complete or not there at all (written aside, then renamed), so that whatever ends a run,
what was recorded stays readable. A writer that was ended leaves ``.part-<n>.arrows`` files in
place of a closed one: which files count is for ``history.reader`` to say. Times are nanoseconds
of the Unix epoch, read from the clock of the machine that runs the harness.

``sends``, ``log``, ``polls`` and ``committed`` files hold one partition of one topic each: its name
is in theirs (``sends.<topic>.<partition>.<writer>.parquet``, see ``history.names``), so that a
checker may reconcile partition by partition without a shuffle.
"""

from enum import StrEnum

import pyarrow as pa

from ackproof.history import transactional


class SendType(StrEnum):
    """Jepsen's four words for an operation on its way."""

    INVOKE = "invoke"
    """Handed to the client library."""
    OK = "ok"
    """Acknowledged. With acks=0 the client's own word."""
    FAIL = "fail"
    """Certainly not in the log, whatever happens."""
    INFO = "info"
    """Nobody knows."""


def _dictionary() -> pa.DataType:
    return pa.dictionary(pa.int32(), pa.string())


SENDS = pa.schema(
    [
        pa.field("cell", _dictionary(), nullable=False),
        pa.field("topic", _dictionary(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("producer", pa.int32(), nullable=False),
        pa.field("sequence", pa.int64(), nullable=False),
        pa.field("type", _dictionary(), nullable=False),
        pa.field("time", pa.int64(), nullable=False),
        pa.field("offset", pa.int64()),
        pa.field("error", _dictionary()),
        pa.field("due", pa.int64()),
    ]
)
"""One row an event of a send. (cell, producer, sequence) names the record and is unique: an
``invoke`` row, then at most one of ``ok``, ``fail``, ``info``. ``offset``: of an ok, null where the
client was told none (acks=0) or the record was acknowledged in another partition.
``error``: Kafka's error name, of a fail or an info. ``due``: of an invoke, when the producer's
schedule had it sent, at ``time`` or before; null where it has none (flat out)."""

LOG = pa.schema(
    [
        pa.field("topic", _dictionary(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("leader_epoch", pa.int32()),
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("cell", _dictionary()),
        pa.field("producer", pa.int32()),
        pa.field("sequence", pa.int64()),
    ]
)
"""The final read: one row a record, in offset order. ``timestamp``: of the record, milliseconds.
cell, producer and sequence are null where the payload is none of ours or was damaged."""

READS = pa.schema(
    [
        pa.field("topic", _dictionary(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("log_start_offset", pa.int64()),
        pa.field("log_end_offset", pa.int64()),
        pa.field("read_end_offset", pa.int64()),
        pa.field("records", pa.int64(), nullable=False),
        pa.field("complete", pa.bool_(), nullable=False),
        pa.field("error", pa.string()),
    ]
)
"""One row a partition of the final read: the bounds that ListOffsets gave, where the consumer was
told that the partition ends, how many records it got, and whether it got from one to the other."""

FAULTS = pa.schema(
    [
        pa.field("fault_id", pa.int32(), nullable=False),
        pa.field("fault", pa.string(), nullable=False),
        pa.field("event", pa.string(), nullable=False),
        pa.field("time", pa.int64(), nullable=False),
        pa.field("target", pa.string(), nullable=False),
        pa.field("servers", pa.list_(pa.string())),
        pa.field("partitions", pa.list_(pa.string())),
        pa.field("destroys", pa.string()),
        pa.field("facts", pa.string()),
        pa.field("proven", pa.bool_()),
        pa.field("evidence", pa.string()),
    ]
)
"""What the nemesis did, one row an event: ``inject`` (about to), ``injected``, ``verified`` (with
``proven``), ``heal`` (about to), ``healed`` (with ``proven``), ``lifted`` (it was not proven to be
healed, though nothing of it is left: all that is missing is for the system to do), ``failed``.

``target``: the expression. ``servers``: those that it befalls, and the nodes of clients, null where
it was not resolved.
``partitions``: ``topic-partition`` of all that these servers led, followed or coordinated at that
moment; of a fault that is aimed at partitions or topics, these. ``destroys``: what it takes from
the disks of these servers, ``unsynced`` (what was not synced), ``all``, or ``bits`` (some of what
was synced, and nobody is told), at the moment of ``injected``; ``unclean`` for a fault that lets
leaders of these partitions be elected outside the ISR; null for any other.
``facts``: JSON of what was read to resolve the target; ``evidence``: JSON of what was observed. Of
an ``inject`` it says what kept the cluster from being whole when the time to settle was over; null
where it was whole, or the fault did not wait for that."""

CLUSTER = pa.schema(
    [
        pa.field("time", pa.int64(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("leader", pa.int32()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("isr", pa.list_(pa.int32())),
        pa.field("controller_epoch", pa.int32()),
        pa.field("broker", pa.int32()),
        pa.field("version", pa.int32()),
    ]
)
"""What was seen to change in ZooKeeper. ``kind``: ``partition`` (leader, epoch, ISR),
``controller``, ``broker-up``, ``broker-down``, ``zookeeper-lost``, ``zookeeper-back``: between
these two nothing is seen, or too late, whether the connection was lost or the observer was slow.
``controller_epoch``: -1 of a partition that no controller has written, as with
``ackproof.coordination=leader``. ``version``: of the znode that holds a partition's ISR, which each
write raises by one, so that a change that went unseen between two rows shows.

With KRaft: of its metadata log. ``broker`` of a ``controller`` is its ``node.id``,
``controller_epoch`` the epoch of the quorum, ``version`` the partition epoch; up is a broker that
is not fenced; ``zookeeper-lost``: no controller answers as the active one.

Of a cluster that was there before: as clients are told, asked several times a second. There are no
rows of a ``controller``, and ``leader_epoch``, ``controller_epoch`` and ``version`` are null;
``zookeeper-lost``: nobody answers."""

PHASES = pa.schema(
    [
        pa.field("phase", pa.string(), nullable=False),
        pa.field("event", pa.string(), nullable=False),
        pa.field("time", pa.int64(), nullable=False),
        pa.field("detail", pa.string()),
    ]
)
"""The steps of the run, ``start`` and ``end`` or ``failed`` of each: deploy, ready, workload,
faults, heal, recover, flush, final-read, failover, collect, teardown. ``detail``: why a step
failed; of the start of deploy which run this is (:func:`history.manifest.identity_of`)."""

INTERRUPTED = "interrupted"
"""The ``detail`` of a step that failed because the user asked to stop."""

SERVERS = pa.schema(
    [
        pa.field("time", pa.int64(), nullable=False),
        pa.field("server", pa.string(), nullable=False),
        pa.field("event", pa.string(), nullable=False),
        pa.field("exit_code", pa.int32()),
        pa.field("fault_id", pa.int32()),
    ]
)
"""The servers' processes, watched from deploy until all is read and measured: ``started`` and
``ended``, the latter with its exit code (negative for a signal). ``fault_id``: the fault that was
on the server and accounts for it; null where a server ended by itself."""

SCHEDULING = pa.schema(
    [
        pa.field("time", pa.int64(), nullable=False),
        pa.field("server", pa.string(), nullable=False),
        pa.field("span_ns", pa.int64(), nullable=False),
        pa.field("ran_ns", pa.int64(), nullable=False),
        pa.field("waited_ns", pa.int64(), nullable=False),
    ]
)
"""How much processor time the servers had, one row a server and look (about once a second): in the
``span_ns`` before ``time``, all threads of its process together ran for ``ran_ns``, and were ready
to run and waited for a processor for ``waited_ns``. No rows where the kernel does not count that,
and none of a cluster of your own."""

CLIENTS = pa.schema(
    [
        pa.field("time", pa.int64(), nullable=False),
        pa.field("client", pa.string(), nullable=False),
        pa.field("exit_code", pa.int32()),
        pa.field("fault_id", pa.int32()),
        pa.field("detail", pa.string()),
        pa.field("session", pa.int32()),
    ]
)
"""The clients of the workload that have not ended as they were told to, by the manifest's names,
with their exit codes (negative for a signal). ``fault_id``: the fault that ended it; null where it
ended by itself, and then ``detail`` says how. So does it of one that ran, and was silent for longer
than its own limits allow: there is no exit code, then. ``session``: of one that runs on in another
session, how many of its sessions have ended; ``detail`` is why, a fatal error or one of
``history.sessions.LIBRARY``. Null of all others."""

RECOVERY = pa.schema(
    [
        pa.field("time", pa.int64(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("leader", pa.int32(), nullable=False),
        pa.field("isr", pa.list_(pa.int32()), nullable=False),
        pa.field("whole", pa.bool_(), nullable=False),
    ]
)
"""What each partition had come to when recovering was over, one row a partition: its leader (-1
for none), its ISR, and whether it was led with a full ISR. It is over when all are whole, or when
the time for it is (``recovery_ms`` of the manifest)."""

CLOCKS = pa.schema(
    [
        pa.field("node", pa.string(), nullable=False),
        pa.field("moment", pa.string(), nullable=False),
        pa.field("time", pa.int64(), nullable=False),
        pa.field("offset_ns", pa.int64(), nullable=False),
        pa.field("bound_ns", pa.int64(), nullable=False),
    ]
)
"""The clocks of the nodes that write rows, compared with the harness's at the ``start`` and the
``end`` of the workload (``moment``): the node's is ahead by ``offset_ns``, give or take
``bound_ns``."""

ZOOKEEPER = pa.schema(
    [
        pa.field("moment", pa.string(), nullable=False),
        pa.field("partitions", pa.int32()),
        pa.field("time", pa.int64(), nullable=False),
        pa.field("server", pa.string(), nullable=False),
        pa.field("zxid", pa.int64(), nullable=False),
        pa.field("watches", pa.int64(), nullable=False),
        pa.field("harness_watches", pa.int64(), nullable=False),
    ]
)
"""What the ZooKeeper servers had counted, one row a server and moment: ``deployed`` (brokers, no
topic), ``ready`` (every topic of the cells is whole), ``faults`` (about to begin), ``recovered``;
``grown`` (a failover's topic has so many ``partitions``, all whole) and ``failed-over`` (each is
led again).

``zxid``: of the last transaction (epoch in the upper 32 bits, a count in the lower ones);
``watches``: all that are set on this server. ``harness_watches``: how many of those of the whole
ensemble are the harness's own."""

FAILOVERS = pa.schema(
    [
        pa.field("partitions", pa.int32(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("broker", pa.int32(), nullable=False),
        pa.field("moved", pa.int32(), nullable=False),
        pa.field("killed", pa.int64(), nullable=False),
        pa.field("led", pa.int64()),
        pa.field("acked", pa.int64()),
    ]
)
"""One row a partition whose leader (``broker``) was killed with kill -9 at ``killed``, while its
topic had so many ``partitions``, of which that broker led ``moved``. ``led``: when a client's
metadata first named another leader; ``acked``: when a record was acknowledged that was sent right
after the kill (acks=all). Null for what did not come in time."""

POLLS = pa.schema(
    [
        pa.field("client", _dictionary(), nullable=False),
        pa.field("topic", _dictionary(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("poll", pa.int64(), nullable=False),
        pa.field("time", pa.int64(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("leader_epoch", pa.int32()),
        pa.field("cell", _dictionary()),
        pa.field("producer", pa.int32()),
        pa.field("sequence", pa.int64()),
    ]
)
"""What consumers were shown while producers wrote: one row a record, in the order in which
``client`` was shown them. ``poll``: which of the client's polls returned it, counted from 1 over
all partitions, empty polls not counted. ``time``: when the record reached the client: records of
one poll of a tail reader have different ones. cell, producer and sequence are null where the
payload is none of ours or was damaged."""

ASSIGNMENTS = pa.schema(
    [
        pa.field("time", pa.int64(), nullable=False),
        pa.field("client", pa.string(), nullable=False),
        pa.field("group", pa.string()),
        pa.field("event", pa.string(), nullable=False),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("poll", pa.int64(), nullable=False),
    ]
)
"""Which partitions consumers had, one row an event and partition: ``assigned``, ``revoked`` (with
leave to commit), ``lost`` (without); one row without a partition for an event that is about none.
``out-of-range``: where the tail reader was to go on, the log has nothing any more, or something
else than before; it goes on at ``offset``, its place or the end of the log that is nearest to it.
``group`` is null for a tail reader, which assigns itself all partitions once. ``offset``: of an
``assigned``, where the client begins to read, null where it does not know yet. ``poll``: the
client's last poll that returned records before it, 0 for none."""

COMMITS = pa.schema(
    [
        pa.field("time", pa.int64(), nullable=False),
        pa.field("client", pa.string(), nullable=False),
        pa.field("group", pa.string(), nullable=False),
        pa.field("commit", pa.int64(), nullable=False),
        pa.field("type", pa.string(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("poll", pa.int64(), nullable=False),
        pa.field("error", pa.string()),
    ]
)
"""Offsets that the members of groups asked the coordinator to keep, one row an event and partition:
``invoke``, then at most one of ``ok``, ``fail`` (never sent,
``workloads.outcomes``) and ``info`` (an error does not tell that it was not kept).
What the client library commits by itself (``enable.auto.commit``) has no ``invoke``. ``commit``
counts the client's commits from 1. ``fetched`` rows are no commits, but what the coordinator
answered when the client asked what is committed after an assignment, -1 for nothing; ``looked``
rows are the same, asked for in between, with the time of the question; ``commit`` is the client's
last one then, 0 for none. ``poll``: as in ``assignments``. ``error``: Kafka's error
name."""

COLLECTED = pa.schema(
    [
        pa.field("file", pa.string(), nullable=False),
        pa.field("digest", pa.string(), nullable=False),
    ]
)
"""The files that the step collect copied from the servers, one row a file. ``file``: its path from
the run's directory, such as ``replicas/broker-1/t-0/00000000000000000000.log``. ``digest``: of its
bytes (:func:`history.storage.digest`)."""

COMMITTED_READS = READS
"""Of the final read as read_committed, likewise. Its end is the last stable offset: where a
transaction is still open, it is not complete."""

CLOSINGS = pa.schema(
    [
        pa.field("table", pa.string(), nullable=False),
        pa.field("writer", pa.string(), nullable=False),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("digest", pa.string()),
    ]
)
"""What each writer wrote, said when it closed: one row a file, those without a row too (which are
not there). A writer of the manifest that has none did not close. ``digest``: of the closed file's
bytes (:func:`history.storage.digest`), null where there is no file, or in a history from before
there were digests. The files of this table have no digest: page checksums cover their values."""

TABLES: dict[str, pa.Schema] = {
    "sends": SENDS,
    "log": LOG,
    "reads": READS,
    "faults": FAULTS,
    "cluster": CLUSTER,
    "phases": PHASES,
    "servers": SERVERS,
    "scheduling": SCHEDULING,
    "clients": CLIENTS,
    "recovery": RECOVERY,
    "clocks": CLOCKS,
    "collected": COLLECTED,
    "zookeeper": ZOOKEEPER,
    "failovers": FAILOVERS,
    "polls": POLLS,
    "assignments": ASSIGNMENTS,
    "commits": COMMITS,
    **transactional.TABLES,
    "committed_reads": COMMITTED_READS,
    "closings": CLOSINGS,
}


def decoded(schema: pa.Schema) -> pa.Schema:
    """With strings in place of dictionaries of strings."""
    return pa.schema(
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in schema
    )


CONSUMPTION = frozenset({"polls", "assignments", "commits"})
"""Tables of what consumers were shown and committed."""

MEASURES = frozenset({"zookeeper", "failovers"})
"""Tables of what the cluster cost, not of what it kept: no verdict rests on them."""
