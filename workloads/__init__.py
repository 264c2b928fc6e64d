"""The clients that record: what is sent, what is acknowledged, what can be read back."""

from collections.abc import Mapping

from ackproof.workloads.interface import Workload
from ackproof.workloads.produce import Produce
from ackproof.workloads.transactions.workload import Transactions

WORKLOADS: Mapping[str, Workload] = {one.name: one for one in (Produce(), Transactions())}
"""Every workload there is, by name."""
