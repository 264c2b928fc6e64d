"""Consumers of a cell: what they are shown, given, and what they commit."""
