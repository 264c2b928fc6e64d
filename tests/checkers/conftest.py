"""One Spark session for all tests of the checkers."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from ackproof.checkers.engine.spark.session import session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with session(tmp_path_factory.mktemp("spark")) as spark:
        yield spark
