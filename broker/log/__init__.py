"""A partition's log on disk, in Kafka's formats: segments, indexes, checkpoints, recovery."""
