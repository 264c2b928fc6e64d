"""Families of faults, injected into a real cluster of any backend."""
