"""Replicas that differ: found, attributed and judged. Incomparable replicas are reported as
unknown."""

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from pyspark.sql import SparkSession

from ackproof.checkers.check import check
from ackproof.checkers.checks.replicas import differences
from ackproof.checkers.index.raw_logs import Content, RawLog, contents
from ackproof.checkers.verdict import CampaignResult, Guarantee
from ackproof.history.manifest import PlannedFault
from ackproof.history.payload import tombstones_of
from tests.support.builders.batches import with_payload
from tests.support.builders.checked_runs import (
    FAIL,
    INCONCLUSIVE,
    PASS,
    checked,
    collected,
    replicas_of,
    run,
    told,
)
from tests.support.builders.histories import (
    AFTER,
    ALL,
    BEFORE,
    DURING,
    KILL,
    UNCLEAN,
    a_fault,
    at,
    cell,
    connection,
    entry,
    fault_rows,
    history_of,
    kept,
    state,
    write_campaign,
)
from tests.support.builders.raw_logs import MadeBatch, batches, write_log, write_replicas

LOG = batches(2, 1)
"""Of the three records of the made run."""
SPLIT = [LOG[0].but(epoch=1), LOG[1]]


def made(tmp_path: Path, *logs: Sequence[MadeBatch], **changes: Any) -> Path:
    directory = write_campaign(tmp_path / "results", collected(**changes))
    write_replicas(replicas_of(directory), *logs)
    return directory


def agreement(result: CampaignResult) -> Guarantee:
    (found,) = result.cells
    return next(one for one in found.guarantees if one.name == "replicas-agree")


def test_replicas_that_agree_pass(tmp_path: Path) -> None:
    result = checked(made(tmp_path, LOG, LOG, LOG))
    assert result.verdict is PASS
    assert (agreement(result).promised, agreement(result).held) == (True, True)
    assert result.findings == ()


# A session of Spark for one test: test_check.py compares checks in Spark with those in process.
@pytest.mark.long
def test_replicas_that_do_not_agree_fail_and_say_where(tmp_path: Path, spark: SparkSession) -> None:
    directory = made(tmp_path, LOG, LOG[:1], SPLIT)
    result = check(directory, spark=spark)
    assert result == checked(directory)
    assert result.verdict is FAIL
    assert result.anomalies["divergent-replicas"] == 2
    assert "replicas-agree: promised by every configuration: 2 divergent-replicas" in told(result)
    lacks, differs = pq.read_table(directory / "anomalies.parquet").to_pylist()
    assert (lacks["offset"], lacks["producer"], lacks["sequence"]) == (2, 1, 2)
    assert lacks["detail"].startswith(
        "lacks: broker-2 has no offset 2; at 2 broker-1 holds cell c producer 1 sequence 2 "
        "(leader epoch 0, CRC 0x"
    )
    assert (differs["offset"], differs["producer"], differs["sequence"]) == (0, 1, 0)
    assert differs["detail"].startswith(
        "differs: broker-1 and broker-3 at offsets 0 to 1; at 0 broker-1 holds cell c producer 1 "
        "sequence 0 (leader epoch 0, CRC 0x"
    )
    assert "broker-3 cell c producer 1 sequence 0 (leader epoch 1, CRC 0x" in differs["detail"]
    assert [one.kind for one in result.causes] == ["unknown", "unknown"]
    assert {(one.anomaly, one.promised) for one in result.causes} == {
        ("divergent-replicas", 1),
        ("divergent-replicas", 2),
    }
    rows = pq.read_table(directory / "root-causes.parquet").to_pylist()
    assert [(row["brokers"], row["offset"], row["last_offset"]) for row in rows] == [
        ([1, 2], 2, 2),
        ([1, 3], 0, 1),
    ]
    assert [row["epochs"] for row in rows] == [[0, None], [0, 1]]


def damaging(destroys: str, **changes: Any) -> dict[str, Any]:
    return {"faults": [*KILL, *a_fault(fault_id=2, destroys=destroys, **changes)]}


