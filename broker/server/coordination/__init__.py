"""Coordination by each partition's leader (*Design V2*), carried out over ZooKeeper.

:mod:`broker.coordination` decides. This package reads, writes, watches and keeps time for it.
"""
