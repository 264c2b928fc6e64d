"""What must hold of a log, whoever writes it: what it keeps, what it vouches for, and its epochs."""
