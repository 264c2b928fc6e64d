"""Coordination by a controller, carried out over ZooKeeper and by requests to the brokers.

:mod:`broker.controller` decides, on the one broker that is the controller. Every broker registers,
competes to become controller, and writes the ISRs of the partitions that it leads.
"""
