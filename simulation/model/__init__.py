"""The model: the invariants of a running cluster, checked after each step of a broker.

The brokers report their steps through :class:`ackproof.broker.probe.Probe`, ZooKeeper its commits,
and clients the answers that they get. A broken invariant ends the run with a
:class:`~simulation.violation.Violation`. Invariants that can be judged only after every fault is
healed are in :mod:`simulation.verdict`.
"""
