"""What ZooKeeper has counted, at fixed moments of a run."""

from ackproof.harness.running.context import Run
from ackproof.infra.interface import ViewUnavailable


def counted(run: Run, moment: str, partitions: int | None = None) -> None:
    """Record it, at a moment of :data:`history.schema.ZOOKEEPER`. A ZooKeeper that does not answer
    leaves no rows: what is missing is unknown, and no verdict rests on it."""
    try:
        now = run.system.zookeeper_counters()
    except ViewUnavailable as silence:
        run.progress.note(f"what ZooKeeper counted ({moment}) is unknown: {silence}")
        return
    run.recorder.zookeeper(moment, partitions, now, run.observer.watches)
