"""File names say what is in them, without ambiguity."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.history.names import PARTITIONED, UNPARTITIONED, FileStem, parse
from ackproof.history.schema import TABLES

LEGAL = st.from_regex(r"[a-zA-Z0-9._-]{1,40}", fullmatch=True)
STEMS = st.one_of(
    st.builds(
        FileStem,
        table=st.sampled_from(sorted(PARTITIONED)),
        writer=LEGAL,
        partition=st.tuples(LEGAL, st.integers(0, 10_000)),
    ),
    st.builds(FileStem, table=st.sampled_from(sorted(UNPARTITIONED)), writer=LEGAL),
)


def test_each_table_is_partitioned_or_not() -> None:
    assert TABLES.keys() == PARTITIONED | UNPARTITIONED
    assert not PARTITIONED & UNPARTITIONED


@given(STEMS, st.integers(1, 10_000_000))
def test_file_names_parse_to_their_parts(stem: FileStem, number: int) -> None:
    assert parse(stem.closed) == (stem, None)
    assert parse(stem.part(number)) == (stem, number)


@given(STEMS, STEMS)
def test_different_stems_have_different_names(one: FileStem, other: FileStem) -> None:
    assert (str(one) == str(other)) == (one == other)


def test_a_dot_in_a_topic_is_written_as_a_character_no_topic_has() -> None:
    stem = FileStem(table="sends", writer="a.b-0", partition=("orders.eu", 3))
    assert stem.closed == "sends.orders~eu.3.a~b-0.parquet"
    assert stem.part(1) == "sends.orders~eu.3.a~b-0.part-000001.arrows"


@pytest.mark.parametrize(
    "name",
    ["sends.parquet", "sends.t.x.w.parquet", "sends.t.0.w.part-1.arrows", "nothing.w.parquet",
     "sends.t.0.w.csv", "polls.w.parquet", "commits.t.0.w.parquet",
     "phases.w.part-000001.x.arrows", "phases.w.part-000001.parquet",
     "phases.w.arrows", "phases.a b.parquet", "parquet"],
)  # fmt: skip
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"no name|no table|no legal|invalid literal"):
        parse(name)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"table": "send", "writer": "w"}, "no table"),
        ({"table": "sends", "writer": "w"}, "takes a topic"),
        ({"table": "polls", "writer": "w"}, "takes a topic"),
        ({"table": "phases", "writer": "w", "partition": ("t", 0)}, "takes no topic"),
        ({"table": "commits", "writer": "w", "partition": ("t", 0)}, "takes no topic"),
        ({"table": "phases", "writer": "a/b"}, "no legal name"),
        ({"table": "sends", "writer": "w", "partition": ("../t", 0)}, "no legal name"),
        ({"table": "phases", "writer": ""}, "no legal name"),
    ],
)
def test_stems_are_checked(fields: dict, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        FileStem(**fields)
