"""A conformance kit for plug-ins: it proves that what they register keeps its contract.

:func:`ackproof.testing.faults.check_fault` is the whole of it for a fault, on clusters in memory,
and :func:`ackproof.testing.systems.check_system` for a system and
:func:`ackproof.testing.clients.check_client` for a client library, on a real cluster in namespaces
of this machine. The parts below ``check_fault`` serve tests of one's own:
:func:`ackproof.testing.memory.cluster.memory_cluster` makes a cluster, and
:class:`ackproof.testing.nemesis.Nemesis` aims, injects, proves and heals on it. No test framework
is needed: what does not conform raises an AssertionError.
"""
