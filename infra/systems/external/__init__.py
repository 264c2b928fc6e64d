"""A cluster that was there before, and stays: what of it is looked at, what may be done to it, and
how that is undone."""
