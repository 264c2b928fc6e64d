"""The controller: elections, reassignments and deletions, without I/O (*Reliability*, *Failover*).

Events go in and effects come out (:meth:`broker.controller.controller.Controller.step`). The
runtime is :mod:`broker.server.controller`.
"""
