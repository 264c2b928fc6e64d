"""The local backend: each node is a network namespace of this machine."""
