"""Clients of the workload that a fault has crashed, and what they leave behind.

A client writes what it did about every second, and has its parts whole or not at all; so one that
was killed has recorded all but its last moments, and closed nothing. Where its crash is proven,
what it recorded counts:

- A send of which nothing more is recorded is of unknown outcome.
- What was acked to it and not recorded is no claim. Nothing follows from that it is not in the log.
- What it sent last and did not record may be in the log: no phantom.

A consumer that was crashed has written to no partition, and no verdict rests on what it read: its
crash touches none.

It says nothing of how much there was. So what it left must be the beginning of what it wrote, part
by part without a hole, of every partition: of these the last one alone may be cut short.
"""

import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from checkers.faults import FaultFacts
from checkers.gaps import UNJUDGED
from history import names, reader
from history.errors import DamagedFiles
from history.manifest import PlannedRun


def crashes_of(
    rows: Iterable[Mapping[str, Any]], faults: Iterable[FaultFacts]
) -> Mapping[str, FaultFacts]:
    """The fault that crashed each client, where that is proven: the kernel tells signal 9, and the
    fault that sent it has bitten.

    Args:
        rows: Of the table ``clients``.
    """
    bitten = {fault.fault_id: fault for fault in faults if fault.bit}
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


def legible(paths: Sequence[Path]) -> Sequence[Path]:
    """The files of a writer that was crashed, in their order, without a last one that is cut
    short: that has no footer."""
    return paths[:-1] if paths and _damage(paths[-1:]) else paths


def lack(paths: Sequence[Path]) -> str | None:
    """Why these, as from :func:`legible`, are not the beginning of what a crashed writer wrote;
    None where they are."""
    if not paths:
        return "its client recorded nothing before it was crashed"
    numbers = [names.parse(path.name)[1] for path in paths]
    if numbers != [None] and numbers != list(range(1, len(paths) + 1)):
        return "a part is missing of what its client recorded before it was crashed"
    return _damage(paths)


def _damage(paths: Sequence[Path]) -> str | None:
    try:
        reader.count_rows(paths)
    except DamagedFiles as damaged:
        return str(damaged)
    return None
