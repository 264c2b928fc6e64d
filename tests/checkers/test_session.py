"""A check that starts its own Spark, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from made_histories import AFTER, BEFORE, DURING, MadeRun, kept, write_campaign

ALONE = """
import pathlib, sys, psutil
from checkers.check import check
print(check(pathlib.Path(sys.argv[1])).verdict.value)
print([child.name() for child in psutil.Process().children(recursive=True)])
"""


@pytest.mark.spark
def test_a_check_on_its_own_ends_its_jvm_and_leaves_nothing(tmp_path: Path) -> None:
    directory = write_campaign(
        tmp_path / "results", MadeRun(partitions={("t", 0): kept(BEFORE, DURING, AFTER)})
    )
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", ALONE, directory],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout.splitlines() == ["pass", "[]"], ended.stderr
    assert "log level" not in ended.stderr
    assert [*temporary.iterdir()] == []
    assert {path.name for path in tmp_path.iterdir()} == {"results", "tmp"}
    assert {path.name for path in directory.iterdir()} == {
        "campaign.yaml",
        "manifest.json",
        "runs",
        "anomalies.parquet",
    }