CHANGED = (state(-5, 1, 0, (1, 2, 3)), state(12, 2, 1, (2,)), state(25, 2, 1, (1, 2, 3)))
LEADS_AGAIN = (*CHANGED[:2], state(25, 1, 2, (1, 2, 3)))
LED_UNSEEN = (state(-5, 1, 0, (1, 2, 3)), state(21, 2, 2, (2, 3)))
OUTSIDE = (state(-5, 1, 0, (1, 2)), state(12, 3, 1, (3,)), state(25, 3, 1, (1, 2, 3)))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"cluster": CHANGED},
        {"cluster": OUTSIDE},
        {"cells": [cell({**ALL, "acks": "0", "enable.idempotence": False})]},
        {"cells": [cell(UNCLEAN)]},
        damaging("unsynced", partitions=("u-0",)),
        damaging("unsynced") | {"cells": [cell({**ALL, "topic.flush.messages": 1})]},
        damaging("unsynced") | {"cluster": CHANGED},
        damaging("all") | {"cluster": CHANGED},
        damaging("unsynced", servers=("broker-3",)),
        damaging("unsynced") | {"cluster": LEADS_AGAIN},
        damaging("unclean") | {"cluster": CHANGED},
    ],
    ids=[
        *("quiet", "clean election", "forbidden election", "acks=0", "unclean not used"),
        *(
            "elsewhere",
            "all synced",
            "led by another meanwhile",
            "emptied meanwhile",
            "a follower's",
        ),
        *("whole when it leads again", "ordered, not used"),
    ],
)
def test_a_difference_that_nothing_excuses_fails(tmp_path: Path, changes: Any) -> None:
    result = checked(made(tmp_path, LOG, LOG, SPLIT, **changes))
    assert result.verdict is FAIL
    assert agreement(result).broken == result.anomalies["divergent-replicas"] > 0


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (damaging("unsynced"), "t-0: kill#2 took data from the disk of a broker that led before"),
        (
            damaging("unsynced", servers=("broker-2",))
            | {"cluster": (state(-5, 1, 0, (1, 2, 3)), state(25, 2, 1, (1, 2, 3)))},
            "t-0: kill#2 took data from the disk of a broker that led before",
        ),
        (
            damaging("all"),
            "t-0: kill#2, with the storage of the pods that it ended, took data from the disk of a "
            "broker that led before",
        ),
        (
            damaging("all", fault="drain")
            | {"cluster": (state(-5, 1, 0, (1, 2, 3)), state(18, 2, 1, (2, 3)))},
            "t-0: drain#2, with the storage of the pods that it ended, took data",
        ),
        (damaging("bits", servers=("broker-3",)), "t-0: kill#2 changed data on the disks"),
        (
            {"cells": [cell(UNCLEAN)], "cluster": OUTSIDE},
            "t-0: broker-3 was elected outside the ISR [1, 2] in epoch 1",
        ),
        (damaging("unclean") | {"cluster": OUTSIDE}, "t-0: broker-3 was elected outside the ISR"),
    ],
    ids=[
        *("led on", "leads as it is", "a disk", "drained, and led before the end"),
        *("bits", "unclean election", "ordered election"),
    ],
)
def test_excused_divergence_is_reported_and_does_not_fail(
    tmp_path: Path, changes: Any, why: str
) -> None:
    result = checked(made(tmp_path, LOG, LOG, SPLIT, **changes))
    assert result.anomalies["divergent-replicas"] > 0
    found = agreement(result)
    assert (found.promised, found.held, found.broken) == (False, False, 0)
    assert found.reason.startswith(why)
    assert result.verdict is not FAIL


@pytest.mark.parametrize(
    "changes",
    [
        {
            "faults": [
                *KILL,
                *fault_rows(("inject", 10, None), fault_id=2, destroys="all"),
            ]
        },
        {"cells": [cell(UNCLEAN)], "cluster": (state(-5, 1, 4, (1, 2, 3)),)},
        damaging("unsynced", servers=("broker-3",)) | {"cluster": LED_UNSEEN},
        damaging("unsynced", servers=("broker-3",))
        | {
            "cluster": (
                CHANGED[0],
                connection(15, "zookeeper-lost"),
                connection(25, "zookeeper-back"),
            )
        },
    ],
    ids=["damage not proven", "elections unseen", "perhaps led", "perhaps led by it"],
)
def test_divergence_under_unknown_circumstances_is_inconclusive(
    tmp_path: Path, changes: Any
) -> None:
    result = checked(made(tmp_path, LOG, LOG, SPLIT, **changes))
    assert result.verdict is INCONCLUSIVE
    assert agreement(result).held is None
    assert "1 divergent-replicas, but it is unknown whether the guarantee applied" in told(result)


