"""Nodes as the harness sees them. What is done on a node is done by its agent."""
