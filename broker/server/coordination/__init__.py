"""Coordination by each partition's leader (seed 001), carried out over ZooKeeper.

:mod:`broker.coordination` decides, this room reads, writes, watches and keeps time for it.
"""
