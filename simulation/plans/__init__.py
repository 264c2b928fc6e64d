"""Plans: all that is decided before the first step, as data, and how a seed draws it."""
