"""A conformance kit for plug-ins. It proves that a registered object keeps its contract.

:func:`ackproof.testing.faults.check_fault` tests a fault on clusters in memory.
:func:`ackproof.testing.systems.check_system` tests a system, and
:func:`ackproof.testing.clients.check_client` a client library, on a real cluster in namespaces of
this machine. The parts of ``check_fault`` also serve your own tests:
:func:`ackproof.testing.memory.cluster.memory_cluster` makes a cluster, and
:class:`ackproof.testing.faults.Nemesis` aims, injects, proves and heals faults on it. No test
framework is needed: an object that does not conform raises an AssertionError.
"""
