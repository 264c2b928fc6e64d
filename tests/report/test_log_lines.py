"""The lines of brokers' logs about a root cause."""

from pathlib import Path
from urllib.parse import unquote

import pytest

from ackproof.checkers.verdict import Cause
from ackproof.harness.report.log_lines import log_lines

CAUSE = Cause(
    run=1,
    cell="c",
    anomaly="lost",
    topic="t",
    partition=0,
    number=1,
    kind="unclean-election",
    sentence="so.",
    records=1,
    promised=1,
    leaders=(1,),
    epochs=(7,),
    next_leader=2,
    next_epoch=8,
)
NOISE = (
    "[10:00:01,000] INFO t-0 starts at leader epoch 7 from offset 5",
    "[10:00:02,000] INFO t-01 starts at leader epoch 8 from offset 5",
    "[10:00:02,000] INFO other-t-0 starts at leader epoch 8 from offset 5",
    "[10:00:02,000] INFO t-0 starts at leader epoch 80 from offset 5",
    '[10:00:02,000] INFO {"partition": "t-0", "controller_epoch": 8, "leader_epoch": 7}',
)
BUNDLED = '[10:00:03,000] INFO {"partition": "t-0", "leader": 2, "leader_epoch": 8} (state.change)'
KAFKA = "[10:00:03,000] INFO [Partition t-0 broker=2] t-0 starts at leader epoch 8 from offset 9"


def written(root: Path, broker: int, *lines: str) -> None:
    log = root / "runs" / "1" / "logs" / f"broker-{broker}" / f"broker-{broker}.log"
    log.parent.mkdir(parents=True)
    log.write_text("".join(f"{line}\n" for line in (*NOISE, *lines)), encoding="utf-8")


@pytest.mark.parametrize("line", [BUNDLED, KAFKA])
def test_first_line_about_the_next_leader_epoch_is_found_at_each_broker(
    tmp_path: Path, line: str
) -> None:
    written(tmp_path, 1, line, line)
    written(tmp_path, 2, line)
    found = log_lines(tmp_path, [CAUSE])[CAUSE]
    assert [(one.server, one.number, one.text) for one in found] == [
        ("broker-1", 6, line),
        ("broker-2", 6, line),
    ]
    path, _, fragment = found[0].link.partition("#:~:text=")
    assert (tmp_path / path).is_file()
    assert line.startswith(unquote(fragment))
    assert not set(fragment) & set("-,& ")


def test_nothing_is_linked_without_logs_or_a_known_epoch(tmp_path: Path) -> None:
    assert log_lines(tmp_path, [CAUSE]) == {}
    written(tmp_path, 1)
    assert log_lines(tmp_path, [CAUSE]) == {}
