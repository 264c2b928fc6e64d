"""Consumers of a cell: what they are shown and given, and what they commit."""
