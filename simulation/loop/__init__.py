"""The simulated event loop: virtual time, steps, and the process that each step belongs to."""
