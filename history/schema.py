"""The schema of a run's records, as Parquet tables.

Every table is a set of files ``<table>.<writer>.parquet`` in one directory, ``runs/<n>/history``. A
file is complete or absent, because it is written under another name and then renamed. Whatever ends
a run, the recorded rows stay readable. A writer that was ended leaves ``.part-<n>.arrows`` files
instead of a closed one; ``history.reader`` decides which files count. Times are nanoseconds of the
Unix epoch by the clock of the machine that runs the harness.

``sends``, ``log``, ``polls`` and ``committed`` files have one partition of one topic each, which is
part of the file's name (``sends.<topic>.<partition>.<writer>.parquet``, see ``history.names``). A
checker can therefore reconcile partition by partition without a shuffle.
"""

import pyarrow as pa

from ackproof.history import transactional


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
        pa.field("key", pa.int32()),
        pa.field("tombstone", pa.bool_()),
    ]
)
"""The events of sends, one row each.

(cell, producer, sequence) names the record and is unique: it has an ``invoke`` row, and then at
most one of ``ok``, ``fail`` and ``info``. ``offset`` is that of an ok. It is null if the client
received none (acks=0) or the record was acknowledged in another partition. ``error`` is Kafka's
error name for a fail or an info. ``due`` belongs to an invoke and is the time at which the record
was to be sent by the producer's schedule; ``time`` is when it was sent, then or later. It is null
without a schedule (full speed). ``key`` belongs to an invoke, and is the number in the record's key
``key-N``; null for a record without a key. ``tombstone`` belongs to an invoke, and is whether the
record has a null value, which deletes its key; null for a producer that sends no tombstones.
"""

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
"""The final read, one row for each record, in offset order.

``timestamp`` is that of the record in milliseconds. cell, producer and sequence are null if no
client wrote the payload or it was damaged.
"""

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
"""The result of the final read, one row for each partition: the bounds that ListOffsets returned,
the end that the consumer reached, the number of records that it got, and whether it read everything
between the bounds."""

LOST_WITH_POD = "lost with the pod"
RESTARTED_BY = "restarted by"

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
"""The actions of the nemesis, one row for each event: ``inject`` (it is about to begin),
``injected``, ``verified`` (with ``proven``), ``heal`` (it is about to begin), ``healed`` (with
``proven``), ``lifted`` (the fault itself was removed, but it is not proven that the system has
recovered from it), ``failed``.

- ``target``: the expression of the campaign, for example ``leader(orders, 0)``.
- ``servers``: the affected servers and nodes of clients; null if the target was not resolved.
- ``partitions``: ``topic-partition`` of everything that these servers led, followed or coordinated
  at that moment. For a fault that is aimed at partitions or topics, it has these.
- ``destroys``: the data that it takes from the disks of these servers at the moment of
  ``injected``: ``unsynced`` (everything not synced), ``all``, or ``bits`` (some synced bits,
  without any error). ``unclean`` stands for a fault that allows leaders of these partitions to be
  elected outside the ISR. Null for any other fault.
- ``facts``: JSON of what was read to resolve the target.
- ``evidence``: JSON of what was observed. An ``injected`` has the storage that was lost with the
  pods of brokers, if any was (:data:`LOST_WITH_POD`). An ``inject`` has what kept the cluster from
  being complete when the time to settle was over. It is null if the cluster was complete or the
  fault did not wait for that.
"""

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
        pa.field("elr", pa.list_(pa.int32())),
    ]
)
"""The observed changes in ZooKeeper.

``kind`` is ``partition`` (leader, epoch, ISR), ``controller``, ``broker-up``, ``broker-down``,
``zookeeper-lost`` or ``zookeeper-back``. Between the last two, changes are observed late or not at
all, whether the connection was lost or the observer was slow. ``controller_epoch`` is -1 for a
partition that no controller has written, as with ``ackproof.coordination=leader``. ``version`` is
that of the znode with a partition's ISR. Each write raises it by one, so an unobserved change
between two rows shows.

With KRaft the changes are those of its metadata log. ``broker`` of a ``controller`` is its
``node.id``, ``controller_epoch`` the epoch of the quorum, ``version`` the partition epoch, and
``elr`` the eligible leader replicas (KIP-966). A broker is up if it is not fenced.
``zookeeper-lost`` means that no controller answers as the active one. After a migration to KRaft
was taken back, ``version`` is the znode's plus a constant, by which it is no neighbor of a
partition epoch.

For an external cluster whose controllers are not named, the changes are those that clients receive
several times a second. There are no rows of a ``controller``, and ``leader_epoch``,
``controller_epoch`` and ``version`` are null. ``zookeeper-lost`` means that no broker answers.
"""

