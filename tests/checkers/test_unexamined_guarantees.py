"""A guarantee is held only of what was looked at: where that is nothing, it was not checked."""

from dataclasses import replace
from pathlib import Path

from ackproof.checkers.verdict import CampaignResult, Guarantee
from tests.support.builders.checked_runs import PASS, WELL, checked, run
from tests.support.builders.consumers import MadeConsumer
from tests.support.builders.histories import a_fault, cell, write_campaign

OF_NAMED_ACKS = ("acked-offset-kept", "acks-in-order", "committed-stays", "deposed-leaders-stop")


def guarantees(result: CampaignResult) -> dict[str, Guarantee]:
    (found,) = result.cells
    return {one.name: one for one in found.guarantees}


def test_acks_without_offsets_hold_nothing_of_offsets(tmp_path: Path) -> None:
    nameless = WELL.but(sends=[replace(one, offset=None) for one in WELL.sends])
    result = checked(write_campaign(tmp_path, run(partitions={("t", 0): nameless})))
    assert result.verdict is PASS
    found = guarantees(result)
    for name in (*OF_NAMED_ACKS, "min-isr-kept"):
        assert (found[name].held, found[name].checked) == (None, False)
        assert found[name].lacking in found[name].reason
    assert found["acks-in-order"].lacking == "there was nothing to examine"
    assert found["min-isr-kept"].lacking.startswith("it needs every change of the ISR ")
    assert found["no-acked-record-lost"].held is True


def test_tail_reader_that_was_shown_nothing_checks_nothing(tmp_path: Path) -> None:
    made = run(consumers=(MadeConsumer(client="reader-0"),))
    found = guarantees(checked(write_campaign(tmp_path, made)))
    for name in ("reads-stay", "reads-agree", "no-poll-skip", "polls-in-order", "no-unseen"):
        assert (found[name].held, found[name].checked) == (None, False)


def test_partition_unread_by_its_tail_reader_leaves_no_unseen_open(
    tmp_path: Path,
) -> None:
    keys = (("t", 0), ("t", 1))
    reader = MadeConsumer(client="reader-0", of=keys)
    made = run(
        cells=(cell(partitions=2),),
        consumers=(reader,),
        partitions=dict.fromkeys(keys, WELL),
        faults=a_fault(partitions=("t-0", "t-1")),
    )
    assert guarantees(checked(write_campaign(tmp_path, made)))["no-unseen"].held is None
