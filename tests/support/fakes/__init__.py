"""Stand-ins for the other end of what is tested."""
