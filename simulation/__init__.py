"""The simulated world: whole brokers on a deterministic event loop, in virtual time."""
