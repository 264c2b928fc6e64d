"""Transactions in compacted topics, case by case: which records a cleaner may remove."""

from dataclasses import replace

import numpy as np
import pytest

from ackproof.checkers.arrays import NONE
from tests.support.builders.compacted_transactions import (
    TRANSFORMER,
    Compacted,
    CompactedCluster,
    Record,
    found,
    of_readers,
    of_records,
    of_transactions,
)

ALL = 100
"""All that is stable, as a share for the cleaner."""
MANY = 6
"""So many records a reader reads at once, at most."""
KEY, OTHER, ELSEWHERE = 0, 2, 1
"""Two keys of partition 0, and one of partition 1."""


class Cell:
    """A cell that takes steps. Producer 0 writes, and producer 1 beside it."""

    def __init__(self, isolated: bool = True) -> None:
        self.cluster = CompactedCluster(isolated)

    def write(
        self, *keys: int, end: str = "commit", really: bool = True, client: int = 0
    ) -> list[Record]:
        """Write a transaction of these keys."""
        before = len(self.cluster.records)
        for key in keys:
            self.cluster.take("send", client, key, 0)
        self.end(end, really=really, client=client)
        return self.cluster.records[before:]

    def delete(self, key: int, end: str = "commit", really: bool = True) -> Record:
        self.cluster.take("tombstone", 0, key, 0)
        self.end(end, really=really)
        return self.cluster.records[-1]

    def end(self, step: str, *, really: bool = True, client: int = 0) -> None:
        self.cluster.take(step, client, 0, 0 if really else 99)

    def transform(self, key: int, end: str = "commit", *, really: bool = True) -> list[Record]:
        before = len(self.cluster.records)
        self.cluster.take("transform", TRANSFORMER, 0, key)
        self.end(end, really=really, client=TRANSFORMER)
        return self.cluster.records[before:]

    def clean(self) -> None:
        self.cluster.take("clean", 0, 0, ALL)

    def wait(self) -> None:
        self.cluster.take("wait", 0, 0, 0)

    def read(self) -> None:
        self.cluster.take("read", 0, 0, MANY)

    def finished(self, *cleans: int) -> Compacted:
        return self.cluster.finish(cleans)


def test_cleaner_removes_superseded_and_aborted_records() -> None:
    cell = Cell()
    (old,) = cell.write(KEY)
    (aborted,) = cell.write(OTHER, end="abort")
    (new,) = cell.write(KEY)
    cell.clean()
    made = cell.finished()
    assert made.log[0] == [new]
    assert found(made) == {}
    assert not made.partition(0).is_keyless
    history = made.partition(0)
    assert history.acked_offset[history.forgotten].tolist() == [old.offset, aborted.offset]


def test_committed_value_is_lost_if_only_an_aborted_one_is_behind_it() -> None:
    cell = Cell()
    (value,) = cell.write(KEY)
    (aborted,) = cell.write(KEY, end="abort")
    made = cell.finished()
    lost = {("lost", 0, value.offset): 1, ("lost-commit", None, None): 1}
    assert found(made.without(value)) == lost
    assert found(made.without(value, aborted)) == lost


@pytest.mark.parametrize("kept", [True, False])
def test_value_of_unknown_outcome_supersedes_only_if_it_is_committed(kept: bool) -> None:
    cell = Cell()
    (value,) = cell.write(KEY)
    (unknown,) = cell.write(KEY, end="lose", really=kept)
    made = cell.finished().without(value)
    assert unknown in made.log[0]
    lost = {("lost", 0, value.offset): 1, ("lost-commit", None, None): 1}
    assert found(made) == ({} if kept else lost)


def test_value_of_unknown_outcome_that_is_gone_supersedes_nothing() -> None:
    cell = Cell()
    (value,) = cell.write(KEY)
    (unknown,) = cell.write(KEY, end="lose")
    made = cell.finished().without(value, unknown)
    assert of_records(made) == {("lost", 0, value.offset): 1}


