"""Whole brokers in one interpreter, in a world made from a seed: one seed, one history.

The broker's own code runs, all of it; what is simulated is what it asks of its machine: time,
network, disk and ZooKeeper (:mod:`broker.server.environment`). A development tool: it is not
installed, and nothing else imports it.
"""