def test_behind_the_end_of_the_final_read_replicas_may_differ(tmp_path: Path) -> None:
    under_way = [*LOG, MadeBatch(3, 4, 9)]
    result = checked(made(tmp_path, under_way, LOG, [*LOG, MadeBatch(3, 1, 8)]))
    assert agreement(result).held is True
    assert result.findings == ()


def without(tmp_path: Path, broker: int) -> Path:
    directory = made(tmp_path, LOG, LOG, LOG)
    (replicas_of(directory) / f"broker-{broker}").rename(tmp_path / "elsewhere")
    return directory


def without_states(directory: Path) -> Path:
    (history_of(directory) / "cluster.harness.parquet").unlink()
    return directory


def twice(tmp_path: Path) -> Path:
    directory = made(tmp_path, LOG, LOG, LOG)
    write_log(replicas_of(directory) / "broker-2" / "1" / "t-0", LOG)
    return directory


def not_collected(tmp_path: Path) -> Path:
    return write_campaign(tmp_path / "results", collected())


def collecting_failed(tmp_path: Path) -> Path:
    failed = {"phase": "collect", "event": "failed", "time": at(75), "detail": "gone"}
    return made(tmp_path, LOG, LOG[:1], LOG, phases=[*collected().phases, failed])


def starting_later(tmp_path: Path, **changes: Any) -> Path:
    directory = made(tmp_path, LOG, LOG, LOG, **changes)
    log = replicas_of(directory) / "broker-2" / "t-0"
    (log / f"{0:020}.log").write_bytes(LOG[1].data)
    (log / f"{0:020}.log").rename(log / f"{2:020}.log")
    return directory


def of_old(tmp_path: Path) -> Path:
    """Message format v1: an offset, a size, a CRC, then the magic byte."""
    directory = made(tmp_path, LOG, LOG, LOG)
    path = replicas_of(directory) / "broker-2" / "t-0" / f"{0:020}.log"
    path.write_bytes(struct.pack(">qiIb", 0, 60, 0, 1) + bytes(60))
    return directory


def seen(*rows: Any) -> Callable[[Path], Path]:
    """The third replica differs, for reasons that the observer could see, or not."""
    return lambda tmp_path: made(
        tmp_path, LOG, LOG, SPLIT, cluster=[state(-5, 1, 0, (1, 2, 3)), *rows]
    )


def test_without_a_final_read_replicas_are_compared_up_to_a_high_watermark(
    tmp_path: Path,
) -> None:
    """Test the case of a broker that ended the final read with its answers."""
    directory = made(tmp_path, LOG, LOG, SPLIT, reads=False)
    checkpoint = replicas_of(directory) / "broker-2" / "replication-offset-checkpoint"
    checkpoint.write_text("0\n2\nu 0 9\nt 0 2\n")
    result = checked(directory)
    assert result.verdict is FAIL
    assert agreement(result).broken == 1
    checkpoint.write_text("0\n1\nt 0 0\n")
    assert agreement(checked(directory)).broken == 0


@pytest.mark.parametrize("content", ["", "1\n1\nt 0 2\n", "0\n1\nt 0\n", "0\n1\nt 0 x\n"])
def test_a_checkpoint_in_another_format_tells_no_high_watermark(
    tmp_path: Path, content: str
) -> None:
    directory = made(tmp_path, LOG, LOG, SPLIT, reads=False)
    (replicas_of(directory) / "broker-1" / "replication-offset-checkpoint").write_text(content)
    assert agreement(checked(directory)).held is None


def unread(tmp_path: Path) -> Path:
    return made(tmp_path, LOG, LOG, SPLIT, reads=False)


