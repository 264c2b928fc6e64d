"""What befell a run's cluster, and what was seen of it: faults, and how far each reached; who led,
who was in sync, whose sessions were there; and where a fault left room for acks."""
