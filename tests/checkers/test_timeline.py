"""Judgement of the timeline: the guarantees that it breaks, those that it does not, and those that
are unknown without a witness."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from ackproof.checkers.check import check
from ackproof.checkers.verdict import CampaignResult, Guarantee
from ackproof.history.cell import Value
from tests.support.builders.checked_runs import (
    FAIL,
    INCONCLUSIVE,
    NOT_GUARANTEED,
    PASS,
    WELL,
    checked,
    run,
)
from tests.support.builders.histories import (
    ACKS_0,
    ACKS_1,
    ALL,
    KILL,
    UNCLEAN,
    Made,
    a_fault,
    acked,
    at,
    cell,
    entry,
    send,
    state,
    write_campaign,
)

NOT_IDEMPOTENT: Mapping[str, Value] = {**ALL, "enable.idempotence": False}
ONE_IN_FLIGHT: Mapping[str, Value] = {
    **NOT_IDEMPOTENT,
    "max.in.flight.requests.per.connection": 1,
}
NO_RETRIES: Mapping[str, Value] = {**NOT_IDEMPOTENT, "producer.retries": 0}

SEEN = (state(-5, 1, 0, (1, 2, 3), version=0),)
MOVED = (*SEEN, state(12, 2, 1, (2, 3), version=1), state(25, 2, 1, (1, 2, 3), version=2))


def made(tmp_path: Path, *said: Mapping[str, Any], **changes: Any) -> Path:
    """A campaign of one run; ``said``: what its brokers say, besides that the first leads."""
    directory = write_campaign(tmp_path / "results", run(**{"cluster": SEEN, **changes}))
    for broker in (1, 2, 3):
        logs = directory / "runs" / "1" / "logs" / f"broker-{broker}"
        logs.mkdir(parents=True)
        usual = [leads(1)] if broker == 1 else []
        lines = [json.dumps(one) for one in (*usual, *said) if one["broker"] == broker]
        (logs / f"broker-{broker}.log").write_text("".join(f"INFO {one}\n" for one in lines))
    return directory


def leads(broker: int, epoch: int = 0, log_end: int | None = None) -> dict[str, Any]:
    return {
        "event": "completed",
        "change": "LeaderAndIsr",
        "broker": broker,
        "partition": "t-0",
        "leader": broker,
        "leader_epoch": epoch,
        **({} if log_end is None else {"leader_epoch_start_offset": log_end}),
    }


def guarantees(result: CampaignResult) -> dict[str, Guarantee]:
    (found,) = result.cells
    return {one.name: one for one in found.guarantees}


def broken(result: CampaignResult) -> set[str]:
    return {name for name, one in guarantees(result).items() if one.broken}


def unknown(result: CampaignResult) -> set[str]:
    return {name for name, one in guarantees(result).items() if one.held is None}


TIMELINE = {
    "acks-in-order",
    "committed-stays",
    "deposed-leaders-stop",
    "min-isr-kept",
    "one-leader-an-epoch",
    "epochs-rise",
}


def test_all_is_known_and_kept_where_every_witness_was_heard(tmp_path: Path) -> None:
    result = checked(made(tmp_path))
    assert result.verdict is PASS
    assert unknown(result) == {"replicas-agree"}
    assert all(guarantees(result)[name].promised for name in TIMELINE)


def test_where_a_witness_is_missing_its_promise_is_unknown_and_no_verdict_waits(
    tmp_path: Path,
) -> None:
    result = checked(write_campaign(tmp_path, run(cluster=(state(-5, 1, 0, (1, 2, 3)),))))
    assert result.verdict is PASS
    assert unknown(result) == {"replicas-agree", "min-isr-kept", "one-leader-an-epoch"}


def test_unwatched_cluster_leaves_timeline_guarantees_unknown(tmp_path: Path) -> None:
    result = checked(write_campaign(tmp_path, run(cluster=())))
    assert {"min-isr-kept", "one-leader-an-epoch", "epochs-rise"} <= unknown(result)


def test_acks_of_one_promise_nothing_of_those_in_sync(tmp_path: Path) -> None:
    found = guarantees(checked(made(tmp_path, cells=[cell(ACKS_1)])))
    for name in ("committed-stays", "deposed-leaders-stop", "min-isr-kept"):
        assert (found[name].promised, found[name].held) == (False, None)
        assert (
            "acks=1: an ack does not say that the in-sync replicas have the record"
            in found[name].reason
        )


def test_two_leaders_of_an_epoch_fail_their_cell_though_nothing_is_lost(
    tmp_path: Path, spark: SparkSession
) -> None:
    directory = made(tmp_path, leads(3))
    result = check(directory, spark=spark)
    assert result == checked(directory)
    assert (result.verdict, broken(result)) == (FAIL, {"one-leader-an-epoch"})
    (row,) = pq.read_table(directory / "anomalies.parquet").to_pylist()
    assert (row["anomaly"], row["offset"], row["time"]) == ("two-leaders", None, at(-5))
    expected = "broker-1 (by ZooKeeper) and broker-3 (according to its own log) led in epoch 0"
    assert row["detail"] == expected


BACK = (*SEEN, state(30, 1, 2, (1, 2, 3), version=1), state(31, 1, 1, (1, 2, 3), version=2))


def test_an_epoch_that_went_back_in_zookeeper_fails(tmp_path: Path) -> None:
    result = checked(made(tmp_path, cluster=BACK))
    assert (result.verdict, broken(result)) == (FAIL, {"epochs-rise"})


EPOCHS_BACK = WELL.but(log=[entry(0, 1, 0, 0), entry(1, 1, 1, 2), entry(2, 1, 2, 1)])


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, FAIL),
        ({"faults": [*KILL, *a_fault(fault_id=2, destroys="unsynced")]}, PASS),
    ],
    ids=["nothing excuses it", "a disk lost data"],
)
def test_epochs_that_go_back_in_the_log_are_excused_as_replicas_that_differ(
    changes: Any, expected: Any, tmp_path: Path
) -> None:
    directory = made(tmp_path, partitions={("t", 0): EPOCHS_BACK}, **changes)
    result = checked(directory)
    assert result.anomalies["epoch-regressed"] == 1
    assert ("epochs-rise" in broken(result)) == (expected is FAIL)


def backwards() -> Made:
    """The first of two records is acked at the higher offset, which is where it stands."""
    sends, _ = acked(5, 15, 40)
    there = [("ok", 0, 5, 1), ("ok", 1, 15, 0)]
    acks = [send(kind, 1, n, at(seconds), offset) for kind, n, seconds, offset in there]
    sends = [*(one for one in sends if one.type == "invoke" or one.sequence == 2), *acks]
    return Made(sends=sends, log=[entry(0, 1, 1), entry(1, 1, 0), entry(2, 1, 2)], end=3)


@pytest.mark.parametrize(
    ("settings", "promised"),
    [(ALL, True), (ONE_IN_FLIGHT, True), (NO_RETRIES, True), (NOT_IDEMPOTENT, False)],
)
def test_acks_ascend_where_the_producer_s_settings_keep_order(
    settings: Mapping[str, Value], promised: bool, tmp_path: Path
) -> None:
    changes = {"partitions": {("t", 0): backwards()}, "cells": [cell(settings)]}
    result = checked(made(tmp_path, **changes))
    assert result.anomalies["nonmonotonic-send"] == 1
    found = guarantees(result)["acks-in-order"]
    assert (found.promised, found.held, bool(found.broken)) == (promised, False, promised)


def test_client_without_offsets_has_no_order_guarantee(tmp_path: Path) -> None:
    assert not guarantees(checked(made(tmp_path, cells=[cell(ACKS_0)])))["acks-in-order"].promised


def beside(x: float, y: float) -> Made:
    """A record stands at offset 2, acked at ``x``; another was sent a second later and acked at
    ``y`` at offset 1, where a third one stands that was never acked."""
    sends, _ = acked(5, producer=1)
    sends += [send("invoke", 2, 0, at(6)), *one(3, x - 1, x, 2), *one(4, x + 1, y, 1)]
    log = [entry(offset, producer, 0, 0) for offset, producer in enumerate((1, 2, 3, 5))]
    return Made(sends=[*sends, *one(5, 50, 51, 3)], log=log, end=4)


def one(producer: int, asked: float, answered: float, offset: int) -> Sequence[Any]:
    return (
        send("invoke", producer, 0, at(asked)),
        send("ok", producer, 0, at(answered), offset),
    )


def test_ack_by_another_broker_breaks_the_matching_guarantees(tmp_path: Path) -> None:
    result = checked(made(tmp_path, partitions={("t", 0): beside(15, 17)}))
    names = {"no-acked-record-lost", "committed-stays", "deposed-leaders-stop"}
    assert (result.verdict, broken(result) & (names | TIMELINE)) == (FAIL, names)


OUTSIDE = (
    state(-5, 1, 0, (1,), version=0),
    state(12, 2, 1, (2,), version=1),
    state(25, 2, 1, (1, 2, 3), version=2),
)


def test_after_an_unclean_election_the_deposed_leader_goes_on_and_breaks_nothing(
    tmp_path: Path,
) -> None:
    """Elected uncleanly at 12 seconds, 2 acks at 15; 1, which has not heard, acks at 17."""
    zombie = beside(15, 17)
    log = [entry(e.offset, e.producer, e.sequence, min(e.offset, 1)) for e in zombie.log]
    partitions = {("t", 0): zombie.but(log=log)}
    cells = [cell({**UNCLEAN, "min.insync.replicas": 1})]
    result = checked(made(tmp_path, partitions=partitions, cells=cells, cluster=OUTSIDE))
    found = result.anomalies
    assert found["stale-leader-ack"] == found["watermark-regressed"] == found["lost"] == 1
    assert (result.verdict, broken(result)) == (NOT_GUARANTEED, set())


def test_a_leader_that_began_too_low_breaks_its_promise_before_anything_is_missed(
    tmp_path: Path,
) -> None:
    result = checked(made(tmp_path, leads(2, 1, log_end=0), cluster=MOVED))
    assert (result.verdict, broken(result)) == (FAIL, {"committed-stays"})
    assert result.anomalies["watermark-regressed"] == 1


ALONE = (
    *SEEN,
    state(12, 1, 0, (1,), version=1),
    state(60, 1, 0, (1, 2, 3), version=2),
)


@pytest.mark.parametrize(
    ("needed", "expected"), [(1, set()), (2, {"min-isr-kept"}), (3, {"min-isr-kept"})]
)
def test_acks_of_too_few_break_their_promise_alone(
    needed: int, expected: set[str], tmp_path: Path
) -> None:
    """The kill of broker 1 is over at 20 seconds, and has been heard of at 27; acked at 40."""
    cells = [cell({**ALL, "min.insync.replicas": needed})]
    result = checked(made(tmp_path, cells=cells, cluster=ALONE))
    assert broken(result) == expected
    assert result.anomalies["acked-below-min-isr"] == len(expected)
    assert result.verdict is (FAIL if expected else PASS)


def test_guarantee_of_unknown_validity_is_not_broken(tmp_path: Path) -> None:
    """Some disk lost data after that, and it is unknown which."""
    struck = a_fault(30, 45, fault_id=2, servers=None, partitions=None, destroys="unsynced")
    partitions = {("t", 0): beside(15, 17)}
    result = checked(made(tmp_path, partitions=partitions, faults=[*KILL, *struck]))
    assert (result.verdict, broken(result)) == (INCONCLUSIVE, set())
