"""The clients that record: what is sent, what is acknowledged, what can be read back."""

from collections.abc import Mapping

from workloads.interface import Workload
from workloads.produce import Produce

WORKLOADS: Mapping[str, Workload] = {workload.name: workload for workload in (Produce(),)}
"""Every workload there is, by name."""
