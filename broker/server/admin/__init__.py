"""Topics and settings: validation, and the way into ZooKeeper and back.

The coordination does the rest. :mod:`broker.server.requests` has the requests themselves.
"""
