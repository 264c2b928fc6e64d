"""Where a partition and a replica are in their lives: Kafka's two state machines, as tables."""
