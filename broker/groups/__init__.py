"""Consumer groups and their offsets, of one partition of ``__consumer_offsets``: sans-I/O.

Events in, effects out (:meth:`broker.groups.groups.Groups.step`); the runtime is
:mod:`broker.server.groups`.
"""
