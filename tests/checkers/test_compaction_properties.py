"""Generated compacted logs, by a plain model of Kafka's cleaner: a sound one is clean, and a lost
last value of a key is found, and nothing else."""

from dataclasses import dataclass, replace

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ackproof.checkers.arrays import NONE
from ackproof.checkers.checks import claims
from ackproof.checkers.checks.claims import Claims
from ackproof.checkers.checks.partition_rules import CHECKERS
from ackproof.checkers.index.partition_history import PartitionHistory
from tests.support.builders.examples import examples
from tests.support.builders.histories import Made, entry, indexed, send

ANY_MACHINE = settings(max_examples=examples(60), deadline=None)


@dataclass(frozen=True, kw_only=True)
class Log:
    """A compacted log. ``keys`` has the key of each record by offset, ``acked`` whether it was
    acked, and ``kept`` the offsets that are left, in order."""

    keys: list[int]
    acked: list[bool]
    kept: list[int]

    def history(self) -> PartitionHistory:
        sends = []
        for number, is_acked in enumerate(self.acked):
            sends.append(send("invoke", 1, number, 10 * number))
            if is_acked:
                sends.append(send("ok", 1, number, 10 * number + 5, number))
        log = [entry(offset, 1, offset) for offset in self.kept]
        made = indexed(Made(sends=sends, log=log, start=0, end=len(self.keys)))
        return replace(made, keys=np.array(self.keys)[made.sequence])

    def last_acked(self) -> list[int]:
        """The offset of the last acked record of each key, unless a later record of it is left."""
        lasts: dict[int, int] = {}
        for offset, key in enumerate(self.keys):
            if self.acked[offset]:
                lasts[key] = offset
        return [
            offset
            for key, offset in lasts.items()
            if not any(self.keys[one] == key and one > offset for one in self.kept)
        ]


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """A log that was cleaned some times, each time up to an offset."""
    keys = draw(st.lists(st.integers(0, 4), min_size=1, max_size=40))
    acked = [draw(st.integers(0, 4)) > 0 for _ in keys]
    kept = list(range(len(keys)))
    for clean in sorted(draw(st.lists(st.integers(0, len(keys)), max_size=3))):
        last = {keys[one]: one for one in kept if one < clean}
        kept = [one for one in kept if one >= clean or last[keys[one]] == one]
    return Log(keys=keys, acked=acked, kept=kept)


def rows(history: PartitionHistory) -> dict[str, list[int]]:
    found = {name: one(history)["offset"].to_pylist() for name, one in CHECKERS.items()}
    return {name: offsets for name, offsets in found.items() if offsets}


@given(log=logs())
@ANY_MACHINE
def test_compacted_records_are_forgotten_and_no_anomaly(log: Log) -> None:
    history = log.history()
    assert rows(history) == {}
    gone = [one for one, acked in enumerate(log.acked) if acked and one not in log.kept]
    assert sorted(history.acked_offset[history.forgotten].tolist()) == gone


@given(log=logs(), data=st.data())
@ANY_MACHINE
def test_lost_last_value_of_a_key_is_found_alone(log: Log, data) -> None:
    lasts = log.last_acked()
    assume(lasts)
    lost = data.draw(st.sampled_from(lasts))
    planted = replace(log, kept=[one for one in log.kept if one != lost])
    assert rows(planted.history()) == {"lost": [lost]}


@given(log=logs(), data=st.data())
@ANY_MACHINE
def test_value_that_was_shown_vanishes_only_if_no_later_one_stands(log: Log, data) -> None:
    """An older value is back if a reader was shown the last one and it is gone."""
    shown = data.draw(st.integers(0, len(log.keys) - 1))
    gone = data.draw(st.booleans())
    log = replace(log, kept=[one for one in log.kept if not gone or one != shown])
    history = log.history()
    numbers = dict(zip(history.sequence.tolist(), range(len(history.sequence)), strict=True))
    one = {name: np.array([0]) for name in ("who", "since", "until", "epoch")}
    made = Claims(
        **one,
        offset=np.array([shown]),
        record=np.array([numbers[shown]]),
        stands=np.array([shown in log.kept]),
    )
    later = [
        one
        for one in range(shown + 1, len(log.keys))
        if log.keys[one] == log.keys[shown] and (log.acked[one] or one in log.kept)
    ]
    vanished = shown not in log.kept and not later
    assert len(claims.vanished(made, history)) == vanished


def test_absent_record_of_an_unknown_key_is_undetermined() -> None:
    history = Log(keys=[0, 1, 0], acked=[True] * 3, kept=[2]).history()
    unknown = replace(history, keys=np.full(3, NONE))
    assert len(unknown.lost) == 0
    assert unknown.unkeyed == 2
    assert (len(history.lost), history.unkeyed) == (1, 0)
