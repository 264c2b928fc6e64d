"""The replicas of this broker: :mod:`broker.replication` decides, and this package carries out.

It owns the partitions and their logs, fetches from other brokers what they follow, and lets
requests wait for future records. The coordination gives the roles of the replicas (``roles.py``).
"""
