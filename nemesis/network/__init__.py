"""Faults on links: those that are cut (a grudge each), and those that are lossy, reset, narrow or
slow; of all that goes over a link, or of one service."""