@pytest.mark.parametrize(
    ("results", "finding"),
    [
        (not_collected, "replicas not compared: their logs were not collected"),
        (collecting_failed, "replicas not compared: the step collect did not succeed"),
        (lambda tmp_path: without(tmp_path, 1), "the log of broker-1 not compared: it was not"),
        (lambda tmp_path: without(tmp_path, 3), "the log of broker-3 not compared: it was not"),
        (twice, "the log of broker-2 not compared: it was collected from several"),
        (starting_later, "below offset 2: the log of broker-1 starts at 0, the log of broker-2"),
        (of_old, "replicas not compared: message format v1"),
        (seen(state(40, 1, 0, (1, 2))), "only broker-1, broker-2 was in the ISR"),
        (seen(state(75, 1, 0, (1, 2))), "only broker-1, broker-2 was in the ISR"),
        (seen(state(75, 1, 0, (1, 2)), state(76, 1, 0, (1, 2, 3))), "only broker-1, broker-2"),
        (seen(state(75, 2, 1, (1, 2, 3))), "a leader was elected while logs were collected"),
        (seen(connection(60, "zookeeper-lost")), "the ISR was not observed"),
        (unread, "no final read shows which records were committed"),
        (lambda path: made(path, [], [], []), "broker-1 and broker-2 end at offset 0"),
        (lambda path: made(path, LOG[:1], LOG[:1], LOG[:1]), "broker-1 and broker-3 end at"),
        (lambda path: without_states(made(path, LOG, LOG, SPLIT)), "rows of the table cluster"),
    ],
    ids=[
        *("nothing collected", "not all collected", "no leader's", "no follower's", "two copies"),
        *("starts later", "format v1", "out of the ISR", "leaves the ISR", "comes and goes"),
        *(
            "a leader was elected",
            "unobserved",
            "no final read",
            "all empty",
            "all short",
            "no states",
        ),
    ],
)
def test_incomparable_replicas_are_unknown_and_a_finding(
    tmp_path: Path, results: Callable[[Path], Path], finding: str
) -> None:
    result = checked(results(tmp_path))
    assert any(finding in each for each in result.findings)
    assert agreement(result).held is None
    assert agreement(result).broken == 0
    assert result.anomalies["divergent-replicas"] == 0
    assert result.verdict is not FAIL


@pytest.mark.parametrize(("before", "held"), [(2, True), (1, None)])
def test_replicas_are_not_compared_below_offsets_deleted_by_order(
    tmp_path: Path, before: int, held: bool | None
) -> None:
    kill = PlannedFault(fault_id=1, fault="kill", target="leader(t, 0)", start_ms=0, hold_ms=0)
    ordered = {"fault_id": 2, "fault": "advance-log-start", "target": "topic(t)"}
    planned = PlannedFault(**ordered, parameters={"before_offset": before}, start_ms=0, hold_ms=0)
    faults = [*KILL, *a_fault(servers=(), **ordered)]
    result = checked(starting_later(tmp_path, faults=faults, plan=[kill, planned]))
    assert agreement(result).held is held
    assert any("not compared" in each for each in result.findings) is (held is None)


def test_replicas_of_a_tiered_topic_may_start_apart(tmp_path: Path) -> None:
    """Test with records in the tier alone, and without, where nothing is known of the tier."""
    tiered = cell({**ALL, "topic.remote.storage.enable": "true"})
    directory = starting_later(tmp_path, cells=(tiered,))
    result = checked(directory)
    assert result.verdict is INCONCLUSIVE
    assert result.findings == ()
    assert "it is tiered, but nothing shows" in told(result)
    for broker in ("broker-1", "broker-3"):
        log = replicas_of(directory) / broker / "t-0"
        (log / f"{0:020}.log").write_bytes(LOG[1].data)
        (log / f"{0:020}.log").rename(log / f"{2:020}.log")
    result = checked(directory)
    assert (result.verdict, agreement(result).held) == (PASS, True)


def test_a_run_from_former_days_is_asked_for_nothing_and_compared_if_it_can_be(
    tmp_path: Path,
) -> None:
    bare = write_campaign(tmp_path / "bare", run())
    assert checked(bare).findings == ()
    assert checked(made(tmp_path, LOG, LOG, SPLIT, replicas=False)).verdict is FAIL


