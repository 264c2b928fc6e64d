"""What brokers are told: a step's effects in the making, in the order in which they go out."""
