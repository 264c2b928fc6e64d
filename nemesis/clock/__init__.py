"""Faults on the clocks of servers."""
