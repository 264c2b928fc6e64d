"""Whom a fault is to befall: expressions by role, what they stand for when it strikes, and what
they may stand for before there is a cluster."""
