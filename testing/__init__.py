"""A conformance kit for plug-ins: it proves on clusters in memory that a fault keeps its contract.

:func:`ackproof.testing.faults.check_fault` is the whole of it for a fault. The parts below it serve
tests of one's own: :func:`ackproof.testing.memory.cluster.memory_cluster` makes a cluster, and
:class:`ackproof.testing.nemesis.Nemesis` aims, injects, proves and heals on it. No test framework
is needed: what does not conform raises an AssertionError.
"""
