"""Consumer groups and their offsets, of one partition of ``__consumer_offsets``, without I/O.

Events go in and effects come out (:meth:`broker.groups.groups.Groups.step`). The runtime is
:mod:`broker.server.groups`.
"""