@pytest.mark.parametrize(("isolated", "vanished"), [(True, 1), (False, 0)])
def test_record_of_unknown_outcome_may_go_unless_a_reader_shows_that_it_was_committed(
    isolated: bool, vanished: int
) -> None:
    cell = Cell(isolated)
    (unknown,) = cell.write(KEY, end="lose")
    cell.read()
    made = cell.finished()
    assert [one for one, _ in made.read[0]] == [unknown]
    assert of_records(made.without(unknown)) == {}
    assert of_readers(made.without(unknown))["vanished-read", 0, unknown.offset] == vanished


def test_aborted_record_that_was_read_may_go() -> None:
    cell = Cell(isolated=False)
    (aborted,) = cell.write(KEY, end="abort")
    cell.read()
    made = cell.finished()
    assert [one for one, _ in made.read[0]] == [aborted]
    assert of_readers(made.without(aborted)) == {}


def test_record_of_unknown_outcome_is_lost_if_another_one_stands_as_committed() -> None:
    cell = Cell()
    gone, _ = cell.write(KEY, OTHER, end="lose")
    made = cell.finished().without(gone)
    assert of_records(made) == {("lost", 0, gone.offset): 1}
    assert of_transactions(made) == {("torn-transaction", 0, None): 1}


def test_committed_read_of_an_aborted_record_counts_for_that_record_alone() -> None:
    cell = Cell()
    value, other = cell.write(KEY, OTHER)
    aborted, stands = cell.write(KEY, OTHER, end="abort")
    made = cell.finished()
    planted = made.but(committed=[[value, other, stands], []])
    assert found(planted) == {("resurrected-write", 0, stands.offset): 1}
    assert of_records(planted.without(other)) == {}
    assert of_records(planted.without(value, aborted)) == {("lost", 0, value.offset): 1}


def test_torn_transaction_names_the_record_that_no_cleaner_removed() -> None:
    cell = Cell()
    old, missing, _ = cell.write(KEY, ELSEWHERE, OTHER)
    cell.write(KEY)
    made = cell.finished().without(old, missing)
    assert of_transactions(made) == {("torn-transaction", 1, None): 1}


def test_superseded_record_that_stands_shows_that_its_transaction_is_torn() -> None:
    cell = Cell()
    _, missing = cell.write(KEY, OTHER)
    cell.write(KEY)
    made = cell.finished().without(missing)
    assert of_transactions(made) == {("torn-transaction", 0, None): 1}


def test_value_of_unknown_outcome_supersedes_if_its_transaction_stands_elsewhere() -> None:
    """The older value is not missing from its transaction as well."""
    cell = Cell()
    cell.write(KEY, OTHER)
    old = cell.cluster.records[0]
    gone, _ = cell.write(KEY, ELSEWHERE, end="lose")
    made = cell.finished().without(old, gone)
    assert of_transactions(made) == {("torn-transaction", 0, None): 1}


def test_aborted_record_stays_aborted_if_another_one_is_read_as_committed() -> None:
    cell = Cell()
    value, _ = cell.write(KEY, OTHER)
    _, stands = cell.write(KEY, ELSEWHERE, end="abort")
    made = cell.finished().without(value)
    planted = made.but(committed=[made.committed[0], [stands]])
    assert of_transactions(planted) == {
        ("resurrected-write", 1, stands.offset): 1,
        ("torn-transaction", 0, None): 1,
    }


def test_transaction_is_not_torn_by_a_cleaner() -> None:
    cell = Cell()
    old, _ = cell.write(KEY, OTHER)
    cell.write(KEY)
    made = cell.finished()
    assert found(made) == {}
    assert found(made.without(old)) == {}


def test_superseded_record_may_go_between_the_two_final_reads() -> None:
    cell = Cell()
    old, _ = cell.write(KEY, OTHER)
    cell.write(KEY)
    made = cell.finished(ALL)
    assert old in made.log[0]
    assert old not in made.committed[0]
    assert found(made) == {}