PHASES = pa.schema(
    [
        pa.field("phase", pa.string(), nullable=False),
        pa.field("event", pa.string(), nullable=False),
        pa.field("time", pa.int64(), nullable=False),
        pa.field("detail", pa.string()),
    ]
)
"""The steps of the run, each with ``start`` and ``end`` or ``failed``: deploy, ready, workload,
faults, heal, recover, flush, final-read, failover, collect, teardown.

``detail`` says why a step failed. For the start of deploy it identifies the run
(:func:`history.manifest.identity_of`).
"""

INTERRUPTED = "interrupted"
"""The ``detail`` of a step that failed because the user stopped the run."""

SERVERS = pa.schema(
    [
        pa.field("time", pa.int64(), nullable=False),
        pa.field("server", pa.string(), nullable=False),
        pa.field("event", pa.string(), nullable=False),
        pa.field("exit_code", pa.int32()),
        pa.field("fault_id", pa.int32()),
        pa.field("detail", pa.string()),
    ]
)
"""The servers' processes, which are watched from deploy until everything is read and measured. Of a
broker in a pod without an agent, only those ends are seen after which its container was started
again in the same pod.

``ended`` has the exit code, which is negative for a signal. ``fault_id`` is the fault that was
active on the server and explains its end. It is null if a server ended by itself. ``detail`` is the
reason that Kubernetes gives for the end of a container, such as ``OOMKilled``.
"""

SCHEDULING = pa.schema(
    [
        pa.field("time", pa.int64(), nullable=False),
        pa.field("server", pa.string(), nullable=False),
        pa.field("span_ns", pa.int64(), nullable=False),
        pa.field("ran_ns", pa.int64(), nullable=False),
        pa.field("waited_ns", pa.int64(), nullable=False),
    ]
)
"""The processor time of the servers, one row for each server and measurement (about once a second).

In the ``span_ns`` before ``time``, all threads of the process together ran for ``ran_ns`` and
waited for a processor for ``waited_ns`` while they were ready to run. There are no rows if the
kernel does not measure that, and none for an external cluster without agents.
"""

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
"""The clients of the workload that did not end as requested, by the manifest's names, with their
exit codes (negative for a signal).

A row has one of four causes:

- A fault ended the client: ``fault_id`` names it, and ``detail`` is null.
- The client ended by itself: ``fault_id`` is null, and ``detail`` says how it ended.
- The client ran but was silent for longer than its own limits allow: as before, without an exit
  code.
- The client library could not go on, and the client continues in another session: ``session`` is
  the number of its ended sessions (null in all other rows), and ``detail`` is the reason, a fatal
  error or one of ``history.sessions.LIBRARY``.
"""

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
"""The state of each partition at the end of the step recover, one row for each partition: its
leader (-1 for none), its ISR, and whether it had a leader and a full ISR.

The step ends when all partitions have recovered, or when their time is over (``recovery_ms`` of the
manifest).
"""

