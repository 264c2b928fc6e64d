"""A column of words says of each record what is said of it alone."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ackproof.checkers.arrays import NONE
from ackproof.checkers.checks.rows import names, standing_at
from tests.support.builders.histories import Made, entry, indexed, send

RECORDS = st.tuples(st.integers(0, 2), st.integers(-3, 5)) | st.just((None, None))


@settings(deadline=None)
@given(
    log=st.dictionaries(st.integers(0, 9), RECORDS, max_size=8),
    offsets=st.lists(st.integers(-1, 10), max_size=12),
)
def test_whole_columns(log: dict[int, tuple[int | None, int | None]], offsets: list[int]) -> None:
    entries = [entry(offset, *record) for offset, record in sorted(log.items())]
    history = indexed(Made(sends=[send("invoke", 0, 0, 1)], log=entries, end=10))
    told = standing_at(history, np.array(offsets, np.int64)).to_pylist()
    assert told == [history.standing_at(offset) for offset in offsets]
    records = history.log_record[history.log_record != NONE]
    assert names(history, records).to_pylist() == [history.name(record) for record in records]
    # With a cell more than its own each is asked which it is of.
    other = replace(history, cell_names=(*history.cell_names, "another"))
    assert names(other, records).to_pylist() == names(history, records).to_pylist()


def test_foreign_cell_is_named_with_its_record() -> None:
    history = indexed(Made(sends=[send("invoke", 0, 0, 1)], log=[entry(0, 0, 0)], end=1))
    foreign = replace(history, cell_names=("another",))
    assert names(foreign, np.array([0])).to_pylist() == ["cell another producer 0 sequence 0"]
