"""The replicas of this broker: :mod:`broker.replication` decides, this room carries out.

It owns the partitions and their logs, fetches what they follow from other brokers, and lets wait
who asked for what is not there yet. What role a replica has it is told (``roles.py``).
"""
