"""The programs of this machine that nodes run, and where they are."""

import sys
from importlib.util import find_spec
from pathlib import Path

from infra.interface import InfraError, Software
from infra.java import find_java

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
    # Not imported: PySpark takes a second to import, and only its files are wanted.
    spark = find_spec("pyspark")
    if spark is None or spark.origin is None:
        raise InfraError("PySpark is not installed, whose jars hold ZooKeeper: pip install pyspark")
    directory = Path(spark.origin).parent / "jars"
    jars = [path for name in _JARS for path in sorted(directory.glob(f"{name}-*.jar"))]
    if not any(path.name.startswith("zookeeper-") for path in jars):
        raise InfraError(f"no ZooKeeper among the jars in {directory}: pip install pyspark")
    return jars
