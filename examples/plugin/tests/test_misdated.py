"""The checker keeps the contract of a checker: the conformance kit proves it on small histories."""

from ackproof_example.misdated import MISDATED

from ackproof.testing.checkers import check_checker, checked
from ackproof.testing.histories import SETTINGS, History, sound_history

DAY_MS = 86_400_000


def yesterday(history: History) -> None:
    history.rows("log", partition=0)[3]["timestamp"] -= DAY_MS


def tomorrow(history: History) -> None:
    history.rows("log", partition=1)[5]["timestamp"] += DAY_MS


def test_misdated_records_are_found_and_no_others() -> None:
    check_checker(MISDATED, planted=[yesterday, tomorrow])


def test_record_without_an_outcome_may_be_late_and_not_early() -> None:
    history = sound_history()
    entry = history.rows("log", partition=0)[3]
    entry["timestamp"] += DAY_MS
    for row in history.rows("sends", partition=0):
        if row["sequence"] == entry["sequence"] and row["type"] == "ok":
            history.remove(row)
    assert not checked(MISDATED, history).details
    entry["timestamp"] -= 2 * DAY_MS
    assert len(checked(MISDATED, history).details) == 1


def test_topics_with_log_append_time_are_not_concerned() -> None:
    settings = {**SETTINGS, "topic.message.timestamp.type": "LogAppendTime"}
    assert checked(MISDATED, sound_history(settings)).guarantee is None
