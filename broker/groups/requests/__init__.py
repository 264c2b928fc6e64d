"""What members, clients and time ask of a group, and what is gone on with when it is stored."""