def test_replicas_in_the_isr_are_compared_despite_one_outside_it(tmp_path: Path) -> None:
    shrunk = [state(-5, 1, 0, (1, 2, 3)), state(40, 1, 0, (1, 2))]
    result = checked(made(tmp_path, LOG, SPLIT, SPLIT, cluster=shrunk))
    assert agreement(result).broken == 1


def torn(tmp_path: Path, *logs: Sequence[MadeBatch], broker: int = 2) -> Path:
    """The copy of a broker's log lost its last byte."""
    directory = made(tmp_path, *logs)
    path = replicas_of(directory) / f"broker-{broker}" / "t-0" / f"{0:020}.log"
    path.write_bytes(path.read_bytes()[:-1])
    return directory


@pytest.mark.parametrize("broker", [1, 2])
def test_log_torn_within_a_batch_lacks_nothing_behind_the_damage(
    tmp_path: Path, broker: int
) -> None:
    directory = torn(tmp_path, LOG, LOG, LOG, broker=broker)
    path = replicas_of(directory) / f"broker-{broker}" / "t-0" / f"{0:020}.log"
    result = checked(directory)
    assert result.anomalies["divergent-replicas"] == 0
    assert result.verdict is PASS
    assert agreement(result).held is None
    place = f"from byte {len(LOG[0].data)} of {path.name} onwards: the file ends within a batch"
    assert f"run 1: t-0: the log of broker-{broker} cannot be read {place}" in result.findings


def test_log_torn_within_a_batch_still_differs_before_the_damage(tmp_path: Path) -> None:
    result = checked(torn(tmp_path, LOG, SPLIT, LOG))
    assert result.verdict is FAIL
    assert agreement(result).broken == 1


def test_segment_behind_a_damaged_one_is_compared(tmp_path: Path) -> None:
    """Test three batches, each in a segment of its own: the second is damaged and the third is
    missing."""
    log = batches(1, 1, 1)
    directory = made(tmp_path)
    for broker, some in enumerate((log, log[:2], log), start=1):
        write_log(replicas_of(directory) / f"broker-{broker}" / "t-0", some, segments=(1, 2))
    torn_segment = replicas_of(directory) / "broker-2" / "t-0" / f"{1:020}.log"
    torn_segment.write_bytes(torn_segment.read_bytes()[:-1])
    (torn_segment.parent / f"{2:020}.log").touch()
    result = checked(directory)
    (found,) = (one for one in result.causes if one.anomaly == "divergent-replicas")
    assert (found.first_offset, found.last_offset) == (2, 2)


