"""Sends that were acked out of order, and the losses that they follow."""

from collections import Counter

import pyarrow as pa

from ackproof.checkers.checks.rows import ANOMALIES
from ackproof.harness.report.losses import OutOfOrder, out_of_order


def anomalies(*rows: tuple[str, int, int | None, int, str | None]) -> pa.Table:
    """Rows of anomaly, partition, offset, time and fault."""
    names = ("anomaly", "partition", "offset", "time", "fault")
    place = {"run": 1, "cell": "acks-1", "topic": "t", "producer": 0, "sequence": 0}
    made = [{**place, **dict(zip(names, row, strict=True))} for row in rows]
    filled = [{name: row.get(name) for name in ANOMALIES.names} for row in made]
    return pa.Table.from_pylist(filled, schema=ANOMALIES)


def test_sends_below_a_lost_record_are_laid_to_its_fault() -> None:
    found = out_of_order(
        anomalies(
            ("nonmonotonic-send", 0, 5, 30, "isolate#1,pause#2"),
            ("lost", 0, 9, 10, "isolate#1"),
            ("lost", 0, 7, 20, "kill#3"),
            ("nonmonotonic-send", 0, 9, 40, None),
            ("nonmonotonic-send", 0, 10, 50, "pause#2"),
        )
    )
    assert found.after_losses == Counter({"isolate#1": 2})
    assert (found.sends, found.others, found.reordered) == (3, 1, 0)


def test_losses_of_later_times_and_other_partitions_explain_nothing() -> None:
    found = out_of_order(
        anomalies(
            ("lost", 1, 9, 10, "kill#1"),
            ("lost", 0, None, 10, "kill#1"),
            ("nonmonotonic-send", 0, 5, 30, "kill#1"),
            ("lost", 0, 9, 40, "kill#1"),
            ("reordered", 0, 5, 30, "kill#1"),
        )
    )
    assert not found.after_losses
    assert (found.sends, found.others, found.reordered) == (1, 1, 1)


def test_no_words_without_out_of_order_records() -> None:
    assert out_of_order(anomalies()).words == ""
    assert out_of_order(anomalies(("lost", 0, 9, 40, "kill#1"))).words == ""


def test_words_say_why_nothing_stands_out_of_order() -> None:
    words = OutOfOrder(sends=487, after_losses=Counter({"isolate#2": 487}), reordered=0).words
    assert "487 of them follow lost records (isolate#2 487): the log was truncated" in words
    assert "0 records are out of order in the final log (reordered)" in words
    assert "do not follow a loss" not in words
