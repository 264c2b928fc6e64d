"""Backends, systems, nodes and their agents: the places of clusters and what is deployed there.

From top to bottom:

- ``runs`` starts and cleans up runs.
- ``systems`` deploys clusters.
- ``clients`` finds client programs.
- ``backends`` makes nodes.
- ``node`` is the harness's side of a node.
- ``machine`` is this machine.
- ``api`` is what other rooms use.
- ``agent`` is what runs on a node.
"""