def test_last_record_of_its_key_that_is_not_read_as_committed_tears_its_transaction() -> None:
    cell = Cell()
    cell.write(KEY)
    hidden, _ = cell.write(KEY, OTHER)
    made = cell.finished()
    committed = [[one for one in some if one is not hidden] for some in made.committed]
    assert found(made.but(committed=committed)) == {("torn-transaction", 0, None): 1}


@pytest.mark.parametrize("end", ["commit", "lose"])
def test_input_counts_as_processed_after_its_output_was_compacted_away(end: str) -> None:
    cell = Cell()
    (value,) = cell.write(KEY)
    (output,) = cell.transform(OTHER, end)
    cell.write(OTHER)
    made = cell.finished()
    assert value in made.committed[0]
    assert found(made) == {}
    assert found(made.without(output)) == {}


def test_input_may_be_processed_again_after_an_attempt_of_unknown_outcome() -> None:
    cell = Cell()
    cell.write(KEY)
    (attempt,) = cell.transform(OTHER, "lose", really=False)
    cell.transform(OTHER)
    made = cell.finished()
    assert found(made) == {}
    assert found(made.without(attempt)) == {}


def test_input_of_an_aborted_transaction_was_not_processed() -> None:
    cell = Cell()
    (value,) = cell.write(KEY)
    (output,) = cell.transform(OTHER, "abort")
    cell.write(OTHER)
    made = cell.finished().without(output).but(positions={0: 1})
    assert of_transactions(made) == {("offsets-without-records", 0, value.offset): 1}


def test_input_was_not_processed_if_its_output_of_unknown_outcome_should_stand() -> None:
    cell = Cell()
    (value,) = cell.write(KEY)
    (output,) = cell.transform(OTHER, "lose")
    made = cell.finished().without(output)
    assert of_transactions(made) == {("offsets-without-records", 0, value.offset): 1}


def test_aborted_record_is_shown_although_nothing_else_of_its_transaction_is_left() -> None:
    cell = Cell(isolated=False)
    (unknown,) = cell.write(KEY, end="lose", really=False)
    cell.read()
    shown = {("aborted-read", 0, unknown.offset): 1}
    assert of_transactions(cell.finished().without(unknown)) == shown
    cell.write(KEY)
    # It may have been committed and superseded.
    assert of_transactions(cell.finished().without(unknown)) == {}


def test_record_without_an_ack_says_nothing_about_its_transaction() -> None:
    cell = Cell(isolated=False)
    cell.cluster.take("spoil", 0, ELSEWHERE, 99)
    cell.cluster.records[-1].txn.spoiled = False
    unacked, unknown = [cell.cluster.records[-1], *cell.write(KEY, end="lose")]
    assert unacked.txn is unknown.txn
    cell.read()
    cell.write(KEY)
    assert of_transactions(cell.finished().without(unknown)) == {}


def test_incomplete_read_of_committed_records_loses_nothing() -> None:
    cell = Cell()
    (value,) = cell.write(KEY)
    (unknown,) = cell.write(KEY, end="lose")
    cell.write(KEY, end="abort")
    made = cell.finished().without(value)
    lost = {("lost", 0, value.offset): 1}
    cut = made.but(committed=[[], []])
    assert of_records(cut) == lost
    assert of_records(cut.but(whole=False)) == {}
    assert of_records(cut.without(unknown).but(whole=False)) == lost


def test_only_an_aborted_record_needs_no_key() -> None:
    cell = Cell()
    cell.write(KEY)
    cell.write(OTHER, end="abort")
    history = cell.finished().partition(0)
    for key, is_keyless in ((KEY, True), (OTHER, False)):
        keys = np.where(history.keys == key, NONE, history.keys)
        assert replace(history, keys=keys).is_keyless == is_keyless


# --- tombstones -----------------------------------------------------------------------------------


