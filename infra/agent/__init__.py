"""The agent: the harness's hand on a node, the same in a namespace, a container and on a host.

One process a node, of Python's standard library alone. It starts the node's processes and knows how
each ended, hands over files, impairs links, probes, and tells its clock. What it
can do is one table (:mod:`infra.agent.verbs`), how it is talked to is :mod:`infra.agent.wire`.

It imports little, since a node is only there when its agent is: of the standard library,
``dataclasses``, ``pathlib`` and ``subprocess`` alone would double its time to start.
"""
