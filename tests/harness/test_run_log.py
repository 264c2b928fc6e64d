"""The log of a run that cannot be written costs one line, and not a traceback a record."""

import logging
from pathlib import Path

from ackproof.harness.running.progress import logging_to

log = logging.getLogger("ackproof.tests")


def test_log_without_room_is_reported_once(capsys) -> None:
    told: list[str] = []
    with logging_to(Path("/dev/full"), told.append):
        for number in range(20):
            try:
                raise ValueError(number)
            except ValueError:
                log.exception("record %d", number)
    assert told == ["/dev/full cannot be written: No space left on device; it gets no more lines"]
    assert capsys.readouterr() == ("", "")


def test_log_has_every_record(tmp_path: Path) -> None:
    told: list[str] = []
    with logging_to(tmp_path / "log", told.append):
        log.info("one")
        log.info("two")
    log.info("later")
    lines = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    assert [line.split()[-1] for line in lines] == ["one", "two"]
    assert told == []
