"""The agent: the harness's program on a node, the same in a namespace, a container and on a host.

It is one process a node, of Python's standard library alone. It starts the node's processes and
knows how each ended, transfers files, impairs links, probes, and reports its clock. Its operations
are one table (:mod:`infra.agent.verbs`), and its protocol is :mod:`infra.agent.wire`.

It imports little, since a node is only ready when its agent is. In the standard library,
``dataclasses``, ``pathlib`` and ``subprocess`` alone would double its time to start.
"""
