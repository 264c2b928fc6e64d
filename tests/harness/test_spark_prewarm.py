"""Spark is there before the check asks for it, and gone afterwards, asked for or not."""

from pathlib import Path

import pytest
from pyspark import SparkContext

from ackproof.checkers.check import check
from ackproof.harness.running.spark_prewarm import SparkPrewarm
from tests.support.builders.histories import AFTER, BEFORE, DURING, MadeRun, kept, write_campaign

pytestmark = pytest.mark.spark


def test_session_without_prewarming_is_none(tmp_path: Path) -> None:
    with SparkPrewarm(tmp_path / "spark") as ahead:
        begins = ahead.at("teardown")
        begins("collect")
        assert ahead.session() is None
    assert [*tmp_path.iterdir()] == []


def test_check_uses_the_prewarmed_session_without_stopping_it(tmp_path: Path) -> None:
    directory = write_campaign(
        tmp_path / "results", MadeRun(partitions={("t", 0): kept(BEFORE, DURING, AFTER)})
    )
    scratch = tmp_path / "spark"
    with SparkPrewarm(scratch) as ahead:
        ahead.at("teardown")("teardown")
        spark = ahead.session()
        assert spark is not None
        for _ in range(2):
            assert check(directory, spark=spark).verdict.value == "pass"
        assert scratch.exists()
    assert not scratch.exists()
    assert SparkContext._active_spark_context is None
