"""What becomes of what groups have committed of a topic when that is deleted."""
