"""External clusters, which exist before a run and stay: observation, control, and its undoing."""
