"""Coordination by each partition's own leader (*Design V2*), without I/O.

This is the second way to run the same replicas: without a controller. Events go in and effects come
out, as in :mod:`broker.controller`. ``docs/coordination.md`` says which of the document's lines are
kept and which are fenced.
"""
