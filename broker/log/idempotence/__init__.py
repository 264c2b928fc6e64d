"""What a log remembers of producers, so that it takes each of their batches once (KIP-98)."""
