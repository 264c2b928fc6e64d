"""The controller (seeds 002 and 003): elections, reassignments, deletions. Sans-I/O.

Events in, effects out (:meth:`broker.controller.controller.Controller.step`); the runtime is
:mod:`broker.server.controller`.
"""