CLOCKS = pa.schema(
    [
        pa.field("node", pa.string(), nullable=False),
        pa.field("moment", pa.string(), nullable=False),
        pa.field("time", pa.int64(), nullable=False),
        pa.field("offset_ns", pa.int64(), nullable=False),
        pa.field("bound_ns", pa.int64(), nullable=False),
    ]
)
"""The comparison of the clocks of nodes that write rows with the harness's clock, at the ``start``
and the ``end`` of the workload (``moment``). The node's clock is ahead by ``offset_ns``, with an
error of at most ``bound_ns``."""

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
"""The counters of the ZooKeeper servers, one row for each server and moment: ``deployed`` (brokers,
no topic), ``ready`` (every topic of the cells is complete), ``faults`` (they are about to begin),
``recovered``; ``grown`` (a failover's topic has ``partitions`` partitions, all complete) and
``failed-over`` (each has a leader again).

``zxid`` is that of the last transaction (the epoch in the upper 32 bits, a count in the lower
ones). ``watches`` is the number of watches on this server. ``harness_watches`` is the number of
watches of the whole ensemble that belong to the harness.
"""

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
"""The failovers, one row for each partition whose leader (``broker``) was killed with kill -9 at
``killed``.

The topic had ``partitions`` partitions, of which that broker led ``moved``. ``led`` is the time at
which a client's metadata first named another leader. ``acked`` is the time at which a record was
acknowledged that was sent right after the kill (acks=all). Null stands for an event that did not
come in time.
"""

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
"""The reads of consumers while producers wrote, one row for each record, in the order in which
``client`` read them. A client is a member of a group, or a tail reader: a consumer without a group
that reads a partition as it is written.

``poll`` is the number of the client's poll that returned the record, counted from 1 over all
partitions, without empty polls. ``time`` is when the record reached the client; records of one poll
of a tail reader have different times. cell, producer and sequence are null if no client wrote the
payload or it was damaged.
"""

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
"""The partitions of consumers, one row for each event and partition: ``assigned``, ``revoked`` (the
client may still commit), ``lost`` (it may not). An event that concerns no partition has one row
without a partition.

``out-of-range`` means that the log has no record, or another record than before, at the position of
the tail reader. The reader continues at ``offset``: at its position if the log has one there, else
at the nearer end of the log. ``group`` is null for a tail reader, which assigns itself all
partitions once. ``offset`` of an ``assigned`` is where the client begins to read, or null if it
does not know yet.
``poll`` is the client's last poll that returned records before the event, or 0.
"""

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
"""The offsets that the members of groups asked the coordinator to commit, one row for each event
and partition: ``invoke``, then at most one of ``ok``, ``fail`` (certainly not stored,
``workloads.outcomes``) and ``info`` (the error does not say whether the offset was stored).

Commits by the client library itself (``enable.auto.commit``) have no ``invoke``. ``commit`` counts
the client's commits from 1. ``fetched`` rows are not commits but the coordinator's answer when the
client asked for the committed offset after an assignment, or -1 for nothing. ``looked`` rows are
such answers at other times, with the time of the question; ``commit`` is then the client's last
commit, or 0. ``poll`` is as in ``assignments``. ``error`` is Kafka's error name.
"""

DELIVERIES = pa.schema(
    [
        pa.field("client", _dictionary(), nullable=False),
        pa.field("group", _dictionary(), nullable=False),
        pa.field("topic", _dictionary(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("time", pa.int64(), nullable=False),
        pa.field("event", _dictionary(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("delivery", pa.int32()),
        pa.field("acknowledgement", _dictionary()),
        pa.field("error", _dictionary()),
    ]
)
"""The records that the members of share groups (KIP-932) received, and their acknowledgements, one
row for each record and event:

- ``delivered``: the member's poll returned the record. ``delivery`` is the broker's count of its
  deliveries, from 1, or null if the client did not receive it.
- ``invoke``: the member is about to acknowledge the record: ``accept`` (processed), ``release``
  (for another delivery) or ``reject`` (never again).
- ``ok`` or ``info``: the outcome of that acknowledgement, or that it is unknown. ``error`` is
  Kafka's error name.
"""

COLLECTED = pa.schema(
    [
        pa.field("file", pa.string(), nullable=False),
        pa.field("digest", pa.string(), nullable=False),
    ]
)
"""The files that the step collect copied from the servers, one row each.

``file`` is its path from the run's directory, such as
``replicas/broker-1/t-0/00000000000000000000.log``. ``digest`` is that of its bytes
(:func:`history.storage.digest`).
"""

LOG_STARTS = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("asked", pa.int64(), nullable=False),
        pa.field("time", pa.int64(), nullable=False),
        pa.field("log_start_offset", pa.int64(), nullable=False),
    ]
)
"""The starts of the logs of topics that set a retention, one row for each answer to ListOffsets,
about once a second. ``asked`` is the time of the question and ``time`` that of the answer."""

COMMITTED_READS = READS
"""The result of the final read as read_committed, with the columns of READS. Its end is the last
stable offset, so it is not complete while a transaction is open."""

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
"""The files of each writer, as the writer recorded them when it closed: one row each, including
files without rows, which do not exist.

A writer of the manifest without a row here did not close. ``digest`` is that of the closed file's
bytes (:func:`history.storage.digest`). It is null if there is no file, or in a history from before
there were digests. The files of this table have no digest; page checksums cover their values.
"""

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
    "log_starts": LOG_STARTS,
    "zookeeper": ZOOKEEPER,
    "failovers": FAILOVERS,
    "polls": POLLS,
    "assignments": ASSIGNMENTS,
    "commits": COMMITS,
    "deliveries": DELIVERIES,
    **transactional.TABLES,
    "committed_reads": COMMITTED_READS,
    "closings": CLOSINGS,
}


def decoded(schema: pa.Schema) -> pa.Schema:
    """Return the schema with strings in place of dictionaries of strings."""
    return pa.schema(
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in schema
    )
