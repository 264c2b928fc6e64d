"""Client programs: their names, and their builds."""
