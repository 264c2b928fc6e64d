"""Producers of a cell: what they send and when, and what becomes of it."""
