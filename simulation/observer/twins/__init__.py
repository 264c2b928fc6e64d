"""What would become of a log in another world, tried on a twin of its disk."""