def streamed(codec: str, payload: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(payload)
    return bytes(sink.getvalue())


def snappy(payload: bytes) -> bytes:
    return bytes(pa.compress(payload, codec="snappy", asbytes=True))


def framed(payload: bytes) -> bytes:
    """Return the payload in the frames of snappy-java: here two blocks."""
    half = len(payload) // 2
    blocks = [snappy(payload[:half]), snappy(payload[half:])]
    header = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    return header + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


@pytest.mark.parametrize(
    ("codec", "compress"),
    [
        (1, partial(streamed, "gzip")),
        (2, snappy),
        (2, framed),
        (3, partial(streamed, "lz4")),
        (4, partial(streamed, "zstd")),
    ],
    ids=["gzip", "snappy", "snappy of Java", "lz4", "zstd"],
)
def test_within_a_compressed_batch_the_record_is_named(
    tmp_path: Path, codec: int, compress: Callable[[bytes], bytes]
) -> None:
    (plain,) = batches(5)
    other = plain.but(strange=((3, b"another's"),))
    logs = []
    for name, batch in (("one", plain), ("other", other)):
        log = write_log(tmp_path / name, [])
        packed = with_payload(batch.data, compress(batch.data[61:]), codec)
        (log / f"{0:020}.log").write_bytes(packed)
        logs.append(RawLog(log))
    (found,) = differences(*logs, 0, 5)
    assert (found.first, found.last) == (3, 3)
    assert found.one is not None
    assert found.one.startswith("cell c producer 1 sequence 3 ")
    assert found.other is not None
    assert found.other.startswith("a record that no client sent ")


def test_batches_of_another_implementation_are_read_as_it_wrote_them(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", [])
    with (log / f"{0:020}.log").open("wb") as file:
        for base in (0, 3):
            builder = DefaultRecordBatchBuilder(
                magic=2,
                compression_type=1,
                is_transactional=0,
                producer_id=-1,
                producer_epoch=-1,
                base_sequence=-1,
                batch_size=100_000,
            )
            builder.set_producer_state(5, 1, 0)
            for number in range(3):
                written = builder.append(number, 1_000, b"k", b"v%d" % number, [("h", b"x")])
                assert written
            data = builder.build()
            struct.pack_into(">q", data, 0, base)
            file.write(data)
    first, second = RawLog(log).batches(0, 6)
    assert (first.base_offset, first.last_offset, first.count) == (0, 2, 3)
    assert (second.base_offset, second.last_offset) == (3, 5)
    assert first.intact
    assert second.intact
    assert contents(second)[4] == Content(
        key=b"k", value=b"v1", headers=((b"h", b"x"),), timestamp=1
    )


def test_tombstone_in_a_raw_log_has_the_identity_of_its_header() -> None:
    text = tombstones_of("c", 3).encode(7)
    tombstone = Content(key=b"k", value=None, headers=((b"ackproof", text),), timestamp=1)
    assert tombstone.identity == ("c", 3, 7)
    assert replace(tombstone, headers=()).identity is None
    assert replace(tombstone, value=b"another's").identity is None


def test_batches_that_are_cut_differently_are_compared_by_their_records(tmp_path: Path) -> None:
    one = write_log(tmp_path / "one", batches(4, 2))
    other = write_log(tmp_path / "other", batches(3, 3))
    assert list(differences(RawLog(one), RawLog(other), 0, 6)) == []
    strange = [*batches(3), MadeBatch(3, 3, strange=((4, b"another's"),))]
    other = write_log(tmp_path / "strange", strange)
    (found,) = differences(RawLog(one), RawLog(other), 0, 6)
    assert (found.first, found.last) == (4, 4)


def test_zeros_at_the_end_of_a_log_are_no_message_of_format_v0(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", LOG)
    with (log / f"{0:020}.log").open("ab") as file:
        file.write(bytes(4096))
    raw = RawLog(log)
    assert len(list(raw.batches(0, 10))) == 2
    (damage,) = raw.damage
    assert "a batch length of 0 bytes is not possible" in damage


def doubled(tmp_path: Path, *producer_epochs: int) -> CampaignResult:
    """Record 2 of an idempotent producer stands at offsets 2 and 3, each written in a batch of that
    producer epoch."""
    twice = kept(BEFORE, DURING, AFTER)
    partitions = {("t", 0): twice.but(log=[*twice.log, entry(3, 1, 2)], end=4)}
    again = (MadeBatch(2 + n, 1, producer_epoch=epoch) for n, epoch in enumerate(producer_epochs))
    log = [*batches(2), *again]
    return checked(made(tmp_path, log, log, log, partitions=partitions))


def no_duplicates(result: CampaignResult) -> Guarantee:
    (found,) = result.cells
    return next(one for one in found.guarantees if one.name == "no-duplicates")


def test_a_copy_of_another_session_breaks_no_promise_of_the_log(tmp_path: Path) -> None:
    """KIP-98: a log recognises what it has by producer id and epoch. A client that begins another
    epoch and sends again what it has no answer of is told of, and the log is not blamed."""
    result = doubled(tmp_path, 0, 1)
    (found,) = result.cells
    assert (result.verdict, found.duplicated, no_duplicates(result).broken) == (PASS, 1, 0)
    (cause,) = result.causes
    assert (cause.kind, cause.records, cause.promised) == ("new-session", 1, 0)
    assert "(producer id 7 epoch 0, then producer id 7 epoch 1)" in cause.sentence


@pytest.mark.parametrize("epochs", [(0, 0), (1, 1), (1,)])
def test_copy_from_the_same_or_an_unknown_session_is_a_duplicate(
    tmp_path: Path, epochs: tuple[int, ...]
) -> None:
    result = doubled(tmp_path, *epochs)
    assert (result.verdict, no_duplicates(result).broken) == (FAIL, 1)
