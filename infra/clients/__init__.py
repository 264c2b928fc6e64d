"""Client programs: which there are, and how they are built."""
