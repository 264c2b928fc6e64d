"""A cluster that exists in memory, for proofs of faults without processes and networks."""
