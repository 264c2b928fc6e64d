"""Consumer groups on the brokers that lead ``__consumer_offsets``.

:mod:`broker.groups` decides. This package loads the groups from the log, stores in it, and keeps it
short.
"""
