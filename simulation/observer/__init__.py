"""Who looks on while a run goes on: brokers' steps, ZooKeeper's commits, what clients are told.

What is wrong already, whatever comes later, is said at once, by a
:class:`~simulation.violation.Violation`. What can be told only when everything is healed is judged
in :mod:`simulation.verdict`.
"""
