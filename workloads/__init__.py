"""The clients that record: what is sent, what is acknowledged, what can be read back."""

from ackproof.plugins import Table
from ackproof.workloads.interface import Workload, as_workload
from ackproof.workloads.produce import Produce
from ackproof.workloads.transactions.workload import TransactionsWorkload

_BUILT_IN: tuple[Workload, ...] = (Produce(), TransactionsWorkload())

WORKLOADS: Table[Workload] = Table(
    "ackproof.workloads", "workload", {one.name: one for one in _BUILT_IN}, as_workload
)
"""Every workload by name: the built-in ones, and those of plug-ins."""
