"""What must hold of a log, whoever writes it: what it keeps, vouches for, and tells of epochs."""
