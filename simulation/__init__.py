"""A simulation of whole brokers in one interpreter: one seed determines one history.

The broker's own code runs completely. Simulated are the parts of its machine: time, network, disk
and ZooKeeper (:mod:`broker.server.environment`). This is a development tool. It is not installed,
and no other package imports it.
"""
