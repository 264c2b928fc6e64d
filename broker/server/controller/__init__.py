"""Coordination by a controller, carried out over ZooKeeper and by requests to the brokers.

:mod:`broker.controller` decides, on the one broker that is in office. Every broker registers,
contests the office, and writes the ISRs of the partitions it leads.
"""
