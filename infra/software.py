"""The programs of this machine that nodes run, and where they are."""

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from ackproof.infra.interface import InfraError, Software
from ackproof.infra.java import find_java

_JARS = (
    "zookeeper", "slf4j-api", "log4j-api", "log4j-core", "log4j-slf4j2-impl", "netty",
    "metrics-core", "snappy-java", "commons-io",
)  # fmt: skip
"""What ZooKeeper needs of the 250 jars of PySpark: with all of them it starts four times
slower."""


def of_this_machine() -> Software:
    """What runs us, Java, and PySpark's ZooKeeper. Raises InfraError naming what is missing."""
    return Software(
        python=sys.executable,
        java=str(find_java()),
        zookeeper_class_path=":".join(map(str, zookeeper_jars())),
    )


def zookeeper_jars() -> list[Path]:
    """ZooKeeper and what it needs, as PySpark ships them. Raises InfraError without PySpark."""
    jars = jars_of_spark(_JARS)
    if not any(path.name.startswith("zookeeper-") for path in jars):
        raise InfraError("no ZooKeeper among the jars of PySpark: pip install pyspark")
    return jars


def jars_of_spark(names: Sequence[str]) -> list[Path]:
    """Those of PySpark's jars, in this order; none for a name that it does not have. Raises
    InfraError without PySpark."""
    # Not imported: PySpark takes a second to import, and only its files are wanted.
    spark = find_spec("pyspark")
    if spark is None or spark.origin is None:
        raise InfraError("PySpark is not installed, whose jars are needed: pip install pyspark")
    directory = Path(spark.origin).parent / "jars"
    return [path for name in names for path in sorted(directory.glob(f"{name}-*.jar"))]
