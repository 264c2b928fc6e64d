"""A column of words says of each record what is said of it alone."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from made_histories import Made, entry, indexed, send

from checkers.indexes import NONE
from checkers.rules.words import names, standing_at

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
