"""Topics and settings: what may be asked for, and how it gets into ZooKeeper and back out of it.

Who coordinates does the rest. The requests themselves are :mod:`broker.server.requests`'.
"""
