"""What cannot be told of a cluster that was there before: not checked, and so never passed."""

from collections.abc import Iterator

from ackproof.history.manifest import PlannedRun


def findings(planned: PlannedRun) -> Iterator[str]:
    """A sentence each, where the run was on such a cluster."""
    if not planned.external:
        return
    yield "not checked: replicas-agree: the logs of a cluster of your own are not read"
    yield (
        "not checked: committed-stays, deposed-leaders-stop, min-isr-kept, one-leader-an-epoch, "
        "epochs-rise: clients are told neither leader epochs nor versions of the ISR"
    )
    yield "not checked: servers-stay-up: nobody watched the processes of a cluster of your own"
