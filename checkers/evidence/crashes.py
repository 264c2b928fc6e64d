"""Clients of the workload that a fault has crashed, and what they leave behind.

A client writes what it did about every second, to the end of a file; so one that was killed has
recorded all but its last moments, and closed nothing. Where its crash is proven,
what it recorded counts:

- A send of which nothing more is recorded is of unknown outcome.
- What was acked to it and not recorded is no claim. Nothing follows from that it is not in the log.
- What it sent last and did not record may be in the log: no phantom.

Where another client comes in its place, that is a writer of its own, planned as such: its records
are no other's, and nothing of its predecessor's last moments is asked of it.

A consumer that was crashed has written to no partition, and no verdict rests on what it read: its
crash touches none.

It says nothing of how much there was. So what it left must be the beginning of what it wrote, part
by part without a hole, of every partition: the last part alone may end with a batch that is cut
short.
"""

import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ackproof.checkers.cluster.faults import FaultFacts
from ackproof.checkers.evidence.gaps import UNJUDGED
from ackproof.history import names, reader
from ackproof.history.errors import DamagedFiles
from ackproof.history.manifest import PlannedRun
from ackproof.history.storage import AnyPath


def crashes_of(
    rows: Iterable[Mapping[str, Any]], faults: Iterable[FaultFacts]
) -> Mapping[str, FaultFacts]:
    """Return the fault that crashed each client, where that is proven: the kernel tells signal 9,
    and the fault that sent it has bitten, was planned, and befell a node of clients.

    Args:
        rows: Of the table ``clients``.
    """
    bitten = {fault.fault_id: fault for fault in faults if fault.proven and fault.on_clients}
    return {
        row["client"]: bitten[row["fault_id"]]
        for row in rows
        if row["exit_code"] == -signal.SIGKILL and row["fault_id"] in bitten
    }


def told_apart(
    faults: Iterable[FaultFacts], crashes: Mapping[str, FaultFacts], run: PlannedRun
) -> tuple[FaultFacts, ...]:
    """The faults, and of each whether it crashed consumers alone: nobody on whose tables a verdict
    rests. ``crashes``: as from :func:`crashes_of`."""
    judged = {writer.client for writer in run.writers if writer.table not in UNJUDGED}
    crashed = {fault.fault_id for fault in crashes.values()}
    others = {fault.fault_id for client, fault in crashes.items() if client in judged}
    return tuple(
        replace(fault, consumers_alone=fault.fault_id in crashed - others) for fault in faults
    )


def came(run: PlannedRun, crashes: Mapping[str, FaultFacts]) -> PlannedRun:
    """The run without the writers of clients that never had to come in anybody's place: nothing is
    missing of them. ``crashes``: as from :func:`crashes_of`."""
    brings_back = {plan.fault_id for plan in run.faults if plan.parameters.get("comes_back")}
    followed = {client for client, fault in crashes.items() if fault.fault_id in brings_back}
    writers = [one for one in run.writers if one.instead_of in {None, *followed}]
    return run.model_copy(update={"writers": tuple(writers)})


def lack(paths: Sequence[AnyPath]) -> str | None:
    """Why these files of a crashed writer, in their order, are not the beginning of what it wrote;
    None where they are."""
    try:
        rows = reader.count_rows(paths)
        torn = [path.name for path in paths[:-1] if reader.cut_short(path)]
    except DamagedFiles as damaged:
        return str(damaged)
    if rows == 0:
        return "its client recorded nothing before it was crashed"
    numbers = [names.parse(path.name)[1] for path in paths]
    if numbers != [None] and numbers != list(range(1, len(paths) + 1)):
        return "a part is missing of what its client recorded before it was crashed"
    if torn:
        return f"{torn[0]} is cut short, and others follow it"
    return None
