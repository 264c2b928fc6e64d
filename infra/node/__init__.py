"""Nodes from the harness's side. The agent of a node does the work there."""
