"""Generated campaigns: a whole one passes; with one lack planted it never does, and only the cells
concerned suffer; with one anomaly planted it fails, and nothing else is found; and whatever its
files hold, checking does not raise."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ackproof.checkers.context.gaps import UNJUDGED
from ackproof.checkers.verdict import CampaignResult, Verdict
from ackproof.history.cell import Cell
from ackproof.history.manifest import FILE
from tests.support.builders.checked_runs import checked
from tests.support.builders.consumers import MadeConsumer, committed_ok, seen
from tests.support.builders.consumers import given as given_to
from tests.support.builders.examples import examples
from tests.support.builders.histories import (
    FINISHED,
    RECOVERY_MS,
    Made,
    MadeRun,
    a_fault,
    acked,
    at,
    cell,
    history_of,
    losing,
    recovered,
    write_campaign,
)

EXAMPLES = settings(
    max_examples=examples(5), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@st.composite
def whole(draw: st.DrawFn) -> MadeRun:
    """Two cells of one or two partitions each, faults one after the other that touch all of them,
    acks of one or two producers before, during and after each; a tail reader of each cell and a
    member of a group."""
    faults = draw(st.integers(1, 3))
    moments = sorted(
        at_ + draw(st.integers(0, 900)) / 1000
        for number in range(faults + 1)
        for at_ in (100 * number + 5, 100 * number + 15, 100 * number + 60)
    )
    cells = [
        cell(name=name, topic=topic, partitions=draw(st.integers(1, 2)))
        for name, topic in (("c", "t"), ("d", "u.v"))
    ]
    keys = [key for planned in cells for key in planned.cell.topic_partitions]
    touched = [f"{topic}-{partition}" for topic, partition in keys]
    rows = [
        row
        for number in range(1, faults + 1)
        for row in a_fault(
            100 * number + 10, 100 * number + 20, fault_id=number, partitions=touched
        )
    ]
    over = 100 * faults + 70
    partitions = {
        key: made
        for planned in cells
        for key, made in _made(planned.cell, moments, draw(st.integers(1, 2))).items()
    }
    return MadeRun(
        partitions=partitions,
        cells=cells,
        consumers=[one for planned in cells for one in _consumers(planned.cell, partitions)],
        faults=rows,
        recovery=[recovered(*key, seconds=over) for key in keys],
    )


def _made(of: Cell, moments: list[float], producers: int) -> Mapping[tuple[str, int], Made]:
    """Return the partitions of a cell, to which each producer sends in turn."""
    return {
        key: _partition(moments, producers, key[1], of.partitions) for key in of.topic_partitions
    }


def _partition(moments: list[float], producers: int, partition: int, partitions: int) -> Made:
    sends, log = [], []
    for producer in range(1, producers + 1):  # in turn: what is sent later stands behind
        more, also = acked(
            *moments,
            offset=producer - 1,
            step=producers,
            producer=producer,
            partition=partition,
            partitions=partitions,
        )
        sends += more
        log += also
    return Made(sends=sends, log=sorted(log, key=lambda one: one.offset), end=len(log))


def _consumers(of: Cell, partitions: Mapping[tuple[str, int], Made]) -> Iterator[MadeConsumer]:
    """They are shown all of its first partition, and the member commits it."""
    keys = of.topic_partitions
    log = partitions[keys[0]].log
    reader = MadeConsumer(
        client=f"reader-{of.name}",
        polls=[seen(1, record.offset, record.producer, record.sequence) for record in log],
        assigned=[given_to(0, at(0), 0)],
        partition=keys[0],
        of=keys,
        cell=of.name,
    )
    kept = committed_ok(1, at(1), len(log), 1)
    yield reader
    yield reader.but(client=f"member-{of.name}", group=f"{of.topic}-g", commits=kept)


def verdicts(result: CampaignResult) -> dict[str, Verdict]:
    return {found.cell: found.verdict for found in result.cells}


def change(run: MadeRun, **changes: object) -> MadeRun:
    return MadeRun(**{**vars(run), **changes})


@EXAMPLES
@given(run=whole())
def test_a_whole_campaign_passes(tmp_path_factory: pytest.TempPathFactory, run: MadeRun) -> None:
    result = checked(write_campaign(tmp_path_factory.mktemp("whole"), run))
    assert verdicts(result) == {"c": Verdict.PASS, "d": Verdict.PASS}
    assert result.findings == ()
    assert not any(result.anomalies.values())


@EXAMPLES
@given(run=whole(), data=st.data())
def test_any_file_taken_away_is_missed_by_those_it_concerns(
    tmp_path_factory: pytest.TempPathFactory, run: MadeRun, data: st.DataObject
) -> None:
    directory = write_campaign(tmp_path_factory.mktemp("less"), run)
    names = sorted(path.name for path in history_of(directory).glob("*.parquet"))
    gone = data.draw(st.sampled_from(names))
    (history_of(directory) / gone).unlink()
    result = checked(directory)
    found = verdicts(result)
    assert result.findings
    assert Verdict.PASS not in {found[name] for name in concerned(gone)}
    assert all(found[name] is Verdict.PASS for name in {"c", "d"} - concerned(gone))
    assert Verdict.FAIL not in found.values()


def concerned(file: str) -> set[str]:
    """The cells that a file is about; all, where it is about the run; none, where it holds what was
    measured or shown to consumers, which no verdict waits for."""
    if file.removeprefix("closings.").startswith(tuple(UNJUDGED)):
        return set()
    of_cell = {"c": (".t.", "sends-c-"), "d": (".u~v.", "sends-d-")}
    mine = {name for name, marks in of_cell.items() if any(mark in file for mark in marks)}
    return mine or {"c", "d"}


@EXAMPLES
@given(run=whole(), data=st.data())
def test_any_row_of_a_fault_taken_away_is_missed(
    tmp_path_factory: pytest.TempPathFactory, run: MadeRun, data: st.DataObject
) -> None:
    """But for ``inject`` and ``heal``, intents of which the deeds tell."""
    deeds = [row for row in run.faults if row["event"] in ("injected", "verified", "healed")]
    gone = data.draw(st.sampled_from(deeds))
    less = change(run, faults=[row for row in run.faults if row is not gone])
    found = verdicts(checked(write_campaign(tmp_path_factory.mktemp("less"), less)))
    assert found == {"c": Verdict.INCONCLUSIVE, "d": Verdict.INCONCLUSIVE}


@EXAMPLES
@given(run=whole(), data=st.data())
def test_any_step_that_did_not_end_is_missed(
    tmp_path_factory: pytest.TempPathFactory, run: MadeRun, data: st.DataObject
) -> None:
    gone = data.draw(st.sampled_from([row for row in FINISHED if row["event"] == "end"]))
    less = change(run, phases=[row for row in FINISHED if row is not gone])
    result = checked(write_campaign(tmp_path_factory.mktemp("less"), less))
    late = gone["phase"] in ("collect", "teardown")
    assert (result.verdict is Verdict.PASS) == late
    assert result.infrastructure_failed == (gone["phase"] == "teardown")


@EXAMPLES
@given(run=whole(), data=st.data())
def test_acks_taken_from_around_a_fault_are_missed(
    tmp_path_factory: pytest.TempPathFactory, run: MadeRun, data: st.DataObject
) -> None:
    """Nothing was acked to cell c before the first fault, or after the last."""
    last = max(row["time"] for row in run.faults)
    first = min(row["time"] for row in run.faults)
    early = data.draw(st.booleans())
    keep = (lambda time: time > first) if early else (lambda time: time < last)
    of_c = [key for key in run.partitions if key[0] == "t"]
    kept = {key: _only(run.partitions[key], keep, len(of_c)) for key in of_c}
    partitions = {**run.partitions, **kept}
    # Its consumers would have read records that were never sent.
    others = [one for one in run.consumers if one.cell != "c"]
    less = change(run, partitions=partitions, consumers=others)
    result = checked(write_campaign(tmp_path_factory.mktemp("less"), less))
    assert verdicts(result) == {"c": Verdict.INCONCLUSIVE, "d": Verdict.PASS}
    (reason, *_) = result.cells[0].reasons
    assert ("no ack before kill#1" if early else "no ack after") in reason


def _only(made: Made, keep: Callable[[int], bool], partitions: int) -> Made:
    """Return a partition as if nothing else had been sent: numbers and offsets begin again, and the
    acks, whose offsets would be others, have none."""
    records = {(s.producer, s.sequence) for s in made.sends if s.type == "ok" and keep(s.time)}
    least = min(sequence for _, sequence in records)
    earlier = least - least % partitions
    sends = [
        replace(s, offset=None, sequence=s.sequence - earlier)
        for s in made.sends
        if (s.producer, s.sequence) in records
    ]
    log = [e for e in made.log if (e.producer, e.sequence) in records]
    dense = [
        replace(e, offset=number, sequence=e.sequence - earlier) for number, e in enumerate(log)
    ]
    return made.but(sends=sends, log=dense, end=len(dense))


@EXAMPLES
@given(run=whole(), data=st.data())
def test_a_planted_loss_fails_and_nothing_else_is_found(
    tmp_path_factory: pytest.TempPathFactory, run: MadeRun, data: st.DataObject
) -> None:
    key = data.draw(st.sampled_from(sorted(run.partitions)))
    made = run.partitions[key]
    offset = data.draw(st.integers(0, len(made.log) - 1))
    planted = change(run, partitions={**run.partitions, key: losing(made, offset)})
    result = checked(write_campaign(tmp_path_factory.mktemp("lost"), planted))
    name = "c" if key[0] == "t" else "d"
    assert verdicts(result) == {"c": Verdict.PASS, "d": Verdict.PASS} | {name: Verdict.FAIL}
    shown = any(key == one.partition for one in run.consumers)
    expected = {"lost": 1} | ({"inconsistent-read": 1} if shown else {})
    assert {what: count for what, count in result.anomalies.items() if count} == expected
    assert sum(found.lost or 0 for found in result.cells) == 1


@EXAMPLES
@given(run=whole(), data=st.data())
def test_a_partition_that_does_not_recover_fails_its_cell(
    tmp_path_factory: pytest.TempPathFactory, run: MadeRun, data: st.DataObject
) -> None:
    key = data.draw(st.sampled_from(sorted(run.partitions)))
    late = max(row["time"] for row in run.faults) / 1e9 - at(0) / 1e9 + RECOVERY_MS / 1000 + 1
    recovery = [
        recovered(*other, whole=other != key, isr=(1, 2), seconds=late)
        if other == key
        else recovered(*other, seconds=late - 5)
        for other in run.partitions
    ]
    result = checked(
        write_campaign(tmp_path_factory.mktemp("down"), change(run, recovery=recovery))
    )
    name = "c" if key[0] == "t" else "d"
    assert verdicts(result) == {"c": Verdict.PASS, "d": Verdict.PASS} | {name: Verdict.FAIL}


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign that passes."""
    sends, log = acked(5, 15, 40)
    made = {("t", 0): Made(sends=sends, log=log, end=len(log))}
    consumers = list(_consumers(cell().cell, made))
    return write_campaign(
        tmp_path_factory.mktemp("sample"), MadeRun(partitions=made, consumers=consumers)
    )


@settings(EXAMPLES, max_examples=examples(25))
@given(data=st.data())
def test_no_damage_makes_a_check_raise_and_no_file_that_was_cut_off_passes(
    tmp_path_factory: pytest.TempPathFactory, sample: Path, data: st.DataObject
) -> None:
    """A byte that was changed may be one that says nothing; and no verdict waits for what was
    measured, or shown to consumers, but that it is damaged is told."""
    directory = tmp_path_factory.mktemp("damaged") / "results"
    shutil.copytree(sample, directory)
    files = [*sorted(history_of(directory).glob("*.parquet")), directory / FILE]
    path = data.draw(st.sampled_from(files))
    content = bytearray(path.read_bytes())
    where = data.draw(st.integers(0, len(content) - 2))  # the last of the manifest is a newline
    cut = data.draw(st.booleans())
    if cut:
        del content[where:]
    else:
        content[where] ^= data.draw(st.integers(1, 255))
    path.write_bytes(bytes(content))
    result = checked(directory)
    if cut and path.name.startswith(tuple(UNJUDGED)):
        assert result.findings
    elif cut:
        assert result.verdict is Verdict.INCONCLUSIVE