def test_aborted_tombstone_deletes_nothing_and_need_not_stay() -> None:
    cell = Cell()
    (value,) = cell.write(KEY)
    aborted = cell.delete(KEY, end="abort")
    made = cell.finished()
    assert found(made.without(aborted)) == {}
    assert of_records(made.without(value, aborted)) == {("lost", 0, value.offset): 1}


def test_young_committed_tombstone_must_stay() -> None:
    cell = Cell()
    (value,) = cell.write(KEY)
    tombstone = cell.delete(KEY)
    made = cell.finished()
    assert found(made.without(value)) == {}
    gone = {("lost", 0, tombstone.offset): 1, ("tombstone-too-early", 0, tombstone.offset): 1}
    assert of_records(made.without(value, tombstone)) == gone
    back = {("lost", 0, tombstone.offset): 1, ("resurrected-value", 0, value.offset): 1}
    assert of_records(made.without(tombstone)) == back


def test_aborted_value_behind_a_tombstone_is_no_last_value() -> None:
    cell = Cell()
    (value,) = cell.write(KEY)
    tombstone = cell.delete(KEY)
    cell.write(KEY, end="abort")
    back = {("lost", 0, tombstone.offset): 1, ("resurrected-value", 0, value.offset): 1}
    assert of_records(cell.finished().without(tombstone)) == back


def test_expired_tombstone_and_its_transaction_may_go() -> None:
    cell = Cell()
    cell.write(KEY)
    cell.delete(KEY)
    cell.clean()
    cell.wait()
    cell.clean()
    made = cell.finished()
    assert made.log[0] == []
    assert found(made) == {}


@pytest.mark.parametrize(("waits", "perhaps"), [(True, 1), (False, 0)])
def test_old_tombstone_of_unknown_outcome_may_have_deleted_a_value(
    waits: bool, perhaps: int
) -> None:
    cell = Cell()
    (value,) = cell.write(KEY)
    unknown = cell.delete(KEY, end="lose")
    if waits:
        cell.wait()
    made = cell.finished().without(value, unknown)
    assert made.partition(0).perhaps_deleted == perhaps
    assert of_records(made) == ({} if perhaps else {("lost", 0, value.offset): 1})


def test_aborted_value_is_not_perhaps_deleted() -> None:
    cell = Cell()
    (value,) = cell.write(KEY, end="abort")
    unknown = cell.delete(KEY, end="lose")
    cell.wait()
    assert cell.finished().without(value, unknown).partition(0).perhaps_deleted == 0


def test_aborted_tombstone_without_an_ack_deletes_nothing() -> None:
    cell = Cell()
    (value,) = cell.write(KEY)
    cell.cluster.take("spoil", 0, KEY, 99)
    cell.cluster.records[-1].deletes = True
    cell.end("abort")
    cell.wait()
    assert of_records(cell.finished().without(value)) == {("lost", 0, value.offset): 1}


def test_crashed_client_leaves_no_unrecorded_tombstone_that_was_committed() -> None:
    cell = Cell()
    (value,) = cell.write(KEY)
    cell.wait()
    history = replace(cell.finished().without(value).partition(0), crashed=frozenset({0}))
    assert (len(history.lost), history.perhaps_deleted) == (1, 0)
    without_transactions = replace(history, decisions=None)
    assert (len(without_transactions.lost), without_transactions.perhaps_deleted) == (0, 1)


@pytest.mark.parametrize(("end", "missed"), [("commit", 1), ("abort", 0)])
def test_reader_must_be_shown_committed_tombstones_only(end: str, missed: int) -> None:
    cell = Cell(isolated=False)
    cell.write(KEY)
    cell.read()
    tombstone = cell.delete(KEY, end=end)
    cell.write(OTHER)
    cell.read()
    made = cell.finished().without(tombstone)
    read = [[(one, second) for one, second in some if one is not tombstone] for some in made.read]
    told = of_readers(made.but(read=read))
    assert told["unseen-tombstone", 0, tombstone.offset] == missed
