"""Judgement of rare anomalies by parts: it equals the judgement of the whole."""

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ackproof.checkers.arrays import Array
from ackproof.checkers.checks.records import duplicated, lost
from ackproof.checkers.engine.reconcile import parts
from ackproof.checkers.index.partition_history import PartitionHistory
from tests.support.builders.histories import Made, entry, indexed, send

Records = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), max_size=12, unique=True)


def made(records: list[tuple[int, int]], log: list[tuple[int, int]]) -> PartitionHistory:
    """All of them acked; so often as it is there each stands in the log."""
    sends = [
        send(kind, *record, 2 * place + end, place if end else None)
        for place, record in enumerate(records)
        for end, kind in enumerate(("invoke", "ok"))
    ]
    stands = [entry(place, *record) for place, record in enumerate(log)]
    return indexed(Made(sends=tuple(sends), log=stands, end=len(log)))


@pytest.mark.parametrize(
    ("rule", "of"),
    [(lost, lambda history: history.lost), (duplicated, lambda history: history.repeated)],
)
@settings(deadline=None)
@given(
    records=Records,
    log=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), max_size=20),
    most=st.integers(1, 5),
)
def test_parts_yield_the_same_rows_as_the_whole(
    rule: Callable[[PartitionHistory], pa.Table],
    of: Callable[[PartitionHistory], Array],
    records: list[tuple[int, int]],
    log: list[tuple[int, int]],
    most: int,
) -> None:
    history = made(records, log)
    some = list(parts(history, of(history), most))
    found = [rule(part).to_pylist() for part in some]
    together = Counter(map(repr, rule(history).to_pylist()))
    assert sum((Counter(map(repr, rows)) for rows in found), Counter()) == together
    assert max(map(len, found)) <= most
    numbers = [history.sequence[of(part)] for part in some]
    for before, after in pairwise(numbers):
        assert np.max(before) <= np.min(after), "neighbours by sequence number"
