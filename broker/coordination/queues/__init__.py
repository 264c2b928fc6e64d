"""State change queues (seed 001, "State change communication"): our own, and those of others."""
