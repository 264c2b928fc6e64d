"""The clients that record: what is sent, what is acknowledged, what can be read back."""

from collections.abc import Mapping

from workloads.interface import Workload
from workloads.produce import Produce
from workloads.transactions.workload import Transactions

WORKLOADS: Mapping[str, Workload] = {one.name: one for one in (Produce(), Transactions())}
"""Every workload there is, by name."""
