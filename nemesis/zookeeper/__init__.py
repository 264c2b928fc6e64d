"""Faults on what ZooKeeper holds for brokers: their sessions."""
