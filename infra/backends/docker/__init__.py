"""The docker backend: each node is a container."""
