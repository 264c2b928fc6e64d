"""A cluster in memory, for proofs of faults without processes and networks."""
