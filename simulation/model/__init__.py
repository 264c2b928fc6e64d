"""The model: what must be true of a cluster while it runs, checked after each step of a broker.

The brokers report what they do through :class:`ackproof.broker.probe.Probe`, ZooKeeper what it
commits, clients what they are told. A rule that is broken ends the run with a
:class:`~simulation.violation.Violation`. What can be judged only when every fault is healed is
judged in :mod:`simulation.verdict`.
"""
