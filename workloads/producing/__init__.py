"""Producers of a cell: what they send and when, with its outcome."""
