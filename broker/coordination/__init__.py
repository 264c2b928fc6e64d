"""Coordination by each partition's own leader (seed 001, "detailed design V2"): sans-I/O.

The second way to run the same replicas: no controller. Events in, effects out, as in
:mod:`broker.controller`; which of the document's lines are kept and which are fenced is in
``docs/coordination.md``.
"""
