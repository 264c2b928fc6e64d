"""Backends: places where nodes are made."""
